//! Consent at the terminal: the user reads the page and answers the question, or passes `--yes`. Only an explicit
//! yes is consent.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::consent_page::{Before, Page, is_grantable};
use super::grant::{Wanted, for_process};
use super::install_args::Rights;
use super::install_session::InstallSession;
use super::terminal::{Hinted, Terminal};
use haft_core::grant::Right;
use haft_package::{Consent, Decision, Offered, Operation, Proposal, Request};

/// Asks the user at the terminal.
pub(super) struct TerminalConsent<'a> {
    pub(super) rights: &'a Rights,
    pub(super) terminal: Terminal,
    pub(super) session: &'a InstallSession,
    /// The folder that the command was started in, for relative directories on the command line.
    pub(super) here: PathBuf,
    /// The command that shows the cut texts whole.
    pub(super) full_command: String,
}

#[async_trait]
impl Consent for TerminalConsent<'_> {
    async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision> {
        let new = self.new_grants(proposal)?;
        if proposal.candidate.source.is_foreign() {
            new.iter().try_for_each(enforceable)?;
        }
        let offered = &proposal.candidate.offered;
        let version = offered.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        // The question repeats the name, because the head of a long page has left the screen.
        let what = format!("`{}`{version}", offered.name);
        let question = match &proposal.operation {
            Operation::Add => format!("Install {what}?"),
            Operation::Adopt => format!("Install {what} with the rights of program.toml?"),
            Operation::Update(Some(reason)) => {
                self.terminal.warning(&format!("`{}` {reason}", offered.name));
                format!("Update {what}?")
            }
            Operation::Update(None) => return Ok(Decision::Install(new)),
        };
        let granted = [proposal.granted, &new].concat();
        if self.agree(&self.page(proposal, &granted), &question).await? {
            Ok(Decision::Install(new))
        } else {
            Ok(Decision::Decline)
        }
    }
}

impl TerminalConsent<'_> {
    /// Returns the rights to grant in addition to the grants of program.toml: all new requests, or the rights of the
    /// command line.
    fn new_grants(&self, proposal: &Proposal<'_>) -> anyhow::Result<Vec<Request>> {
        let offered = &proposal.candidate.offered;
        let folder = self.session.project.folder();
        match proposal.operation {
            Operation::Adopt => Ok(Vec::new()),
            Operation::Update(_) if self.rights.grant.is_empty() => {
                let requests = proposal.more.iter().map(|request| (*request).clone()).collect();
                self.rights.chosen(&Offered { requests, ..offered.clone() }, &self.here, folder)
            }
            Operation::Add | Operation::Update(_) => self.rights.chosen(offered, &self.here, folder),
        }
    }

    /// Returns the page that the user reads before agreeing.
    fn page<'a>(&'a self, proposal: &'a Proposal<'_>, granted: &'a [Request]) -> Page<'a> {
        let is_update = matches!(proposal.operation, Operation::Update(_));
        let before = proposal.previous.as_ref().filter(|_| is_update).map(|previous| Before {
            pin: previous.pin,
            more: proposal.more.to_vec(),
            changes: previous.changes.clone(),
        });
        let context = &self.session.context;
        let dirs = (self.session.project.folder(), context.dirs.home.as_path());
        Page { candidate: proposal.candidate, granted, before, sandbox: &context.sandbox, dirs }
    }

    /// Shows the page, asks the question, and returns whether the user agrees.
    async fn agree(&self, page: &Page<'_>, question: &str) -> anyhow::Result<bool> {
        let (rights, terminal) = (self.rights, self.terminal);
        let rest = (!rights.full).then(|| self.full_command.clone());
        terminal.message(page.render(terminal.message_columns(), rest));
        if rights.yes {
            return Ok(true);
        }
        if !terminal.has_person() {
            let message = "nothing was changed: there is no terminal to ask at";
            let hint =
                "`--yes` agrees without a question; `--grant RIGHT` and `--no-grant` choose the rights";
            terminal.fail(&Hinted::new(message, hint).into());
            return Ok(false);
        }
        if rights.grant.is_empty() && !rights.no_grant && page.granted.iter().any(is_grantable) {
            terminal.hint(
                "to allow less, answer no and repeat with `--grant RIGHT` for each right, or `--no-grant`",
            );
        }
        let agreed = terminal.confirm(question).await?;
        if !agreed {
            terminal.message("nothing was changed");
        }
        Ok(agreed)
    }
}

/// Refuses a right that the sandbox cannot enforce for a process.
fn enforceable(granted: &Request) -> anyhow::Result<()> {
    match granted {
        Request::Right(_, right @ (Right::Host(_) | Right::Cache(_))) => {
            for_process(&Wanted::Right(right.clone()), Path::new("")).map(|_| ())
        }
        _ => Ok(()),
    }
}
