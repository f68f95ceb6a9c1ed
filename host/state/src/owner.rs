//! The location of a plugin's data. An owner is a plugin's name and the path of its program.toml: a plugin of
//! the same name in another program has other data, and an updated component finds the existing data.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// The file in a program's folder with the path of its program.toml.
const PROGRAM: &str = "program";

const FILES: &str = "files";

/// Bytes of the path's digest that name a program's folder: 64 bits are enough, since nobody chooses paths to
/// collide.
const DIGEST: usize = 8;

/// The two directories for the data of plugins.
#[derive(Clone, Debug)]
pub struct Homes {
    /// The directory of durable data: `$XDG_DATA_HOME/haft/state`.
    pub state: PathBuf,
    /// The directory of data that may be deleted at any time: `$XDG_CACHE_HOME/haft/plugins`.
    pub cache: PathBuf,
}

/// The two kinds of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Durable data.
    State,
    /// Data that may be deleted at any time.
    Cache,
}

/// A plugin of a program, as the owner of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    program: PathBuf,
    name: String,
}

/// Data of a program that no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The program.toml of the owner.
    pub program: PathBuf,
    /// The kind of data.
    pub kept: Kept,
    /// The bytes on disk.
    pub size: u64,
}

impl Owner {
    /// Returns the plugin `plugin` of the program.toml at `program`; `package` is its package, if it has one.
    /// Links in the path are resolved now, as far as the file exists.
    pub fn new(program: &Path, package: Option<&str>, plugin: &str) -> Self {
        let absolute = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let program = absolute.canonicalize().unwrap_or(absolute);
        // `+` is not allowed in names of plugins.
        let name = package.map_or_else(|| plugin.to_owned(), |package| format!("{package}+{plugin}"));
        Self { program, name }
    }

    /// Reports whether a folder belongs to a plugin of the package `package`.
    fn is_of_package(folder: &str, package: &str) -> bool {
        folder.strip_prefix(package).is_some_and(|rest| rest.starts_with('+'))
    }
}

impl Homes {
    fn home(&self, kept: Kept) -> &Path {
        match kept {
            Kept::State => &self.state,
            Kept::Cache => &self.cache,
        }
    }

    fn program(&self, kept: Kept, program: &Path) -> PathBuf {
        let digest = Sha256::digest(program.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(DIGEST).map(|byte| format!("{byte:02x}")).collect();
        self.home(kept).join(name)
    }

    pub(crate) fn folder(&self, kept: Kept, owner: &Owner) -> PathBuf {
        self.program(kept, &owner.program).join(&owner.name)
    }

    /// Returns the path of a plugin's private directory, which guests get as a directory; it may not exist yet.
    pub fn files(&self, kept: Kept, owner: &Owner) -> PathBuf {
        self.folder(kept, owner).join(FILES)
    }

    /// Creates the folder of a plugin and its private directory, with mode 0700; returns the folder.
    pub(crate) fn create(&self, kept: Kept, owner: &Owner) -> io::Result<PathBuf> {
        let (program, folder) = (self.program(kept, &owner.program), self.folder(kept, owner));
        let files = folder.join(FILES);
        if !files.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&files)?;
            note(&program.join(PROGRAM), &owner.program)?;
            // The parent directories of stored keys must survive a power failure too.
            for made in [&folder, &program, self.home(kept)] {
                File::open(made)?.sync_all()?;
            }
        }
        Ok(folder)
    }

    /// Returns the owners with data for the plugin or package `name` of the program.toml at `program`.
    pub(crate) fn owners(&self, program: &Path, name: &str) -> Vec<Owner> {
        let owner = Owner::new(program, None, name);
        let mut names: Vec<String> = Vec::new();
        for kept in [Kept::State, Kept::Cache] {
            names.extend(folders(&self.program(kept, &owner.program)).unwrap_or_default());
        }
        names.retain(|folder| folder == name || Owner::is_of_package(folder, name));
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| Owner { name, ..owner.clone() }).collect()
    }

    /// Removes all data of the plugin or package `name` of the program.toml at `program`; returns whether there
    /// was any.
    ///
    /// # Errors
    /// A folder cannot be removed; the error names its path.
    pub fn remove(&self, program: &Path, name: &str) -> io::Result<bool> {
        let owner = Owner::new(program, None, name);
        let mut was_any = false;
        for kept in [Kept::State, Kept::Cache] {
            for folder in folders(&self.program(kept, &owner.program))? {
                if folder == name || Owner::is_of_package(&folder, name) {
                    remove_tree(&self.program(kept, &owner.program).join(folder))?;
                    was_any = true;
                }
            }
        }
        Ok(was_any)
    }

    /// Finds the data of programs whose program.toml no longer exists. Removes caches, and state too if `state`
    /// is set, unless `dry_run`.
    ///
    /// # Errors
    /// A folder cannot be read or removed; the error names its path.
    pub fn sweep(&self, state: bool, dry_run: bool) -> io::Result<Vec<Swept>> {
        let mut swept = Vec::new();
        for kept in [Kept::State, Kept::Cache] {
            for folder in folders(self.home(kept))? {
                let folder = self.home(kept).join(folder);
                let Some(program) = noted(&folder.join(PROGRAM)).filter(|program| is_gone(program)) else {
                    continue;
                };
                let size = size_of(&folder)?;
                if !dry_run && (state || kept == Kept::Cache) {
                    remove_tree(&folder)?;
                }
                swept.push(Swept { program, kept, size });
            }
        }
        Ok(swept)
    }
}

/// Reports whether the system reports the file as absent: an unmounted drive hides its files in the same way,
/// so state is only removed on request.
fn is_gone(program: &Path) -> bool {
    program.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn note(path: &Path, program: &Path) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file =
        File::options().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path);
    let mut file = file?;
    io::Write::write_all(&mut file, program.as_os_str().as_encoded_bytes())?;
    file.sync_all()
}

fn noted(path: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    fs::read(path).ok().map(|bytes| std::ffi::OsString::from_vec(bytes).into())
}

/// Returns the names of the folders in a directory; none if it does not exist.
fn folders(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| named("read", directory, &error))?,
    };
    let names =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(names.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder).map_err(|error| named("remove", folder, &error))
}

fn named(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action} `{}`: {error}", path.display()))
}

pub(crate) fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// Limit on the measured entries of a directory tree; more than any quota permits.
const MAX_ENTRIES: u64 = 1 << 24;

/// Bytes that are added for each file, and counted for each directory or link: a block.
const BLOCK: u64 = 4096;

/// Returns the bytes of the entries below `directory`, as a quota counts them, with a block for every entry.
/// Does not follow links.
pub(crate) fn size_of(directory: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen, mut work) = (0_u64, 0_u64, vec![directory.to_owned()]);
    while let Some(directory) = work.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // The entry was removed during the walk.
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(cost(&metadata));
            seen += 1;
            if metadata.is_dir() {
                work.push(entry.path());
            }
            if seen > MAX_ENTRIES {
                return Err(io::Error::other("too many files to count"));
            }
        }
    }
    Ok(bytes)
}

fn cost(metadata: &Metadata) -> u64 {
    if metadata.is_file() { metadata.len().saturating_add(BLOCK) } else { BLOCK }
}
