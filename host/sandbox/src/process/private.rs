//! The private directory of one child process: its home, its temporary files and its caches. No other process and
//! no tool reaches it. The home contains links to the programs and settings of the user's home that the process may
//! read, so that interpreters and package managers find them at their usual paths.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkdirat, openat, symlinkat};
use rustix::io::Errno;

use super::caches::{self, DIRECTORY};
use haft_core::grant::{Grant, Reach, Root};

/// The part of a process's directory that the process may write. Only haft writes the rest.
const WRITTEN: &str = "own";

/// The directories in it.
const HOME: &str = "home";
const TEMPORARY: &str = "tmp";
const CACHES: &str = "caches";

/// The directory in the home with a plugin's data (`PLUGIN_DATA`): it counts like the home.
const DATA: &str = "plugin-data";

/// Limit on the links to the user's own directories.
const MAX_LINKS: usize = 1000;
/// Limit on the entries that are looked at for the size of a home.
const MAX_ENTRIES: usize = 1_000_000;

/// Places of programs in a user's home: interpreters, their packages, and what manages their versions.
pub const PROGRAMS: &[&str] = &[
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".deno",
    ".dotnet",
    ".ghcup",
    ".jbang",
    ".nodenv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
];

/// Settings of package managers and of git in a user's home.
const SETTINGS: &[&str] = &[
    ".config/git",
    ".config/npm",
    ".config/pip",
    ".config/pnpm",
    ".config/uv",
    ".condarc",
    ".gitconfig",
    ".npmrc",
    ".pip",
    ".yarnrc",
    ".yarnrc.yml",
];

/// Returns the directory in `base`, which is one process's alone, that the process may write.
pub fn written(base: &Path) -> PathBuf {
    base.join(WRITTEN)
}

/// Returns the directory for the caches of package managers in `own`, a directory from [`written`].
pub fn caches(own: &Path) -> PathBuf {
    own.join(CACHES)
}

/// Creates the directory that a plugin keeps in `own`, a directory from [`written`], and returns its path. Follows no link
/// that a process made there.
///
/// # Errors
/// The directory cannot be created.
pub fn data(own: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(own)?;
    let open = openat(CWD, own, DIRECTORY, Mode::empty())?;
    below(&below(&open, HOME)?, DATA)?;
    Ok(data_of(own))
}

/// Returns the path of the directory from [`data`], which need not be there.
pub fn data_of(own: &Path) -> PathBuf {
    own.join(HOME).join(DATA)
}

/// Returns the variables that name the home and the directory for temporary files.
pub(super) fn variables(own: &Path) -> impl Iterator<Item = (OsString, OsString)> {
    let pairs = [("HOME", HOME), ("TMPDIR", TEMPORARY)];
    pairs.into_iter().map(|(name, place)| (name.into(), own.join(place).into()))
}

/// Creates the directory of the process with `grant`, if it has one, and the links in its home. Follows no link that
/// the process made.
///
/// # Errors
/// The directory cannot be created, or exceeds the grant's `state`.
pub(crate) fn prepare(grant: &Grant) -> io::Result<()> {
    let Some(own) = grant.private() else { return Ok(()) };
    let own = own.path();
    let base = own.parent().ok_or(io::ErrorKind::InvalidInput)?;
    caches::begin(base)?;
    let kept = base.join(caches::KEPT);
    if grant.state().is_some() {
        File::create(&kept)?;
    } else {
        match fs::remove_file(&kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    DirBuilder::new().recursive(true).mode(0o700).create(own)?;
    let open = openat(CWD, own, DIRECTORY, Mode::empty())?;
    let home = below(&open, HOME)?;
    below(&open, TEMPORARY)?;
    caches::fill(&below(&open, CACHES)?)?;
    if let Some(users) = etcetera::home_dir().ok().filter(|home| home.is_absolute()) {
        link_all(grant, &home, &users)?;
    }
    if let Some(most) = grant.state().filter(|most| *most != u64::MAX) {
        check_size(&own.join(HOME), most)?;
    }
    Ok(())
}

/// Links what `grant` reads of the user's home `users`, at the same place below `home`.
fn link_all(grant: &Grant, home: &OwnedFd, users: &Path) -> io::Result<()> {
    let readable = grant.readable();
    let is_needed = |root: &Root| grant.needs().iter().any(|need| need.contains(root));
    let is_readable = |root: &Root| readable.covers(root) || is_needed(root);
    let is_open = |path: &PathBuf| {
        path.exists()
            && Root::resolve(users, path).is_ok_and(|root| is_readable(&root) && !grant.hides(&root))
    };
    let known = PROGRAMS.iter().chain(SETTINGS).map(|place| users.join(place)).filter(is_open);
    let granted: Vec<PathBuf> = match &readable {
        Reach::Roots(roots) => roots.iter().map(|root| root.path().to_owned()).collect(),
        Reach::Anywhere => visible(users),
    };
    let stores = grant.opened().map(|root| root.path().to_owned()).filter(is_open);
    for path in known.chain(granted).chain(stores) {
        let Ok(place) = path.strip_prefix(users) else { continue };
        match link(home, place, &path) {
            // The process's own files there stay.
            Ok(()) | Err(Errno::EXIST | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the entries of a home that are no settings.
fn visible(users: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(users).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    visible.take(MAX_LINKS).map(|entry| entry.path()).collect()
}

fn link(home: &OwnedFd, place: &Path, target: &Path) -> rustix::io::Result<()> {
    let Some(name) = place.file_name() else { return Ok(()) };
    let mut directory = rustix::io::fcntl_dupfd_cloexec(home, 3)?;
    for part in place.parent().into_iter().flat_map(Path::components) {
        directory = below(&directory, part.as_os_str())?;
    }
    symlinkat(target, &directory, name)
}

/// Opens a directory in `directory`, which is created if missing.
fn below(directory: &OwnedFd, name: impl rustix::path::Arg + Copy) -> rustix::io::Result<OwnedFd> {
    match mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => openat(directory, name, DIRECTORY, Mode::empty()),
        Err(error) => Err(error),
    }
}

/// Fails where the files below `home` hold more than `most` bytes.
fn check_size(home: &Path, most: u64) -> io::Result<()> {
    let (mut size, mut entries, mut open) = (0_u64, 0, vec![home.to_owned()]);
    while let Some(directory) = open.pop() {
        // Another instance may remove files meanwhile, and what cannot be listed counts as empty.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            // The metadata of a link itself.
            let Ok(metadata) = entry.metadata() else { continue };
            size = size.saturating_add(if metadata.is_file() { metadata.len() } else { 0 });
            if metadata.is_dir() {
                open.push(entry.path());
            }
            if size > most || entries > MAX_ENTRIES {
                let (home, most) = (home.display(), haft_core::units::format_size(most));
                return Err(io::Error::other(format!(
                    "its home `{home}` is larger than `state = \"{most}\"` in its grant: grant more, or \
                     remove files there"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process that replaces haft's directories by a link cannot make haft write to another place.
    #[test]
    fn nothing_is_made_behind_a_link_of_the_process() {
        let place = tempfile::tempdir().unwrap();
        let (own, outside) = (written(&place.path().join("base")), place.path().join("outside"));
        let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
        let grant = Grant::none().with_private(root(&own));
        prepare(&grant).unwrap();
        fs::create_dir(&outside).unwrap();
        let users = etcetera::home_dir().unwrap();
        fs::remove_dir_all(own.join(HOME)).unwrap();
        symlink(&outside, own.join(HOME)).unwrap();
        assert!(prepare(&grant.clone().with_read(root(&users.join("a/b")))).is_err());
        fs::remove_file(own.join(HOME)).unwrap();
        fs::create_dir(own.join(HOME)).unwrap();
        symlink(&outside, own.join(HOME).join("a")).unwrap();
        prepare(&grant.with_read(root(&users.join("a/b")))).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_home_that_holds_more_than_its_state_starts_nothing() {
        let place = tempfile::tempdir().unwrap();
        let own = written(&place.path().join("base"));
        let root = Root::resolve(Path::new("/"), &own).unwrap();
        let grant = Grant::none().with_private(root).with_state(1 << 16);
        prepare(&grant).unwrap();
        assert!(place.path().join("base").join(caches::KEPT).exists());
        fs::write(own.join(HOME).join("large"), vec![0; (1 << 16) + 1]).unwrap();
        assert!(prepare(&grant).unwrap_err().to_string().contains("64KiB"));
    }
}
