//! `haft learn`: runs a command, an MCP server or a command tool confined, observes what it needs, and proposes the rights
//! for program.toml.

mod needs;
mod subject;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use self::needs::Needs;
use self::subject::Subject;
use super::Exit;
use super::common::Common;
use super::grant::put;
use super::install_session::project_error;
use super::terminal::{DIM, Terminal, changed};
use haft::program::{Allow, FILE_NAME, Options};
use haft_core::tool::Difference;
use haft_package::{Project, ProjectError, edit};
use haft_sandbox::confine::{Confiner, Observed};

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
