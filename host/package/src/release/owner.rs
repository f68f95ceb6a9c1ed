//! Which installer looks after a haft that it put there. Told by what the installers wrote, never by what a path looks
//! like: the packages of haft have [`MARKER`] beside the programs, and those whose programs share a folder with
//! others' (Python's, cargo's) have records of their own. The tarball has none of these.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use haft_core::report::plain;

/// The file that a package has beside the programs: on its first line who installed them, on its second the way to
/// a newer haft. Whoever packages haft anew writes one.
const MARKER: &str = "haft.installed-by";

/// Bytes that are read of a marker or a record: a hundred times a marker, and cargo's with a thousand programs.
const MAX_RECORD: u64 = 256 << 10;

/// Characters of a marker's line.
const MAX_LINE: usize = 200;

/// The package of the wheel, as it is called on the disk.
const WHEEL: &str = "haft_tools-";

/// What tells Python's installers apart: a file in the environment, whose it is, and the way to a newer haft.
const PYTHON: &[(&str, &str, &str)] = &[
    ("uv-receipt.toml", "uv", "`uv tool upgrade haft-tools`"),
    ("pipx_metadata.json", "pipx", "`pipx upgrade haft-tools`"),
];

/// Where the records of Python's packages are, in an environment or a folder of `--target`.
const PYTHON_FOLDERS: &[&str] = &["lib", "lib64"];
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Whoever installed a haft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A name, such as `npm`.
    pub who: String,
    /// The way to a newer haft, for people.
    pub command: String,
}

impl Owner {
    /// Who looks after the program at this real path; `None` for a tarball, or where nothing tells.
    pub fn of(program: &Path) -> Option<Self> {
        let folder = program.parent()?;
        marked(folder).or_else(|| python(folder)).or_else(|| cargo(folder))
    }

    fn new(who: &str, command: &str) -> Self {
        Self { who: who.to_owned(), command: command.to_owned() }
    }
}

fn marked(folder: &Path) -> Option<Owner> {
    let text = read(&folder.join(MARKER))?;
    let mut lines = text.lines().map(|line| plain(&line.trim().chars().take(MAX_LINE).collect::<String>()));
    let mut line = |default: &str| match lines.next() {
        Some(line) if !line.is_empty() => line,
        _ => default.to_owned(),
    };
    Some(Owner { who: line("another installer"), command: line("install it again as it was installed") })
}

/// The wheel puts the programs into `bin`, and leaves its record in the packages of the same environment.
fn python(folder: &Path) -> Option<Owner> {
    let environment = folder.parent()?;
    let libraries = PYTHON_FOLDERS.iter().flat_map(|name| entries(&environment.join(name)));
    let packages = libraries.flat_map(|library| PACKAGES.map(|name| library.join(name)));
    let is_there = |folder: PathBuf| {
        entries(&folder).iter().any(|entry| {
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(WHEEL) && name.ends_with(".dist-info")
        })
    };
    if !packages.chain([environment.to_owned()]).any(is_there) {
        return None;
    }
    let known = PYTHON.iter().find(|(file, ..)| environment.join(file).exists());
    let (_, who, command) = known.unwrap_or(&("", "pip", "`pip install --upgrade haft-tools`"));
    Some(Owner::new(who, command))
}

/// Cargo notes what it installs into `bin` in a file beside that.
fn cargo(folder: &Path) -> Option<Owner> {
    let record = read(&folder.parent()?.join(".crates.toml"))?;
    let is_ours = record.lines().any(|line| line.starts_with("\"haft "));
    is_ours.then(|| Owner::new("cargo", "give cargo the command again that installed it, with `--force`"))
}

fn read(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_RECORD).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The paths of what is in a folder; none where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests;
