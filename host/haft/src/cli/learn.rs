//! `haft learn`: runs a command, an MCP server or a command tool confined, observes what it needs, and proposes the rights
//! for program.toml.

mod subject;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::subject::{Run, Subject};
use super::Exit;
use super::common::Common;
use super::install_session::{project_error, put};
use super::terminal::{DIM, Terminal, changed};
use super::wrap::{distinct, right};
use haft::program::{Allow, FILE_NAME, Options};
use haft_core::grant::{Grant, Outgoing, Proposal, Right, Service, Why};
use haft_core::report::plain;
use haft_core::tool::Difference;
use haft_manifest::{HOST_SETS, Manifest};
use haft_package::edit::{self, ProposedLine};
use haft_package::{Project, ProjectError};
use haft_sandbox::confine::{Confiner, Connection, Observed, Refusal};

/// Limit on the runs of one command: each one gets the rights that those before it lacked.
const MAX_RUNS: usize = 8;

#[derive(Debug, Args)]
#[command(after_help = "\
The command runs with its present rights. During the run every public host is open to it, if you agree, and haft \
records the hosts; this machine and private networks stay closed. If it fails because of files, it runs again with \
the rights to them, at most 8 times. A server or command tool without a grant starts with no rights. The proposed \
lines give no more than was observed. Credential stores, addresses without a name and files that programs run by \
themselves are comments, which you uncomment.

Examples:
  haft learn -- npm install
  haft learn files --call read_file '{\"path\": \"a.txt\"}'
  haft learn --yes -- git push")]
pub(super) struct Learn {
    /// Agree to the open network during the run, and write the proposed lines
    #[arg(short, long)]
    yes: bool,
    /// Call a tool of NAME, with its arguments as JSON; can be repeated
    #[arg(long = "call", num_args = 2, value_names = ["TOOL", "JSON"], conflicts_with = "command")]
    calls: Vec<String>,
    /// The MCP server or command tool of program.toml
    #[arg(required_unless_present = "command", conflicts_with = "command", add = super::completions::plugins())]
    name: Option<String>,
    /// The command and its arguments; it has the rights of `[sandbox]`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Learn {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let path = common.program.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
        let project = Project::open(&path).map_err(project_error)?;
        let subject = Subject::new(self.name, &self.calls, self.command, &project.manifest)?;
        let is_public = match (self.yes || subject.has_network(&project.manifest), terminal.has_person()) {
            (true, _) => true,
            (false, true) if terminal.confirm(&warning(&subject)).await? => true,
            (false, true) => return Ok(Exit::Declined),
            (false, false) => {
                terminal.warning("public hosts stay closed without consent; `--yes` agrees");
                false
            }
        };
        let mut needs = Needs::new(&subject, &project.manifest)?;
        let options = common.options(terminal, false)?;
        let has_succeeded = Box::pin(observed(&subject, &mut needs, &options, is_public, terminal)).await?;
        needs.notes.iter().for_each(|note| terminal.message(format_args!("{DIM}{note}{DIM:#}")));
        propose(&project, &subject, &needs, self.yes, terminal).await?;
        if has_succeeded {
            return Ok(Exit::Success);
        }
        terminal.warning(&format!("{} failed; the proposal may be incomplete", subject.name()));
        Ok(Exit::Tool)
    }
}

fn warning(subject: &Subject) -> String {
    format!("{} may reach every public host during this run; agree?", subject.name())
}

/// Runs the subject until it succeeds, or a run shows no other right. Returns whether it succeeded.
async fn observed(
    subject: &Subject,
    needs: &mut Needs,
    options: &Options,
    is_public: bool,
    terminal: Terminal,
) -> anyhow::Result<bool> {
    for _ in 1..MAX_RUNS {
        let observed = Observed::new(is_public);
        let options = Options {
            confiner: Some(Confiner::new().learning(&observed)),
            allow: needs.files().map(|right| Allow::new(subject.entry_name(), right.clone())).collect(),
            learns: subject.entry_name(),
            ..options.clone()
        };
        let run = Box::pin(subject.run(&options, terminal)).await?;
        let before = needs.files().count();
        needs.take(&observed, &run);
        if run.has_succeeded || run.is_interrupted || needs.files().count() == before {
            return Ok(run.has_succeeded);
        }
        let added: Vec<_> = needs.files().skip(before).map(|right| format!("`{right}`")).collect();
        terminal.message(format_args!("{DIM}haft: failed; again with {}{DIM:#}", added.join(", ")));
    }
    Ok(false)
}

/// Shows the lines as a difference of program.toml, and writes them if a person agrees.
async fn propose(
    project: &Project,
    subject: &Subject,
    needs: &Needs,
    yes: bool,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let begun = edit::begun(&project.text, project.folder());
    let lines = needs.lines();
    let failed = |error| project_error(ProjectError::Edit { path: project.path.clone(), error });
    let is_unchanged = lines.is_empty() && !subject.gets_grant(&project.manifest);
    let text =
        if is_unchanged { begun } else { edit::propose(&begun, subject.entry(), &lines).map_err(failed)? };
    if is_unchanged || text == project.text {
        terminal.message(format_args!("{} needs no other right", subject.name()));
        return Ok(());
    }
    let shown = project.path.display();
    terminal.message(format_args!("{DIM}{shown}:{DIM:#}"));
    let content: Value = json!({ "content": text });
    let difference = Difference::of(&content, Some(&project.text)).unwrap_or_default();
    for line in changed(&difference) {
        terminal.message(format_args!("  {line}"));
    }
    if subject.is_narrowed(&project.manifest)
        && lines.iter().any(|line| line.key == "hosts" && !line.is_comment)
    {
        terminal
            .message("note: `[sandbox]` has all of the network; with `hosts` it reaches these hosts only");
    }
    if yes || (terminal.has_person() && terminal.confirm("write these lines?").await?) {
        put(project, &text).await?;
        terminal.message(format_args!("written to {shown}"));
    } else {
        terminal.message("nothing was written");
    }
    Ok(())
}

/// The lines of a proposal, and what no line is proposed for.
struct Needs {
    /// The subject in reasons.
    subject: String,
    folder: PathBuf,
    /// The hosts that are granted already.
    held: Outgoing,
    /// Directories to read and to write.
    files: Vec<(Right, String)>,
    /// Hosts, and comments.
    others: Vec<ProposedLine>,
    /// Accesses without a line.
    notes: Vec<String>,
}

impl Needs {
    fn new(subject: &Subject, manifest: &Manifest) -> anyhow::Result<Self> {
        let folder = std::path::absolute(&manifest.folder)?.canonicalize()?;
        Ok(Self {
            subject: subject.name(),
            folder,
            held: Outgoing::new(subject.hosts(manifest), Vec::new()),
            files: Vec::new(),
            others: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Returns the rights to directories, with absolute paths, in the order of their discovery.
    fn files(&self) -> impl Iterator<Item = &Right> {
        self.files.iter().map(|(right, _)| right)
    }

    /// Adds what a run needed: the hosts that it was connected to and what it was refused to change; if it failed, all that it
    /// was refused.
    fn take(&mut self, observed: &Observed, run: &Run) {
        for connection in observed.connections() {
            self.take_connection(&connection);
        }
        let scripts = || run.scripts.iter().map(PathBuf::as_path);
        for refusal in observed.refused() {
            if refusal.is_incidental() || refusal.is_folder_of(scripts()) {
                continue;
            }
            // What it meant to change is missing, whatever its exit code says.
            let is_change = matches!(refusal, Refusal::Write(_) | Refusal::Remove(_));
            if run.has_succeeded && !is_change {
                self.note(&format!("not proposed, since it succeeded without: {refusal}"));
            } else {
                self.take_refusal(&refusal, &run.grant);
            }
        }
    }

    fn take_connection(&mut self, connection: &Connection) {
        let Connection { name, others, address, .. } = connection;
        if self.held.may_open(*address) {
            return;
        }
        if name.is_none() && others.is_empty() {
            let reason = format!("connect to {address}, an address without a name ({})", self.subject);
            self.push("hosts", address.to_string(), &reason, true);
        }
        for name in name.iter().chain(others) {
            if self.held.may_connect(name, *address).is_ok() {
                continue;
            }
            let host = Refusal::Host(name.clone(), Some(address.port()));
            let port = address.port();
            let set = HOST_SETS.iter().find(|(_, hosts)| port == 443 && hosts.contains(&name.as_str()));
            let set = set.map(|(set, _)| format!("; part of {set}")).unwrap_or_default();
            let reason = format!("connect to {name}:{port} ({}){set}", self.subject);
            self.push("hosts", host.host().unwrap_or_default(), &reason, false);
        }
    }

    fn take_refusal(&mut self, refusal: &Refusal, grant: &Grant) {
        let reason = format!("{refusal} ({})", self.subject);
        match refusal {
            Refusal::Host(..) => self.push("hosts", refusal.host().unwrap_or_default(), &reason, false),
            Refusal::Connect(address) if address.port() == 0 => {
                self.note(&format!("not proposed: a name leads to {}, a closed address", address.ip()));
            }
            Refusal::Connect(_) => self.push("hosts", refusal.host().unwrap_or_default(), &reason, true),
            Refusal::Request { .. } => {
                self.note(&format!("not proposed: {refusal}; `allow` of the secret names requests"));
            }
            Refusal::Socket(path) => {
                self.push("services", Service::of_socket(path).to_string(), &reason, true);
            }
            Refusal::Read(path) | Refusal::Write(path) | Refusal::Remove(path) => {
                self.take_path((refusal, path), &reason, grant);
            }
        }
    }

    fn take_path(&mut self, (refusal, path): (&Refusal, &Path), reason: &str, grant: &Grant) {
        match grant.closed_at(path).map(|closed| closed.why) {
            Some(Why::Store(store)) => self.push("credentials", store.to_string(), reason, true),
            Some(Why::StartUp) => self.push("write", self.relative(&path.to_string_lossy()), reason, true),
            Some(Why::Own | Why::Denied) => self.note(&format!("no line allows to {refusal}: it is closed")),
            None => match right(refusal, grant) {
                Some(right) if !self.files().any(|known| known.covers(&right)) => {
                    self.files.push((right, plain(reason)));
                }
                Some(_) => {}
                None => self.note(&format!("no line is proposed to {refusal}: {}", too_wide(path))),
            },
        }
    }

    fn push(&mut self, key: &'static str, value: String, reason: &str, is_comment: bool) {
        let is_known = |line: &ProposedLine| line.key == key && line.value == value;
        if !self.others.iter().any(is_known) {
            self.others.push(ProposedLine { key, value, reason: plain(reason), is_comment });
        }
    }

    fn note(&mut self, note: &str) {
        let note = plain(note);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the lines, with paths from the folder of program.toml.
    fn lines(&self) -> Vec<ProposedLine> {
        let kept = distinct(self.files().cloned().collect());
        let files = self.files.iter().filter(|(right, _)| kept.contains(right));
        let files = files.filter_map(|(right, reason)| {
            let (key, path) = right.list_entry()?;
            let (value, reason) = (self.relative(&path), reason.clone());
            Some(ProposedLine { key, value, reason, is_comment: false })
        });
        files.chain(self.others.iter().cloned()).collect()
    }

    fn relative(&self, path: &str) -> String {
        match Path::new(path).strip_prefix(&self.folder) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => format!("./{}", rest.display()),
            Err(_) => path.to_owned(),
        }
    }
}

fn too_wide(path: &Path) -> String {
    match Proposal::for_path(path) {
        Proposal::TooWide(directory, why) => format!("that would grant `{}`, {why}", directory.display()),
        Proposal::Grant(_) => "its path is not UTF-8".to_owned(),
    }
}
