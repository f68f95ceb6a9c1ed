//! The command line: one file a verb. Standard output is data, standard error is talk; nothing
//! here knows how a tool works.

mod add;
mod build;
mod call;
mod chat;
mod check;
mod consent;
mod conversation;
mod dev;
mod disclosed;
mod doctor;
mod elicitation;
mod enable;
mod exec;
mod exit;
mod gc;
mod init;
mod inspect;
mod install_args;
mod installing;
mod list;
mod log;
mod new;
mod pack;
mod publish;
mod remove;
mod replay;
mod run;
mod schema;
mod serve;
mod sessions;
mod terminal;
mod tools;
mod transcript;
mod update;
mod verify;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use tokio::runtime::Builder;

pub use self::exit::Exit;
use self::terminal::Terminal;
use crate::program::{Allow, Ask, FILE_NAME, Options, Program, Servers, Target};
use haft_agent::{Begun, Saved};
use haft_author::Interrupted;
use haft_core::heap;
use haft_core::report::Report;
use haft_sandbox::confine::Confiner;

/// The handle that an agent's tools are held by.
///
/// Tools are WebAssembly components, commands and `bash`, declared in program.toml; each gets
/// exactly what it was granted.
#[derive(Debug, Parser)]
#[command(name = "haft", version, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// Over the options for where commands run.
const BACKEND: &str = "Where commands run";

#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, as a command line has them")]
struct Common {
    /// The program to run [default: ./program.toml if there is one]
    #[arg(short, long, global = true, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Allow more for this run: `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`;
    /// `PLUGIN:read=DIR` for a plugin
    #[arg(long, global = true, value_name = "RIGHT")]
    allow: Vec<Allow>,
    /// Run `bash` and commands without the kernel's sandbox: they may do whatever you may
    #[arg(long, global = true)]
    unsafe_no_sandbox: bool,
    /// Run commands in this container, in the place of `[backend]`
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "ssh", help_heading = BACKEND)]
    container: Option<String>,
    /// Run commands on this host: `host`, `user@host`, a name of ~/.ssh/config
    #[arg(long, global = true, value_name = "TARGET", help_heading = BACKEND)]
    ssh: Option<String>,
    /// Run commands in a pane of tmux that you can watch [default session: haft]
    #[arg(long, global = true, value_name = "SESSION", num_args = 0..=1, require_equals = true, help_heading = BACKEND)]
    #[expect(clippy::option_option, reason = "not given, given, and given with a name")]
    tmux: Option<Option<String>>,
    /// Run commands without a pane, also on a host that has tmux
    #[arg(long, global = true, conflicts_with = "tmux", help_heading = BACKEND)]
    no_tmux: bool,
    /// Say more on standard error: -v what plugins print, -vv what haft does, -vvv everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Print JSON on standard output
    #[arg(long, global = true)]
    json: bool,
    /// Do not note calls in the journal; `HAFT_JOURNAL=off` does the same
    #[arg(long, global = true)]
    no_journal: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Let a model do something with the program's tools
    Run(run::Run),
    /// Talk with a model that has the program's tools
    Chat(chat::Chat),
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
    /// Look into a package or a component, installed or not
    Inspect(inspect::Inspect),
    /// Switch an installed package or plugin on
    Enable(enable::Enable),
    /// Switch an installed package or plugin off
    Disable(enable::Disable),
    /// Remove what no program refers to any more from this machine
    Gc(gc::Gc),
    /// Check program.toml, its plugins, its grants and what it needs on this machine
    Check(check::Check),
    /// Try the sandbox, and look at everything on this machine that haft works with
    Doctor(doctor::Doctor),
    /// Show what was called, by whose leave, and what came of it
    Log(log::Log),
    /// Write a program.toml to start from
    Init(init::Init),
    /// Begin a plugin of your own
    New(new::New),
    /// Build the plugin project in a folder: its component, with documentation and what it asks for
    Build(build::Build),
    /// Build the plugin project in a folder whenever it changes, and call its tools
    Dev(dev::Dev),
    /// Add documentation and program.toml to a component, or make one file of a package's folder
    Pack(pack::Pack),
    /// Push a component or a package to a registry
    Publish(publish::Publish),
    /// Print the JSON Schema of program.toml, for editors
    Schema(schema::Schema),
}

impl Cli {
    /// Does what the command line says, on a runtime of its own: not to be called from within one.
    ///
    /// It is built here and not by the program, which would then have all of haft's futures compiled
    /// into it as well.
    pub fn execute(self) -> Exit {
        heap::settle();
        let terminal = Terminal::new(self.common.json);
        // Two threads are enough for waiting; tools have threads and processes of their own.
        match Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => {
                let exit = runtime.block_on(self.dispatch(terminal));
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
        // Whoever writes a plugin wants to see what it prints.
        let verbose =
            if matches!(self.verb, Verb::Dev(_)) { self.common.verbose.max(1) } else { self.common.verbose };
        let tells = matches!(self.verb, Verb::Run(_) | Verb::Chat(_) | Verb::Call(_) | Verb::Dev(_));
        terminal::log(verbose, tells);
        let done = match self.verb {
            Verb::Run(verb) => verb.execute(&self.common, terminal).await,
            Verb::Chat(verb) => verb.execute(&self.common, terminal).await,
            Verb::Sessions(verb) => verb.execute(&self.common, terminal),
            Verb::Replay(verb) => verb.execute(&self.common, terminal).await,
            Verb::Call(verb) => verb.execute(&self.common, terminal).await,
            Verb::Exec(verb) => verb.execute(&self.common, terminal).await,
            Verb::Tools(verb) => verb.execute(&self.common, terminal).await,
            Verb::Serve(verb) => verb.execute(&self.common, terminal).await,
            Verb::Add(verb) => verb.execute(&self.common, terminal).await,
            Verb::Remove(verb) => verb.execute(&self.common, terminal),
            Verb::Update(verb) => verb.execute(&self.common, terminal).await,
            Verb::List(verb) => verb.execute(&self.common, terminal).await,
            Verb::Verify(verb) => verb.execute(&self.common, terminal),
            Verb::Inspect(verb) => verb.execute(&self.common, terminal).await,
            Verb::Enable(verb) => verb.execute(&self.common, terminal),
            Verb::Disable(verb) => verb.execute(&self.common, terminal),
            Verb::Gc(verb) => verb.execute(terminal),
            Verb::Check(verb) => verb.execute(&self.common, terminal).await,
            Verb::Doctor(verb) => verb.execute(&self.common, terminal).await,
            Verb::Log(verb) => verb.execute(&self.common, terminal).await,
            Verb::Init(verb) => verb.execute(terminal),
            Verb::New(verb) => verb.execute(terminal),
            Verb::Build(verb) => verb.execute(terminal).await,
            Verb::Dev(verb) => verb.execute(&self.common, terminal).await,
            Verb::Pack(verb) => verb.execute(terminal, self.common.program.as_deref()),
            Verb::Publish(verb) => verb.execute(&self.common, terminal).await,
            Verb::Schema(verb) => verb.execute(terminal),
        };
        done.unwrap_or_else(|error| {
            if error.is::<Interrupted>() {
                return Exit::Interrupted;
            }
            terminal.fail(&error);
            if error.is::<Report>() { Exit::Program } else { Exit::Failure }
        })
    }
}

impl Common {
    /// How a session of this program, in this folder, begins.
    fn begun(&self) -> Begun {
        let here = || Some(PathBuf::from(FILE_NAME)).filter(|path| path.exists());
        let path = self.program.clone().or_else(here);
        Begun::new(None, path.as_deref(), std::env::current_dir().ok().as_deref())
    }

    /// The same with the program of a session, unless the command line names one.
    fn of_session(&self, saved: Option<&Saved>) -> Self {
        let own = || saved.and_then(Saved::begun)?.path.filter(|path| path.exists());
        Self { program: self.program.clone().or_else(own), ..self.clone() }
    }

    /// Loads the program; what does not keep it from working is said on standard error.
    async fn program(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Program> {
        self.program_asking(terminal, many_calls, Ask::WhereUnknown).await
    }

    /// The same, with a say in which MCP servers are asked what they have.
    async fn program_asking(
        &self,
        terminal: Terminal,
        many_calls: bool,
        ask: Ask,
    ) -> anyhow::Result<Program> {
        self.load(terminal, &Options { ask, ..self.options(terminal, many_calls)? }).await
    }

    /// The same for a single call of `tool`.
    async fn program_for(&self, terminal: Terminal, tool: &str) -> anyhow::Result<Program> {
        let options = self.options(terminal, false)?;
        // `program` may mean any other.
        let only = (!tool.eq_ignore_ascii_case("program")).then(|| tool.to_owned());
        self.load(terminal, &Options { only, ask: Ask::WhereUnknown, ..options }).await
    }

    async fn load(&self, terminal: Terminal, options: &Options) -> anyhow::Result<Program> {
        if self.unsafe_no_sandbox {
            terminal.warning("no sandbox: `bash` and commands may read, write and end whatever you may");
        }
        let program = Program::load(options).await?;
        if let Some(report) = program.report() {
            terminal.warn(&report);
        }
        if let Some(backend) = &program.backend {
            terminal.say(format_args!("commands run on {}: {}", backend.summary(), backend.confinement()));
            backend.notices().iter().for_each(|notice| terminal.say(notice));
        }
        // One command is over before anybody looks at its pane.
        if options.many_calls && options.person.is_some() {
            offer_pane(program.is_without_pane, terminal);
        }
        Ok(program)
    }

    /// Where commands run.
    fn target(&self) -> Target {
        let tmux = if self.no_tmux { Some(false) } else { self.tmux.as_ref().map(|_| true) };
        Target {
            container: self.container.clone(),
            ssh: self.ssh.clone(),
            tmux,
            session: self.tmux.clone().flatten(),
            here: false,
        }
    }

    fn options(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Options> {
        Ok(Options {
            program: self.program.clone(),
            allow: self.allow.clone(),
            many_calls,
            confiner: self.unsafe_no_sandbox.then(Confiner::open),
            redactor: terminal.redactor(),
            no_journal: self.no_journal || is_journal_off()?,
            only: None,
            target: self.target(),
            known_only: false,
            servers: Servers::default(),
            events: terminal.loading(),
            // Nothing is started only to be looked at, unless a verb says so.
            ask: Ask::Never,
            person: elicitation::present(),
        })
    }
}

/// Says so once where a pane may be had, to a person and to no program.
fn offer_pane(is_without: bool, terminal: Terminal) {
    if let Some(offer) = offered_pane(is_without).filter(|_| !terminal.json) {
        terminal.say(offer);
    }
}

/// What somebody is told who sits in a tmux of their own, where commands run without a pane and nothing was said of
/// panes.
fn offered_pane(is_without: bool) -> Option<&'static str> {
    (is_without && std::env::var_os("TMUX_PANE").is_some()).then_some(
        "this terminal is a pane of tmux; with `--tmux`, or `[backend] tmux = true`, commands run in a pane of haft's \
         own, which you can attach to from here",
    )
}

/// Whether whoever set up this machine wants no journal. A program cannot say so: it would be the
/// first thing that a bad one says.
fn is_journal_off() -> anyhow::Result<bool> {
    match std::env::var("HAFT_JOURNAL").unwrap_or_default().as_str() {
        "" | "on" => Ok(false),
        "off" => Ok(true),
        other => anyhow::bail!("`HAFT_JOURNAL` is `{other}`; expected `on` or `off`"),
    }
}
