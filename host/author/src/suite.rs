//! The tests of a plugin: files beside it with calls of its tools and the expected results.
//!
//! Each case is one call in a fresh instance, in a temporary folder, with only the rights in the case: no grant
//! of program.toml, no secret, and no request that leaves this machine.
//!
//! - [`Suite`]: the cases of a project, read and checked. Reading runs nothing.
//! - [`Bench`]: the component under test, which runs the cases.
//! - [`property`]: calls with random arguments, none of which may trap.

mod bench;
mod case;
mod folder;
pub mod property;
mod verdict;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;

pub use self::bench::{Bench, Ran};
pub use self::case::{Case, Grants, Http, OwnLimits, Wanted};
use haft_core::report::{Problem, Report, Source, Span};

/// The folder of a project's tests and snapshots.
pub const FOLDER: &str = "tests";

/// Limit on the bytes of one file: some ten thousand cases.
const MAX_FILE: u64 = 4 << 20;

/// Limit on the test files of one project.
const MAX_FILES: usize = 1000;

/// The tests of a project.
#[derive(Debug, Default)]
pub struct Suite {
    /// The files, sorted by path.
    pub files: Vec<TestFile>,
}

/// One file of tests.
#[derive(Debug)]
pub struct TestFile {
    /// The path relative to the project's folder.
    pub path: PathBuf,
    /// The cases, in the file's order.
    pub cases: Vec<Case>,
}

impl Suite {
    /// Reads the tests in `tests/*.toml` of the project in `folder`; an empty suite is valid.
    ///
    /// # Errors
    /// A file cannot be read, is not TOML, or has invalid cases; the error lists all of them.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let files = paths(folder)?.into_iter().map(|path| TestFile::read(folder, path));
        Ok(Self { files: files.collect::<anyhow::Result<_>>()? })
    }

    /// Reports whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.cases.is_empty())
    }
}

impl TestFile {
    fn read(folder: &Path, path: PathBuf) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let whole = folder.join(&path);
        let size = fs::metadata(&whole).with_context(|| format!("cannot read `{shown}`"))?.len();
        anyhow::ensure!(size <= MAX_FILE, "`{shown}` has more than {} MiB", MAX_FILE >> 20);
        let text = fs::read_to_string(&whole).with_context(|| format!("cannot read `{shown}`"))?;
        let cases = case::parse(&text).map_err(|problems| in_file(&shown, &text, problems))?;
        Ok(Self { path, cases })
    }
}

/// Returns the paths `tests/*.toml`, relative to the project's folder.
fn paths(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder.join(FOLDER)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read `{FOLDER}`"))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = PathBuf::from(entry.with_context(|| format!("cannot read `{FOLDER}`"))?.file_name());
        if name.extension().is_some_and(|extension| extension == "toml") {
            paths.push(Path::new(FOLDER).join(name));
        }
    }
    anyhow::ensure!(paths.len() <= MAX_FILES, "`{FOLDER}` has more than {MAX_FILES} files of tests");
    paths.sort();
    Ok(paths)
}

fn in_file(name: &str, text: &str, problems: Vec<(Span, String)>) -> Report {
    let problem = |(span, message): (Span, String)| Problem::new("not a test").at(span, message);
    Report::with_source(Source::new(name, text), problems.into_iter().map(problem).collect())
}

/// The folder below the tests' folder.
const SNAPSHOTS: &str = "snapshots";

/// Returns the path of the snapshot for the case `name` of the file `file`, below `tests`.
fn snapshot_path(tests: &Path, file: &Path, name: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    tests.join(SNAPSHOTS).join(stem).join(format!("{}.txt", snapshot_name(name)))
}

/// Returns the file name of the case `name`, without its extension.
fn snapshot_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ') { c } else { '_' };
    name.chars().map(plain).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn read_snapshot(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
