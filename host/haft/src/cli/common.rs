//! Options that many verbs take. Loads the program that they name.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches as _, Id};
use haft::program::{Allow, Ask, Dirs, FILE_NAME, Machines, Options, Program, Target};

use super::terminal::Terminal;
use super::{elicitation, trusted};
use haft_agent::{Begun, Saved};
use haft_manifest::NatsUrl;
use haft_plugin_host::debug::Recorder;
use haft_sandbox::confine::Confiner;

/// The heading in `--help` of the options for the execution of tools.
const EXECUTION: &str = "Execution";

const COMMON: &str = "Common options";

#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// The program.toml, if the command line names one.
    pub(super) program: Option<PathBuf>,
    pub(super) verbose: u8,
    /// Whether standard output is JSON.
    pub(super) json: bool,
    pub(super) execution: Execution,
}

// The option of every verb. No doc comment: clap would make it the help of each verb.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub(super) struct Verbosity {
    /// Print more on standard error: -v plugin output and full tool results, -vv haft's steps, -vvv
    /// everything
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = COMMON)]
    verbose: u8,
}

// The option of verbs that load a program.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
struct Named {
    /// The program.toml to use [default: ./program.toml if it exists]
    #[arg(short, long, value_name = "FILE", help_heading = COMMON)]
    program: Option<PathBuf>,
}

// The option of verbs that print data.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
struct Output {
    /// Print JSON on standard output
    #[arg(long, help_heading = COMMON)]
    json: bool,
}

// The options of verbs that run tools, or show how tools would run.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub(super) struct Execution {
    /// Grant more for this run: `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`;
    /// `PLUGIN:read=DIR` for a plugin
    #[arg(long, value_name = "RIGHT", help_heading = EXECUTION, add = super::completions::rights())]
    pub(super) allow: Vec<Allow>,
    /// Run `bash` and commands without the kernel's sandbox, with all your rights
    #[arg(long, help_heading = EXECUTION)]
    pub(super) unsafe_no_sandbox: bool,
    /// Run commands in this container; overrides `[backend]`
    #[arg(long, value_name = "NAME", conflicts_with = "ssh", help_heading = EXECUTION)]
    pub(super) container: Option<String>,
    /// Run commands on this host: `host`, `user@host` or a name from ~/.ssh/config
    #[arg(long, value_name = "TARGET", help_heading = EXECUTION)]
    pub(super) ssh: Option<String>,
    /// Run commands in a tmux pane that you can watch [default session: haft]
    #[arg(long, value_name = "SESSION", num_args = 0..=1, require_equals = true, help_heading = EXECUTION)]
    #[expect(clippy::option_option, reason = "not given, given, and given with a name")]
    pub(super) tmux: Option<Option<String>>,
    /// Run commands without a tmux pane, even if the host has tmux
    #[arg(long, conflicts_with = "tmux", help_heading = EXECUTION)]
    pub(super) no_tmux: bool,
    #[command(flatten)]
    pub(super) workers: Workers,
    /// Do not record calls in the journal; also `HAFT_JOURNAL=off`
    #[arg(long, help_heading = EXECUTION)]
    pub(super) no_journal: bool,
}

// The option of verbs that connect to NATS, also where they run no tool.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub(super) struct Workers {
    /// Use workers of this NATS server; overrides `[nats] urls`: `nats://host:4222`
    #[arg(long, value_name = "URL", help_heading = EXECUTION)]
    pub(super) nats: Option<NatsUrl>,
}

/// Verbs that load no program.
const WITHOUT_PROGRAM: &[&str] = &[
    "cache",
    "mcp",
    "clean",
    "import",
    "search",
    "wrap",
    "init",
    "new",
    "build",
    "test",
    "self",
    "schema",
    "completions",
    "man",
    "exit-codes",
    "plugin",
    "session",
];

/// Verbs that run tools, or show how tools would run.
const EXECUTING: &[&str] =
    &["run", "chat", "acp", "call", "exec", "serve", "worker", "tools", "check", "doctor", "rerun", "dev"];

/// Verbs that run no tool and connect to NATS.
const CONNECTING: &[&str] = &["log", "dashboard"];

/// Verbs that print no data.
const WITHOUT_DATA: &[&str] = &[
    "exec",
    "learn",
    "worker",
    "dashboard",
    "acp",
    "wrap",
    "completions",
    "man",
    "exit-codes",
    "self",
    "cache",
    "mcp",
    "plugin",
    "session",
];

/// Adds to each verb the options that it takes. They may also precede the verb.
pub(super) fn with_options(command: Command) -> Command {
    let top = Execution::augment_args(Output::augment_args(Named::augment_args(command)));
    let top = top.mut_args(|arg| {
        let is_hidden = arg.get_help_heading() == Some(EXECUTION);
        arg.hide(is_hidden)
    });
    top.mut_subcommands(of_verb)
}

fn of_verb(verb: Command) -> Command {
    let name = verb.get_name().to_owned();
    let mut verb = verb.mut_subcommands(of_verb);
    if EXECUTING.contains(&&*name) {
        verb = Execution::augment_args(verb);
    }
    if CONNECTING.contains(&&*name) {
        verb = Workers::augment_args(verb);
    }
    if !WITHOUT_PROGRAM.contains(&&*name) {
        verb = Named::augment_args(verb);
    }
    if WITHOUT_DATA.contains(&&*name) { verb } else { Output::augment_args(verb) }
}

impl Common {
    /// Reads the options before and after the verb from `matches`, the parsed form of `command`.
    ///
    /// # Errors
    /// The verb does not take an option that precedes it.
    pub(super) fn read(matches: &ArgMatches, command: &mut Command) -> Result<Self, clap::Error> {
        let mut common = Self { verbose: Verbosity::from_arg_matches(matches)?.verbose, ..Self::default() };
        common.add(matches, "")?;
        let (mut level, mut verb, mut words) = (matches, &*command, vec!["haft"]);
        while let Some((name, inner)) = level.subcommand() {
            common.add(inner, name)?;
            (level, verb) = (inner, verb.find_subcommand(name).unwrap_or(verb));
            words.push(name);
        }
        let is_given = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let takes = |id: &Id| verb.get_arguments().any(|arg| arg.get_id() == id);
        let Some(other) = matches.ids().filter(is_given).find(|id| !takes(id)) else { return Ok(common) };
        let option = other.as_str().replace('_', "-");
        let message = format!("`{}` does not take `--{option}`", words.join(" "));
        Err(command.error(ErrorKind::UnknownArgument, message))
    }

    /// Adds the options of one level of the command line. `verb` is empty before the first verb.
    fn add(&mut self, level: &ArgMatches, verb: &str) -> Result<(), clap::Error> {
        if !WITHOUT_PROGRAM.contains(&verb) {
            self.program = Named::from_arg_matches(level)?.program.or(self.program.take());
        }
        if !WITHOUT_DATA.contains(&verb) {
            self.json |= Output::from_arg_matches(level)?.json;
        }
        if verb.is_empty() || EXECUTING.contains(&verb) {
            self.execution.add(Execution::from_arg_matches(level)?);
        }
        if CONNECTING.contains(&verb) {
            self.execution.workers.add(Workers::from_arg_matches(level)?);
        }
        Ok(())
    }
}

impl Execution {
    fn add(&mut self, other: Self) {
        self.allow.extend(other.allow);
        self.unsafe_no_sandbox |= other.unsafe_no_sandbox;
        self.container = other.container.or(self.container.take());
        self.ssh = other.ssh.or(self.ssh.take());
        self.tmux = other.tmux.or(self.tmux.take());
        self.no_tmux |= other.no_tmux;
        self.workers.add(other.workers);
        self.no_journal |= other.no_journal;
    }
}

/// Reads the address and port of a listener.
pub(super) fn address(text: &str) -> Result<std::net::SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8080")
}

impl Workers {
    fn add(&mut self, other: Self) {
        self.nats = other.nats.or(self.nats.take());
    }
}

impl Common {
    /// Returns the origin of a session of this program in the current folder.
    pub(super) fn begun(&self) -> Begun {
        let here = || Some(PathBuf::from(FILE_NAME)).filter(|path| path.try_exists().unwrap_or(true));
        let path = self.program.clone().or_else(here);
        Begun::new(None, path.as_deref(), std::env::current_dir().ok().as_deref())
    }

    /// Returns the options with the program of a session, unless the command line names a program.
    pub(super) fn of_session(&self, saved: Option<&Saved>) -> Self {
        let own = || saved.and_then(Saved::begun)?.path.filter(|path| path.try_exists().unwrap_or(true));
        Self { program: self.program.clone().or_else(own), ..self.clone() }
    }

    /// Loads the program for many calls, and prints its warnings on standard error.
    pub(super) async fn program(&self, terminal: Terminal) -> anyhow::Result<Program> {
        let options = self.options(terminal, true)?;
        self.load(terminal, &Options { ask: Ask::WhereUnknown, ..options }).await
    }

    /// Loads the program for a single call of `tool`.
    pub(super) async fn program_for(
        &self,
        terminal: Terminal,
        tool: &str,
        recorder: Option<Recorder>,
    ) -> anyhow::Result<Program> {
        let options = self.options(terminal, false)?;
        // The tool `program` can call any other tool.
        let only = (!tool.eq_ignore_ascii_case("program")).then(|| tool.to_owned());
        self.load(terminal, &Options { only, ask: Ask::WhereUnknown, recorder, ..options }).await
    }

    pub(super) async fn load(&self, terminal: Terminal, options: &Options) -> anyhow::Result<Program> {
        if self.execution.unsafe_no_sandbox {
            terminal
                .warning("no sandbox: `bash` and commands have all your rights: files, processes, network");
        }
        let program = Box::pin(trusted::loaded(options, terminal)).await?;
        if let Some(report) = program.report() {
            terminal.warn(&report);
        }
        if let Some(backend) = &program.backend {
            terminal.message(format_args!(
                "commands run on {}: {}",
                backend.summary(),
                backend.confinement()
            ));
            backend.notices().iter().for_each(|notice| terminal.message(notice));
        }
        // A single command ends before a user could look at its pane.
        if options.many_calls && options.person.is_some() {
            propose_pane(program.is_without_pane, terminal);
        }
        Ok(program)
    }

    /// Loads the known part of the program: haft asks no server and no person, compiles no plugin, and leaves out
    /// parts without consent.
    pub(super) async fn known_program(&self, terminal: Terminal) -> anyhow::Result<Program> {
        let (ask, known_only) = (Ask::Never, true);
        Program::load(&Options { ask, known_only, ..self.lenient_options(terminal, false)? }).await
    }

    pub(super) fn options(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Options> {
        let Execution { container, ssh, tmux, no_tmux, .. } = self.execution.clone();
        let in_tmux = if no_tmux { Some(false) } else { tmux.as_ref().map(|_| true) };
        let target = Target { container, ssh, tmux: in_tmux, session: tmux.flatten(), here: false };
        Ok(Options {
            program: self.program.clone(),
            trust: trusted::of_environment()?,
            allow: self.execution.allow.clone(),
            many_calls,
            confiner: self.execution.unsafe_no_sandbox.then(Confiner::open),
            redactor: terminal.redactor(),
            no_journal: self.execution.no_journal || is_journal_off()?,
            target,
            machines: Machines::at(self.execution.workers.nats.clone()),
            events: terminal.loading(),
            // Servers are not started merely to list their tools, unless a verb requests that.
            ask: Ask::Never,
            person: elicitation::present(),
            ..Options::default()
        })
    }

    /// Returns the options of a verb that leaves out the parts of the program without consent.
    pub(super) fn lenient_options(&self, terminal: Terminal, many_calls: bool) -> anyhow::Result<Options> {
        let options = self.options(terminal, many_calls)?;
        Ok(Options { trust: trusted::or_left_out(options.trust), ..options })
    }
}

/// Tells once that commands can run in a pane. Tells a person only, not a program.
pub(super) fn propose_pane(is_without: bool, terminal: Terminal) {
    let hint = proposed_pane(is_without).filter(|_| !terminal.json);
    let is_news = || Dirs::of_this_machine().is_ok_and(|dirs| dirs.is_first_time("tmux"));
    if let Some(hint) = hint.filter(|_| is_news()) {
        terminal.message(hint);
    }
}

/// Returns the notice for a user inside tmux whose commands run without a pane, if panes were neither chosen nor
/// refused.
pub(super) fn proposed_pane(is_without: bool) -> Option<&'static str> {
    (is_without && std::env::var_os("TMUX_PANE").is_some()).then_some(
        "this terminal is a tmux pane; with `--tmux`, or `[backend] tmux = true`, commands run in a separate \
         pane that you can attach to",
    )
}

/// Returns whether the user turned the journal off. A program.toml cannot, because a malicious one would.
fn is_journal_off() -> anyhow::Result<bool> {
    match std::env::var("HAFT_JOURNAL").unwrap_or_default().as_str() {
        "" | "on" => Ok(false),
        "off" => Ok(true),
        other => anyhow::bail!("`HAFT_JOURNAL` is `{other}`; expected `on` or `off`"),
    }
}

// The options of this command line that determine the rights and the target of a served tool, repeated for the
// configuration of a client that will start haft.

/// Returns the options of every verb, except `--program`. Relative directories become absolute if `is_here`: the
/// client starts haft in another folder.
pub(super) fn words(common: &Common, is_here: bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    for allow in &common.execution.allow {
        let allow = if is_here { allow.absolute() } else { allow.clone() };
        option("--allow", &allow.to_string());
    }
    common.execution.container.iter().for_each(|name| option("--container", name));
    common.execution.ssh.iter().for_each(|target| option("--ssh", target));
    match &common.execution.tmux {
        Some(Some(session)) => words.push(format!("--tmux={session}")),
        Some(None) => words.push("--tmux".into()),
        None => {}
    }
    let switches = [
        ("--no-tmux", common.execution.no_tmux),
        ("--unsafe-no-sandbox", common.execution.unsafe_no_sandbox),
        ("--no-journal", common.execution.no_journal),
    ];
    words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name.to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::Cli;

    fn names(command: &Command, found: &mut BTreeSet<String>) {
        for verb in command.get_subcommands() {
            found.insert(verb.get_name().to_owned());
            names(verb, found);
        }
    }

    /// A name that is not a verb would have no effect.
    #[test]
    fn each_name_in_a_list_is_that_of_a_verb() {
        let mut known = BTreeSet::new();
        names(&Cli::grammar(), &mut known);
        for name in [WITHOUT_PROGRAM, EXECUTING, CONNECTING, WITHOUT_DATA].concat() {
            assert!(known.contains(name), "{name}");
        }
    }
}
