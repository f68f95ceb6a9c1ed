//! A package of several parts as one file, packed reproducibly: the same parts give the same bytes. It contains what
//! the package declares and needs, and no other file of the folder.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component as Part, Path, PathBuf};

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::declaration;
use haft_core::report::{Problem, Report};
use haft_manifest::{Component, Manifest};
use haft_package::{MAX_SIZE, parts};

/// Files of one package; what installs it takes no more.
const MAX_FILES: usize = 10_000;

/// The file that makes a folder a package.
const MANIFEST: &str = "program.toml";

/// When every file of a package was made, as far as it says: 1980, before which some programs know
/// no time.
const TIME: u64 = 315_532_800;

/// A file of a package.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is in the package.
    pub path: String,
    /// Where it is now.
    pub file: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// A package on its way.
#[derive(Debug)]
pub struct Package {
    /// `NAME-VERSION`, which everything in it lies below.
    pub name: String,
    /// What is in it, in order.
    pub entries: Vec<Entry>,
    /// Tables of program.toml that mean nothing in a package, and stay behind.
    pub left_out: Vec<String>,
    /// Its program.toml.
    manifest: String,
}

impl Package {
    /// What belongs to the package that `manifest`, in `folder`, describes.
    pub fn collect(folder: &Path, manifest: &Manifest) -> anyhow::Result<Self> {
        let Some(program) = &manifest.program else {
            let problem = Problem::new("a package needs `[program]` with its name and version");
            return Err(manifest.report(vec![problem]).into());
        };
        check_components(folder, manifest)?;
        check_commands(folder, manifest)?;
        let mut files = Files { folder, found: BTreeMap::new(), size: 0 };
        for path in parts(folder, manifest) {
            files.add(Path::new(&path))?;
        }
        let (manifest, left_out) = declaration::of_package(manifest.written.text())?;
        if let Some(entry) = files.found.get_mut(MANIFEST) {
            entry.size = manifest.len() as u64;
        }
        let name = format!("{}-{}", program.name.as_str(), program.version);
        Ok(Self { name, entries: files.found.into_values().collect(), left_out, manifest })
    }

    /// Bytes of its files together.
    pub fn size(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// The archive.
    pub fn pack(&self) -> anyhow::Result<Vec<u8>> {
        let zip = GzBuilder::new().operating_system(UNKNOWN_SYSTEM).write(Vec::new(), Compression::default());
        let mut archive = Builder::new(zip);
        for entry in &self.entries {
            let bytes = self.bytes(entry)?;
            self.append(&mut archive, entry, &bytes)
                .with_context(|| format!("cannot pack `{}`", entry.file.display()))?;
        }
        let zip = archive.into_inner().context("cannot end the archive")?;
        zip.finish().context("cannot compress the archive")
    }

    fn bytes(&self, entry: &Entry) -> anyhow::Result<Vec<u8>> {
        if entry.path == MANIFEST {
            return Ok(self.manifest.clone().into_bytes());
        }
        std::fs::read(&entry.file).with_context(|| format!("cannot read `{}`", entry.file.display()))
    }

    fn append(&self, archive: &mut Builder<impl Write>, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(if entry.executable { 0o755 } else { 0o644 });
        header.set_mtime(TIME);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, format!("{}/{}", self.name, entry.path), bytes)
    }
}

/// What gzip writes where it does not matter on which system it ran.
const UNKNOWN_SYSTEM: u8 = 255;

struct Files<'a> {
    folder: &'a Path,
    found: BTreeMap<String, Entry>,
    size: u64,
}

/// The components of every plugin must be in the folder.
fn check_components(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for plugin in &manifest.plugins {
        let Component::File(path) = &plugin.component.value else { continue };
        let wrong = |why: &str| {
            let problem = Problem::new(format!("plugin `{}` cannot be packed", plugin.name.as_str()));
            problem.at(plugin.component.span, why)
        };
        if !is_inside(path) {
            problems.push(wrong("expected a file in this folder"));
        } else if !folder.join(path).is_file() {
            problems.push(wrong("not there").hint("build it first: `haft build`"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(manifest.report(problems).into()) }
}

/// The programs that command tools name as `./x` must be in the folder.
fn check_commands(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    for tool in &manifest.tools {
        let Some(path) = tool.command.value.first().and_then(|word| word.strip_prefix("./")) else {
            continue;
        };
        if !is_inside(Path::new(path)) || !folder.join(path).is_file() {
            let problem = Problem::new(format!("command tool `{}` cannot be packed", tool.name.as_str()));
            let problem = problem.at(tool.command.span, "no such file in this folder");
            return Err(manifest.report(vec![problem]).into());
        }
    }
    Ok(())
}

impl Files<'_> {
    /// Takes in a file; a link is none, since it would mean something else elsewhere.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let file = self.folder.join(path);
        let shown = file.display();
        let metadata = file.symlink_metadata().with_context(|| format!("cannot look at `{shown}`"))?;
        if !metadata.is_file() {
            let problem = Problem::new(format!("`{shown}` cannot be packed: not a regular file"));
            return Err(Report::from(problem.hint("put the file itself in its place")).into());
        }
        let name =
            name(path).with_context(|| format!("`{shown}` cannot be packed: its name is not UTF-8"))?;
        let executable = metadata.permissions().mode() & 0o100 != 0;
        let entry = Entry { path: name.clone(), file, size: metadata.len(), executable };
        self.size += metadata.len();
        self.found.insert(name, entry);
        if self.found.len() > MAX_FILES || self.size > MAX_SIZE {
            let most = super::pack::size(MAX_SIZE);
            anyhow::bail!("the package is too large: at most {MAX_FILES} files of {most} together");
        }
        Ok(())
    }
}

/// The path in the package: its parts joined by `/`, without `.`.
fn name(path: &Path) -> Option<String> {
    let parts = path.components().filter(|part| *part != Part::CurDir);
    let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Part::Normal(_) | Part::CurDir))
}
