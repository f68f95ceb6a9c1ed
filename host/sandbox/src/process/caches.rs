//! Caches of developer tools inside the sandbox. Package managers and compilers keep what they fetched in a person's home,
//! which no child writes. Each workspace and each MCP server has caches of its own instead, told to each tool by its own
//! variable: nothing there ends up in another program's hands, and the person's own caches stay as they are.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;

/// What a child may have said about itself that is not a right: where the tools keep what can be fetched again. The text
/// before the place is for those that take a whole option.
const VARIABLES: &[(&str, &str, &str)] = &[
    // npm and npx, and the headers that node-gyp compiles against.
    ("npm_config_cache", "", "npm"),
    ("npm_package_config_node_gyp_devdir", "", "node-gyp"),
    ("COREPACK_HOME", "", "corepack"),
    // The store is below it.
    ("PNPM_HOME", "", "pnpm"),
    ("pnpm_config_cache_dir", "", "pnpm/cache"),
    ("pnpm_config_state_dir", "", "pnpm/state"),
    ("YARN_CACHE_FOLDER", "", "yarn/cache"),
    ("YARN_GLOBAL_FOLDER", "", "yarn/global"),
    ("BUN_INSTALL_CACHE_DIR", "", "bun"),
    ("DENO_DIR", "", "deno"),
    ("PIP_CACHE_DIR", "", "pip"),
    // uv and uvx.
    ("UV_CACHE_DIR", "", "uv/cache"),
    ("UV_TOOL_DIR", "", "uv/tools"),
    ("CARGO_HOME", "", CARGO),
    ("GOPATH", "", "go"),
    ("GOCACHE", "", "go-build"),
    ("GRADLE_USER_HOME", "", "gradle"),
    ("MAVEN_ARGS", "-Dmaven.repo.local=", "maven"),
];

/// The directory that Cargo takes for its own.
const CARGO: &str = "cargo";

/// What Cargo is told there by a person: registries and mirrors among it.
const CARGO_CONFIG: &str = "config.toml";

/// How long caches are kept that nobody uses.
const UNUSED: Duration = Duration::from_hours(30 * 24);

/// A directory, and no link to one.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The times of what is used now.
const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};

/// What of a directory of caches children write. Beside it lies what only haft writes.
const WRITTEN: &str = "caches";

/// The variables that tell each tool its place in `caches`.
pub(super) fn variables(caches: &Path) -> impl Iterator<Item = (OsString, OsString)> {
    VARIABLES.iter().map(|(name, option, place)| {
        let mut value = OsString::from(option);
        value.push(caches.join(place));
        ((*name).into(), value)
    })
}

/// The directory in `own`, which is of one workspace or server, that children write.
pub fn written(own: &Path) -> PathBuf {
    own.join(WRITTEN)
}

/// Makes `caches`, a directory that [`written`] returned, for this user alone; the time of the directory around it is that of
/// the last use. Nothing is opened there: where tools may write a whole home, a link could lead anywhere.
///
/// # Errors
/// They cannot be made.
pub(crate) fn prepare(caches: &Path) -> io::Result<()> {
    let own = caches.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(own)?;
    utimensat(CWD, own, &NOW, AtFlags::SYMLINK_NOFOLLOW)?;
    if caches.symlink_metadata().is_ok() {
        return Ok(());
    }
    // Whole from the beginning: another haft may start a child in it at once.
    let new = tempfile::Builder::new().prefix(".new").tempdir_in(own)?;
    fill(new.path())?;
    match fs::rename(new.path(), caches) {
        // Another haft was first.
        Err(_) if caches.is_dir() => Ok(()),
        renamed => renamed,
    }
}

/// What is in caches before a child has written there.
fn fill(caches: &Path) -> io::Result<()> {
    fs::create_dir(caches.join(CARGO))?;
    let of_person = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let of_person = of_person.or_else(|| Some(etcetera::home_dir().ok()?.join(".cargo")));
    if let Some(config) = of_person.map(|cargo| cargo.join(CARGO_CONFIG)).filter(|config| config.is_file()) {
        symlink(config, caches.join(CARGO).join(CARGO_CONFIG))?;
    }
    Ok(())
}

/// Removes the caches in `all` that nobody used for 30 days, and returns their names; with `dry_run` only these.
///
/// # Errors
/// A directory cannot be read or removed.
pub fn sweep(all: &Path, dry_run: bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut swept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Of a link its own.
        let own = entry.metadata()?;
        if own.is_dir() && own.modified()?.elapsed().is_ok_and(|age| age > UNUSED) {
            if !dry_run {
                open_up(&rustix::fs::openat(CWD, entry.path(), DIRECTORY, Mode::empty())?)?;
                fs::remove_dir_all(entry.path())?;
            }
            swept.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    swept.sort();
    Ok(swept)
}

/// Makes a directory and those below it removable, which Go makes read-only. No link is followed: what a child wrote, or
/// changes just now, leads nowhere else.
fn open_up(directory: &OwnedFd) -> io::Result<()> {
    rustix::fs::fchmod(directory, Mode::RWXU)?;
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::openat(directory, entry.file_name(), DIRECTORY, Mode::empty()) {
            Ok(below) => open_up(&below)?,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    fn age(own: &Path) {
        let long_ago = SystemTime::now() - UNUSED - Duration::from_mins(1);
        File::open(own).unwrap().set_modified(long_ago).unwrap();
    }

    /// A child that puts a link in the place of what haft made there changes no other file.
    #[test]
    fn m1_nothing_is_written_where_children_write() {
        let place = tempfile::tempdir().unwrap();
        let (caches, outside) = (written(&place.path().join("own")), place.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        prepare(&caches).unwrap();
        fs::remove_dir_all(caches.join(CARGO)).unwrap();
        symlink(&outside, caches.join(CARGO)).unwrap();
        prepare(&caches).unwrap();
        age(&place.path().join("own"));
        age(&outside);
        symlink(&outside, place.path().join("link")).unwrap();
        fs::create_dir(place.path().join("all")).unwrap();
        for name in ["own", "link"] {
            fs::rename(place.path().join(name), place.path().join("all").join(name)).unwrap();
        }
        assert_eq!(sweep(&place.path().join("all"), false).unwrap(), ["own"]);
        let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(
            (left, fs::read_to_string(outside.join("kept")).unwrap()),
            (vec!["kept".into()], "kept".into())
        );
    }

    #[test]
    fn caches_that_nobody_used_for_a_month_go() {
        let all = tempfile::tempdir().unwrap();
        for name in ["old", "new"] {
            prepare(&written(&all.path().join(name))).unwrap();
        }
        let deep = all.path().join("old/caches/go/mod");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o500)).unwrap();
        age(&all.path().join("old"));
        assert_eq!(sweep(all.path(), true).unwrap(), ["old"]);
        assert_eq!(sweep(all.path(), false).unwrap(), ["old"]);
        assert!(!all.path().join("old").exists() && all.path().join("new/caches/cargo").exists());
        assert_eq!(sweep(&all.path().join("none"), false).unwrap(), [""; 0]);
    }
}
