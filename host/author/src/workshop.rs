//! Builds a project: its language makes a component, haft finishes it and puts it in its place. What
//! stood there stays until the new one is whole; a build that fails changes nothing. What would be built as it is there
//! already is not built again.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use xxhash_rust::xxh3::xxh3_64;

use super::build::{Build, read};
use super::project::Project;
use super::record::{self, Now, Record};
use super::sources::{Files, changed};
use super::toolchain::{BuildLog, Runner, Tool};
use super::wit::Wit;
use super::{language, pack};
use haft_sandbox::confine::Confiner;

/// Where projects are built.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// What watches over tools, [`Confiner::open`]: they are the author's own, and not confined.
    pub confiner: Confiner,
    /// Where they speak.
    pub log: BuildLog,
    /// haft's cache: compilers that several projects name, and what components were built of.
    pub cache: PathBuf,
    /// Whether components keep what debuggers and profilers need: their DWARF and the names of their functions.
    pub debug: bool,
    /// Whether to build a component also where it is what would be built.
    pub again: bool,
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
    /// Whether it was there already, and none of its tools had to run.
    pub was_there: bool,
}

impl Workshop {
    /// Builds `project`, unless its component is of the same sources, tools and haft.
    pub async fn build(&self, project: &Project) -> anyhow::Result<Built> {
        let started = Instant::now();
        let runner = Runner::new(self.confiner.clone(), &project.folder, self.log.clone())
            .with_context(|| format!("cannot work in `{}`", project.folder.display()))?;
        // Before any tool complains of it in its own words.
        let wit = project.wit()?;
        let build = Build::new(project, runner, self.debug, &self.cache);
        let tool = prepare(&build).await?;
        let now = Now {
            made_with: made_with(&build),
            added: xxh3_64(project.program()?.as_bytes()),
            debug: self.debug,
        };
        let known = Record::read(project, &self.cache).filter(|_| !self.again);
        let (component, was_there) = match known.filter(|record| record.is_current(project, &now)) {
            Some(record) => (self.finish_again(&build, record, now.added)?, true),
            None => (self.make(&build, tool, wit.as_ref(), &now).await?, false),
        };
        Ok(Built {
            component: project.component.clone(),
            bytes: component.len() as u64,
            tools: build.tools(),
            time: started.elapsed(),
            was_there,
        })
    }

    async fn make(
        &self,
        build: &Build<'_>,
        tool: Option<Tool>,
        wit: Option<&Wit>,
        now: &Now,
    ) -> anyhow::Result<Vec<u8>> {
        let project = build.project;
        let before = record::files(project, &Files::new());
        let made = match (tool, project.command()) {
            (Some(tool), _) => language::of_project(project)?.build(build, tool).await?,
            (None, command) => build.command(command.unwrap_or_default()).await?,
        };
        let finished = build.finish(made, wit)?;
        pack::write(&project.component, &finished)?;
        let after = record::files(project, &before);
        // Of a file that changed meanwhile nobody knows whether the tools saw it before or after.
        if changed(&before, &after).is_empty() {
            Record::write(project, &self.cache, after, &build.inputs(), now);
        }
        Ok(finished)
    }

    /// The component that is there, with what program.toml says now.
    fn finish_again(&self, build: &Build<'_>, record: Record, added: u64) -> anyhow::Result<Vec<u8>> {
        let component = read(&build.project.component)?;
        if record.added == added {
            return Ok(component);
        }
        let finished = build.add(&component, None, None)?;
        pack::write(&build.project.component, &finished)?;
        record.finished(&self.cache, added);
        Ok(finished)
    }
}

/// The tool of the project's language; `None` where a command builds it.
async fn prepare(build: &Build<'_>) -> anyhow::Result<Option<Tool>> {
    match build.project.command() {
        Some(_) => Ok(None),
        None => language::of_project(build.project)?.prepare(build).await.map(Some),
    }
}

/// Variables that change what the tools make.
const VARIABLES: &[&str] = &["CARGO_ENCODED_RUSTFLAGS", "GOFLAGS", "RUSTFLAGS"];

/// The hash of what makes a component, its sources apart.
fn made_with(build: &Build<'_>) -> u64 {
    let mut text = format!("{}\n{:?}\n{:?}\n", haft(), build.tools(), build.project.command());
    let (wit, world) = (build.project.wit_path(), build.project.world());
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{wit:?}\n{world:?}");
    for name in VARIABLES {
        let _ = writeln!(text, "{:?}", std::env::var_os(name));
    }
    xxh3_64(text.as_bytes())
}

/// This haft: its version, and the file that it is, since one that is worked on keeps its version.
fn haft() -> String {
    let file = std::env::current_exe().and_then(|path| path.metadata());
    let file = file.map(|metadata| (metadata.len(), metadata.modified().ok())).ok();
    format!("{} {file:?}", env!("CARGO_PKG_VERSION"))
}
