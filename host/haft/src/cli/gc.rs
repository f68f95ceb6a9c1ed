//! `haft remove` and `haft cache clean`: remove an entry from program.toml, its pin and the state of its plugins, and content
//! that no program on this machine refers to. In doubt, content stays.

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::build::cache;
use super::common::Common;
use super::install_session::{InstallSession, install_error, with_hint};
use super::terminal::{Terminal, rounded};
use haft::program::Dirs;
use haft_author::record;
use haft_author::sweep::{self, Unused};
use haft_core::report::plain;
use haft_package::{Store, SweepError, Swept};
use haft_sandbox::process::caches;
use haft_state::{Kept, Swept as SweptState};

#[derive(Debug, Args)]
#[command(after_help = "A program is known from the first `haft add` or `haft update` in it, as long as \
its program.lock stays in its place. Installations of the last 10 minutes are kept; `haft add` fetches \
removed ones again. If a program.toml is gone, its plugins' caches are removed too, their other data only \
with `--state`. A compiler that `haft plugin build` installed is removed after 30 days without use, and so \
are the caches of package managers that commands and MCP servers have in the sandbox.")]
pub(super) struct Gc {
    /// Only print what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove the plugins' state of programs without a program.toml too
    #[arg(long)]
    state: bool,
}

impl Gc {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let dirs = Dirs::of_this_machine()?;
        let store = Store::new(dirs.store.clone());
        let swept = store.sweep(self.dry_run).map_err(|error| match &error {
            SweepError::Lock { error: lock, .. } => with_hint(lock.hint(), &error),
            SweepError::Store(_) => with_hint(None, &error),
        })?;
        let kept = dirs.homes().sweep(self.state, self.dry_run)?;
        let compilers = sweep::sweep(&cache()?, self.dry_run).context("cannot remove unused compilers")?;
        if !self.dry_run {
            record::sweep(&cache()?).context("cannot remove the records of builds")?;
        }
        let mut caches =
            caches::sweep(&dirs.sandbox_caches, self.dry_run).context("cannot remove unused caches")?;
        let processes = caches::sweep(&dirs.processes, self.dry_run);
        caches.extend(processes.context("cannot remove unused directories of processes")?);
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
                "compilers": compilers.iter().map(|one| json!({ "name": one.name, "size": one.size })).collect::<Vec<_>>(),
                "caches": caches,
                "kept": kept.iter().map(|kept| self.kept_json(kept)).collect::<Vec<_>>(),
            }))?;
            return Ok(Exit::Success);
        }
        self.print(&swept, terminal)?;
        for kept in &kept {
            terminal.message(self.kept_line(kept));
        }
        let word = if self.dry_run { "would remove" } else { "removed" };
        for Unused { name, size } in &compilers {
            let (name, size) = (plain(name), rounded(*size));
            terminal.message(format_args!("{word} a compiler without use for 30 days, {name}: {size}"));
        }
        for name in &caches {
            terminal.message(format_args!("{word} caches without use for 30 days: {}", plain(name)));
        }
        Ok(Exit::Success)
    }

    fn removes(&self, kept: &SweptState) -> bool {
        self.state || kept.kept == Kept::Cache
    }

    fn kept_json(&self, kept: &SweptState) -> serde_json::Value {
        let what = if kept.kept == Kept::Cache { "cache" } else { "state" };
        json!({ "program": kept.program, "what": what, "size": kept.size, "removed": self.removes(kept) && !self.dry_run })
    }

    fn kept_line(&self, kept: &SweptState) -> String {
        let what = if kept.kept == Kept::Cache { "caches" } else { "state" };
        let word = match (self.removes(kept), self.dry_run) {
            (true, false) => "removed",
            (true, true) => "would remove",
            (false, _) => "left",
        };
        let rest = if self.removes(kept) { "" } else { "; `haft cache clean --state` removes it" };
        let program = plain(&kept.program.display().to_string());
        format!("{word} plugin {what} of `{program}`, which no longer exists: {}{rest}", rounded(kept.size))
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

#[derive(Debug, Args)]
#[command(
    after_help = "The stored data of the plugins (`state` and `cache` of their grants) is removed too."
)]
pub(super) struct Remove {
    /// The packages or plugins to remove
    #[arg(value_name = "NAME", add = super::completions::plugins(), required = true)]
    names: Vec<String>,
}

impl Remove {
    pub(super) fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        // Removes all entries or none.
        session.installer().remove(&self.names).map_err(install_error)?;
        let mut cleared = Vec::new();
        for name in &self.names {
            // A removed plugin has no right to its state, and a later plugin of the same name must not find it.
            if session.context.dirs.homes().remove(&session.project.path, name)? {
                cleared.push(name);
            }
        }
        if terminal.json {
            terminal.json(&json!({ "removed": self.names, "cleared": cleared }))?;
        }
        for name in &self.names {
            let kept = if cleared.contains(&name) { ", and its stored data" } else { "" };
            terminal.message(format_args!("removed `{name}`{kept}"));
        }
        terminal.hint("`haft cache clean` removes unused packages from this machine");
        Ok(Exit::Success)
    }
}
