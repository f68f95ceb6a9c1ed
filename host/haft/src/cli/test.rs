//! `haft plugin test`: builds a plugin project if it changed, and runs its tests, each in a fresh instance.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::terminal::{DIM, FAILED, GOOD, Hinted, Terminal};
use super::{Exit, build};
use haft::program::Dirs;
use haft_author::suite::property::{self, Searched};
use haft_author::suite::{Bench, Case, Ran, Suite};
use haft_author::{Interrupted, Project};
use haft_core::limit::Limits;
use haft_plugin_host::{Engine, EngineOptions, Plugin, Source};

/// Maximum number of calls of one tool with random arguments.
const MAX_CALLS: u64 = 1_000_000;

#[derive(Debug, Args)]
#[command(after_help = "A test is a call and its expected answer, in tests/*.toml of the project:
  [[test]]
  name = \"the most frequent word is first\"
  tool = \"top-words\"
  arguments = { text = \"a b a\" }
  json = [{ word = \"a\", times = 2 }, { word = \"b\", times = 1 }]")]
pub(super) struct Test {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Run only the tests with this text in their name or file name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Store the answers of tests with `snapshot = true` as the expected answers
    #[arg(long)]
    bless: bool,
    /// Test the existing component; do not build
    #[arg(long)]
    no_build: bool,
    /// Call each tool with random arguments too [100 times]: a trap is a failure
    #[arg(long, value_name = "CALLS", num_args = 0..=1, require_equals = true, default_missing_value = "100",
          value_parser = clap::value_parser!(u64).range(1..=MAX_CALLS))]
    property: Option<u64>,
    /// The seed of the random arguments
    #[arg(long, default_value_t = 1, requires = "property")]
    seed: u64,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    blessed: usize,
    time: Duration,
}

struct Runner {
    terminal: Terminal,
    bench: Bench,
    bless: bool,
    /// Whether only failures are printed.
    quiet: bool,
}

impl Test {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let project = Project::open(&self.folder)?;
        let suite = self.chosen(Suite::read(&project.folder)?)?;
        if !self.no_build {
            let way = build::Way::default();
            let built =
                build::until_interrupted(terminal, way, async |workshop| workshop.build(&project).await)
                    .await?;
            build::report_built(terminal, &project, &built);
        }
        let cancel = CancellationToken::new();
        let bench = bench(&project, terminal, cancel.clone()).await?;
        let runner = Runner { terminal, bench, bless: self.bless, quiet: false };
        let mut all = std::pin::pin!(self.run(&runner, &suite));
        let tally = tokio::select! {
            tally = &mut all => tally?,
            _ = tokio::signal::ctrl_c() => {
                cancel.cancel();
                return Err(Interrupted.into());
            }
        };
        terminal.message(tally.summary());
        Ok(if tally.failed > 0 { Exit::Tool } else { Exit::Success })
    }

    async fn run(&self, runner: &Runner, suite: &Suite) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        runner.suite(suite, &mut tally).await?;
        if let Some(calls) = self.property {
            runner.property(usize::try_from(calls)?, self.seed, &mut tally).await?;
        }
        Ok(tally)
    }

    /// Returns the chosen tests, of which there must be at least one.
    fn chosen(&self, mut suite: Suite) -> anyhow::Result<Suite> {
        if suite.is_empty() && self.property.is_none() {
            let hint = "write one into `tests/NAME.toml`: see `haft plugin test --help`; or use `--property` \
                to generate arguments";
            return Err(Hinted::new("the project has no tests", hint).into());
        }
        let Some(text) = &self.only else { return Ok(suite) };
        for file in &mut suite.files {
            let has = file.path.to_string_lossy().contains(text.as_str());
            file.cases.retain(|case| has || case.name.contains(text.as_str()));
        }
        anyhow::ensure!(!suite.is_empty(), "no test has `{text}` in its name or its file's");
        Ok(suite)
    }
}

/// Runs the tests of a project that was just built, if it has any, and prints the failures.
pub(super) async fn after_build(
    folder: &Path,
    terminal: Terminal,
    cancel: CancellationToken,
) -> anyhow::Result<()> {
    let project = Project::open(folder)?;
    let suite = Suite::read(&project.folder)?;
    if suite.is_empty() {
        return Ok(());
    }
    let bench = bench(&project, terminal, cancel).await?;
    let mut tally = Tally::default();
    Runner { terminal, bench, bless: false, quiet: true }.suite(&suite, &mut tally).await?;
    terminal.message(tally.summary());
    Ok(())
}

async fn bench(project: &Project, terminal: Terminal, cancel: CancellationToken) -> anyhow::Result<Bench> {
    let dirs = Dirs::of_this_machine()?;
    let cache = Some(dirs.cache.join("components"));
    let options =
        EngineOptions { cache, events: terminal.loading(), tiered: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let declared = project.manifest.plugins.iter().find(|plugin| plugin.name.as_str() == project.plugin);
    let limits = declared.map_or_else(Limits::default, |plugin| plugin.limits);
    let source = Source::File(project.component.clone());
    let plugin = Plugin::load(&engine, &project.plugin, source, &limits).await;
    let plugin =
        plugin.with_context(|| format!("`{}` cannot be loaded", build::relative(&project.component)))?;
    Ok(Bench::new(plugin, limits, &project.folder, cancel))
}

impl Runner {
    async fn suite(&self, suite: &Suite, tally: &mut Tally) -> anyhow::Result<()> {
        for file in &suite.files {
            if !self.quiet && !file.cases.is_empty() {
                self.page(&file.path.display().to_string())?;
            }
            for case in &file.cases {
                let ran = self.bench.run(&file.path, case, self.bless).await;
                let ran = ran.with_context(|| format!("`{}` of `{}`", case.name, file.path.display()))?;
                tally.count(&ran);
                self.tell(&file.path, case, &ran)?;
            }
        }
        Ok(())
    }

    fn tell(&self, file: &Path, case: &Case, ran: &Ran) -> anyhow::Result<()> {
        if self.terminal.json && !self.quiet {
            let milliseconds = ran.time.as_secs_f64() * 1000.0;
            return Ok(self.terminal.json_line(&json!({
                "file": file,
                "test": case.name,
                "passed": ran.complaints.is_empty(),
                "complaints": ran.complaints,
                "blessed": ran.blessed,
                "milliseconds": milliseconds,
            }))?);
        }
        if ran.complaints.is_empty() {
            let kept = if ran.blessed { ", kept" } else { "" };
            let time = ran.time.as_millis();
            return self.page(&format!("  {GOOD}ok{GOOD:#}    {} {DIM}({time} ms{kept}){DIM:#}", case.name));
        }
        // In quiet mode the file was not printed before.
        let of_file = if self.quiet { format!("{}: ", file.display()) } else { String::new() };
        let mut text = format!("  {FAILED}FAIL{FAILED:#}  {of_file}{}", case.name);
        for line in ran.complaints.iter().flat_map(|complaint| complaint.lines()) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n        {line}");
        }
        self.always(&text)
    }

    async fn property(&self, calls: usize, seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
        self.page(&format!("random arguments, --seed {seed}"))?;
        for tool in self.bench.tools() {
            let searched = property::search(&self.bench, tool, calls, seed).await?;
            tally.search(&searched);
            if self.terminal.json {
                let finding =
                    if let Searched::Finding(finding) = &searched { finding.json() } else { json!(null) };
                let passed = matches!(searched, Searched::Nothing(_));
                self.terminal
                    .json_line(&json!({ "tool": tool.name, "passed": passed, "finding": finding }))?;
                continue;
            }
            self.always(&match searched {
                Searched::Nothing(calls) => {
                    format!("  {GOOD}ok{GOOD:#}    {} {DIM}({calls} calls){DIM:#}", tool.name)
                }
                Searched::NoArguments => {
                    format!(
                        "  {FAILED}FAIL{FAILED:#}  {}\n        cannot generate arguments for its schema",
                        tool.name
                    )
                }
                Searched::Finding(found) => format!(
                    "  {FAILED}FAIL{FAILED:#}  {}\n        {}\n        with {} (call {})",
                    tool.name, found.end, found.arguments, found.calls
                ),
            })?;
        }
        Ok(())
    }

    /// Prints a line, unless only failures or JSON are printed.
    fn page(&self, text: &str) -> anyhow::Result<()> {
        if self.quiet || self.terminal.json { Ok(()) } else { self.always(text) }
    }

    fn always(&self, text: &str) -> anyhow::Result<()> {
        if self.quiet {
            self.terminal.message(text);
            return Ok(());
        }
        Ok(self.terminal.data(text)?)
    }
}

impl Tally {
    fn count(&mut self, ran: &Ran) {
        self.time += ran.time;
        self.blessed += usize::from(ran.blessed);
        if ran.complaints.is_empty() { self.passed += 1 } else { self.failed += 1 }
    }

    fn search(&mut self, searched: &Searched) {
        if matches!(searched, Searched::Nothing(_)) { self.passed += 1 } else { self.failed += 1 }
    }

    fn summary(&self) -> String {
        let (passed, failed, time) = (self.passed, self.failed, self.time.as_secs_f64());
        let kept = match self.blessed {
            0 => String::new(),
            1 => ", 1 answer stored".to_owned(),
            several => format!(", {several} answers stored"),
        };
        let style = if failed > 0 { FAILED } else { GOOD };
        format!("{style}tests: {passed} passed, {failed} failed{kept}{style:#} in {time:.1} s")
    }
}
