//! `write`: creates a file or replaces its whole content.

use std::io::Write as _;

use haft_plugin::{Context, Error, Hints, Output, Tool};

use crate::{replace, target};

/// Writes a file, replacing its content if it exists; missing directories are made. To change a part
/// of an existing file use edit.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Write {
    /// Path of the file: absolute, relative to the workspace, or beginning with ~.
    file_path: String,
    /// The whole content of the file.
    content: String,
}

impl Tool for Write {
    const NAME: &str = "write";
    const HINTS: Hints = Hints { destructive: true, idempotent: true, ..Hints::NONE };

    fn call(self, context: &Context) -> Result<Output, Error> {
        let target = target::find(context, &self.file_path)?;
        let is_new = target.metadata.is_none();
        if is_new {
            replace::create_parents(&target.path)?;
        }
        let write = |out: &mut replace::Content<'_>| out.write_all(self.content.as_bytes());
        replace::replace(context, (&target.path, is_new), write, || Ok(()))?;
        Ok(format!("Wrote {} bytes to {}", self.content.len(), self.file_path).into())
    }
}
