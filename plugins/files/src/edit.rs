//! `edit`: replaces a text in one file by another. An ambiguous place is an error.

use std::fs::{self, File, Metadata};
use std::path::Path;

use haft_plugin::{Context, Error, Hints, Output, Tool};

use crate::problem::Action;
use crate::replacement::{self, Mismatch, Replacement};
use crate::{replace, target};

/// Bytes of a file that can be edited: 1 MiB less than what a call may write to files unless program.toml says otherwise,
/// for the copy's own entry and what the edit adds. Gone through twice, so many take a second of the 30 that a call has.
const MAX_BYTES: u64 = 255 << 20;

/// Replaces a text in a file by another. The text must occur exactly once, unless `replace_all` is
/// set; if it does not, nothing is changed.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Edit {
    /// Path of the file: absolute, relative to the workspace, or beginning with ~.
    file_path: String,
    /// The text to replace, exactly as it is in the file. Enough of it to occur only once.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    const NAME: &str = "edit";
    const HINTS: Hints = Hints { destructive: true, ..Hints::NONE };

    fn call(self, context: &Context) -> Result<Output, Error> {
        self.check()?;
        let target = target::find(context, &self.file_path)?;
        let Some(metadata) = target.metadata else { return Err(missing(&target.path)) };
        let path = &target.path;
        check_size(path, &metadata)?;
        let draft = replace::Draft::begin(context, (path, false))?;
        // Another call may have changed it until now: models make several calls at once.
        let metadata = fs::symlink_metadata(path).map_err(|error| Action::Read.failed(path, &error))?;
        target::check_is_file(Action::Write, path, &metadata)?;
        check_size(path, &metadata)?;
        let mut file = File::open(path).map_err(|error| Action::Read.failed(path, &error))?;
        let replacement = replacement::find(&mut file, &self.old_string, &self.new_string, self.replace_all)
            .map_err(|mismatch| explain(path, &mismatch))?;
        draft.finish(|out| replacement.write(&mut file, out), || check_unchanged(path, &metadata))?;
        Ok(self.tell(&replacement).into())
    }
}

impl Edit {
    fn check(&self) -> Result<(), Error> {
        if self.old_string.is_empty() {
            return Err(Error::invalid(
                "`old_string` is empty; to create a file or replace all of it use write",
            ));
        }
        if self.old_string == self.new_string {
            return Err(Error::invalid("`old_string` and `new_string` are the same"));
        }
        Ok(())
    }

    fn tell(&self, replacement: &Replacement) -> String {
        let count = replacement.count();
        let plural = if count == 1 { "" } else { "s" };
        format!("Edited {} ({count} occurrence{plural} replaced)", self.file_path)
    }
}

fn explain(at: &Path, mismatch: &Mismatch) -> Error {
    let path = at.display();
    Error::failed(match mismatch {
        Mismatch::Unreadable(error) => return Action::Read.failed(at, error),
        Mismatch::NotText(byte) => {
            let why = format!("it is not UTF-8 text (byte {byte} on), and only text can be edited");
            return Action::Write.cannot(at, why);
        }
        Mismatch::Missing { similar: None } => {
            format!("`old_string` not found in `{path}`; the file is unchanged")
        }
        Mismatch::Missing { similar: Some(line) } => format!(
            "`old_string` not found in `{path}`; the file is unchanged. Line {line} begins alike, with other white space"
        ),
        Mismatch::Several { count, lines } => format!(
            "`old_string` occurs {count} times in `{path}`, at lines {lines}; the file is unchanged. Give more of the text around one of them, or set `replace_all`"
        ),
    })
}

fn missing(path: &Path) -> Error {
    Action::Read.failed(path, &std::io::ErrorKind::NotFound.into())
}

fn check_size(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let bytes = metadata.len();
    if bytes > MAX_BYTES {
        let why = format!("it has {bytes} bytes, and only files of up to {MAX_BYTES} can be edited");
        return Err(Action::Write.cannot(path, why));
    }
    Ok(())
}

/// Refuses to overwrite what somebody else, who is no call of `edit` or `write`, wrote since the file was read.
fn check_unchanged(path: &Path, before: &Metadata) -> Result<(), Error> {
    let now = fs::symlink_metadata(path).map_err(|error| Action::Write.failed(path, &error))?;
    if now.len() == before.len() && now.modified().ok() == before.modified().ok() {
        return Ok(());
    }
    Err(Action::Write.cannot(path, "it has just been changed by somebody else; read it again"))
}
