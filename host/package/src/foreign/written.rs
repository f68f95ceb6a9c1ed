//! The program.toml of a package that is made from an MCP server in another format.

use std::path::Path;

use haft_manifest::{Name, TextOrSecret};
use semver::Version;
use serde::de::DeserializeOwned;
use toml::Table;

use super::ForeignError;
use crate::agent_plugin::written as table;
use crate::inventory::MANIFEST;
use crate::listing::{io_error, read_text};

/// Limit on the bytes of a file of JSON that describes a package: the lock of ten thousand packages.
const MAX_JSON: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Server {
    /// A text that becomes the server's name.
    pub(super) name: String,
    pub(super) version: Version,
    pub(super) description: Option<String>,
    pub(super) author: Option<String>,
    pub(super) license: Option<String>,
    /// The words of the command line. A word that begins with `./` is a file of the package.
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, TextOrSecret)>,
}

impl Server {
    /// Writes the program.toml into `folder`, which must not contain one.
    pub(super) fn write(mut self, folder: &Path) -> Result<(), ForeignError> {
        let unusable = |error| {
            let name = haft_core::report::plain(&self.name);
            ForeignError::Unsupported(format!("it has no usable name (`{name}`: {error})"))
        };
        let name = Name::of_text(&self.name).map_err(unusable)?;
        let mut all = Table::new();
        let texts = [self.description, self.author, self.license];
        table::put(&mut all, "program", table::program_table(name.to_string(), &self.version, texts));
        if let Some(program) = self.command.first().filter(|word| !word.contains('/')) {
            let required = ("required".to_owned(), vec![program.clone()].into());
            table::put(&mut all, "host_requirements", Table::from_iter([required]));
        }
        let mut entry = Table::new();
        table::put(&mut entry, "name", name.to_string());
        table::put(&mut entry, "command", self.command);
        self.env.sort_by(|(one, _), (other, _)| one.cmp(other));
        table::put_values(&mut entry, "env", &self.env);
        table::put_list(&mut all, "mcp_servers", std::iter::once(entry));
        // Serialization cannot fail: every value is a string, or a list or map of strings.
        put(&folder.join(MANIFEST), &toml::to_string(&all).unwrap_or_default())
    }
}

/// Writes a new file. An existing file of the package is not replaced.
pub(super) fn put(path: &Path, text: &str) -> Result<(), ForeignError> {
    let written = crate::folder::write(text.as_bytes(), path, text.len() as u64, false);
    written.map_err(io_error("write", path))?;
    Ok(())
}

pub(super) fn read_json<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<T, ForeignError> {
    let text = read(folder, file)?;
    let unreadable = |error: serde_json::Error| ForeignError::Unreadable {
        file: haft_core::report::plain(file),
        why: haft_core::report::plain(&error.to_string()),
    };
    serde_json::from_str(&text).map_err(unreadable)
}

/// Reads the text of `file` in `folder`, of at most 16 MiB.
pub(super) fn read(folder: &Path, file: &str) -> Result<String, ForeignError> {
    let path = folder.join(file);
    Ok(read_text(&path, MAX_JSON).map_err(io_error("read", &path))?)
}
