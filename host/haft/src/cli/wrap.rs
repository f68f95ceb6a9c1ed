//! `haft wrap`: a prefix for the command of an MCP server, in any client's configuration. The server is confined to
//! the rights that the user gave; client and server communicate as if haft were not there.
//!
//! - **Agreed to:** a relay passes on the messages of client and server, and inspects them for lists of tools.
//! - **Not yet:** the server is tried without rights. The user is asked for the rights that its start needs: at the
//!   terminal, or by elicitation. If no user can be asked, the client gets the command that asks.

mod client;
mod command;
mod fetch;
mod person;
mod question;
mod record;
mod relay;
mod rights;
mod tools;
mod trial;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::slice;

use clap::Args;

use self::command::Wrapping;
use self::fetch::{Fetch, has_network};
use self::record::Record;
use self::relay::{End, Relay};
pub(super) use self::rights::{distinct, right};
use self::rights::{given, missing};
use self::trial::{Trial, pipes};
use self::watch::Watcher;
use super::Exit;
use super::terminal::{DIM, Terminal};
use haft::program::{Dirs, wrapped};
use haft_core::grant::{Grant, Right};
use haft_core::report::plain;
use haft_manifest::{ProcessLimits, Wrapped};
use haft_sandbox::attached::{self, Attached};
use haft_sandbox::confine::Confiner;
use haft_sandbox::service::ServiceSpec;

#[derive(Debug, Args)]
#[command(after_help = "\
Without rights the server has its own home directory, reads the system's programs and its own files, and has no network. haft \
asks once for the rights that its start needs and for rights on the command line: at a terminal, or through the \
client (elicitation). Your consent applies to this command as long as its files do not change. haft pins the \
tools of the first listing; a new or changed tool is held back until you agree to it. NAME alone, at a \
terminal, asks again for the rights that you declined; options add rights or show the tools.

Examples:
  haft wrap memory -- npx -y @modelcontextprotocol/server-memory
  haft wrap --grant read=~/notes files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  haft wrap --grant host=api.github.com --grant env=GITHUB_TOKEN github
  haft wrap --tools github")]
pub(super) struct Wrap {
    /// Grant this right: `read=DIR`, `write=DIR`, `host=HOST`, `network`, `service=SERVICE`, `env=NAME` or
    /// `credentials=STORE`
    #[arg(long = "grant", value_name = "RIGHT", value_parser = given, add = super::completions::rights())]
    rights: Vec<Right>,
    /// Show the tools of NAME that are held back, and ask for your consent
    #[arg(long, requires = "name", conflicts_with_all = ["rights", "command"])]
    tools: bool,
    /// The server's name in messages [default: from its command]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Words of a command without `--` before it.
    #[arg(hide = true, value_name = "WORD", value_parser = misplaced)]
    _misplaced: Vec<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Refuses a word of a command without `--` before it.
fn misplaced(word: &str) -> Result<String, String> {
    Err(format!("put `--` before the command: `haft wrap NAME -- {word} …`"))
}

/// A server that is to be started, and what a person has said to it.
struct Start {
    terminal: Terminal,
    dirs: Dirs,
    confiner: Confiner,
    command: Wrapping,
    fetch: Fetch,
    /// What the command line asks for.
    asked: Vec<Right>,
    /// What a person agreed to, for these files.
    agreed: Vec<Right>,
    declined: Vec<Right>,
    /// What a person agreed to before its files changed.
    outdated: Vec<Right>,
    /// The files that changed since.
    changed: Vec<PathBuf>,
    written: Wrapped,
    /// Whether a person has decided, and nothing more is asked for.
    is_decided: bool,
    /// Whether the last trial of it answered.
    has_answered: bool,
    /// How the server ended in its last trial without an answer.
    ending: Option<String>,
}

impl Wrap {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let dirs = Dirs::of_this_machine()?;
        if let Some(name) = self.name.as_deref().filter(|_| self.tools) {
            return person::show_tools(&dirs, name, terminal).await;
        }
        if self.command.is_empty() {
            return person::widen(&dirs, self.name.as_deref(), &self.rights, terminal).await;
        }
        let command = Wrapping::new(self.name, &self.command, &dirs.here)?;
        let start = Start::new(dirs, command, self.rights, terminal)?;
        if start.is_decided {
            start.run().await
        } else if terminal.has_person() {
            person::ask(start).await
        } else {
            client::serve(start).await
        }
    }
}

impl Start {
    fn new(dirs: Dirs, command: Wrapping, asked: Vec<Right>, terminal: Terminal) -> anyhow::Result<Self> {
        let record = record::load(&dirs, &command)?;
        let is_known = record.as_ref().is_some_and(|record| !record.is_outdated && record.written.decided);
        let Record { written, is_outdated, changed } = record.unwrap_or_default();
        let rights = written.grant.all();
        let (agreed, outdated) = if is_outdated { (Vec::new(), rights) } else { (rights, Vec::new()) };
        let mut declined = if is_outdated { Vec::new() } else { record::declined(&written) };
        let fetch = Fetch::new(&dirs, &command, is_known)?;
        if fetch.runner().is_some() {
            // The runner would wait for the network: the user is asked again.
            declined.retain(|right| !has_network(slice::from_ref(right)));
        }
        let known = [agreed.as_slice(), declined.as_slice()].concat();
        let is_fetched = fetch.runner().is_none() || has_network(&known);
        let is_decided = is_known && missing(&asked, &known).is_empty() && is_fetched;
        let confiner = Confiner::new();
        Ok(Self {
            terminal,
            dirs,
            confiner,
            command,
            fetch,
            asked,
            agreed,
            declined,
            outdated,
            changed,
            written,
            is_decided,
            has_answered: false,
            ending: None,
        })
    }

    /// What the server may do with what was agreed to, and what starts it.
    fn prepared(&self) -> anyhow::Result<(Grant, ServiceSpec)> {
        self.with(&self.agreed, &self.command.started_from)
    }

    /// The same with `rights`, started from `files`.
    fn with(&self, rights: &[Right], files: &[PathBuf]) -> anyhow::Result<(Grant, ServiceSpec)> {
        let record = record::of_rights(&self.command, rights)?;
        let grant = wrapped(&self.dirs, &self.command.key, &record, files)?;
        let (program, arguments) = (self.command.program.clone(), self.command.arguments.clone());
        let (environment, limits) = (self.fetch.environment(rights), ProcessLimits::default());
        Ok((grant, ServiceSpec { program, arguments, environment, limits }))
    }

    /// Lets the client and the server talk to each other, until the server has ended.
    async fn run(self) -> anyhow::Result<Exit> {
        let (grant, job) = self.prepared()?;
        let mut watcher = Watcher::new(&self, &grant)?;
        let (input, output, [their_input, their_output]) = pipes()?;
        let [_, _, errors] = attached::own_streams()?;
        let streams = [their_input, their_output, errors];
        let mut attached = Attached::start(&self.confiner, &grant, &job, streams).await?;
        let (input, output) = (End::new(input.into()), End::new(output.into()));
        let relay = Relay::new(&self)?;
        let client = relay.output.clone();
        let passing = relay.begin(relay::client()?, input, output);
        watcher.watch(&mut attached).await?;
        let status = attached.finish().await?;
        watcher.wait_for(passing).await;
        if !client.is_used() {
            watcher.tell_unanswered(status);
        }
        Ok(watch::exit(status))
    }

    /// Notes down that a person gave the server `rights` too, or not; without any that it needs none.
    fn decide(&mut self, rights: &[Right], is_given: bool) -> anyhow::Result<()> {
        let mut noted = rights.to_vec();
        if is_given && self.is_fetched_by(rights) {
            noted.retain(|right| !has_network(slice::from_ref(right)));
            self.fetch.agree();
        }
        let decided = if is_given { &mut self.agreed } else { &mut self.declined };
        *decided = distinct([decided.as_slice(), &noted].concat());
        let path = record::save(&self.dirs, &self.command, (&self.agreed, &self.declined))?;
        if rights.is_empty() {
            return Ok(());
        }
        let done = if is_given { "agreed to" } else { "not agreed to" };
        self.terminal.message(format_args!("{DIM}haft: {done}, noted in {}{DIM:#}", path.display()));
        if !is_given {
            let again = plain(&rights::line(&[], &self.command.name, &[]));
            self.terminal.message(format_args!("{DIM}haft: `{again}` in a terminal asks again{DIM:#}"));
        }
        Ok(())
    }

    /// Whether `rights` are those with which the runner fetches the server.
    fn is_fetched_by(&self, rights: &[Right]) -> bool {
        has_network(rights) && self.fetches()
    }

    /// Ends without a record: the server cannot start before it is fetched.
    fn leave_unfetched(&self) -> Exit {
        let Wrapping { name, words, .. } = &self.command;
        let (runner, again) =
            (self.fetch.runner().unwrap_or_default(), rights::line(&self.asked, name, words));
        self.terminal.message(plain(&format!(
            "haft: {name}: you did not agree, so `{runner}` did not fetch the server, and it cannot start: \
             `{again}` in a terminal asks again"
        )));
        Exit::Declined
    }

    /// Reports what was refused in `trial`, except what the question about the rights `asked` covers.
    fn tell(&self, trial: &Trial, asked: &[Right]) {
        for refusal in &trial.refused {
            let right = right(refusal, &trial.grant);
            let is_asked = right.is_some_and(|right| asked.iter().any(|asked| asked.covers(&right)));
            // The question is about what the start needs, and does not have this.
            let is_noise = !asked.is_empty() && refusal.is_folder_of(self.command.script.as_deref());
            if !is_asked && !is_noise {
                watch::tell(self.terminal, refusal, (&self.command.name, &trial.grant));
            }
        }
    }

    /// Whether the network is asked for to fetch the server alone.
    fn fetches(&self) -> bool {
        self.fetch.runner().is_some() && !has_network(&[self.asked.as_slice(), &self.outdated].concat())
    }

    /// What a person has to decide about, after `trial`.
    fn wanted(&mut self, trial: &Trial) -> anyhow::Result<Vec<Right>> {
        let mut refused = rights::of_refusals(&trial.refused, &trial.grant, trial.words().as_deref());
        if self.fetch.runner().is_some() {
            // A runner that fetches the server from this machine has the network for that alone, too.
            rights::widen_services(&mut refused);
        } else if self.asked.iter().any(reaches) {
            // The command line names all that it reaches; other attempts are reported alone.
            refused.retain(|right| !reaches(right));
        }
        let unfetched = self.fetch.judge(trial, &refused)?;
        self.has_answered = trial.answer.is_some();
        self.ending = trial.ending().filter(|_| !self.fetches());
        Ok(self.undecided([self.configured(), refused, unfetched.into_iter().collect()].concat()))
    }

    /// The same of what the command line and the client's configuration name, and of what was agreed to before the files
    /// changed.
    fn configured(&self) -> Vec<Right> {
        let named = rights::configured(&self.command);
        self.undecided([self.asked.clone(), self.outdated.clone(), named].concat())
    }

    fn undecided(&self, rights: Vec<Right>) -> Vec<Right> {
        missing(&distinct(rights), &[self.agreed.as_slice(), self.declined.as_slice()].concat())
    }

    /// What a person reads before they agree to `rights`.
    fn sheet(&self, rights: &[Right]) -> String {
        let Wrapping { name, words, .. } = &self.command;
        let mut lines = vec![
            format!("The MCP server `{}` needs rights that it does not have:", plain(name)),
            String::new(),
        ];
        let runner = self.fetch.runner().filter(|_| self.fetches());
        lines.extend(rights.iter().map(|right| match runner {
            Some(runner) if has_network(slice::from_ref(right)) => {
                format!("  network, until `{}` has fetched it", plain(runner))
            }
            _ => format!("  {}", plain(&rights::explained(right))),
        }));
        if self.has_answered {
            lines.extend([String::new(), "The server starts without them, but may not work.".to_owned()]);
        }
        if let Some(ending) = &self.ending {
            lines.extend([String::new(), format!("The server {ending}.")]);
        }
        lines.extend([String::new(), format!("Its command: {}", plain(&shell_words::join(words)))]);
        if !self.outdated.is_empty() {
            let changed = plain(&listed(&self.changed));
            lines.push(format!("Your earlier consent was for other contents of {changed}."));
        }
        lines.join("\n")
    }

    /// Returns the part of an error about the files that changed since the consent.
    fn changes(&self) -> String {
        if self.changed.is_empty() || !self.written.decided {
            return String::new();
        }
        format!(", because {} changed since your consent", listed(&self.changed))
    }

    /// Returns the part of an error about a consent for another command with this name.
    fn other_consent(&self) -> anyhow::Result<String> {
        let Wrapping { name, words, .. } = &self.command;
        let named = record::named(&self.dirs, name, self.terminal)?;
        let others = named.into_iter().filter(|(_, other)| other.decided && other.command != *words);
        // This command has no record.
        let is_unknown = self.written.command.is_empty();
        let Some((_, Wrapped { command: other, .. })) = others.last().filter(|_| is_unknown) else {
            return Ok(String::new());
        };
        let is_program = other.first() != words.first();
        let shown = |words: &[String]| match words {
            [program, ..] if is_program => program.clone(),
            words => shell_words::join(words),
        };
        Ok(format!(
            "; you agreed to `{name}` with `{}`, and this client starts `{}`",
            shown(&other),
            shown(words)
        ))
    }

    /// Returns the part of an error about a server that ended in its trial.
    fn ending(&self) -> String {
        self.ending.as_ref().map_or_else(String::new, |ending| format!("; the server {ending}"))
    }
}

fn reaches(right: &Right) -> bool {
    matches!(right, Right::Host(_) | Right::Service(_))
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    files.join(", ")
}
