//! The command line: one file a verb. Standard output is data, standard error is talk; nothing
//! here knows how a tool works.

mod acp;
mod add;
mod approvals;
mod attach;
mod build;
mod call;
mod chat;
mod check;
mod common;
pub(crate) mod completions;
mod consent_page;
mod conversation;
mod dev;
mod dialogue;
mod disclosure_sheet;
mod doctor;
mod elicitation;
mod exec;
mod exit;
mod gc;
mod grant;
mod guidance;
mod import;
mod init;
mod inspect;
mod install_args;
mod install_consent;
mod install_session;
mod list;
mod log;
mod man;
mod mended;
mod model_args;
mod models;
mod new;
mod pack;
mod page;
mod pipes;
mod publish;
mod remove;
mod replay;
mod run;
mod schema;
mod serve;
mod server_tools;
mod sessions;
mod terminal;
mod test;
mod tools;
mod transcript;
mod trust;
mod trusted;
mod undo;
mod update;
mod verify;
mod work;
mod wrap;

use std::future::{Future, ready};
use std::pin::Pin;

use clap::{Parser, Subcommand};
use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use self::common::Common;
pub(crate) use self::exit::Exit;
use self::terminal::Terminal;
use haft::program::telemetry;
use haft_author::Interrupted;
use haft_core::heap;
use haft_core::report::Report;

/// The handle that an agent's tools are held by.
///
/// Tools are WebAssembly components, commands and `bash`, declared in program.toml; each gets
/// exactly what it was granted.
#[derive(Debug, Parser)]
#[command(name = "haft", version, max_term_width = 100, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Let a model do something with the program's tools
    Run(run::Run),
    /// Talk with a model that has the program's tools
    Chat(chat::Chat),
    /// Serve the agent to editors that speak the Agent Client Protocol: Zed, JetBrains, Neovim
    Acp(acp::Acp),
    /// List what the configured providers offer, and which models are in use
    Models(models::Models),
    /// List the sessions of `haft run` and `haft chat`
    Sessions(sessions::List),
    /// Show a session, or make its calls again and compare the answers
    Replay(replay::Replay),
    /// Call one tool
    Call(call::Call),
    /// Run a command confined, as `bash` runs it
    Exec(exec::Exec),
    /// List the tools, and what each costs in a prompt
    Tools(tools::Tools),
    /// Serve the tools to MCP clients: editors, desktop applications, other agents
    Serve(serve::Serve),
    /// Run calls for other machines, which send them over NATS
    Work(work::Work),
    /// Install a package or a component, once you have read what it asks for
    Add(add::Add),
    /// Remove a package or a plugin from program.toml
    Remove(remove::Remove),
    /// Fetch installed packages and components anew
    Update(update::Update),
    /// List what is installed
    List(list::List),
    /// Compare what is installed with what was agreed to
    Verify(verify::Verify),
    /// Show what program.toml asks for, and agree to it once
    Trust(trust::TrustVerb),
    /// Confine an MCP server of any client: a prefix for its command
    Wrap(wrap::Wrap),
    /// Put MCP servers of Claude, Codex, Gemini CLI, Cursor, VS Code, Zed or opencode behind `haft wrap`
    Import(import::Import),
    /// Grant a plugin, a package or the sandbox one right more, in program.toml
    Grant(grant::GrantVerb),
    /// Look into a package or a component, installed or not
    Inspect(inspect::Inspect),
    /// Remove what no program refers to any more from this machine
    Gc(gc::Gc),
    /// Check program.toml, its plugins, its grants and what it needs on this machine
    Check(check::Check),
    /// Try the sandbox, and look at everything on this machine that haft works with
    Doctor(doctor::Doctor),
    /// Show what was called, by whose leave, and what came of it
    Log(log::Log),
    /// Watch in a browser what is called, and answer there what waits for a person
    Page(page::Page),
    /// Write a program.toml to start from
    Init(init::Init),
    /// Begin a plugin of your own
    New(new::New),
    /// Build the plugin project in a folder: its component, with documentation and what it asks for
    Build(build::Build),
    /// Build the plugin project in a folder whenever it changes, and call its tools
    Dev(dev::Dev),
    /// Run the tests of the plugin project in a folder
    Test(test::Test),
    /// Add documentation and program.toml to a component, or make one file of a package's folder
    Pack(pack::Pack),
    /// Push a component or a package to a registry
    Publish(publish::Publish),
    /// Print the JSON Schema of program.toml, for editors
    Schema(schema::Schema),
    /// Print what a shell needs to complete haft's command lines
    Completions(completions::Completions),
    /// Write the manual pages of haft and its verbs
    Man(man::Man),
}

impl Cli {
    /// Does what the command line says, on a runtime of its own: not to be called from within one.
    pub(crate) fn execute(self) -> Exit {
        heap::settle();
        let terminal = Terminal::new(self.common.json);
        // Two threads are enough for waiting; tools have threads and processes of their own. What only waits for a server
        // needs none besides its own.
        let mut builder = match self.verb {
            Verb::Wrap(_) => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        match builder.worker_threads(2).enable_all().build() {
            Ok(runtime) => {
                let exit = runtime.block_on(async {
                    // A file over `ulimit -f` is an error of its write then, and ends nothing. Where it cannot be had, it ends haft.
                    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
                    let exit = self.dispatch(terminal).await;
                    telemetry::close().await;
                    exit
                });
                runtime.shutdown_background();
                exit
            }
            Err(error) => {
                terminal.fail(&anyhow::Error::new(error).context("cannot start"));
                Exit::Failure
            }
        }
    }

    async fn dispatch(self, terminal: Terminal) -> Exit {
        // A plugin author wants to see what the plugin prints.
        let verbose =
            if matches!(self.verb, Verb::Dev(_)) { self.common.verbose.max(1) } else { self.common.verbose };
        let tells = matches!(self.verb, Verb::Run(_) | Verb::Chat(_) | Verb::Call(_) | Verb::Dev(_));
        let tracer = if let Verb::Call(call) = &self.verb { call.tracer() } else { None };
        terminal::log(verbose, tells, tracer);
        // Each future in a box of its own: in one, all verbs' futures would be laid out and compiled together.
        let done: Pin<Box<dyn Future<Output = anyhow::Result<Exit>> + '_>> = match self.verb {
            Verb::Run(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Chat(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Acp(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Models(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Sessions(verb) => Box::pin(ready(verb.execute(&self.common, terminal))),
            Verb::Replay(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Call(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Exec(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Tools(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Serve(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Work(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Add(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Grant(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Wrap(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Import(verb) => Box::pin(verb.execute(terminal)),
            Verb::Remove(verb) => Box::pin(ready(verb.execute(&self.common, terminal))),
            Verb::Update(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::List(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Verify(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Trust(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Inspect(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Gc(verb) => Box::pin(ready(verb.execute(terminal))),
            Verb::Check(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Doctor(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Log(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Page(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Init(verb) => Box::pin(verb.execute(terminal)),
            Verb::New(verb) => Box::pin(ready(verb.execute(terminal))),
            Verb::Build(verb) => Box::pin(verb.execute(terminal)),
            Verb::Dev(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Test(verb) => Box::pin(verb.execute(terminal)),
            Verb::Pack(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Publish(verb) => Box::pin(verb.execute(&self.common, terminal)),
            Verb::Schema(verb) => Box::pin(ready(verb.execute(terminal))),
            Verb::Completions(verb) => Box::pin(ready(verb.execute(terminal))),
            Verb::Man(verb) => Box::pin(ready(verb.execute(terminal))),
        };
        done.await.unwrap_or_else(|error| {
            if error.is::<Interrupted>() {
                return Exit::Interrupted;
            }
            terminal.fail(&error);
            if trusted::is_refused(&error) {
                terminal.hint("`haft trust` asks you, `haft trust --yes` agrees; `haft check` looks without running anything");
                return Exit::Declined;
            }
            if error.is::<Report>() { Exit::Program } else { Exit::Failure }
        })
    }
}
