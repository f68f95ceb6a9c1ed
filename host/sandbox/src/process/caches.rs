//! Caches of developer tools inside the sandbox. Package managers and compilers keep what they fetched in a person's home,
//! which no child writes. Each workspace and each MCP server has caches of its own instead, told to each tool by its own
//! variable: nothing there ends up in another program's hands, and the person's own caches stay as they are.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

/// The file whose time is that of the last use.
const USED: &str = "used";

/// How long caches are kept that nobody uses.
const UNUSED: Duration = Duration::from_hours(30 * 24);

/// The variables that tell each tool its place in `caches`.
pub(super) fn variables(caches: &Path) -> impl Iterator<Item = (OsString, OsString)> {
    VARIABLES.iter().map(|(name, option, place)| {
        let mut value = OsString::from(option);
        value.push(caches.join(place));
        ((*name).into(), value)
    })
}

/// Makes `caches`, for this user alone, and notes that they are used.
///
/// # Errors
/// They cannot be made.
pub(crate) fn prepare(caches: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(caches.join(CARGO))?;
    let of_person = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let of_person = of_person.or_else(|| Some(etcetera::home_dir().ok()?.join(".cargo")));
    if let Some(config) = of_person.map(|cargo| cargo.join(CARGO_CONFIG)).filter(|config| config.is_file()) {
        match symlink(config, caches.join(CARGO).join(CARGO_CONFIG)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    File::create(caches.join(USED))?.set_modified(SystemTime::now())
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
        let used = fs::metadata(entry.path().join(USED)).and_then(|used| used.modified());
        if used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > UNUSED)) {
            if !dry_run {
                remove(&entry.path())?;
            }
            swept.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    swept.sort();
    Ok(swept)
}

/// Removes a directory whose own may be read-only, as Go makes them.
fn remove(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_nobody_used_for_a_month_go() {
        let all = tempfile::tempdir().unwrap();
        for name in ["old", "new"] {
            prepare(&all.path().join(name)).unwrap();
        }
        let deep = all.path().join("old/go/mod");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o500)).unwrap();
        let long_ago = SystemTime::now() - UNUSED - Duration::from_mins(1);
        File::options()
            .write(true)
            .open(all.path().join("old/used"))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        assert_eq!(sweep(all.path(), true).unwrap(), ["old"]);
        assert_eq!(sweep(all.path(), false).unwrap(), ["old"]);
        assert!(!all.path().join("old").exists() && all.path().join("new/cargo").exists());
        assert_eq!(sweep(&all.path().join("none"), false).unwrap(), [""; 0]);
    }
}
