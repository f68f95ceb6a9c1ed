//! `haft plugin new` and `haft plugin build`: creates a plugin project, completely or not at all, and builds its source into
//! a component with its metadata.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::common::Common;
use super::terminal::Terminal;
use haft::program::{Dirs, FILE_NAME};
use haft_author::record::Stale;
use haft_author::template::{self, ProjectName};
use haft_author::{BuildLog, Built, Language, Project, Style, Workshop, language, pack};
use haft_core::report::{Problem, Report, plain};
use haft_sandbox::confine::Confiner;

/// Number of folders above a component that are searched for its project.
const MAX_ABOVE: usize = 4;

/// Maximum number of files in a message about an outdated component.
const MAX_NAMED: usize = 3;

#[derive(Debug, Args)]
#[command(after_help = "A component is built again only if its sources, the tools or haft have changed. A \
`[build] command` runs each time.")]
pub(super) struct Build {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Keep data for debuggers and profilers: DWARF and function names
    #[arg(long)]
    debug: bool,
    /// Build even if the sources and tools have not changed
    #[arg(long)]
    force: bool,
}

impl Build {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let project = Project::open(&self.folder)?;
        // Only the build command knows which files it reads.
        let again = self.force || project.command().is_some();
        let way = Way { debug: self.debug, again };
        let built = until_interrupted(terminal, way, async |workshop| workshop.build(&project).await).await?;
        if terminal.json {
            terminal.json(&json!({
                "component": built.component,
                "bytes": built.bytes,
                "tools": built.tools,
                "milliseconds": u64::try_from(built.time.as_millis()).unwrap_or(u64::MAX),
                "was_there": built.was_there,
            }))?;
            return Ok(Exit::Success);
        }
        report_built(terminal, &project, &built);
        let component = relative(&built.component);
        let is_here = std::env::current_dir().is_ok_and(|here| here == project.folder);
        let go = if is_here { String::new() } else { format!("`cd {}`, ", relative(&project.folder)) };
        let plugin = &project.plugin;
        terminal.message(format_args!(
            "next: `haft check {component}`; {go}`haft tools`, `haft call {plugin}__TOOL`"
        ));
        Ok(Exit::Success)
    }
}

pub(super) fn report_built(terminal: Terminal, project: &Project, built: &Built) {
    let (name, size) = (project.relative(&built.component).display(), pack::size(built.bytes));
    let time = built.time.as_secs_f64();
    let tools =
        if built.tools.is_empty() { String::new() } else { format!(" with {}", built.tools.join(", ")) };
    if built.was_there {
        terminal.message(format_args!("`{name}` is up to date: {size}{tools}"));
    } else {
        terminal.message(format_args!("built `{name}`: {size}, in {time:.1} s{tools}"));
    }
}

/// Builds the project of the program in use if `tool` belongs to its component and the component is older than its
/// sources.
pub(super) async fn freshen(common: &Common, terminal: Terminal, tool: &str) -> anyhow::Result<()> {
    let file = common.program.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
    let Some(project) = Project::of_file(&file).filter(|project| is_tool_of(tool, &project.plugin)) else {
        return Ok(());
    };
    let Some(stale) = Stale::of(&project, &cache()?) else { return Ok(()) };
    terminal.message(format_args!("{}; building it", described(&stale)));
    let way = Way { debug: stale.debug, again: false };
    let built = until_interrupted(terminal, way, async |workshop| workshop.build(&project).await).await?;
    report_built(terminal, &project, &built);
    Ok(())
}

fn is_tool_of(tool: &str, plugin: &str) -> bool {
    tool.strip_prefix(plugin).is_some_and(|rest| rest.starts_with("__"))
}

/// Returns a text such as ``words.wasm` is out of date: `src/lib.rs` changed``.
pub(super) fn described(stale: &Stale) -> String {
    let name = |path: &PathBuf| format!("`{}`", plain(&relative(path)));
    let named: Vec<_> = stale.changed.iter().take(MAX_NAMED).map(name).collect();
    let more = match stale.changed.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let component = plain(&relative(&stale.component));
    format!("`{component}` is out of date: {}{more} changed", named.join(", "))
}

/// Refuses to distribute a component that is older than its sources, because the current sources are untested.
pub(super) fn refuse_stale(what: &Path, doing: &str) -> anyhow::Result<()> {
    match stale(what)? {
        Some(stale) => {
            let problem =
                Problem::new(described(&stale)).hint(format!("run `haft plugin build`, then {doing} again"));
            Err(Report::from(problem).into())
        }
        None => Ok(()),
    }
}

pub(super) fn refuse_no_package(folder: &Path) -> anyhow::Result<()> {
    if folder.join(FILE_NAME).exists() {
        return Ok(());
    }
    let problem = Problem::new(format!("no package in `{}`: no {FILE_NAME}", folder.display()));
    let hint =
        "give a component or a package's folder; `haft plugin new --lang rust my-tool` creates a project";
    Err(Report::from(problem.hint(hint)).into())
}

/// Returns the outdated component of a project, which is named by its file or by the project's folder.
pub(super) fn stale(what: &Path) -> anyhow::Result<Option<Stale>> {
    let project = |folder: &Path| Project::of_file(&folder.join(FILE_NAME));
    let is_it = |project: &Project| is_same(what, &project.component);
    let found = if what.is_dir() {
        project(what)
    } else {
        // A component may be in a subfolder of the project.
        what.ancestors().skip(1).take(MAX_ABOVE).find_map(project).filter(is_it)
    };
    Ok(match found {
        Some(project) => Stale::of(&project, &cache()?),
        None => None,
    })
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Returns a warning about an outdated component, for verbs that work nevertheless.
pub(super) fn stale_warning(what: &Path) -> anyhow::Result<Option<Problem>> {
    let hint = "run `haft plugin build`; `haft call` and `haft plugin test` build automatically";
    Ok(stale(what)?.map(|stale| Problem::new(described(&stale)).hint(hint).warning()))
}

pub(super) fn relative(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(here).unwrap_or(path);
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// Returns the folder for the compilers that projects share, and for the records of built sources.
pub(super) fn cache() -> anyhow::Result<PathBuf> {
    Ok(Dirs::of_this_machine()?.cache)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) debug: bool,
    pub(super) again: bool,
}

/// Runs `work` with the author's build tools, and ends them at Ctrl-C.
pub(super) async fn until_interrupted<T>(
    terminal: Terminal,
    way: Way,
    work: impl AsyncFnOnce(&Workshop) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cancel = CancellationToken::new();
    let log = BuildLog { events: terminal.work(), cancel: cancel.clone() };
    let Way { debug, again } = way;
    let workshop = Workshop { confiner: Confiner::open(), log, cache: cache()?, debug, again };
    let mut work = std::pin::pin!(work(&workshop));
    tokio::select! {
        done = &mut work => done,
        _ = tokio::signal::ctrl_c() => {
            cancel.cancel();
            work.await
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft plugin new --lang rust my-tool
  haft plugin new --lang python tools/my-tool")]
pub(super) struct New {
    /// The language to write it in: `rust`, `python`, `js`, `go` or `c`
    #[arg(short, long, value_name = "LANGUAGE", value_parser = known)]
    lang: &'static dyn Language,
    /// Use haft's SDK for the language (Rust only)
    #[arg(long)]
    sdk: bool,
    /// The folder to create; its last part is the plugin's name
    #[arg(value_name = "NAME")]
    folder: PathBuf,
}

impl New {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = ProjectName::new(&name)?;
        let style = if self.sdk { Style::Sdk } else { Style::Typed };
        let paths = template::create(self.lang, style, &name, &self.folder)?;
        let shown = self.folder.display();
        if terminal.json {
            terminal.json(&serde_json::json!({ "folder": self.folder, "files": paths }))?;
            return Ok(Exit::Success);
        }
        let facts = self.lang.facts();
        let (begin, title) = (facts.template(style).map_or("", |template| template.begin), facts.title);
        terminal.message(format_args!("created `{shown}`, a plugin in {title}: start with {begin}"));
        terminal.message(format_args!(
            "next: `cd {shown} && haft plugin build`, or `haft plugin dev` there to build on every change"
        ));
        Ok(Exit::Success)
    }
}

fn known(name: &str) -> Result<&'static dyn Language, String> {
    language::find(name).ok_or_else(|| language::unknown(name))
}
