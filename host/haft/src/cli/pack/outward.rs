//! `haft plugin pack --agent-plugin`: creates a folder for clients of Agent Plugins, with a component or a package
//! that haft serves with its rights. The folder is written completely or not at all. Components run without rights,
//! to list their tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use async_trait::async_trait;
use serde_json::json;

use super::super::build::{self, relative};
use super::super::common::Common;
use super::super::install_session::{InstallSession, install_error, project_error, with_hint};
use super::super::terminal::Terminal;
use crate::cli::Exit;
use haft::program::FILE_NAME;
use haft_author::agent_plugin::{AgentPlugin, CLAUDE, FOLDER, GEMINI, MANIFEST, SERVERS, SKILLS};
use haft_author::declaration;
use haft_core::call::ToolDef;
use haft_core::skill::{self, Skill};
use haft_package::edit::{self, NewEntry};
use haft_package::signature::Trust;
use haft_package::{
    Consent, Content, Decision, Expected, Fetched, Offered, PackageSource, Project, Proposal, ToolLister,
};

/// Tables of a served package that turn haft's own tools off.
const ALONE: &str =
    "\n[builtins]\nshell = false\nfiles = false\nfetch = false\nsearch = false\ntime = false\ntmux = false\n";

/// The folders of a skill's files (Agent Skills, "Directory structure").
const OF_SKILLS: &[&str] = &["scripts/", "references/", "assets/"];

/// Prefixes of files that stay at the top level: texts for people.
const FOR_PEOPLE: &[&str] = &["README", "LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The suffix of a packed folder's name.
const SUFFIX: &str = "-agent-plugin";

/// Grants the rights that the author wrote into program.toml.
struct AsWritten;

#[async_trait]
impl Consent for AsWritten {
    async fn decide(&self, _: &Proposal<'_>) -> anyhow::Result<Decision> {
        Ok(Decision::Install(Vec::new()))
    }
}

/// A plugin under construction, in a folder beside its final place.
struct Making {
    staging: tempfile::TempDir,
    fetched: Fetched,
    offered: Offered,
    tools: Vec<ToolDef>,
}

/// Packs `what` as a plugin, in the folder `output` or beside `what`.
pub(super) async fn pack(
    what: &Path,
    output: Option<PathBuf>,
    common: &Common,
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let what = what.canonicalize().with_context(|| format!("cannot find `{}`", what.display()))?;
    if what.is_dir() {
        build::refuse_no_package(&what)?;
        build::refuse_stale(&what, "pack")?;
    }
    let beside = if what.is_dir() { what.as_path() } else { what.parent().unwrap_or(Path::new("/")) };
    let place = output.as_deref().and_then(Path::parent).map(ToOwned::to_owned);
    let place = place.unwrap_or_else(|| beside.to_owned());
    let place = if place.as_os_str().is_empty() { PathBuf::from(".") } else { place };
    fs::create_dir_all(&place).with_context(|| format!("cannot create folder `{}`", place.display()))?;
    let making = Box::pin(Making::begin(&what, &place, common, terminal)).await?;
    let output = output.unwrap_or_else(|| beside.join(format!("{}{SUFFIX}", making.offered.name)));
    making.package()?;
    Box::pin(making.pin(common, terminal)).await?;
    let skill = making.describe()?;
    making.end(&output)?;
    report(&output, &making, &skill, terminal)?;
    Ok(Exit::Success)
}

impl Making {
    /// Reads the content to pack, and lists its tools.
    async fn begin(what: &Path, place: &Path, common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let staging = tempfile::Builder::new().prefix(".haft-").tempdir_in(place);
        let staging = staging.with_context(|| format!("cannot create a folder in `{}`", place.display()))?;
        fs::create_dir(staging.path().join(FOLDER))?;
        let session = session_in(staging.path(), common, terminal)?;
        let directory = tempfile::tempdir_in(place)?;
        let source = PackageSource::Path(what.to_owned());
        let expected = Expected { digest: None, trust: Trust::Nobody };
        let fetched = session.installer().fetch(directory.path(), &source, expected).await;
        let fetched = fetched.map_err(install_error)?;
        let stem = haft_package::source_stem(&source);
        let offered = Offered::new(&fetched.content, &fetched.kept, None, &stem);
        let offered = offered.map_err(|error| with_hint(error.hint(), error))?;
        let tools = session.context.list_tools(&offered).await?.into_iter().map(|tool| tool.def).collect();
        let making = Self { staging, fetched, offered, tools };
        making.copy()?;
        Ok(making)
    }

    fn root(&self) -> &Path {
        self.staging.path()
    }

    fn own(&self) -> PathBuf {
        self.root().join(FOLDER)
    }

    /// Returns the file name of the component in the package.
    fn component(&self) -> String {
        format!("{}.wasm", self.offered.name)
    }

    /// Returns the version in the package's program.toml.
    fn version(&self) -> String {
        self.offered.version.as_ref().map_or_else(|| "0.1.0".to_owned(), ToString::to_string)
    }

    fn copy(&self) -> anyhow::Result<()> {
        match &self.fetched.content {
            Content::Component(file) => copied(file, &self.own().join(self.component())),
            Content::Tree(folder, listing) => {
                listing.paths().try_for_each(|path| copied(&folder.join(path), &self.own().join(path)))
            }
        }
    }

    /// Writes the package's program.toml, with its requests as grants.
    fn package(&self) -> anyhow::Result<()> {
        let file = self.own().join(FILE_NAME);
        let text = match &self.fetched.content {
            Content::Tree(..) => declaration::of_package(&fs::read_to_string(&file)?)?.0,
            Content::Component(_) => {
                let (offered, source) = (&self.offered, format!("./{}", self.component()));
                let version = self.version();
                let begun = format!("[program]\nname = \"{}\"\nversion = \"{version}\"\n", offered.name);
                let entry = NewEntry {
                    kind: offered.kind,
                    name: offered.name.as_str(),
                    source: &source,
                    granted: &offered.requests,
                };
                edit::add(&begun, &entry)?
            }
        };
        written(&file, &(text + ALONE))
    }

    /// Pins the components: their bytes and their tools' definitions.
    async fn pin(&self, common: &Common, terminal: Terminal) -> anyhow::Result<()> {
        let session = session_in(self.root(), common, terminal)?;
        for entry in session.project.entries() {
            // Each update changes program.lock.
            let session = session_in(self.root(), common, terminal)?;
            session.installer().update(&entry, None, &AsWritten).await.map_err(install_error)?;
        }
        Ok(())
    }

    /// Writes the files that clients read, and returns the name of the skill.
    fn describe(&self) -> anyhow::Result<String> {
        let (offered, root) = (&self.offered, self.root());
        let version = self.version();
        let plugin = AgentPlugin {
            name: offered.name.as_str(),
            version: &version,
            description: offered.description.as_deref(),
            authors: &offered.authors,
            license: offered.license.as_deref(),
            tools: &self.tools,
        };
        let own = self.own().join(skill::FILE);
        let own = own.is_file().then(|| fs::read_to_string(own)).transpose()?;
        let (name, text) = plugin.skill(own.as_deref())?;
        let of_skill = Skill::parse(&text, &name).description;
        let of_skill = Some(of_skill.as_str()).filter(|text| !text.is_empty());
        let plugin = AgentPlugin { description: plugin.description.or(of_skill), ..plugin };
        let folder = root.join(SKILLS).join(&name);
        written(&folder.join(skill::FILE), &text)?;
        if let Content::Tree(_, listing) = &self.fetched.content {
            for path in listing.paths() {
                let is_of_skill = own.is_some() && OF_SKILLS.iter().any(|folder| path.starts_with(folder));
                let is_for_people =
                    FOR_PEOPLE.iter().any(|name| path.starts_with(name)) && !path.contains('/');
                let places = [(is_of_skill, folder.as_path()), (is_for_people, root)];
                for (_, place) in places.into_iter().filter(|(is_there, _)| *is_there) {
                    copied(&self.own().join(path), &place.join(path))?;
                }
            }
        }
        written(&root.join(MANIFEST), &plugin.manifest())?;
        written(&root.join(SERVERS), &plugin.servers())?;
        written(&root.join(CLAUDE), &plugin.claude())?;
        written(&root.join(GEMINI), &plugin.gemini())?;
        Ok(name)
    }

    /// Moves the folder to its final place, which must not exist.
    fn end(&self, output: &Path) -> anyhow::Result<()> {
        if output.symlink_metadata().is_ok() {
            let problem = format!("`{}` exists already", output.display());
            return Err(with_hint(Some("remove it, or choose another folder with `-o`"), problem));
        }
        fs::set_permissions(self.root(), PermissionsExt::from_mode(0o755))?;
        fs::rename(self.root(), output).with_context(|| format!("cannot write `{}`", output.display()))
    }
}

fn session_in(staging: &Path, common: &Common, terminal: Terminal) -> anyhow::Result<InstallSession> {
    let program = Some(staging.join(FOLDER).join(FILE_NAME));
    InstallSession::open(&Common { program, ..common.clone() }, terminal)
}

fn written(file: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        fs::write(file, text)
    };
    write().with_context(|| format!("cannot write `{}`", file.display()))
}

/// Copies a file, including its executable bit.
fn copied(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copy = || {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        let is_executable = fs::metadata(from)?.permissions().mode() & 0o100 != 0;
        fs::write(to, fs::read(from)?)?;
        fs::set_permissions(to, PermissionsExt::from_mode(if is_executable { 0o755 } else { 0o644 }))
    };
    copy().with_context(|| format!("cannot copy `{}`", from.display()))
}

fn report(output: &Path, making: &Making, skill: &str, terminal: Terminal) -> anyhow::Result<()> {
    let project = Project::open(&output.join(FOLDER).join(FILE_NAME)).map_err(project_error)?;
    let tools: Vec<&str> = making.tools.iter().map(|tool| tool.name.as_str()).collect();
    let granted: Vec<String> = making.offered.requests.iter().map(ToString::to_string).collect();
    if terminal.json {
        terminal.json(&json!({
            "plugin": output, "skill": skill, "tools": tools, "granted": granted, "pins": project.lock.pins.len(),
        }))?;
        return Ok(());
    }
    let path = relative(output);
    terminal.message(format_args!(
        "packed `{path}`: the skill `{skill}`, and a server with {} tools",
        tools.len()
    ));
    if granted.is_empty() {
        terminal.message("it requests no rights: clients start it without consent if haft is installed");
    } else {
        let asked = granted.join(", ");
        terminal
            .message(format_args!("it requests {asked}: `haft -p PLUGIN/{FOLDER}/{FILE_NAME} trust` agrees"));
    }
    Ok(())
}
