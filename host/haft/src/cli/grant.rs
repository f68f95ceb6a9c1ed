//! `haft grant`: writes a right to program.toml, at the place that a refusal's hint names.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use super::Exit;
use super::common::Common;
use super::install_session::{enforceable, project_error, put};
use super::terminal::{DIM, Hinted, Terminal, did_you_mean};
use haft::program::{Dirs, FILE_NAME, Program, skill_servers, usual_rights};
use haft_agent::Begun;
use haft_core::grant::{HostPattern, Right};
use haft_core::tool::Widening;
use haft_manifest::{Manifest, Name, Package, Transport};
use haft_package::edit;
use haft_package::{Bundle, Kind, Lock, Project, ProjectError, Request, Store};
use haft_sandbox::native::command;

#[derive(Debug, Args)]
#[command(after_help = "\
NAME is a plugin, a package, an MCP server (also of a package of npm, PyPI or a bundle), a command or one of \
their tools. `bash` and the built-in tools have \
the rights of `[sandbox]`; use `sandbox` as NAME for all of them. For a server or command without a grant, haft also \
writes its default rights. Relative paths start in the current folder. The grant applies from the next call of \
`haft serve`, and to processes that start from now on. Writing a grant is consent: `haft trust` does not ask \
about it.

Examples:
  haft grant bash write=../notes
  haft grant sandbox credentials=ssh network
  haft grant wordcount read=.
  haft grant fetcher__get host=api.example.com
  haft grant memory write=~/notes network")]
pub(super) struct GrantVerb {
    /// The plugin, package, MCP server, command or tool; `bash` or `sandbox`
    #[arg(add = super::completions::plugins())]
    name: String,
    /// `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`, `service=SERVICE`, `state=SIZE`, `cache=SIZE` or `network`
    #[arg(value_name = "RIGHT", required = true)]
    rights: Vec<Wanted>,
}

/// A right as it is typed.
#[derive(Clone, Debug)]
enum Wanted {
    Right(Right),
    /// The network, for processes.
    Network,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "network" {
            return Ok(Self::Network);
        }
        text.parse().map(Self::Right).map_err(|error| format!("{error} or `network`"))
    }
}

/// The table that says what somebody may do.
enum Place {
    Entry(Kind, String),
    /// A package of npm, PyPI or a bundle: its server is a process.
    Foreign(String),
    /// An MCP server or a command: its list, its name, and what it has without a grant.
    Process(&'static str, String, Vec<Right>),
    Sandbox,
}

/// What the person at the terminal may give; nothing where there is none: nobody waits for an answer where a script is
/// refused something.
pub(super) fn widening_at(terminal: Terminal, program: &Program) -> Widening {
    if !terminal.has_person() {
        return Widening::default();
    }
    widening(program.widening(), &program.begun(), terminal)
}

/// What a person may give, also written to the program.toml of `begun`, or to a new one.
pub(super) fn widening(widening: Widening, begun: &Begun, terminal: Terminal) -> Widening {
    let path = begun.path.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
    widening.writing(move |tool, rights| {
        let path = path.clone();
        Box::pin(async move {
            let rights = rights.into_iter().map(Wanted::Right).collect();
            let written = GrantVerb { name: tool, rights }.write(&path, terminal).await;
            written.map_err(|error| {
                terminal.warning(&format!("{error:#}"));
                error.to_string()
            })
        })
    })
}

impl GrantVerb {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let path = common.program.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
        self.write(&path, terminal).await?;
        Ok(Exit::Success)
    }

    async fn write(&self, path: &Path, terminal: Terminal) -> anyhow::Result<()> {
        let project = Project::open(path).map_err(project_error)?;
        let place = place(&project, &self.name)?;
        let text = self.written(&project, &place)?;
        if text == project.text {
            terminal.message(format_args!("`{}` already has these rights", path.display()));
            return Ok(());
        }
        put(&project, &text).await?;
        terminal.message(format_args!("{DIM}{}:{DIM:#}", path.display()));
        terminal.new_lines(&project.text, &text);
        Ok(())
    }

    /// The text of program.toml with the rights.
    fn written(&self, project: &Project, place: &Place) -> anyhow::Result<String> {
        let begun = edit::begun(&project.text, project.folder());
        let failed = |error| project_error(ProjectError::Edit { path: project.path.clone(), error });
        let begun = match place {
            Place::Process(list, name, usual) if !usual.is_empty() => {
                edit::grant_process(&begun, list, name, usual).map_err(failed)?
            }
            _ => begun,
        };
        self.rights.iter().try_fold(begun, |text, wanted| {
            let edited = match (place, wanted) {
                (Place::Entry(..) | Place::Foreign(_), Wanted::Right(Right::Service(_))) => {
                    let hint = "commands and MCP servers of program.toml have it in their grant, `bash` in `[sandbox]`";
                    return Err(Hinted::new("`service` is a right of processes of program.toml", hint).into());
                }
                (Place::Sandbox, wanted) => edit::sandbox(&text, for_sandbox(wanted, &project.manifest)?.as_ref()),
                (Place::Process(list, name, _), wanted) => {
                    edit::grant_process(&text, list, name, &[for_process(wanted, project.folder())?])
                }
                (Place::Foreign(name), wanted) => {
                    let right = for_process(wanted, project.folder())?;
                    edit::grant(&text, Kind::Package, name, &[Request::Right(None, right)])
                }
                (Place::Entry(..), Wanted::Network) => {
                    let hint = format!("use `haft grant {} host=HOST`", self.name);
                    return Err(Hinted::new(
                        "`network` is a right of processes; plugins are granted single hosts",
                        hint,
                    )
                    .into());
                }
                (Place::Entry(kind, name), Wanted::Right(right)) => edit::grant(
                    &text,
                    *kind,
                    name,
                    &[Request::Right(None, from_folder(right, project.folder()))],
                ),
            };
            edited.map_err(failed)
        })
    }
}

/// What `[sandbox]` has of a right; `None` for the network.
fn for_sandbox(wanted: &Wanted, manifest: &Manifest) -> anyhow::Result<Option<Right>> {
    let has_hosts = manifest.sandbox.hosts.is_some();
    let right = match wanted {
        Wanted::Network => return Ok(has_hosts.then(|| Right::Host(HostPattern::any()))),
        Wanted::Right(right) => from_folder(right, &manifest.folder),
    };
    match right {
        Right::Host(_) if !has_hosts => anyhow::bail!(
            "`[sandbox]` has no `hosts`: child processes have the whole network, or none with `network = false`"
        ),
        Right::Read(_) if manifest.sandbox.read.is_none() => {
            anyhow::bail!(
                "`[sandbox]` has no `read`: everything is readable already, except credential stores and the \
                 paths of `deny`"
            )
        }
        Right::Env(_) | Right::State(_) | Right::Cache(_) => {
            let hint = "`[sandbox]` takes `read`, `write`, `credentials`, `services`, `hosts` and `network`";
            Err(Hinted::new(format!("`{right}` is a right of plugins"), hint).into())
        }
        right => Ok(Some(right)),
    }
}

/// What a process can be held to of a right.
fn for_process(wanted: &Wanted, folder: &Path) -> anyhow::Result<Right> {
    let right = match wanted {
        Wanted::Network => return Ok(Right::Host(HostPattern::any())),
        Wanted::Right(right) => from_folder(right, folder),
    };
    enforceable(&right)?;
    Ok(right)
}

/// `right` with a path that means in `folder` what it means in the current one.
fn from_folder(right: &Right, folder: &Path) -> Right {
    let is_here = std::env::current_dir().is_ok_and(|here| here == folder || folder.as_os_str().is_empty());
    let whole = |path: &String| match std::path::absolute(path) {
        Ok(whole) if !is_here && !path.starts_with('~') => whole.to_string_lossy().into_owned(),
        _ => path.clone(),
    };
    match right {
        Right::Read(path) => Right::Read(whole(path)),
        Right::Write(path) => Right::Write(whole(path)),
        Right::Service(service) => {
            Right::Service(service.clone().resolved(|path| whole(&path.to_string_lossy().into()).into()))
        }
        right => right.clone(),
    }
}

/// Where the rights of `name` stand: an entry of that name, the one whose tool it is, or `[sandbox]`.
fn place(project: &Project, name: &str) -> anyhow::Result<Place> {
    let manifest = &project.manifest;
    let plugins = manifest.plugins.iter().map(|plugin| (Kind::Plugin, plugin.name.as_str()));
    let packages = manifest.packages.iter().filter(|package| !package.source.value.is_foreign());
    let packages = packages.map(|package| (Kind::Package, package.name.as_str()));
    let entries: Vec<_> = plugins.chain(packages).collect();
    let owner = name.split_once("__").map_or(name, |(owner, _)| owner);
    if let Some((kind, entry)) = entries.iter().find(|(_, entry)| *entry == name || *entry == owner) {
        return Ok(Place::Entry(*kind, (*entry).to_owned()));
    }
    if let Some(package) = foreign(project, name)? {
        return Ok(Place::Foreign(package));
    }
    let processes = processes(manifest, &usual_rights(manifest, &Dirs::of_this_machine()?.home).rights());
    if let Some((list, own, usual)) =
        processes.iter().find(|(list, own, _)| is_of(manifest, (list, own), name))
    {
        return Ok(Place::Process(list, (*own).to_owned(), usual.clone()));
    }
    if OF_SANDBOX.contains(&name) {
        return Ok(Place::Sandbox);
    }
    let (of_skills, _) = skill_servers(manifest, &Dirs::of_this_machine()?);
    if let Some(server) =
        of_skills.iter().find(|own| is_of(manifest, ("mcp_servers", own.name.as_str()), name))
    {
        let name = server.name.as_str();
        let text = format!("`{name}` is a server of a skill, and program.toml has no entry of it");
        let hint = format!("write an `[[mcp_servers]]` entry `{name}` with its `command` and a `grant`");
        return Err(Hinted::new(text, hint).into());
    }
    let others = processes.iter().map(|(_, own, _)| *own).chain(OF_SANDBOX.iter().copied());
    let names = entries.iter().map(|(_, entry)| *entry).chain(others);
    let near = did_you_mean(name, names);
    Err(Hinted::new(
        format!("this program has no `{name}`{near}"),
        "`haft list` lists plugins and packages; `sandbox` is the name for `bash` and the built-in tools",
    )
    .into())
}

/// The package of npm, PyPI or a bundle that `name` means: its entry, its server or a tool of that.
fn foreign(project: &Project, name: &str) -> anyhow::Result<Option<String>> {
    let packages = project.manifest.packages.iter();
    let packages: Vec<_> = packages.filter(|package| package.source.value.is_foreign()).collect();
    if packages.is_empty() {
        return Ok(None);
    }
    let store = Store::new(&Dirs::of_this_machine()?.store);
    let is_of = |server: &str| server == name || haft_mcp::client::owns(server, name);
    let has = |package: &&&Package| {
        let own = package.name.as_str();
        is_of(own) || servers(&store, &project.lock, &package.name).iter().any(|server| is_of(server))
    };
    Ok(packages.iter().find(has).map(|package| package.name.to_string()))
}

/// The names of the servers of an installed package; none of one that cannot be read.
fn servers(store: &Store, lock: &Lock, package: &Name) -> Vec<String> {
    let bundle = || {
        let kept = &lock.find(Kind::Package, package.as_str())?.kept;
        Bundle::read(&store.tree(kept), store.listing(kept).ok()?).ok()?.called(package).ok()
    };
    let servers = bundle().map(|bundle| bundle.manifest.mcp_servers).unwrap_or_default();
    servers.iter().map(|server| server.name.to_string()).collect()
}

/// The MCP servers that are processes, and the commands: their lists, their names and what each has without a grant.
fn processes<'m>(manifest: &'m Manifest, usual: &[Right]) -> Vec<(&'static str, &'m str, Vec<Right>)> {
    let usual = |is_granted: bool| if is_granted { Vec::new() } else { usual.to_vec() };
    let servers =
        manifest.mcp_servers.iter().filter(|server| matches!(server.transport, Transport::Stdio { .. }));
    let servers = servers.map(|server| ("mcp_servers", server.name.as_str(), usual(server.grant.is_some())));
    let commands = manifest.tools.iter();
    servers.chain(commands.map(|tool| ("tools", tool.name.as_str(), usual(tool.grant.is_some())))).collect()
}

/// Whether `name` is a process of program.toml, or a tool of it.
fn is_of(manifest: &Manifest, (list, own): (&str, &str), name: &str) -> bool {
    let is_tool = match list {
        "mcp_servers" => haft_mcp::client::owns(own, name),
        _ => manifest.program.iter().any(|program| command::exposed_name(program.name.as_str(), own) == name),
    };
    own == name || is_tool
}

const OF_SANDBOX: &[&str] = &["sandbox", "bash", "read", "write", "edit"];
