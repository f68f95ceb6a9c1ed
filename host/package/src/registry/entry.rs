//! The fields of server.json (schema 2025-12-11), as the API wraps it, that haft uses. A value outside the schema's
//! list is an error; unknown fields are allowed by the schema and ignored.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Wanted;
use crate::ForeignError;

/// Supported schemas: those before 2025-12-11 have fewer fields with equal meanings.
const SCHEMAS: [&str; 4] = ["2025-09-29", "2025-10-11", "2025-10-17", "2025-12-11"];

#[derive(Debug, Deserialize)]
pub(super) struct Answer<S = Entry> {
    pub(super) server: S,
    #[serde(rename = "_meta", default)]
    pub(super) meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta {
    #[serde(rename = "io.modelcontextprotocol.registry/official")]
    official: Option<Official>,
}

#[derive(Debug, Deserialize)]
struct Official {
    status: Option<Status>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Active,
    Deprecated,
    Deleted,
}

/// server.json.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "$schema")]
    schema: Option<String>,
    pub(super) name: String,
    pub(super) version: String,
    #[serde(default)]
    pub(super) packages: Vec<Package>,
    #[serde(default)]
    pub(super) remotes: Vec<Remote>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Package {
    pub(super) registry_type: String,
    pub(super) registry_base_url: Option<String>,
    pub(super) identifier: String,
    pub(super) version: Option<String>,
    pub(super) file_sha256: Option<String>,
    pub(super) runtime_hint: Option<String>,
    pub(super) transport: Transport,
    #[serde(default)]
    pub(super) runtime_arguments: Vec<Argument>,
    #[serde(rename = "packageArguments", default)]
    pub(super) arguments: Vec<Argument>,
    #[serde(default)]
    pub(super) environment_variables: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Transport {
    #[serde(rename = "type")]
    pub(super) kind: TransportKind,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TransportKind {
    Stdio,
    StreamableHttp,
    Sse,
}

#[derive(Debug, Deserialize)]
pub(super) struct Remote {
    #[serde(rename = "type")]
    pub(super) kind: TransportKind,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: Vec<Pair>,
    #[serde(default)]
    pub(super) variables: BTreeMap<String, Input>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pair {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) input: Input,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Argument {
    #[serde(rename = "type")]
    pub(super) kind: ArgumentKind,
    /// The name of a named argument, with its dashes.
    pub(super) name: Option<String>,
    /// The name of a positional argument in settings.
    pub(super) value_hint: Option<String>,
    #[serde(default)]
    pub(super) is_repeated: bool,
    #[serde(flatten)]
    pub(super) input: Input,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ArgumentKind {
    Positional,
    Named,
}

/// The type of a value, and its source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) is_required: bool,
    #[serde(default)]
    pub(super) is_secret: bool,
    #[serde(default)]
    pub(super) format: Format,
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
    #[serde(default)]
    pub(super) choices: Vec<String>,
    #[serde(default)]
    pub(super) variables: BTreeMap<String, Input>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    #[default]
    String,
    Number,
    Boolean,
    Filepath,
}

impl Answer {
    /// Refuses schemas that are not read, an answer for something else, and what its author took back.
    pub(super) fn check(&self, wanted: &Wanted) -> Result<(), ForeignError> {
        let is_read =
            |schema: &String| SCHEMAS.iter().any(|known| schema.split('/').any(|part| part == *known));
        if let Some(schema) = self.server.schema.as_ref().filter(|schema| !is_read(schema)) {
            let text = format!(
                "its entry has the schema `{}`; this haft supports schemas up to 2025-12-11",
                haft_core::report::plain(schema)
            );
            return Err(ForeignError::Unsupported(text));
        }
        let is_version = wanted.version.as_ref().is_none_or(|version| *version == self.server.version);
        if self.server.name != wanted.name || !is_version {
            let (name, version) = (&self.server.name, &self.server.version);
            let text =
                haft_core::report::plain(&format!("the registry answers with `{name}` {version} instead"));
            return Err(ForeignError::Unsupported(text));
        }
        if self.meta.status() == Some(Status::Deleted) {
            return Err(ForeignError::Unsupported("its author has deleted it from the registry".to_owned()));
        }
        Ok(())
    }
}

impl Meta {
    pub(super) fn status(&self) -> Option<Status> {
        self.official.as_ref().and_then(|official| official.status)
    }
}
