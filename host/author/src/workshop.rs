//! Builds a project: its language makes a component, haft finishes it and puts it in its place. What
//! stood there stays until the new one is whole; a build that fails changes nothing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::build::Build;
use super::project::Project;
use super::toolchain::{BuildLog, Runner};
use super::{language, pack};
use haft_sandbox::confine::Confiner;

/// Where projects are built.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// What watches over tools, [`Confiner::open`]: they are the author's own, and not confined.
    pub confiner: Confiner,
    /// Where they speak.
    pub log: BuildLog,
    /// Where compilers are kept that several projects name.
    pub toolchains: PathBuf,
    /// Whether components keep what debuggers and profilers need: their DWARF and the names of their functions.
    pub debug: bool,
}

/// What came of a build.
#[derive(Debug)]
pub struct Built {
    /// The component.
    pub component: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What made it, such as `zig 0.17.1`.
    pub tools: Vec<String>,
    /// How long that took.
    pub time: Duration,
}

impl Workshop {
    /// Builds `project`.
    pub async fn build(&self, project: &Project) -> anyhow::Result<Built> {
        let started = Instant::now();
        let runner = Runner::new(self.confiner.clone(), &project.folder, self.log.clone())
            .with_context(|| format!("cannot work in `{}`", project.folder.display()))?;
        // Before any tool complains of it in its own words.
        let wit = project.wit()?;
        let build = Build::new(project, runner, self.debug, self.toolchains.clone());
        let made = match project.command() {
            Some(words) => build.command(words).await?,
            None => language::of_project(project)?.build(&build).await?,
        };
        let finished = build.finish(made, wit.as_ref())?;
        pack::write(&project.component, &finished)?;
        let tools = build.into_tools();
        let (component, bytes) = (project.component.clone(), finished.len() as u64);
        Ok(Built { component, bytes, tools, time: started.elapsed() })
    }
}
