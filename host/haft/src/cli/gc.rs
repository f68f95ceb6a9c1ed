//! `haft gc`: removes what no program on this machine refers to any more. Rather keeps too much.

use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::{Terminal, rounded};
use crate::cli::install_session::with_hint;
use crate::program::Dirs;
use haft_package::{Store, SweepError, Swept};

#[derive(Debug, Args)]
#[command(after_help = "\
A program is known once `haft add` or `haft update` was used in it, and as long as its program.lock is where it
was. What was installed in the last ten minutes is kept; what is removed can be fetched again by `haft add`.")]
pub(super) struct Gc {
    /// Only tell what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Gc {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let store = Store::new(Dirs::of_this_machine()?.store);
        let swept = store.sweep(self.dry_run).map_err(|error| match &error {
            SweepError::Lock { error: lock, .. } => with_hint(lock.hint(), &error),
            SweepError::Store(_) => with_hint(None, &error),
        })?;
        if terminal.json {
            let removed = swept
                .removed
                .iter()
                .map(|entry| json!({ "digest": entry.digest.to_string(), "size": entry.size }));
            terminal.json(&json!({
                "dry_run": self.dry_run,
                "removed": removed.collect::<Vec<_>>(),
                "size": size(&swept),
                "used": swept.used,
                "young": swept.young,
            }))?;
            return Ok(Exit::Success);
        }
        self.print(&swept, terminal)?;
        Ok(Exit::Success)
    }

    fn print(&self, swept: &Swept, terminal: Terminal) -> anyhow::Result<()> {
        let lines = swept.removed.iter().map(|entry| format!("{}  {}\n", entry.digest, rounded(entry.size)));
        terminal.data(&lines.collect::<String>())?;
        let (word, count) = (if self.dry_run { "would remove" } else { "removed" }, swept.removed.len());
        let (used, young) = (swept.used, swept.young);
        terminal.message(format_args!(
            "{word} {count} unused, {}; {used} in use, {young} too new to judge",
            rounded(size(swept))
        ));
        Ok(())
    }
}

fn size(swept: &Swept) -> u64 {
    swept.removed.iter().map(|entry| entry.size).sum::<u64>() + swept.remains
}
