//! What was fetched, understood: a package's own program.toml held to the rules for packages, or what a
//! component says of itself. Runs nothing of it.

mod command_line;
mod naming;
mod skill;

use std::collections::BTreeSet;
use std::io;
use std::path::{Component as Part, Path, PathBuf};

use self::naming::usable_name;
use super::inventory::MANIFEST;
use super::kind::Kind;
use super::listing::{Listing, TreeError};
use super::request::{self, Request};
use super::{Content, Digest, MAX_SIZE};
use haft_core::limit::Limits;
use haft_core::lookup::find_on_path;
use haft_core::report::Report;
use haft_core::skill::{FILE as SKILL, MAX_FILE, Skill, server_keys};
use haft_manifest::{self as manifest, Component, Located, Manifest, Name, NameError, Plugin};
use haft_plugin_host::inspect::{self, Sections, SectionsError};

/// A package: its program.toml and what lies beside it.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Where it is.
    pub folder: PathBuf,
    /// Its files.
    pub listing: Listing,
    /// Its program.toml; what it says of sandbox, agent, provider and built-in tools is for running it
    /// by itself, and means nothing where it is a package.
    pub manifest: Manifest,
    /// Its name and version.
    pub program: manifest::Program,
    /// What it calls itself, which [`Self::called`] leaves as it is.
    pub own_name: Name,
    /// What it tells the model.
    pub skill: Option<Skill>,
    /// Keys of its SKILL.md that name MCP servers, which haft does not read.
    server_keys: Vec<String>,
}

/// Something that can be installed.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The table of program.toml that it goes to.
    pub kind: Kind,
    /// What it is called there.
    pub name: Name,
    /// What a package calls itself; a component is called whatever its entry is.
    pub own_name: Name,
    /// Its version, where it says one.
    pub version: Option<semver::Version>,
    /// What it is for, where it says so.
    pub description: Option<String>,
    /// Who wrote it.
    pub authors: Vec<String>,
    /// Under which licence.
    pub license: Option<String>,
    /// What it asks for.
    pub requests: Vec<Request>,
    /// Its components.
    pub plugins: Vec<OfferedPlugin>,
    /// The package, where it is more than a component.
    pub bundle: Option<Bundle>,
}

/// A component that can be installed.
#[derive(Clone, Debug)]
pub struct OfferedPlugin {
    /// Its tools are called `<name>__<tool>`.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Of the file.
    pub digest: Digest,
    /// What one call may use.
    pub limits: Limits,
    /// What it is: the contract that it keeps.
    pub contract: String,
}

/// Why something cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file cannot be read, or is not what it was.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The package's program.toml is wrong.
    #[error("the package's program.toml is wrong\n{0}")]
    Manifest(Report),
    /// It does not say what it is called.
    #[error("the package's program.toml has no `[program]`, and a package needs its name and version")]
    NoProgram,
    /// It brings packages of its own.
    #[error("it has `[[packages]]` of its own; add `{0}` by itself")]
    Nested(String),
    /// It has no plugin, command, server or skill.
    #[error("there is nothing in it: no `[[plugins]]`, `[[tools]]`, `[[mcp_servers]]` or `SKILL.md`")]
    Empty,
    /// Part of it lies elsewhere.
    #[error("`{what}` names `{path}`, which is not a file of the package")]
    Outside {
        /// Which part.
        what: String,
        /// What it names.
        path: String,
    },
    /// A command that cannot be started.
    #[error("command tool `{tool}` starts `{path}`, which is not executable")]
    NotExecutable {
        /// The tool.
        tool: String,
        /// What it starts.
        path: String,
    },
    /// A component that is none.
    #[error("`{file}`: {error}")]
    Component {
        /// The file.
        file: String,
        /// Why not.
        error: String,
    },
    /// It has no name that could be used.
    #[error("it says no name that could be used (`{text}`: {error})")]
    Name {
        /// What it says.
        text: String,
        /// Why it cannot be used.
        error: NameError,
    },
    /// The names of its plugins are too long below another one of its own.
    #[error("it cannot be called `{name}`: its plugin or server would be `{joined}`, and {error}")]
    Called {
        /// What it was to be called.
        name: Name,
        /// What a part of it would be called.
        joined: String,
        /// Why that cannot be.
        error: NameError,
    },
}

impl BundleError {
    /// The way out.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Outside { .. } => Some(
                "the package's author has to put it into the package; folders such as `target` are left out",
            ),
            Self::NotExecutable { .. } => Some("the package's author has to `chmod +x` it"),
            Self::Name { .. } => Some("`--as NAME` gives it one"),
            Self::Called { .. } => Some("a shorter one, with `--as NAME`"),
            _ => None,
        }
    }
}

impl Bundle {
    /// Reads the package in `folder`, whose files are those of `listing`, and holds it to the rules.
    pub fn read(folder: &Path, listing: Listing) -> Result<Self, BundleError> {
        let bytes = listing.bytes(folder, MANIFEST, manifest::MAX_FILE as u64)?;
        let path = folder.join(MANIFEST);
        let manifest = Manifest::parse_bytes(&bytes, Path::new(MANIFEST)).map_err(BundleError::Manifest)?;
        // Not where the file was read from: `MANIFEST` is only what messages call it.
        let home = manifest::folder_of(&path).unwrap_or_else(|_| folder.to_owned());
        let manifest = Manifest { path, folder: home, ..manifest };
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
        let server_keys = text.as_deref().map(server_keys).unwrap_or_default();
        let (folder, own_name) = (folder.to_owned(), program.name.value.clone());
        let bundle = Self { folder, listing, manifest, program, own_name, skill, server_keys };
        bundle.check()?;
        Ok(bundle)
    }

    /// Its components: what program.toml says, where the file is, and the file's digest.
    pub fn components(&self) -> impl Iterator<Item = (&Plugin, PathBuf, Digest)> {
        self.manifest.plugins.iter().filter(|plugin| plugin.enabled).filter_map(|plugin| {
            let inside = inside(&plugin.component)?;
            let digest = self.listing.file(&inside)?.digest.clone();
            Some((plugin, self.folder.join(inside), digest))
        })
    }

    /// The programs that it requires and that are not on `PATH`, in backticks.
    pub fn missing_programs(&self) -> Vec<String> {
        let required = self.manifest.host_requirements.required.iter();
        let missing = required.filter(|name| find_on_path(name).is_none());
        missing.map(|name| format!("`{}`", name.value)).collect()
    }

    /// Whether its command lines name files that it brings along: then every file of it counts.
    pub fn runs_its_own(&self) -> bool {
        !self.executed_files().is_empty()
    }

    /// The same with what is its own in its command lines by whole paths: processes run in the workspace, which may
    /// hold others of these names.
    #[must_use]
    pub fn with_own_paths(mut self) -> Self {
        let (folder, listing) = (&self.folder, &self.listing);
        let whole = |word: &str| {
            let path = command_line::own(word)?;
            command_line::within(listing, &path).next()?;
            Some(folder.join(&path).to_str()?.to_owned())
        };
        // The first word starts from the package's folder as it is.
        for word in command_line::all_mut(&mut self.manifest).flat_map(|line| line.iter_mut().skip(1)) {
            if let Some(path) = whole(word) {
                *word = path;
            }
        }
        self
    }

    /// What its SKILL.md asks for that haft does not use, for a notice; mostly nothing.
    pub fn ignored_servers(&self) -> Option<String> {
        let keys: Vec<String> =
            self.server_keys.iter().map(|key| format!("`{}`", haft_core::report::plain(key))).collect();
        let text =
            format!("{} in its `SKILL.md`: haft starts no MCP servers that are named there", keys.join(", "));
        (!keys.is_empty()).then_some(text)
    }

    /// The files that its command lines name, themselves or by their folder, as the listing has them.
    pub(super) fn executed_files(&self) -> BTreeSet<&str> {
        let paths = command_line::all(&self.manifest).flat_map(|line| command_line::named_files(line));
        paths.flat_map(|path| command_line::within(&self.listing, &path).collect::<Vec<_>>()).collect()
    }

    /// What it asks for.
    pub fn requests(&self) -> Vec<Request> {
        let mut all: Vec<Request> = Vec::new();
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            all.extend(plugin_requests(Some(plugin.name.as_str()), plugin));
        }
        all.extend(self.manifest.tools.iter().flat_map(request::command_requests));
        let servers = self.manifest.mcp_servers.iter().filter(|server| server.enabled);
        all.extend(servers.flat_map(request::server_requests));
        all.extend(self.skill.as_ref().map(|_| Request::Instructions));
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
            && self.skill.is_none()
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

/// The path within the package that a component is at; `None` for one that is elsewhere.
fn inside(component: &Located<Component>) -> Option<String> {
    let Component::File(path) = &component.value else { return None };
    let parts = path.components().filter(|part| *part != Part::CurDir);
    let names: Option<Vec<&str>> = parts
        .map(|part| match part {
            Part::Normal(name) => name.to_str().filter(|name| *name != "~"),
            _ => None,
        })
        .collect();
    names.map(|names| names.join("/"))
}

fn location_text(component: &Located<Component>) -> String {
    haft_core::report::plain(&match &component.value {
        Component::File(path) => path.display().to_string(),
        Component::Url(url) => url.clone(),
        Component::Oci(reference) => format!("oci://{reference}"),
    })
}

fn plugin_requests(plugin_name: Option<&str>, plugin: &Plugin) -> Vec<Request> {
    let mut all = request::table_requests(plugin_name, &plugin.grant);
    let secret = |secret| Request::Secret(plugin_name.map(str::to_owned), secret);
    all.extend(plugin.secrets.iter().cloned().map(secret));
    all.extend(request::limits_requests(plugin_name, &plugin.limits));
    all
}

impl Offered {
    /// Understands what was fetched. It may be given a `name`; else it is called what it calls itself, or a component
    /// after `stem`, the last part of where it came from.
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
            let shown = location_text(&plugin.component);
            let contract = contract_of(&inspect_file(&file, &shown)?, &shown)?;
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
        let sections = inspect_file(file, stem)?;
        let contract = contract_of(&sections, stem)?;
        let inner = sections.program.as_deref().map(|text| Manifest::parse(text, Path::new(MANIFEST)));
        let inner = inner.transpose().map_err(BundleError::Manifest)?.unwrap_or_default();
        let program = inner.program.as_ref();
        let declared_name = program.map(|program| program.name.to_string());
        let declared_name = declared_name.or_else(|| sections.act.as_ref().map(|act| act.name.clone()));
        let name = match name {
            Some(name) => name,
            None => usable_name(&declared_name.unwrap_or_else(|| stem.to_owned()))?,
        };
        // One component, one plugin: the others of its package are not in it.
        let own = inner.plugins.first();
        let limits = own.map(|plugin| plugin.limits).unwrap_or_default();
        let requests = match (own, &sections.act) {
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

    /// The contracts of its components, each once.
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

/// Looks into a component's file.
fn inspect_file(file: &Path, shown: &str) -> Result<Sections, BundleError> {
    let bytes = read(file).map_err(super::listing::io_error("read", file))?;
    inspect::read_sections(&bytes).map_err(|error: SectionsError| BundleError::Component {
        file: shown.to_owned(),
        error: error.to_string(),
    })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(MAX_SIZE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn contract_of(sections: &Sections, shown: &str) -> Result<String, BundleError> {
    let contract = sections.contract();
    contract
        .map(|contract| contract.to_string())
        .map_err(|error| BundleError::Component { file: shown.to_owned(), error: error.to_string() })
}

#[cfg(test)]
mod tests;
