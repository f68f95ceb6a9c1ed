//! The approvers of a call: the user at the terminal, and the user at an open dashboard. The first answer counts,
//! and withdraws the question from the other approver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::terminal::{Person, Terminal};
use haft::program::{Dirs, Program};
use haft_agent::Begun;
use haft_core::tool::{Approvals, Approver, Decision, Question};
use haft_mcp::server::Fallback;
use haft_page::{Origin, PageApprover};

/// Asks the user at the terminal and the user at the dashboard.
struct Anybody {
    person: Person,
    page: PageApprover,
    /// Whether the terminal has no user. Then a message says where the call waits.
    is_alone: Arc<AtomicBool>,
}

/// Returns the approvals for calls of `program` under this verb: `person` and the dashboard are asked.
pub(super) fn of(
    person: Person,
    program: &Program,
    verb: &str,
    terminal: Terminal,
) -> anyhow::Result<Approvals> {
    let is_alone = Arc::new(AtomicBool::new(false));
    let told = is_alone.clone();
    let tell = move |question: &Question| {
        if told.load(Ordering::Relaxed) {
            say(terminal, question);
        }
    };
    let desk = Dirs::of_this_machine()?.desk();
    let page = PageApprover::new(desk, origin(&program.begun(), verb), tell);
    Ok(Approvals::by(Anybody { person, page, is_alone }))
}

/// Returns the fallback for MCP clients that cannot ask their user: the dashboard.
pub(super) fn of_clients(begun: &Begun, terminal: Terminal) -> anyhow::Result<Fallback> {
    let (desk, origin) = (Dirs::of_this_machine()?.desk(), origin(begun, "serve"));
    let page = || PageApprover::new(desk.clone(), origin.clone(), move |question| say(terminal, question));
    Ok(Fallback { in_session: Arc::new(page()), once: Arc::new(page().once_only()) })
}

/// Returns the origin of the questions, for the dashboard.
fn origin(begun: &Begun, verb: &str) -> Origin {
    let path = || begun.path.as_ref().map(|path| path.display().to_string());
    Origin {
        program: begun.program.clone().or_else(path),
        folder: begun.folder.as_ref().map(|folder| folder.display().to_string()),
        verb: verb.to_owned(),
    }
}

/// Tells that a call waits for an answer on the dashboard.
fn say(terminal: Terminal, question: &Question) {
    terminal.message(format_args!("`{}` waits for your answer on the dashboard", question.tool));
}

#[async_trait]
impl Approver for Anybody {
    async fn ask(&self, question: &Question) -> Decision {
        let (mut person, mut page) = (self.person.ask(question), self.page.ask(question));
        tokio::select! {
            // The terminal comes first: without a user it returns at once.
            biased;
            decision = &mut person => match decision {
                Decision::Unasked(why) => {
                    self.is_alone.store(true, Ordering::Relaxed);
                    or_neither(&why, page.await)
                }
                decision => decision,
            },
            decision = &mut page => match decision {
                Decision::Unasked(other) => match person.await {
                    Decision::Unasked(why) => or_neither(&why, Decision::Unasked(other)),
                    decision => decision,
                },
                decision => decision,
            },
        }
    }
}

/// Returns the dashboard's decision, after the terminal gave none because of `why`.
fn or_neither(why: &str, page: Decision) -> Decision {
    match page {
        Decision::Unasked(other) => Decision::Unasked(format!("{why}; {other}")),
        decision => decision,
    }
}
