//! The Python tools of a project: the virtual environment `.venv` with the packages of `requirements.txt`.
//! Installs nothing outside of it, and no package that is not named. Compilers are installed once in haft's
//! cache, under the digest of that file, and `.venv` is a link to them: Go or zig takes some hundred
//! megabytes.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh3::xxh3_128;

use crate::sweep::INSTALLED;
use crate::{Build, Need, Tool, sweep};
use haft_core::lookup::is_executable;
use haft_core::report::{Problem, Report};

/// The folder of the environment, below the project's folder.
pub(super) const FOLDER: &str = ".venv";

/// The file that names the packages.
pub(super) const REQUIREMENTS: &str = "requirements.txt";

pub(super) const PYTHON: Need = Need {
    program: "python3",
    purpose: "installs the tools of `requirements.txt` into `.venv`",
    ways: &[
        "`apt install python3 python3-venv`, `brew install python`, `pacman -S python`, or https://python.org",
    ],
};

/// Returns the program `name` of the project's virtual environment, if it exists.
pub(super) fn program(build: &Build<'_>, name: &str) -> Option<PathBuf> {
    Some(build.path(FOLDER).join("bin").join(name)).filter(|path| is_executable(path))
}

/// Reports whether `requirements.txt` names a package.
pub(super) fn names(build: &Build<'_>, package: &str) -> bool {
    let text = std::fs::read_to_string(build.path(REQUIREMENTS)).unwrap_or_default();
    text.lines().any(|line| is_requirement(line, package))
}

/// Reports whether a line of `requirements.txt` names a package, in any version.
fn is_requirement(line: &str, package: &str) -> bool {
    let rest = line.trim_start().strip_prefix(package);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "-_.".contains(c)))
}

/// Installs the packages of `requirements.txt` into the virtual environment, if they changed.
pub(super) async fn ensure(build: &Build<'_>) -> anyhow::Result<()> {
    let required = required(build)?;
    let folder = build.path(FOLDER);
    if is_filled(&folder, &required) {
        return Ok(());
    }
    fill(build, &folder, &required).await
}

pub(super) fn required(build: &Build<'_>) -> Result<Vec<u8>, Report> {
    let requirements = build.path(REQUIREMENTS);
    std::fs::read(&requirements).map_err(|error| {
        let problem = Problem::new(format!("cannot read `{}`: {error}", requirements.display()));
        problem.hint("list the project's Python tools there, one per line").into()
    })
}

/// Reports whether a virtual environment has exactly the packages of `required`.
pub(super) fn is_filled(folder: &Path, required: &[u8]) -> bool {
    is_same(&folder.join(INSTALLED), required) && is_executable(&folder.join("bin/python"))
}

pub(super) async fn fill(build: &Build<'_>, folder: &Path, required: &[u8]) -> anyhow::Result<()> {
    let (shown, python) = (build.project.relative(folder).display(), folder.join("bin/python"));
    if !is_executable(&python) {
        let made_with = PYTHON.find()?;
        build.announce(format!("making `{shown}` with {}", made_with.display()));
        build.run(&Tool::new(made_with).args(["-m", "venv"]).args([folder])).await?;
    }
    build.announce(format!("installing the packages of `{REQUIREMENTS}` into `{shown}`, once"));
    let pip =
        ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "-r", REQUIREMENTS];
    build.run(&Tool::new(python).args(pip)).await?;
    let record = folder.join(INSTALLED);
    std::fs::write(&record, required).with_context(|| format!("cannot write `{}`", record.display()))
}

fn is_same(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|found| found == bytes)
}

/// The interval and the number of attempts to lock a folder that another build fills: one hour in total.
const POLL: Duration = Duration::from_millis(200);
const MOST_POLLS: usize = 5 * 60 * 60;

/// Installs the packages of `requirements.txt` into `.venv`, if they changed. A `.venv` that is a folder is not
/// replaced by a link.
pub(super) async fn ensure_shared(build: &Build<'_>) -> anyhow::Result<()> {
    let (link, required) = (build.path(FOLDER), required(build)?);
    if link.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return ensure(build).await;
    }
    if is_filled(&link, &required) {
        // The link may be the author's own and lead elsewhere.
        let shared_folder = link.read_link().ok().filter(|folder| folder.parent() == Some(&build.toolchains));
        if let Some(folder) = shared_folder {
            sweep::used(&folder);
        }
        return Ok(());
    }
    let python = PYTHON.find()?;
    // A virtual environment depends on the Python version.
    let version =
        build.ask(&Tool::new(python).args(["-c", "import sys; print(sys.version, sys.base_prefix)"])).await?;
    let named = [version.unwrap_or_default().as_bytes(), &required].concat();
    let folder = build.toolchains.join(format!("{:032x}", xxh3_128(&named)));
    let shown = build.toolchains.display();
    std::fs::create_dir_all(&build.toolchains).with_context(|| format!("cannot create folder `{shown}`"))?;
    let _lock = lock_shared(build, &sweep::lock_of(&folder)).await?;
    sweep::used(&folder);
    if !is_filled(&folder, &required) {
        fill(build, &folder, &required).await?;
    }
    point(&link, &folder).with_context(|| format!("cannot make the link `{}`", link.display()))
}

/// Locks the folder against other builds until the returned file is dropped.
async fn lock_shared(build: &Build<'_>, path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    for poll in 0..MOST_POLLS {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(file);
        }
        if poll == 0 {
            build.announce("waiting for another build that installs the same packages");
        }
        tokio::time::sleep(POLL).await;
    }
    anyhow::bail!("`{}` has been locked by another build for an hour", path.display())
}

/// Makes `link` point to `folder`, replacing an existing link.
fn point(link: &Path, folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(folder, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_known_by_its_name_alone() {
        for line in
            ["ziglang", "ziglang==0.17.1", "  ziglang >= 0.16", "ziglang[extra]", "ziglang;os_name=='posix'"]
        {
            assert!(is_requirement(line, "ziglang"), "{line}");
        }
        for line in ["# ziglang", "ziglang-extra==1", "ziglanguage", "not-ziglang", ""] {
            assert!(!is_requirement(line, "ziglang"), "{line}");
        }
    }
}
