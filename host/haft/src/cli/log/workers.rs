//! The journals of workers on all machines, copied from NATS to where they can be read like this machine's own.

use tempfile::TempDir;

use super::Log;
use crate::cli::common::Common;
use crate::cli::terminal::Terminal;
use crate::cli::trusted;
use haft::program::{Ask, Options};
use haft_nats::{Link, Server, fetch};

/// A copy of what the workers have sent, which goes with the value; nothing where this machine's journal is meant.
pub(super) async fn copied(
    log: &Log,
    common: &Common,
    terminal: Terminal,
) -> anyhow::Result<Option<TempDir>> {
    if !log.workers && common.nats.is_none() {
        return Ok(None);
    }
    if log.follow {
        anyhow::bail!("`--follow` shows this machine's calls; those of workers are shown without it");
    }
    let options = Options { known_only: true, ask: Ask::Never, ..common.options(terminal, false)? };
    // Only where NATS is: nothing of the program is loaded, and nothing of it reported.
    let program = Box::pin(trusted::loaded(&options, terminal)).await?;
    let link = Link::connect(&program.nats().settings().await?, "haft-log").await?;
    let folder = TempDir::with_prefix("haft-log-")?;
    let fetched = fetch(&link, log.since.map(|since| since.0.into()), folder.path()).await?;
    if fetched.foreign > 0 {
        let text = format!("lines that a worker sent as another's are left out: {}", fetched.foreign);
        terminal.warning(&text);
    }
    Ok(Some(folder))
}
