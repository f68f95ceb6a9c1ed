//! `haft trust`: shows the rights that program.toml requests, and records the user's consent. Every verb that needs
//! the consent asks the same question.

use clap::Args;
use serde_json::json;

use super::Exit;
use super::common::Common;
use super::terminal::Terminal;
use haft::program::Agreement;

#[derive(Debug, Args)]
#[command(after_help = "\
A program that works in its own folder, uses no key and starts no process needs no consent; neither do the \
entries that `haft init`, `haft plugin new` and `haft add` wrote. Consent applies to this path until \
program.toml or program.lock request more. `HAFT_TRUST=1` in the environment agrees to every program.toml: for \
CI and services.

Examples:
  haft trust
  haft trust --yes
  haft -p agents/reviewer/program.toml trust")]
pub(super) struct TrustVerb {
    /// Agree without a question
    #[arg(short, long)]
    yes: bool,
    /// Revoke your consent
    #[arg(long, conflicts_with = "yes")]
    forget: bool,
}

impl TrustVerb {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let agreement = Agreement::of(common.program.as_deref()).await?;
        if self.forget {
            let was_there = agreement.forget()?;
            terminal.message(if was_there { "forgotten" } else { "there is no consent to remove" });
            return Ok(Exit::Success);
        }
        show(&agreement, terminal)?;
        if agreement.is_complete() {
            return Ok(Exit::Success);
        }
        let is_agreed =
            self.yes || (terminal.has_person() && terminal.confirm("agree to these rights?").await?);
        if !is_agreed {
            terminal.hint("`haft trust --yes` agrees without a question");
            return Ok(Exit::Declined);
        }
        agreement.agree()?;
        terminal.message("agreed; `haft trust --forget` revokes your consent");
        Ok(Exit::Success)
    }
}

fn show(agreement: &Agreement, terminal: Terminal) -> anyhow::Result<()> {
    let lines = agreement.lines();
    if terminal.json {
        let line = |(line, agreed): &(String, bool)| json!({ "asks": line, "agreed": agreed });
        terminal.json(&lines.iter().map(line).collect::<Vec<_>>())?;
    } else if lines.is_empty() {
        terminal.message("no consent needed: its tools only work in its folder");
    } else if agreement.is_complete() {
        let lines: String = lines.iter().map(|(line, _)| format!("\n  {line}")).collect();
        terminal.message(format_args!("you have agreed to:{lines}"));
    } else {
        terminal.message(agreement.sheet());
    }
    Ok(())
}
