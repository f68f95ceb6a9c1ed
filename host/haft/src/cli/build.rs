//! `haft build`: from the source of a plugin project to a component that says everything itself.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::terminal::Terminal;
use haft::program::Dirs;
use haft_author::{BuildLog, Built, Project, Workshop, pack};
use haft_sandbox::confine::Confiner;

#[derive(Debug, Args)]
pub(super) struct Build {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Keep what debuggers and profilers need: DWARF and the names of functions
    #[arg(long)]
    debug: bool,
}

impl Build {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let project = Project::open(&self.folder)?;
        let built =
            until_interrupted(terminal, self.debug, async |workshop| workshop.build(&project).await).await?;
        if terminal.json {
            terminal.json(&json!({
                "component": built.component,
                "bytes": built.bytes,
                "tools": built.tools,
                "milliseconds": u64::try_from(built.time.as_millis()).unwrap_or(u64::MAX),
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

/// One line about what was built.
pub(super) fn report_built(terminal: Terminal, project: &Project, built: &Built) {
    let (name, size) = (project.relative(&built.component).display(), pack::size(built.bytes));
    let time = built.time.as_secs_f64();
    let tools =
        if built.tools.is_empty() { String::new() } else { format!(" with {}", built.tools.join(", ")) };
    terminal.message(format_args!("built `{name}`: {size}, in {time:.1} s{tools}"));
}

/// A path as a person here would write it.
pub(super) fn relative(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(here).unwrap_or(path);
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// Where compilers are kept that several projects name.
pub(super) fn toolchains() -> anyhow::Result<PathBuf> {
    Ok(Dirs::of_this_machine()?.cache.join("toolchains"))
}

/// Lets `work` use the author's tools, and ends them at Ctrl-C.
pub(super) async fn until_interrupted<T>(
    terminal: Terminal,
    debug: bool,
    work: impl AsyncFnOnce(&Workshop) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cancel = CancellationToken::new();
    let log = BuildLog { events: terminal.work(), cancel: cancel.clone() };
    let workshop = Workshop { confiner: Confiner::open(), log, toolchains: toolchains()?, debug };
    let mut work = std::pin::pin!(work(&workshop));
    tokio::select! {
        done = &mut work => done,
        _ = tokio::signal::ctrl_c() => {
            cancel.cancel();
            work.await
        }
    }
}
