//! Builds a project: its language builds a component, haft completes it and replaces the old one. The old
//! component stays until the new one is complete; a failed build changes nothing. A build without changes runs
//! no tools.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use xxhash_rust::xxh3::xxh3_64;

use super::build::{Build, read};
use super::project::Project;
use super::record::{self, Now, Record};
use super::sources::{Files, changed};
use super::toolchain::{BuildLog, Tool};
use super::wit::Wit;
use super::{language, pack};
use haft_sandbox::confine::Confiner;

/// The settings of builds.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// Supervises the tools; usually [`Confiner::open`], because the author's own tools are not confined.
    pub confiner: Confiner,
    /// Receives the output of the tools.
    pub log: BuildLog,
    /// haft's cache: shared compilers, and the records of built components.
    pub cache: PathBuf,
    /// Whether components keep their debug information: DWARF and function names.
    pub debug: bool,
    /// Whether to build even without changes.
    pub again: bool,
}

/// The result of a build.
#[derive(Debug)]
pub struct Built {
    /// The component's path.
    pub component: PathBuf,
    /// The component's size in bytes.
    pub bytes: u64,
    /// The tools, such as `zig 0.17.1`.
    pub tools: Vec<String>,
    /// The duration of the build.
    pub time: Duration,
    /// Whether the component was up to date, so that no tool ran.
    pub was_there: bool,
}

impl Workshop {
    /// Builds `project`, unless its sources, tools and haft are unchanged.
    pub async fn build(&self, project: &Project) -> anyhow::Result<Built> {
        let started = Instant::now();
        let runs = (self.confiner.clone(), self.log.clone());
        let build = Build::new(project, runs, self.debug, &self.cache)
            .with_context(|| format!("cannot work in `{}`", project.folder.display()))?;
        // Checked before a tool reports the error in its own words.
        let wit = project.wit()?;
        let tool = match project.command() {
            Some(_) => None,
            None => Some(language::of_project(project)?.prepare(&build).await?),
        };
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
        // A file that changed during the build may have been read before or after the change.
        if changed(&before, &after).is_empty() {
            Record::write(project, &self.cache, after, &build.inputs(), now);
        }
        Ok(finished)
    }

    /// Returns the existing component with the current program.toml.
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

/// Environment variables that affect the tools' output.
const VARIABLES: &[&str] = &["CARGO_ENCODED_RUSTFLAGS", "GOFLAGS", "RUSTFLAGS"];

/// Returns the hash of everything that affects a component, except its sources.
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

/// Identifies this haft by its version, and by its executable's size and time, because development builds have
/// one version.
fn haft() -> String {
    let file = std::env::current_exe().and_then(|path| path.metadata());
    let file = file.map(|metadata| (metadata.len(), metadata.modified().ok())).ok();
    format!("{} {file:?}", env!("CARGO_PKG_VERSION"))
}
