//! `haft doctor`: what this machine offers, whether the sandbox holds, and what stands in the way of
//! working. It refuses to end at the first thing that is wrong, and to print a secret.

mod machine;
mod page;
mod program;
mod providers;
mod sandbox;
mod sealed;
mod tools;
mod workers;

use clap::Args;
use serde::Serialize;

use self::machine::{Machine, Place};
use self::page::Section;
use self::program::{Found, Plugins};
use self::providers::Providers;
pub(super) use self::providers::is_ollama_there;
use self::sandbox::Sandbox;
use self::sealed::Sealed;
use self::tools::Tool;
use self::workers::{Server, Workers};
use super::Exit;
use super::common::Common;
use super::terminal::Terminal;
use super::trusted;
use haft::program::{Dirs, Options, Program};

#[derive(Debug, Args)]
#[command(after_help = "\
The self-test starts a process as confined as `bash` is, which tries to get out in every way that
is known. It touches nothing but files that were made for it. Exit code 6 says that the sandbox
does not hold what it should; what a reduced sandbox cannot hold is listed, and is no failure.")]
pub(super) struct Doctor {}

/// Everything that was found out, in the order in which it is shown.
#[derive(Serialize)]
struct Diagnosis {
    machine: Machine,
    sandbox: Sandbox,
    sealed: Sealed,
    plugins: Plugins,
    program: Found,
    servers: Vec<Server>,
    workers: Workers,
    places: Vec<Place>,
    tools: Vec<Tool>,
    providers: Providers,
}

impl Doctor {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let options = common.options(terminal, false)?;
        let trust = trusted::or_left_out(options.trust.clone());
        let diagnosis = Diagnosis::make(Options { trust, ..options }).await?;
        if terminal.json {
            terminal.json(&diagnosis)?;
        } else {
            terminal.data(&page::render(&diagnosis.machine.title(), &diagnosis.sections()))?;
        }
        Ok(diagnosis.exit())
    }
}

impl Diagnosis {
    async fn make(options: Options) -> anyhow::Result<Self> {
        // Without a home there is nothing to look at, and the error says what to do.
        let dirs = Dirs::of_this_machine()?;
        let confiner = options.confiner.clone().unwrap_or_default();
        let loaded = Program::load(&Options { confiner: Some(confiner.clone()), ..options }).await;
        let machine = Machine::gather();
        let program = loaded.as_ref().ok();
        let grant = program.map(|program| &program.grant);
        let sandbox = Sandbox::test(&confiner, grant, &dirs, machine.container).await;
        let sealed = Sealed::test(&confiner, &dirs).await;
        Ok(Self {
            tools: tools::find_tools(&confiner, &dirs, sandbox.is_refused()).await,
            providers: Providers::gather(program).await,
            places: machine::inspect_dirs(&dirs),
            servers: workers::list_servers(program),
            workers: Workers::gather(program).await,
            program: Found::new(&loaded),
            plugins: Plugins::gather(),
            machine,
            sandbox,
            sealed,
        })
    }

    fn sections(&self) -> [Section; 8] {
        [
            Section {
                title: "Sandbox",
                lines: self.sandbox.lines().into_iter().chain([self.sealed.line()]).collect(),
            },
            Section { title: "Plugins", lines: vec![self.plugins.line()] },
            Section { title: "Program", lines: self.program.lines() },
            Section { title: "MCP servers", lines: self.servers.iter().map(Server::line).collect() },
            Section { title: "Workers", lines: self.workers.lines() },
            Section { title: "Places", lines: self.places.iter().map(Place::line).collect() },
            Section { title: "Tools", lines: self.tools.iter().map(Tool::line).collect() },
            Section { title: "Providers", lines: self.providers.lines() },
        ]
    }

    /// The most serious comes first.
    fn exit(&self) -> Exit {
        if !self.sandbox.holds() || !self.sealed.holds() {
            Exit::Sandbox
        } else if !self.program.is_right() {
            Exit::Program
        } else if !self.workers.is_usable() || self.places.iter().any(Place::is_unusable) {
            Exit::Failure
        } else {
            Exit::Success
        }
    }
}
