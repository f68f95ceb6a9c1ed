//! Parses fetched content: the program.toml of a package, checked against the rules for packages, or the
//! metadata of a component. Runs no code of it.

mod anchors;
mod command_line;
mod skill;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use self::command_line::usable_name;
pub use self::skill::BundledSkill;
use super::agent_plugin::{self, AgentPlugin, PluginError};
use super::inventory::MANIFEST;
use super::listing::{Listing, TreeError, io_error, relative};
use super::request::{self, Request};
use super::{Content, Digest, Kind, MAX_SIZE};
use haft_core::limit::Limits;
use haft_core::lookup::find_on_path;
use haft_core::report::Report;
use haft_core::skill::{FILE as SKILL, MAX_FILE, Skill};
use haft_manifest::{self as manifest, Component, Located, Manifest, Name, NameError, Plugin};
use haft_plugin_host::inspect::{self, Sections};

/// A package: its program.toml and the files beside it.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The package's folder.
    pub folder: PathBuf,
    /// The package's files.
    pub listing: Listing,
    /// The package's program.toml. Its settings for sandbox, agent, provider and built-in tools apply when the
    /// package runs as a program, and are ignored when it is installed as a package.
    pub manifest: Manifest,
    /// The package's name and version.
    pub program: manifest::Program,
    /// The name that the package declares, which [`Self::called`] does not change.
    pub own_name: Name,
    /// The instructions that the package gives to the model.
    pub skills: Vec<BundledSkill>,
    /// The plugin of another program that the package was made from, if any.
    pub agent_plugin: Option<AgentPlugin>,
    /// Faults in the head of the package's SKILL.md, one line each; empty for a plugin of another program.
    head_faults: Vec<String>,
}

/// A package or component that can be installed.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The kind, which selects the table of program.toml.
    pub kind: Kind,
    /// The name in that table.
    pub name: Name,
    /// The name that the package declares; for a component, the name of its entry.
    pub own_name: Name,
    /// The version, if declared.
    pub version: Option<semver::Version>,
    /// The description, if declared.
    pub description: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
    /// The licence.
    pub license: Option<String>,
    /// The rights and limits that it requests.
    pub requests: Vec<Request>,
    /// The components.
    pub plugins: Vec<OfferedPlugin>,
    /// The package; `None` for a single component.
    pub bundle: Option<Bundle>,
}

/// A component that can be installed.
#[derive(Clone, Debug)]
pub struct OfferedPlugin {
    /// The plugin's name. Its tools are called `<name>__<tool>`.
    pub name: String,
    /// The component's file.
    pub file: PathBuf,
    /// The digest of the file.
    pub digest: Digest,
    /// The limits of one call.
    pub limits: Limits,
    /// The contract that the component implements.
    pub contract: String,
}

/// Reasons why a package or component cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file cannot be read, or has changed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The folder is no plugin of other programs.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The package's program.toml is invalid.
    #[error("the package's program.toml is wrong\n{0}")]
    Manifest(Report),
    /// The package declares no name.
    #[error("the package's program.toml has no `[program]` with name and version")]
    NoProgram,
    /// The package has packages of its own.
    #[error("it has its own `[[packages]]`; add `{0}` separately")]
    Nested(String),
    /// The package has no plugin, command, server or skill.
    #[error("the package is empty: no `[[plugins]]`, `[[tools]]`, `[[mcp_servers]]` or `SKILL.md`")]
    Empty,
    /// A part of the package is outside its folder.
    #[error("`{what}` refers to `{path}`, which is not a file of the package")]
    Outside { what: String, path: String },
    /// A command's program is not executable.
    #[error("command tool `{tool}` starts `{path}`, which is not executable")]
    NotExecutable { tool: String, path: String },
    /// A file is not a valid component.
    #[error("`{file}`: {error}")]
    Component { file: String, error: String },
    /// The declared name is unusable.
    #[error("it has no usable name (`{text}`: {error})")]
    Name { text: String, error: NameError },
    /// The names of the package's plugins are too long with the given name as prefix.
    #[error("it cannot be named `{name}`: its plugin or server would be `{joined}`: {error}")]
    Called { name: Name, joined: String, error: NameError },
}

impl BundleError {
    /// Returns a remedy for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Outside { .. } => {
                Some("the package's author must add the file; folders such as `target` are left out")
            }
            Self::NotExecutable { .. } => Some("the package's author must make it executable: `chmod +x`"),
            Self::Name { .. } => Some("set one with `--as NAME`"),
            Self::Called { .. } => Some("set a shorter name with `--as NAME`"),
            _ => None,
        }
    }
}

impl Bundle {
    /// Reads the package in `folder`, whose files are those of `listing`, and checks it against the rules.
    pub fn read(folder: &Path, listing: Listing) -> Result<Self, BundleError> {
        if listing.file(MANIFEST).is_none() && agent_plugin::is_plugin(|file| listing.file(file).is_some()) {
            return Self::read_plugin(folder, listing);
        }
        let bytes = listing.bytes(folder, MANIFEST, manifest::MAX_FILE as u64)?;
        let manifest = Manifest::parse_bytes(&bytes, Path::new(MANIFEST)).map_err(BundleError::Manifest)?;
        let mut manifest = placed(manifest, folder);
        let program = manifest.program.clone().ok_or(BundleError::NoProgram)?;
        if let Some(nested) = manifest.packages.first() {
            return Err(BundleError::Nested(nested.source.value.to_string()));
        }
        let skill = match listing.file(SKILL) {
            Some(_) => Some(listing.bytes(folder, SKILL, MAX_FILE)?),
            None => None,
        };
        let text = skill.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let skill = text.as_deref().map(|text| Skill::parse(text, program.name.as_str()));
        let head_faults = match (&text, &skill) {
            (Some(text), Some(skill)) => skill::put_servers(&mut manifest, (text, skill), (folder, &listing)),
            _ => Vec::new(),
        };
        let (folder, own_name) = (folder.to_owned(), program.name.value.clone());
        let skills = skill.map(|skill| BundledSkill { skill, folder: String::new() }).into_iter().collect();
        let agent_plugin = None;
        let bundle = Self { folder, listing, manifest, program, own_name, skills, agent_plugin, head_faults };
        bundle.check()?;
        Ok(bundle)
    }

    /// Iterates over the enabled components: the entry in program.toml, the file's path and the file's digest.
    pub fn components(&self) -> impl Iterator<Item = (&Plugin, PathBuf, Digest)> {
        self.manifest.plugins.iter().filter(|plugin| plugin.enabled).filter_map(|plugin| {
            let inside = inside(&plugin.component)?;
            let digest = self.listing.file(&inside)?.digest.clone();
            Some((plugin, self.folder.join(inside), digest))
        })
    }

    /// Returns the required programs that are not on `PATH`, in backticks.
    pub fn missing_programs(&self) -> Vec<String> {
        let required = self.manifest.host_requirements.required.iter();
        let missing = required.filter(|name| find_on_path(name).is_none());
        missing.map(|name| format!("`{}`", name.value)).collect()
    }

    /// Reports whether the command lines name files of the package: then consent covers all of its files.
    pub fn runs_its_own(&self) -> bool {
        let runs_plugin = self.agent_plugin.is_some() && self.manifest.has_commands();
        runs_plugin || !self.executed_files().is_empty()
    }

    /// Returns the package with absolute paths for its own files in its command lines: processes run in the
    /// workspace, which may have files of these names.
    #[must_use]
    pub fn with_own_paths(mut self) -> Self {
        let (folder, listing) = (&self.folder, &self.listing);
        let whole = |word: &str| {
            let path = command_line::own(word)?;
            command_line::within(listing, &path).next()?;
            Some(folder.join(&path).to_str()?.to_owned())
        };
        // The first word already resolves against the package's folder.
        for word in command_line::all_mut(&mut self.manifest).flat_map(|line| line.iter_mut().skip(1)) {
            if let Some(path) = whole(word) {
                *word = path;
            }
        }
        self
    }

    /// Returns the files that the command lines name, directly or by their folder, as listed paths.
    pub(super) fn executed_files(&self) -> BTreeSet<&str> {
        let is_plugin = self.agent_plugin.is_some();
        let paths = self.manifest.commands().flat_map(move |line| {
            let of_plugin =
                line.iter().filter(move |_| is_plugin).filter_map(|word| command_line::of_plugin(word));
            command_line::named_files(line).chain(of_plugin)
        });
        paths.flat_map(|path| command_line::within(&self.listing, &path).collect::<Vec<_>>()).collect()
    }

    /// Returns all requests of the package, each once.
    pub fn requests(&self) -> Vec<Request> {
        let mut all: Vec<Request> = Vec::new();
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            all.extend(plugin_requests(Some(plugin.name.as_str()), plugin));
        }
        all.extend(self.manifest.tools.iter().flat_map(request::command_requests));
        let servers = self.manifest.mcp_servers.iter().filter(|server| server.enabled);
        all.extend(servers.flat_map(request::server_requests));
        all.extend(
            self.process_grants().flat_map(|(name, table)| request::table_requests(Some(name), table)),
        );
        all.extend(self.open_parts().map(|name| Request::AnyGrant(name.to_owned())));
        all.extend(self.skills.first().map(|_| Request::Instructions));
        let mut different: Vec<Request> = Vec::new();
        for request in all {
            if !different.contains(&request) {
                different.push(request);
            }
        }
        different
    }

    fn check(&self) -> Result<(), BundleError> {
        let manifest = &self.manifest;
        if manifest.plugins.is_empty()
            && manifest.tools.is_empty()
            && manifest.mcp_servers.is_empty()
            && self.skills.is_empty()
        {
            return Err(BundleError::Empty);
        }
        for plugin in &manifest.plugins {
            let known = inside(&plugin.component).is_some_and(|path| self.listing.file(&path).is_some());
            if !known {
                let (what, path) =
                    (format!("plugins.{}", plugin.name.as_str()), location_text(&plugin.component));
                return Err(BundleError::Outside { what, path });
            }
        }
        manifest.tools.iter().try_for_each(|tool| self.check_command(tool))
    }

    fn check_command(&self, tool: &manifest::CommandTool) -> Result<(), BundleError> {
        let word = tool.command.value.first().map(String::as_str).unwrap_or_default();
        if !word.starts_with("./") {
            return Ok(());
        }
        let path = command_line::own(word).unwrap_or_default();
        let (name, file) = (tool.name.as_str().to_owned(), self.listing.file(&path));
        let path = haft_core::report::plain(&path);
        match file {
            None => Err(BundleError::Outside { what: format!("tools.{name}"), path }),
            Some(file) if !file.executable => Err(BundleError::NotExecutable { tool: name, path }),
            Some(_) => Ok(()),
        }
    }
}

/// Sets the path of a manifest that was parsed with only a name for messages.
fn placed(manifest: Manifest, folder: &Path) -> Manifest {
    let path = folder.join(MANIFEST);
    let home = manifest::folder_of(&path).unwrap_or_else(|_| folder.to_owned());
    Manifest { path, folder: home, ..manifest }
}

/// Returns the path of a component within the package; `None` if the component is outside.
fn inside(component: &Located<Component>) -> Option<String> {
    let Component::File(path) = &component.value else { return None };
    relative(path).filter(|path| path.split('/').all(|name| name != "~"))
}

fn plugin_requests(plugin_name: Option<&str>, plugin: &Plugin) -> Vec<Request> {
    let mut all = request::table_requests(plugin_name, &plugin.grant);
    let secret = |secret| Request::Secret(plugin_name.map(str::to_owned), secret);
    all.extend(plugin.secrets.iter().cloned().map(secret));
    all.extend(request::limits_requests(plugin_name, &plugin.limits));
    all
}

fn location_text(component: &Located<Component>) -> String {
    haft_core::report::plain(&match &component.value {
        Component::File(path) => path.display().to_string(),
        Component::Url(url) => url.clone(),
        Component::Oci(reference) => format!("oci://{reference}"),
    })
}

impl Offered {
    /// Parses fetched content. The result is called `name` if given, else by its declared name; a component
    /// without a declared name is called `stem`, the last part of its source.
    pub fn new(
        content: &Content,
        kept: &Digest,
        name: Option<Name>,
        stem: &str,
    ) -> Result<Self, BundleError> {
        match content {
            Content::Tree(folder, listing) => {
                let bundle = Bundle::read(folder, listing.clone())?;
                Self::package(match name {
                    Some(name) => bundle.called(&name)?,
                    None => bundle,
                })
            }
            Content::Component(file) => Self::component(file, kept, name, stem),
        }
    }

    fn package(bundle: Bundle) -> Result<Self, BundleError> {
        let plugin = |(plugin, file, digest): (&Plugin, PathBuf, Digest)| {
            let (_, contract) = inspected(&file, &location_text(&plugin.component))?;
            let (name, limits) = (plugin.name.to_string(), plugin.limits);
            Ok(OfferedPlugin { name, file, digest, limits, contract })
        };
        let plugins = bundle.components().map(plugin).collect::<Result<_, BundleError>>()?;
        let program = bundle.program.clone();
        Ok(Self {
            kind: Kind::Package,
            name: program.name.value,
            own_name: bundle.own_name.clone(),
            version: Some(program.version),
            description: program.description,
            authors: program.authors,
            license: program.license,
            requests: bundle.requests(),
            plugins,
            bundle: Some(bundle),
        })
    }

    fn component(file: &Path, kept: &Digest, name: Option<Name>, stem: &str) -> Result<Self, BundleError> {
        let (sections, contract) = inspected(file, stem)?;
        let inner = sections.program.as_deref().map(|text| Manifest::parse(text, Path::new(MANIFEST)));
        let inner = inner.transpose().map_err(BundleError::Manifest)?.unwrap_or_default();
        let program = inner.program.as_ref();
        let declared_name = program.map(|program| program.name.to_string());
        let declared_name = declared_name.or_else(|| sections.act.as_ref().map(|act| act.name.clone()));
        let name = match name {
            Some(name) => name,
            None => usable_name(&declared_name.unwrap_or_else(|| stem.to_owned()))?,
        };
        // A component is one plugin: other plugins of its package are not in the file.
        let plugin_entry = inner.plugins.first();
        let limits = plugin_entry.map(|plugin| plugin.limits).unwrap_or_default();
        let requests = match (plugin_entry, &sections.act) {
            (Some(plugin), _) => plugin_requests(None, plugin),
            (None, Some(act)) => act.capabilities.iter().flat_map(request::act_requests).collect(),
            (None, None) => Vec::new(),
        };
        let label = |name: &str| label(&sections, name);
        let (file, digest) = (file.to_owned(), kept.clone());
        let version = label("version").or_else(|| sections.act.as_ref().map(|act| act.version.clone()));
        let version = version.and_then(|version| semver::Version::parse(&version).ok());
        let described = sections.act.as_ref().and_then(|act| act.description.clone());
        Ok(Self {
            kind: Kind::Plugin,
            version: program.map(|program| program.version.clone()).or(version),
            description: program
                .and_then(|program| program.description.clone())
                .or(described)
                .or_else(|| label("description")),
            authors: program.map(|program| program.authors.clone()).unwrap_or_default(),
            license: program.and_then(|program| program.license.clone()).or_else(|| label("licenses")),
            requests,
            plugins: vec![OfferedPlugin { name: name.to_string(), file, digest, limits, contract }],
            own_name: name.clone(),
            name,
            bundle: None,
        })
    }

    /// Returns the contracts of the components, each once.
    pub fn contracts(&self) -> Vec<String> {
        let mut all: Vec<_> = self.plugins.iter().map(|plugin| plugin.contract.clone()).collect();
        all.sort();
        all.dedup();
        all
    }
}

fn label(sections: &Sections, name: &str) -> Option<String> {
    sections.labels.iter().find(|(label, _)| label == name).map(|(_, text)| text.clone())
}

/// Reads the custom sections of a component's file, and the contract that it implements.
fn inspected(file: &Path, shown: &str) -> Result<(Sections, String), BundleError> {
    let invalid = |error: &dyn std::fmt::Display| BundleError::Component {
        file: shown.to_owned(),
        error: error.to_string(),
    };
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(MAX_SIZE).read_to_end(&mut bytes));
    read.map_err(io_error("read", file))?;
    let sections = inspect::read_sections(&bytes).map_err(|error| invalid(&error))?;
    let contract = sections.contract().map_err(|error| invalid(&error))?.to_string();
    Ok((sections, contract))
}

#[cfg(test)]
mod tests;
