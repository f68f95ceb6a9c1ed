//! The fields of an MCP bundle's manifest.json (versions 0.3 and 0.4) that haft uses.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::ForeignError;

/// The versions that are read.
const VERSIONS: [&str; 2] = ["0.3", "0.4"];

fn platform() -> &'static str {
    if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS }
}

#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    #[serde(rename = "manifest_version")]
    form: Option<String>,
    dxt_version: Option<Value>,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) author: Author,
    pub(super) license: Option<String>,
    pub(super) server: Server,
    #[serde(default)]
    pub(super) user_config: BTreeMap<String, Field>,
    #[serde(default)]
    compatibility: Compatibility,
}

#[derive(Debug, Deserialize)]
pub(super) struct Author {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Server {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) entry_point: String,
    mcp_config: Option<Run>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Node,
    Python,
    Binary,
    Uv,
}

/// The start of the server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Run {
    pub(super) command: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    platform_overrides: BTreeMap<String, Override>,
}

#[derive(Clone, Debug, Deserialize)]
struct Override {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct Compatibility {
    platforms: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Field {
    #[serde(rename = "type")]
    pub(super) kind: FieldKind,
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) required: bool,
    pub(super) default: Option<Value>,
    #[serde(default)]
    pub(super) multiple: bool,
    #[serde(default)]
    pub(super) sensitive: bool,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum FieldKind {
    String,
    Number,
    Boolean,
    Directory,
    File,
}

impl Manifest {
    /// Refuses versions that are not read, and bundles for other systems.
    pub(super) fn check(&self) -> Result<(), ForeignError> {
        let version = match (&self.form, &self.dxt_version) {
            (Some(version), _) if VERSIONS.contains(&version.as_str()) => None,
            (Some(version), _) if version.as_str() > "0.4" => {
                let version = haft_core::report::plain(version);
                let text = format!("its `manifest_version` is {version}; this haft supports 0.3 and 0.4");
                return Err(ForeignError::Unsupported(text));
            }
            (Some(version), _) => Some(format!("manifest_version {version}")),
            (None, Some(version)) => Some(format!("dxt_version {version}")),
            (None, None) => Some("without manifest_version".to_owned()),
        };
        if let Some(version) = version {
            return Err(ForeignError::Old(haft_core::report::plain(&version)));
        }
        let platforms = self.compatibility.platforms.as_deref().unwrap_or_default();
        if platforms.is_empty() || platforms.iter().any(|name| name == platform()) {
            return Ok(());
        }
        let text = format!("it is for {}; this is {}", platforms.join(", "), platform());
        Err(ForeignError::Unsupported(haft_core::report::plain(&text)))
    }

    pub(super) fn run(&self) -> Run {
        let Some(mut run) = self.server.mcp_config.clone() else {
            let entry = &self.server.entry_point;
            let (command, args) = match self.server.kind {
                Kind::Node => ("node", vec![format!("{}/{entry}", super::FOLDER)]),
                Kind::Python | Kind::Uv => ("python3", vec![format!("{}/{entry}", super::FOLDER)]),
                Kind::Binary => (entry.as_str(), Vec::new()),
            };
            return Run { command: command.to_owned(), args, ..Run::default() };
        };
        if let Some(own) = run.platform_overrides.remove(platform()) {
            run.env.extend(own.env.unwrap_or_default());
            run.command = own.command.unwrap_or(run.command);
            run.args = own.args.unwrap_or(run.args);
        }
        run
    }

    /// Returns the words after the command. Of a server that uv would run, those after its file: haft runs the file itself.
    pub(super) fn words<'r>(&self, run: &'r Run) -> &'r [String] {
        if self.server.kind != Kind::Uv {
            return &run.args;
        }
        let is_entry = |word: &String| word.ends_with(&self.server.entry_point);
        let after = run.args.iter().position(is_entry).map_or(run.args.len(), |at| at + 1);
        run.args.get(after..).unwrap_or_default()
    }

    /// Returns the variables of the server whose complete value is the setting `key`.
    pub(super) fn variables_of(&self, key: &str) -> Vec<String> {
        let whole = format!("${{user_config.{key}}}");
        self.run().env.into_iter().filter(|(_, value)| *value == whole).map(|(name, _)| name).collect()
    }
}
