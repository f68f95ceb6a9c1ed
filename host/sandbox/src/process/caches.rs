//! Caches of developer tools in the sandbox. Package managers and compilers keep downloads in the user's home,
//! which no child may write. Each workspace and each MCP server has its own caches instead, which each tool
//! gets by an environment variable: no cache is shared with another program, and the user's own caches stay
//! unchanged.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, mkdirat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;

/// The variables of the tools' cache directories, which are not rights. The text before the path is for tools
/// that take a whole option.
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

/// The directory of `CARGO_HOME`.
const CARGO: &str = "cargo";

/// The user's configuration of Cargo, with registries and mirrors.
const CARGO_CONFIG: &str = "config.toml";

/// The time for which unused caches are kept.
const UNUSED: Duration = Duration::from_hours(30 * 24);

/// The mark of a directory that is never removed as unused.
pub(super) const KEPT: &str = "kept";

/// Flags that open a directory and not a link to one.
pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The timestamps of a cache in use.
const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};

/// The part of a cache directory that children may write. Only haft writes the rest.
const WRITTEN: &str = "caches";

/// Returns the variables that name each tool's directory in `caches`.
pub(super) fn variables(caches: &Path) -> impl Iterator<Item = (OsString, OsString)> {
    VARIABLES.iter().map(|(name, option, place)| {
        let mut value = OsString::from(option);
        value.push(caches.join(place));
        ((*name).into(), value)
    })
}

/// Returns the directory in `base`, the cache of one workspace or server, that children may write.
pub fn written(base: &Path) -> PathBuf {
    base.join(WRITTEN)
}

/// Creates `caches`, a directory from [`written`], for this user alone; its parent's modification time is that
/// of the last use. Opens nothing there: where tools may write a whole home, a link could lead anywhere.
///
/// # Errors
/// The directories cannot be created.
pub(crate) fn prepare(caches: &Path) -> io::Result<()> {
    let base = caches.parent().ok_or(io::ErrorKind::InvalidInput)?;
    begin(base)?;
    if caches.symlink_metadata().is_ok() {
        return Ok(());
    }
    // Renamed when complete: another haft may start a child in it at once.
    let new = tempfile::Builder::new().prefix(".new").tempdir_in(base)?;
    fill(&openat(CWD, new.path(), DIRECTORY, Mode::empty())?)?;
    match fs::rename(new.path(), caches) {
        // Another haft created it first.
        Err(_) if caches.is_dir() => Ok(()),
        renamed => renamed,
    }
}

/// Creates `base`, for this user alone; its modification time is that of the last use.
pub(super) fn begin(base: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    Ok(utimensat(CWD, base, &NOW, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Creates the initial content of a cache directory, which a child may have put something in already.
pub(super) fn fill(caches: &OwnedFd) -> io::Result<()> {
    match mkdirat(caches, CARGO, Mode::RWXU) {
        Err(Errno::EXIST) => return Ok(()),
        made => made?,
    }
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(etcetera::home_dir().ok()?.join(".cargo")));
    if let Some(config) = cargo_home.map(|cargo| cargo.join(CARGO_CONFIG)).filter(|config| config.is_file()) {
        symlinkat(config, openat(caches, CARGO, DIRECTORY, Mode::empty())?, CARGO_CONFIG)?;
    }
    Ok(())
}

/// Removes the caches in `all` that were unused for 30 days, and returns their names; with `dry_run` only
/// returns the names.
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
        // The metadata of a link itself.
        let metadata = entry.metadata()?;
        let is_unused = metadata.is_dir() && !entry.path().join(KEPT).exists();
        if is_unused && metadata.modified()?.elapsed().is_ok_and(|age| age > UNUSED) {
            if !dry_run {
                open_up(&openat(CWD, entry.path(), DIRECTORY, Mode::empty())?)?;
                fs::remove_dir_all(entry.path())?;
            }
            swept.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    swept.sort();
    Ok(swept)
}

/// Makes a directory and its subdirectories removable, since Go makes them read-only. Follows no link that a
/// child created, even one created during the walk.
fn open_up(directory: &OwnedFd) -> io::Result<()> {
    rustix::fs::fchmod(directory, Mode::RWXU)?;
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match openat(directory, entry.file_name(), DIRECTORY, Mode::empty()) {
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
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::SystemTime;

    use super::*;

    fn age(own: &Path) {
        let long_ago = SystemTime::now() - UNUSED - Duration::from_mins(1);
        File::open(own).unwrap().set_modified(long_ago).unwrap();
    }

    /// M1: a child that replaces haft's file by a link changes no other file.
    #[test]
    fn nothing_is_written_where_children_write() {
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
