//! The command line: one file a verb. Standard output is data, standard error is talk; nothing
//! here knows how a tool works.

mod call;
mod check;
mod doctor;
mod exit;
mod init;
mod log;
mod run;
mod schema;
mod serve;
mod terminal;
mod tools;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

pub use self::exit::Exit;
use self::terminal::Terminal;
use crate::backend::confine::Confiner;
use crate::program::{Allow, Options, Program};
use crate::report::Report;

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

#[derive(Debug, Args)]
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
    /// Call one tool
    Call(call::Call),
    /// List the tools, and what each costs in a prompt
    Tools(tools::Tools),
    /// Serve the tools to MCP clients: editors, desktop applications, other agents
    Serve(serve::Serve),
    /// Check program.toml, its plugins, its grants and what it needs on this machine
    Check(check::Check),
    /// Try the sandbox, and look at everything on this machine that haft works with
    Doctor(doctor::Doctor),
    /// Show what was called, by whose leave, and what came of it
    Log(log::Log),
    /// Write a program.toml to start from
    Init(init::Init),
    /// Print the JSON Schema of program.toml, for editors
    Schema(schema::Schema),
}

impl Cli {
    /// Does what the command line says.
    pub async fn execute(self) -> Exit {
        let terminal = Terminal::new(self.common.json);
        terminal::log(self.common.verbose);
        let done = match self.verb {
            Verb::Run(verb) => verb.execute(&self.common, terminal).await,
            Verb::Call(verb) => verb.execute(&self.common, terminal).await,
            Verb::Tools(verb) => verb.execute(&self.common, terminal).await,
            Verb::Serve(verb) => verb.execute(&self.common, terminal).await,
            Verb::Check(verb) => verb.execute(&self.common, terminal).await,
            Verb::Doctor(verb) => verb.execute(&self.common, terminal).await,
            Verb::Log(verb) => verb.execute(&self.common, terminal).await,
            Verb::Init(verb) => verb.execute(terminal),
            Verb::Schema(verb) => verb.execute(terminal),
        };
        done.unwrap_or_else(|error| {
            terminal.fail(&error);
            if error.is::<Report>() { Exit::Program } else { Exit::Failure }
        })
    }
}

impl Common {
    /// Loads the program; what does not keep it from working is said on standard error.
    async fn program(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Program> {
        if self.unsafe_no_sandbox {
            terminal.warning("no sandbox: `bash` and commands may read, write and end whatever you may");
        }
        let program = Program::load(&self.options(terminal, many_calls)?).await?;
        if let Some(report) = program.report() {
            terminal.warn(&report);
        }
        Ok(program)
    }

    fn options(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Options> {
        Ok(Options {
            program: self.program.clone(),
            allow: self.allow.clone(),
            many_calls,
            confiner: self.unsafe_no_sandbox.then(Confiner::open),
            redactor: terminal.redactor(),
            no_journal: self.no_journal || is_journal_off()?,
            known_only: false,
        })
    }
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
