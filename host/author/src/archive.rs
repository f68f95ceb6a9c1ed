//! A package of several parts as one archive, packed reproducibly: equal parts give equal bytes. Contains only
//! the files that the package declares and needs.

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

/// Limit on the files of one package; the installer has the same limit.
const MAX_FILES: usize = 10_000;

/// The file that makes a folder a package.
const MANIFEST: &str = "program.toml";

/// The modification time of every packed file: 1980, the earliest time that some programs support.
const TIME: u64 = 315_532_800;

/// A file of a package.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The path in the package.
    pub path: String,
    /// The path on this machine.
    pub file: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// Whether the file is executable.
    pub executable: bool,
}

/// A package that is being packed.
#[derive(Debug)]
pub struct Package {
    /// `NAME-VERSION`, the top folder of the archive.
    pub name: String,
    /// The files, sorted by path.
    pub entries: Vec<Entry>,
    /// Tables of program.toml that have no meaning in a package, and are omitted.
    pub left_out: Vec<String>,
    /// The program.toml of the package.
    manifest: String,
}

impl Package {
    /// Collects the files of the package that `manifest` describes in `folder`.
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

    /// Returns the bytes of all files.
    pub fn size(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// Returns the archive.
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

/// gzip's code for an unknown operating system.
const UNKNOWN_SYSTEM: u8 = 255;

struct Files<'a> {
    folder: &'a Path,
    found: BTreeMap<String, Entry>,
    size: u64,
}

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
            problems.push(wrong("not there").hint("build it first: `haft plugin build`"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(manifest.report(problems).into()) }
}

/// Checks that the programs that command tools name as `./x` are in the folder.
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
    /// Adds a file. Links are refused, because their targets differ on other machines.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let file = self.folder.join(path);
        let shown = file.display();
        let metadata =
            file.symlink_metadata().with_context(|| format!("cannot read the metadata of `{shown}`"))?;
        if !metadata.is_file() {
            let problem = Problem::new(format!("`{shown}` cannot be packed: not a regular file"));
            return Err(Report::from(problem.hint("replace it with the file itself")).into());
        }
        let name =
            name(path).with_context(|| format!("`{shown}` cannot be packed: its name is not UTF-8"))?;
        let executable = metadata.permissions().mode() & 0o100 != 0;
        let entry = Entry { path: name.clone(), file, size: metadata.len(), executable };
        self.size += metadata.len();
        self.found.insert(name, entry);
        if self.found.len() > MAX_FILES || self.size > MAX_SIZE {
            let most = super::pack::size(MAX_SIZE);
            anyhow::bail!("the package is too large: at most {MAX_FILES} files and {most} in total");
        }
        Ok(())
    }
}

/// Returns the path in the package: the components joined by `/`, without `.`.
fn name(path: &Path) -> Option<String> {
    let parts = path.components().filter(|part| *part != Part::CurDir);
    let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Part::Normal(_) | Part::CurDir))
}
