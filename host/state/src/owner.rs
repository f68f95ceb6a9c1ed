//! Where what a plugin keeps is. It belongs to a plugin by its name in one program.toml, by the path of that file:
//! another program's plugin of the same name keeps its own, and an update of the component finds what is there.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::size::size_of;

/// The file in a program's folder that says which program.toml it is of.
const PROGRAM: &str = "program";

/// The private directory below a plugin's folder.
const FILES: &str = "files";

/// Bytes of the digest of a program's path that name its folder: 64 bits, since nobody chooses paths to collide.
const DIGEST: usize = 8;

/// The two directories of this machine below which plugins keep things.
#[derive(Clone, Debug)]
pub struct Homes {
    /// Of what must not be lost: `$XDG_DATA_HOME/haft/state`.
    pub state: PathBuf,
    /// Of what may be dropped at any time: `$XDG_CACHE_HOME/haft/plugins`.
    pub cache: PathBuf,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// What must not be lost.
    State,
    /// What may be dropped at any time.
    Cache,
}

/// A plugin of a program, as the one to whom things belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    program: PathBuf,
    name: String,
}

/// What was left behind by programs that are no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The program.toml that it belonged to.
    pub program: PathBuf,
    /// Which of the two it is.
    pub kept: Kept,
    /// Bytes on the disk.
    pub size: u64,
}

impl Owner {
    /// The plugin `plugin` of the program.toml at `program`, of the package `package` where it came in one. Links on the
    /// way to the file are followed now, as far as it exists.
    pub fn new(program: &Path, package: Option<&str>, plugin: &str) -> Self {
        let absolute = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let program = absolute.canonicalize().unwrap_or(absolute);
        // No name of a plugin has a `+`.
        let name = package.map_or_else(|| plugin.to_owned(), |package| format!("{package}+{plugin}"));
        Self { program, name }
    }

    /// Every plugin of the package `package`, for [`Homes::remove`].
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

    fn folder(&self, kept: Kept, owner: &Owner) -> PathBuf {
        self.program(kept, &owner.program).join(&owner.name)
    }

    /// Where the private directory of a plugin is, or will be: guests are given this directory itself.
    pub fn files(&self, kept: Kept, owner: &Owner) -> PathBuf {
        self.folder(kept, owner).join(FILES)
    }

    /// Makes the folder of a plugin and its private directory, for this user alone, and gives the folder.
    pub(crate) fn create(&self, kept: Kept, owner: &Owner) -> io::Result<PathBuf> {
        let (program, folder) = (self.program(kept, &owner.program), self.folder(kept, owner));
        let files = folder.join(FILES);
        if !files.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&files)?;
            note(&program.join(PROGRAM), &owner.program)?;
            // What a kept key stands in must not be lost either when power fails.
            for made in [&folder, &program, self.home(kept)] {
                File::open(made)?.sync_all()?;
            }
        }
        Ok(folder)
    }

    /// Those who keep something as the plugin or package `name` of the program.toml at `program`.
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

    /// Removes everything that the plugin or package `name` of the program.toml at `program` keeps; whether there was
    /// anything.
    ///
    /// # Errors
    /// What is there and cannot be removed, with its path.
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

    /// Finds what programs keep whose program.toml is not there any more: of caches, and of state where `state` says so.
    /// Removes it unless `dry_run`.
    ///
    /// # Errors
    /// What cannot be read or removed, with its path.
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

/// Only what the system says is absent: a drive that is not mounted hides its files the same way, which is why state is
/// not removed without being asked for.
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

/// The names of the folders in a directory; none where it is not there.
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

/// Whether a file is still where it can be found.
pub(crate) fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}
