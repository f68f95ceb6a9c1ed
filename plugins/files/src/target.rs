//! Resolves the file to change. Follows links itself, since the changed file replaces the old one and a link must
//! stay a link; opens nothing.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use haft_plugin::{Context, Error};

use crate::problem::Action;

/// How many links may lead to a file. As few as no honest layout needs more, against circles.
const MAX_LINKS: usize = 8;

/// The file to be written or replaced: no link, and no directory or device.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    /// What is there now, if anything.
    pub(crate) metadata: Option<Metadata>,
}

/// Finds the file that `written` means to a model.
pub(crate) fn find(context: &Context, written: &str) -> Result<Target, Error> {
    if written.is_empty() {
        return Err(Error::invalid("`file_path` is empty"));
    }
    let mut path = context.path(written);
    if names_directory(&path) {
        return Err(match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => Action::Write.failed(&path, &error),
            _ => Action::Write.cannot(&path, "it names a directory"),
        });
    }
    for _ in 0..=MAX_LINKS {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target { path, metadata: None }),
            Err(error) => return Err(Action::Write.failed(&path, &error)),
        };
        if !metadata.is_symlink() {
            check_is_file(Action::Write, &path, &metadata)?;
            return Ok(Target { path, metadata: Some(metadata) });
        }
        path = follow(context, &path)?;
    }
    Err(Action::Write.cannot(&path, format!("more than {MAX_LINKS} symbolic links lead on from each other")))
}

/// Whether a path ends in a slash: no file does.
fn names_directory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Refuses what is no regular file: reading a device or a pipe may never end.
pub(crate) fn check_is_file(action: Action, path: &Path, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_dir() {
        return Err(action.cannot(path, "it is a directory"));
    }
    if !metadata.is_file() {
        return Err(action.cannot(path, "it is not a regular file"));
    }
    Ok(())
}

/// Where a link leads. The sandbox tells no absolute target, since following it could lead out.
fn follow(context: &Context, link: &Path) -> Result<PathBuf, Error> {
    let target = fs::read_link(link).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Error::failed(format!(
            "write denied: `{}` is a symbolic link that leads outside; name the file itself",
            link.display()
        )),
        _ => Action::Write.failed(link, &error),
    })?;
    let beside = link.parent().unwrap_or(Path::new("")).join(target);
    Ok(context.path(beside.to_string_lossy()))
}
