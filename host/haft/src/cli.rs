//! The command line: one file for each verb. Standard output is for data, standard error for messages. The command
//! line does not know how a tool works.

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
mod install_session;
mod learn;
mod list;
mod log;
mod man;
mod mcp;
mod model_args;
mod models;
mod pack;
mod page;
mod pipes;
mod publish;
mod replay;
mod run;
mod search;
mod serve;
mod server_prompts;
mod sessions;
mod terminal;
mod test;
mod tools;
mod trust;
mod trusted;
mod update;
mod verify;
mod work;
mod wrap;

use std::ffi::OsString;
use std::fmt::Write;
use std::future::{Future, ready};
use std::pin::Pin;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use self::common::{Common, Verbosity};
use self::disclosure_sheet::wrapped;
pub(crate) use self::exit::Exit;
use self::terminal::Terminal;
use haft::program::telemetry;
use haft_author::Interrupted;
use haft_core::heap;
use haft_core::report::Report;

/// Run tools for AI agents, each with only the rights that you gave it.
#[derive(Debug, Parser)]
#[command(name = "haft", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(subcommand)]
    verb: Verb,
    #[arg(skip)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a task: a model works with the program's tools
    Run(run::Run),
    /// Chat with a model that has the program's tools
    Chat(chat::Chat),
    /// Call one tool
    Call(call::Call),
    /// Run a command in the sandbox of `bash`
    Exec(exec::Exec),
    /// List the tools, and the size of each in a prompt
    Tools(tools::Tools),
    /// Serve the tools to MCP clients
    Serve(serve::Serve),
    /// Show the log of tool calls: who made each call, and its result
    Log(log::Log),
    /// List, show, repeat, undo and remove sessions of run and chat
    #[command(subcommand)]
    Session(SessionVerb),
    /// Confine an MCP server of any client: a prefix for its command
    Wrap(wrap::Wrap),
    /// Put the MCP servers of other clients behind `haft wrap`
    Import(import::Import),
    /// Log in to and out of MCP servers with OAuth
    Mcp(mcp::Mcp),
    /// Search the marketplaces and registries that you named
    Search(search::Search),
    /// Install a package, a component or an MCP server
    #[command(visible_alias = "install")]
    Add(add::Add),
    /// Remove a package or a plugin from program.toml
    #[command(visible_aliases = ["rm", "uninstall"])]
    Remove(gc::Remove),
    /// Update packages, components and the tools of MCP servers
    Update(update::Update),
    /// List packages, components, MCP servers and skills
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a package or a component, installed or not
    Inspect(inspect::Inspect),
    /// Compare the installed packages with their pins
    Verify(verify::Verify),
    /// Write a program.toml to start from
    Init(init::Init),
    /// Check program.toml, its plugins, its grants and requirements
    Check(check::Check),
    /// Test the sandbox, and report on this machine
    Doctor(doctor::Doctor),
    /// Show the rights that program.toml requests, and agree to them
    Trust(trust::TrustVerb),
    /// Grant a plugin, a server or the sandbox one more right
    Grant(grant::GrantVerb),
    /// Run a command or a server, and propose the rights that it needs
    Learn(learn::Learn),
    /// Write, build, test and publish plugins of your own
    #[command(subcommand)]
    Plugin(PluginVerb),
    /// List the models of the configured providers
    Models(models::Models),
    /// Serve the agent to editors over the Agent Client Protocol
    Acp(acp::Acp),
    /// Run calls for other machines, over NATS
    Worker(work::Work),
    /// Watch calls in a browser, and answer questions there
    Dashboard(page::Page),
    /// Remove files that no program refers to
    #[command(subcommand)]
    Cache(CacheVerb),
    /// Print the schema, shell completions, manual pages and exit codes
    #[command(subcommand, name = "self")]
    Own(SelfVerb),
}

#[derive(Debug, Subcommand)]
enum SessionVerb {
    /// List the sessions
    List(sessions::List),
    /// Show a session
    Show(replay::Show),
    /// Repeat the calls of a session, and compare the answers
    Rerun(replay::Rerun),
    /// Restore the files that tools changed in a session
    Undo(sessions::Undo),
    /// Remove sessions
    Remove(sessions::Remove),
}

#[derive(Debug, Subcommand)]
enum PluginVerb {
    /// Create a plugin project in a new folder
    New(build::New),
    /// Build the component of a plugin, with its documentation and requested rights
    Build(build::Build),
    /// Build a plugin on every change, and call its tools
    Dev(dev::Dev),
    /// Run the tests of a plugin
    Test(test::Test),
    /// Package a component or a folder
    Pack(pack::Pack),
    /// Push a component or a package to a registry
    Publish(publish::Publish),
}

#[derive(Debug, Subcommand)]
enum CacheVerb {
    /// Remove files of this machine that no program refers to
    Clean(gc::Gc),
}

#[derive(Debug, Subcommand)]
enum SelfVerb {
    /// Print the JSON Schema of program.toml, for editors
    Schema(man::Schema),
    /// Print the script with which a shell completes haft's command lines
    Completions(completions::Completions),
    /// Write the manual pages of haft and its verbs
    Man(man::Man),
    /// Print what each exit code means
    ExitCodes,
}

/// The future of a verb, boxed: in one future, the futures of all verbs would be laid out and compiled together.
type Done<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Exit>> + 'a>>;

/// Former names of verbs, with their present names.
const RENAMED: &[(&str, &[&str])] = &[
    ("new", &["plugin", "new"]),
    ("build", &["plugin", "build"]),
    ("dev", &["plugin", "dev"]),
    ("test", &["plugin", "test"]),
    ("pack", &["plugin", "pack"]),
    ("publish", &["plugin", "publish"]),
    ("sessions", &["session", "list"]),
    ("replay", &["session", "show"]),
    ("gc", &["cache", "clean"]),
    ("work", &["worker"]),
    ("page", &["dashboard"]),
    ("schema", &["self", "schema"]),
    ("completions", &["self", "completions"]),
    ("man", &["self", "man"]),
];

/// Removed verbs, with what to do instead.
const REMOVED: &[(&str, &str)] = &[
    ("enable", "remove `enabled = false` from the entry in program.toml"),
    ("disable", "write `enabled = false` into the entry in program.toml"),
    ("self-update", "install the new version as docs/install.md says"),
];

impl Cli {
    pub(crate) fn grammar() -> Command {
        grouped(common::with_options(Self::command()), Terminal::new(false).data_columns())
    }

    /// Reads the command line of this process, or ends the process with help or an error.
    pub(crate) fn read() -> Self {
        Self::read_from(&std::env::args_os().collect::<Vec<_>>()).unwrap_or_else(|error| error.exit())
    }

    fn read_from(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut grammar = Self::grammar();
        let matches = grammar.try_get_matches_from_mut(words).or_else(|error| match renamed(&error) {
            Some((old, new)) => {
                Terminal::new(false).message(format_args!("`haft {old}` is now `haft {}`", new.join(" ")));
                let at = words.iter().skip(1).position(|word| word == old).map_or(0, |at| at + 1);
                let new = new.iter().map(OsString::from);
                let words =
                    words.iter().take(at).cloned().chain(new).chain(words.iter().skip(at + 1).cloned());
                grammar.try_get_matches_from_mut(words)
            }
            None => Err(with_way_out(error)),
        })?;
        let common = Common::read(&matches, &mut grammar)?;
        Ok(Self { common, ..Self::from_arg_matches(&matches)? })
    }

    /// Executes the command line on a new runtime. Must not be called within a runtime.
    pub(crate) fn execute(self) -> Exit {
        heap::settle();
        let terminal = Terminal::new(self.common.json);
        // Two threads are enough for waiting: tools have their own threads and processes. A verb that only waits for
        // a server needs no further thread.
        let mut builder = match self.verb {
            Verb::Wrap(_) => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        match builder.worker_threads(2).enable_all().build() {
            Ok(runtime) => {
                let exit = runtime.block_on(async {
                    // With a handler of the signal, a write beyond `ulimit -f` is an error of that write. Without a
                    // handler, the signal ends haft.
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

    /// Has verbs that fetch without loading a program use its proxy.
    async fn use_network(&self, terminal: Terminal) -> anyhow::Result<()> {
        match self.verb {
            Verb::Add(_) | Verb::Update(_) | Verb::Search(_) | Verb::Inspect(_) | Verb::Verify(_) => {
                haft::program::use_network(&self.common.options(terminal, false)?).await
            }
            _ => Ok(()),
        }
    }

    async fn dispatch(self, terminal: Terminal) -> Exit {
        let is_dev = matches!(self.verb, Verb::Plugin(PluginVerb::Dev(_)));
        // A plugin author wants to see what the plugin prints.
        let verbose = if is_dev { self.common.verbose.max(1) } else { self.common.verbose };
        let tells = is_dev || matches!(self.verb, Verb::Run(_) | Verb::Chat(_) | Verb::Call(_));
        let tracer = if let Verb::Call(call) = &self.verb { call.tracer() } else { None };
        terminal::log(verbose, tells, tracer);
        let common = &self.common;
        if let Err(error) = self.use_network(terminal).await {
            terminal.fail(&error);
            return Exit::Program;
        }
        let done = done(self.verb, common, terminal);
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

fn done(verb: Verb, common: &Common, terminal: Terminal) -> Done<'_> {
    match verb {
        Verb::Run(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Chat(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Call(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Exec(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Tools(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Serve(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Log(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Session(SessionVerb::List(verb)) => Box::pin(ready(verb.execute(common, terminal))),
        Verb::Session(SessionVerb::Show(verb)) => Box::pin(ready(verb.execute(common, terminal))),
        Verb::Session(SessionVerb::Rerun(verb)) => Box::pin(verb.execute(common, terminal)),
        Verb::Session(SessionVerb::Undo(verb)) => Box::pin(ready(verb.execute(common, terminal))),
        Verb::Session(SessionVerb::Remove(verb)) => Box::pin(ready(verb.execute(common, terminal))),
        Verb::Wrap(verb) => Box::pin(verb.execute(terminal)),
        Verb::Import(verb) => Box::pin(verb.execute(terminal)),
        Verb::Mcp(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Search(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Add(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Remove(verb) => Box::pin(ready(verb.execute(common, terminal))),
        Verb::Update(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::List(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Inspect(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Verify(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Init(verb) => Box::pin(verb.execute(terminal)),
        Verb::Check(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Doctor(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Trust(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Grant(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Learn(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Plugin(PluginVerb::New(verb)) => Box::pin(ready(verb.execute(terminal))),
        Verb::Plugin(PluginVerb::Build(verb)) => Box::pin(verb.execute(terminal)),
        Verb::Plugin(PluginVerb::Dev(verb)) => Box::pin(verb.execute(common, terminal)),
        Verb::Plugin(PluginVerb::Test(verb)) => Box::pin(verb.execute(terminal)),
        Verb::Plugin(PluginVerb::Pack(verb)) => Box::pin(verb.execute(common, terminal)),
        Verb::Plugin(PluginVerb::Publish(verb)) => Box::pin(verb.execute(common, terminal)),
        Verb::Models(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Acp(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Worker(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Dashboard(verb) => Box::pin(verb.execute(common, terminal)),
        Verb::Cache(CacheVerb::Clean(verb)) => Box::pin(ready(verb.execute(terminal))),
        Verb::Own(SelfVerb::Schema(verb)) => Box::pin(ready(verb.execute(terminal))),
        Verb::Own(SelfVerb::Completions(verb)) => Box::pin(ready(verb.execute(terminal))),
        Verb::Own(SelfVerb::Man(verb)) => Box::pin(ready(verb.execute(terminal))),
        Verb::Own(SelfVerb::ExitCodes) => {
            Box::pin(ready(terminal.verbatim(exit::HELP).map(|()| Exit::Success).map_err(Into::into)))
        }
    }
}

/// Returns the old and the new name of the verb that `error` calls unknown.
fn renamed(error: &clap::Error) -> Option<(&'static str, &'static [&'static str])> {
    let verb = unknown_verb(error)?;
    RENAMED.iter().copied().find(|(old, _)| *old == verb)
}

/// Replaces the suggestion of `error` if the unknown verb is a removed verb.
fn with_way_out(mut error: clap::Error) -> clap::Error {
    let verb = unknown_verb(&error);
    if let Some((_, way_out)) = REMOVED.iter().find(|(old, _)| Some(*old) == verb) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = vec![format!("this command was removed: {way_out}").into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

fn unknown_verb(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) if error.kind() == ErrorKind::InvalidSubcommand => Some(verb),
        _ => None,
    }
}

// The output of `haft --help`: the verbs in groups, on one screen.

/// The options that may precede a verb.
const OPTIONS: &str = "Options: -p FILE (the program), --json, -v, -vv (more on standard error), -V";

const FURTHER: &str = "`haft VERB --help` explains a verb, `haft self exit-codes` the exit codes.";

const GROUPS: &[(&str, &[&str])] = &[
    ("Use tools", &["run", "chat", "call", "exec", "tools", "serve", "log", "session"]),
    (
        "Plugins and MCP servers",
        &["search", "add", "remove", "update", "list", "inspect", "wrap", "import", "mcp"],
    ),
    ("Program", &["init", "check", "doctor", "trust", "grant", "learn"]),
];

/// Columns before the description of a verb.
const INDENT: usize = 11;

/// Returns `command` with help in groups, in lines of at most `columns` columns. A verb without a group is listed by
/// its name.
fn grouped(command: Command, columns: Option<usize>) -> Command {
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    let indented = |about: &str| {
        let width = columns.map(|columns| columns.saturating_sub(INDENT));
        wrapped(about, width).join(&format!("\n{:INDENT$}", ""))
    };
    for (group, verbs) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n{group}:\n");
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().unwrap_or_default().to_string();
            let _ = writeln!(text, "  {:<8} {}", verb.get_name(), indented(&about));
        }
    }
    let is_listed = |name: &str| GROUPS.iter().any(|(_, verbs)| verbs.contains(&name));
    let further = command.get_subcommands().map(Command::get_name).filter(|name| !is_listed(name));
    let more = format!("More: {}", further.collect::<Vec<_>>().join(", "));
    for line in [more.as_str(), OPTIONS, FURTHER] {
        let _ = write!(text, "\n{}", wrapped(line, columns).join("\n"));
    }
    command.help_template(text)
}
