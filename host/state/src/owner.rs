//! Where what a plugin keeps is. It belongs to a plugin by its name in one program.toml, by the path of that file:
//! another program's plugin of the same name keeps its own, and an update of the component finds what is there.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::store::Store;

/// The file in a program's folder that says which program.toml it is of.
const PROGRAM: &str = "program";

/// The private directory below a plugin's folder.
const FILES: &str = "files";

/// Bytes of the digest of a program's path that name its folder: 64 bits, since nobody chooses paths to collide.
const DIGEST: usize = 8;

/// Entries of a directory tree that are looked at; more than any quota has room for.
const MAX_ENTRIES: u64 = 1 << 24;

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

/// Bytes that a plugin keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys and values, counted as the quota counts them.
    pub entries: u64,
    /// Files of the private directory.
    pub files: u64,
    /// Files of the cache directory.
    pub cache: u64,
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

    /// The key-value store of a plugin, with room for `quota` bytes. Makes and opens nothing yet.
    pub fn store(&self, owner: &Owner, quota: u64) -> Store {
        Store::new(self.clone(), owner.clone(), quota)
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

    /// How much a plugin keeps. What cannot be read counts as nothing.
    pub fn usage(&self, owner: &Owner) -> Usage {
        Usage {
            entries: self.store(owner, 0).used().unwrap_or_default(),
            files: size_of(&self.files(Kept::State, owner)).unwrap_or_default(),
            cache: size_of(&self.files(Kept::Cache, owner)).unwrap_or_default(),
        }
    }

    /// How much the plugin or package `name` of the program.toml at `program` keeps, all plugins of a package together.
    pub fn usage_of(&self, program: &Path, name: &str) -> Usage {
        let owner = Owner::new(program, None, name);
        let mut names: Vec<String> = Vec::new();
        for kept in [Kept::State, Kept::Cache] {
            names.extend(folders(&self.program(kept, &owner.program)).unwrap_or_default());
        }
        names.retain(|folder| folder == name || Owner::is_of_package(folder, name));
        names.sort_unstable();
        names.dedup();
        names.into_iter().fold(Usage::default(), |sum, name| {
            let Usage { entries, files, cache } = self.usage(&Owner { name, ..owner.clone() });
            Usage { entries: sum.entries + entries, files: sum.files + files, cache: sum.cache + cache }
        })
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

/// Bytes that the files below `directory` take, as [`FileQuota`](crate::FileQuota) counts them: every entry a block at
/// least. Links are not followed.
pub(crate) fn size_of(directory: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen, mut work) = (0_u64, 0_u64, vec![directory.to_owned()]);
    while let Some(directory) = work.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Removed meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(crate::quota::cost(&metadata));
            seen += 1;
            if metadata.is_dir() {
                work.push(entry.path());
            }
            if seen > MAX_ENTRIES {
                return Err(io::Error::other("too many files to be counted"));
            }
        }
    }
    Ok(bytes)
}

/// Whether a file is still where it can be found.
pub(crate) fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, FileQuota, QuotaError};

    fn homes(place: &Path) -> Homes {
        Homes { state: place.join("state"), cache: place.join("cache") }
    }

    /// A plugin has its own of every program.toml, and one of a package is another one.
    #[test]
    fn everybody_keeps_their_own() {
        let place = tempfile::tempdir().unwrap();
        let (homes, program) = (homes(place.path()), place.path().join("program.toml"));
        fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(&program, place.path().join("link.toml")).unwrap();
        let owner = |program: &str, package, plugin| Owner::new(&place.path().join(program), package, plugin);
        let files = |owner: &Owner| homes.files(Kept::State, owner);
        let own = owner("program.toml", None, "p");
        assert_eq!(files(&own), files(&owner("link.toml", None, "p")));
        for other in [
            owner("other.toml", None, "p"),
            owner("program.toml", Some("k"), "p"),
            owner("program.toml", None, "q"),
        ] {
            assert_ne!(files(&own), files(&other));
        }
    }

    /// `haft remove` of a package takes what all of its plugins keep, and nothing of others.
    #[test]
    fn what_a_package_keeps_goes_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (homes, program) = (homes(place.path()), place.path().join("program.toml"));
        let owners = [(None, "k"), (Some("k"), "a"), (Some("k"), "b"), (Some("k2"), "a"), (None, "kk")];
        let owners = owners.map(|(package, plugin)| Owner::new(&program, package, plugin));
        for owner in &owners {
            homes.store(owner, 1000).change("", &[Change::Set("a".into(), vec![1])]).unwrap();
            drop(FileQuota::open(&homes, Kept::Cache, owner, 1).unwrap());
        }
        assert!(homes.remove(&program, "k").unwrap());
        let is_there =
            |owner: &Owner| [Kept::State, Kept::Cache].map(|kept| homes.files(kept, owner).exists());
        assert_eq!(
            owners.each_ref().map(is_there),
            [[false; 2], [false; 2], [false; 2], [true; 2], [true; 2]]
        );
        assert_eq!(homes.usage(&owners[3]).entries, 1 + 1 + 64);
        assert_eq!(homes.usage_of(&program, "k2").entries, 1 + 1 + 64);
        assert_eq!(homes.usage(&owners[0]), Usage::default());
    }

    /// Of a program that is gone the cache goes, and what else there is only where that was asked for.
    #[test]
    fn what_programs_leave_behind_is_found() {
        let place = tempfile::tempdir().unwrap();
        let homes = homes(place.path());
        let [gone, here] = ["gone.toml", "here.toml"].map(|name| place.path().join(name));
        fs::write(&here, "").unwrap();
        for program in [&gone, &here] {
            let owner = Owner::new(program, None, "p");
            drop(FileQuota::open(&homes, Kept::State, &owner, 1).unwrap());
            drop(FileQuota::open(&homes, Kept::Cache, &owner, 1).unwrap());
        }
        let found = |state, dry_run| {
            let swept = homes.sweep(state, dry_run).unwrap();
            assert!(swept.iter().all(|swept| swept.program == gone), "{swept:?}");
            swept.into_iter().map(|swept| swept.kept).collect::<Vec<_>>()
        };
        assert_eq!(found(false, true), [Kept::State, Kept::Cache]);
        assert_eq!(found(false, false), [Kept::State, Kept::Cache]);
        assert_eq!(found(false, false), [Kept::State]);
        assert_eq!(found(true, false), [Kept::State]);
        assert_eq!(found(true, false), []);
    }

    /// A private directory has room for its quota, whatever was there before and whoever writes.
    #[test]
    fn files_have_a_quota_too() {
        let place = tempfile::tempdir().unwrap();
        let (homes, owner) = (homes(place.path()), Owner::new(&place.path().join("program.toml"), None, "p"));
        let open = || FileQuota::open(&homes, Kept::State, &owner, 20_000).unwrap();
        let (one, other) = (open(), open());
        let write = |name: &str, bytes: usize| fs::write(one.directory().join(name), vec![0; bytes]).unwrap();
        write("before", 5000);
        assert_eq!(one.charge(10_000, || true), Ok(()));
        write("new", 10_000 - 4096);
        assert_eq!(one.charge(1000, || true), Err(QuotaError::Full), "5000 and a block were there");
        assert_eq!(one.charge(900, || true), Ok(()));
        write("new", 900);
        assert_eq!(one.charge(5000, || true), Ok(()), "what was written again is counted again");
        assert_eq!(other.charge(1, || false), Err(QuotaError::Busy));
        one.release();
        assert_eq!(other.charge(5909, || true), Err(QuotaError::Full));
        assert_eq!(other.charge(5908, || true), Ok(()));
    }
}
