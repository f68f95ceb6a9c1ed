//! The report of `haft doctor` on the program.toml in use. `haft check` lists its errors.

use haft::program::{Program, ProgramHook};
use serde::Serialize;

use super::{Line, Mark};
use haft_core::grant::Reach;
use haft_core::report::Report;
use haft_plugin_host::{Engine, EngineOptions, LandlockState};

#[derive(Serialize)]
pub(super) struct Found {
    /// The path of the file. `None` if it does not exist.
    file: Option<String>,
    tools: usize,
    problems: usize,
    /// The error that prevents any use of the file.
    error: Option<String>,
    sandbox: Option<Rights>,
    hooks: Vec<Hook>,
}

/// A plugin that sees calls as a hook, with the number of tools.
#[derive(Serialize)]
struct Hook {
    name: String,
    tools: usize,
    absent: bool,
    #[serde(skip)]
    what: String,
}

/// The rights of the program's commands.
#[derive(Serialize)]
struct Rights {
    mode: &'static str,
    write: Vec<String>,
    network: bool,
    unix_sockets: bool,
    hosts: Vec<String>,
    services: Vec<String>,
}

impl Found {
    pub(super) fn new(loaded: &anyhow::Result<Program>) -> Self {
        let nothing =
            Self { file: None, tools: 0, problems: 0, error: None, sandbox: None, hooks: Vec::new() };
        match loaded {
            Ok(program) => Self {
                file: Some(program.manifest.source.name().to_owned()).filter(|name| !name.is_empty()),
                tools: program.toolbox.entries().len(),
                problems: program.problems.len(),
                sandbox: Some(Rights::from_program(program)),
                hooks: program.hooks().map(Hook::new).collect(),
                ..nothing
            },
            Err(error) => match error.downcast_ref::<Report>() {
                Some(report) => Self { problems: report.problems().len(), error: first(report), ..nothing },
                None => Self { problems: 1, error: Some(format!("{error:#}")), ..nothing },
            },
        }
    }

    pub(super) fn is_right(&self) -> bool {
        self.problems == 0
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let file = self.file.as_deref().unwrap_or("none: the built-in tools only");
        let line = match (&self.error, self.problems) {
            (Some(error), _) => Line::new(Mark::Bad, "program.toml", format!("cannot be used: {error}")),
            (None, 0) => Line::new(Mark::Good, "program.toml", format!("{file}, {} tools", self.tools)),
            (None, count) => {
                let what = if count == 1 { "problem" } else { "problems" };
                Line::new(
                    Mark::Warning,
                    "program.toml",
                    format!("{file}, {} tools, {count} {what}", self.tools),
                )
            }
        };
        let hint = (!self.is_right()).then_some("run `haft check` to see each problem and its place");
        let program = std::iter::once(line.hint(hint)).chain(self.sandbox.as_ref().map(Rights::line));
        program.chain(self.hooks.iter().map(Hook::line)).collect()
    }
}

impl Hook {
    fn new(hook: ProgramHook<'_>) -> Self {
        let ProgramHook { name, tools, is_absent } = hook;
        Self { name: name.to_owned(), tools, absent: is_absent, what: hook.to_string() }
    }

    fn line(&self) -> Line {
        let mark = if self.absent { Mark::Bad } else { Mark::Good };
        Line::new(mark, format!("hook {}", self.name), self.what.clone())
    }
}

fn first(report: &Report) -> Option<String> {
    report.problems().first().map(|problem| problem.message().to_owned())
}

impl Rights {
    fn from_program(program: &Program) -> Self {
        let grant = &program.grant;
        let write = match grant.writable() {
            Reach::Anywhere => vec!["/".to_owned()],
            Reach::Roots(roots) => roots.iter().map(|root| root.path().display().to_string()).collect(),
        };
        Self {
            mode: program.manifest.sandbox.mode.as_str(),
            write,
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
            hosts: grant.child_hosts().iter().map(ToString::to_string).collect(),
            services: grant.services().iter().map(ToString::to_string).collect(),
        }
    }

    fn line(&self) -> Line {
        let on = |is_on, single: &[String]| match single {
            _ if is_on => "on".to_owned(),
            [] => "off".to_owned(),
            single => single.join(", "),
        };
        let network = on(self.network, &self.hosts);
        let sockets = on(self.unix_sockets, &self.services);
        let text = format!("mode `{}`, network {network}, unix sockets {sockets}", self.mode);
        let mark = if self.write.iter().any(|root| root == "/") { Mark::Warning } else { Mark::Good };
        Line::new(mark, "commands", text).more([format!("write {}", self.write.join(", "))])
    }
}

// The confinement of plugins besides their preopened directories.

/// The kernel's part of the confinement.
#[derive(Serialize)]
pub(super) struct Plugins {
    landlock: &'static str,
    /// The missing part, and the reason.
    lacks: Option<String>,
}

const FULL: &str = "full";
const PARTIAL: &str = "partial";
const NONE: &str = "none";

impl Plugins {
    /// Reads the state from an engine that runs no plugin.
    pub(super) fn gather() -> Self {
        let state = Engine::new(&EngineOptions::default()).landlock_state();
        let landlock = match state {
            LandlockState::Full => FULL,
            LandlockState::Partial { .. } => PARTIAL,
            LandlockState::None { .. } => NONE,
        };
        Self { landlock, lacks: (landlock != FULL).then(|| state.to_string()) }
    }

    pub(super) fn line(&self) -> Line {
        let (mark, text) = match &self.lacks {
            None => (Mark::Good, "full: the kernel also blocks writing elsewhere"),
            Some(lacks) => (Mark::Warning, lacks.as_str()),
        };
        Line::new(mark, "second layer", text)
    }
}
