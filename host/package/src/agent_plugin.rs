//! Agent Plugins (<https://agent-plugins.org>, version 1.0.0) and plugins of Claude Code, read as packages: their
//! skills become skills, their MCP servers become servers with separate grants, their scripts become tools. Reads
//! only files of the listing, and runs nothing. An error has exactly the effect that the specification defines
//! (§4.1, §11.3).

mod claude;
mod copy;
mod manifest;
pub(super) mod marketplace;
mod permissions;
mod server;
mod servers;
mod skill_servers;
mod skills;
pub(super) mod written;

use std::collections::BTreeSet;
use std::path::Path;

use haft_core::report::{Report, plain};
use serde_json::Value;

pub(super) use self::copy::copy;
pub use self::manifest::SCHEMA as MANIFEST_SCHEMA;
pub(crate) use self::marketplace::MarketplaceError;
pub use self::server::{Directory, PluginServer, Start};
pub use self::servers::{FILE as SERVERS, SCHEMA as SERVERS_SCHEMA};
pub use self::skill_servers::servers_of_head;
pub use self::skills::{FOLDER as SKILLS, PluginSkill};
use super::listing::{Listing, TreeError};
use haft_manifest::Manifest;

/// The manifest of an Agent Plugin (§5.1).
pub const AGENT: &str = "plugin.json";

/// The manifest of a plugin of Claude Code.
pub const CLAUDE: &str = ".claude-plugin/plugin.json";

/// The placeholder and variable of the plugin's folder (§9).
pub const ROOT: &str = "PLUGIN_ROOT";

/// The placeholder and variable of the directory that the plugin keeps (§9).
pub const DATA: &str = "PLUGIN_DATA";

/// Limit on the bytes of a manifest: ten times the longest in use.
const MAX_JSON: u64 = 1 << 20;

/// Which of the two formats a plugin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An Agent Plugin.
    Agent,
    /// A plugin of Claude Code.
    Claude,
}

/// A plugin, as parsed from its files.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPlugin {
    /// The format.
    pub form: Form,
    /// The description.
    pub about: About,
    /// The MCP servers that can be started, in the order of the file.
    pub servers: Vec<PluginServer>,
    /// The skills, by folder.
    pub skills: Vec<PluginSkill>,
    /// Errors and unused parts, which do not affect the rest.
    pub faults: Vec<Fault>,
}

/// A plugin's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name.
    pub name: String,
    /// The version, as written.
    pub version: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The author's name.
    pub author: Option<String>,
    /// The licence.
    pub license: Option<String>,
}

/// A reported fault that does not affect the rest of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The text, on one line.
    pub text: String,
}

/// The kinds of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A field of plugin.json that the schema does not have (§5.2).
    UnknownField,
    /// `extensions` is no object (§8.1).
    ExtensionsIgnored,
    /// A fixed location has another kind of file (§6.2).
    ComponentInvalid,
    /// A skill is not used (§7.1).
    SkillSkipped,
    /// No server of the plugin is used (§7.2.2).
    McpDisabled,
    /// A server is not used (§7.2.2).
    ServerSkipped,
    /// A transport that haft does not support (§7.2.2).
    TransportUnsupported,
    /// A part that haft shows and does not run.
    NotRun,
    /// A proposed right that cannot be requested.
    Permission,
}

impl FaultKind {
    /// Returns the label of the fault: a part that is not run, or an error.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotRun => "not run",
            Self::TransportUnsupported | Self::SkillSkipped | Self::ServerSkipped | Self::McpDisabled => {
                "left out"
            }
            Self::UnknownField | Self::ExtensionsIgnored | Self::ComponentInvalid | Self::Permission => {
                "ignored"
            }
        }
    }
}

impl Fault {
    fn new(kind: FaultKind, text: impl AsRef<str>) -> Self {
        Self { kind, text: plain(text.as_ref()) }
    }
}

/// Reasons why a folder is no plugin: nothing of it is used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// A file cannot be read, or was changed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The manifest breaks a rule whose violation is fatal (§5.2, §5.3).
    #[error("`{file}`: {why}")]
    Manifest {
        /// The manifest.
        file: &'static str,
        /// The rule.
        why: String,
    },
    /// The manifest names a version of the specification that this haft does not know (§5.2).
    #[error(
        "`plugin.json` is for `{0}`, and this haft supports version 1.0.0 of the Agent Plugins \
         Specification: `{SCHEMA}`",
        SCHEMA = manifest::SCHEMA
    )]
    Version(String),
}

/// Reports whether a folder is a plugin of either format; `has` reports whether the folder has a file.
pub(super) fn is_plugin(has: impl Fn(&str) -> bool) -> bool {
    has(AGENT) || has(CLAUDE)
}

impl AgentPlugin {
    /// Reads the plugin in `folder`, whose files are those of `listing`.
    ///
    /// # Errors
    /// The manifest is missing, or has a fatal fault (§5.2).
    pub fn read(folder: &Path, listing: &Listing) -> Result<Self, PluginError> {
        let files = Files { folder, listing };
        let is_claude = files.has(CLAUDE) && !is_agent(&files);
        let mut plugin = if is_claude { claude::read(&files) } else { manifest::read(&files) }?;
        let Self { skills, servers, faults, .. } = &mut plugin;
        let mut taken = BTreeSet::new();
        for skill in skills {
            skill.without_taken(&mut taken, faults);
            if let Err(why) = written::check_components(skill) {
                let text = format!("the components of skill `{}` are left out: {why}", skill.skill.name);
                faults.push(Fault::new(FaultKind::ComponentInvalid, text));
                skill.components.clear();
            }
            skill_servers::discovered(&files, skill, (&mut *servers, &mut *faults));
        }
        Ok(plugin)
    }

    /// Returns the equivalent program.toml, with the placeholders of the specification in the words and variables
    /// of its servers. Parts that program.toml cannot express are omitted as faults when the plugin is read.
    pub(super) fn manifest(&self) -> Result<Manifest, Report> {
        Manifest::parse(&written::text(self), Path::new(AGENT))
    }
}

/// Returns whether plugin.json follows the specification: it names a schema. Other programs have a file of that
/// name too.
fn is_agent(files: &Files<'_>) -> bool {
    files.has(AGENT) && files.json(AGENT).is_ok_and(|value| value.get("$schema").is_some())
}

#[derive(Clone, Copy)]
struct Files<'a> {
    folder: &'a Path,
    listing: &'a Listing,
}

impl<'a> Files<'a> {
    fn has(&self, path: &str) -> bool {
        self.listing.file(path).is_some()
    }

    /// Returns the paths below the folder `inside`, relative to it.
    fn below(&self, inside: &'a str) -> impl Iterator<Item = &'a str> {
        let own = move |path: &'a str| match inside {
            "" => Some(path),
            _ => path.strip_prefix(inside)?.strip_prefix('/'),
        };
        self.listing.paths().filter_map(own)
    }

    fn is_folder(&self, path: &'a str) -> bool {
        self.below(path).next().is_some()
    }

    fn is_executable(&self, path: &str) -> bool {
        self.listing.file(path).is_some_and(|file| file.executable)
    }

    fn bytes(&self, path: &str, most: u64) -> Result<Vec<u8>, TreeError> {
        self.listing.bytes(self.folder, path, most)
    }

    /// Returns the JSON in a file, or the reason why there is none.
    fn json(&self, path: &str) -> Result<Value, String> {
        let bytes = self.bytes(path, MAX_JSON).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not valid JSON: {error}"))
    }
}

#[cfg(test)]
mod tests;
