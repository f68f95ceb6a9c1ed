//! `haft search`: plugins and MCP servers in the marketplaces and registries that the user named. Installs nothing.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Exit;
use super::common::Common;
use super::terminal::{Column, DIM, HEAD, Terminal};
use crate::cli::install_session::{InstallSession, sources, with_hint};
use haft_core::report::{plain, shortened};
use haft_package::search::{Cache, FILE, Found, Offer, OfferKind, SourceAnswer, Words};

/// Maximum number of displayed offers: two screens. `--json` has all offers.
const MAX_SHOWN: usize = 20;

/// Maximum characters of a description: two lines.
const MAX_DESCRIPTION: usize = 140;

#[derive(Debug, Args)]
#[command(after_help = "Only the places that `~/.config/haft/sources.toml` names are searched:

  marketplaces = [\"git+https://github.com/anthropics/claude-plugins-official\"]
  registries = [\"https://registry.modelcontextprotocol.io\"]

All words have to be in the name, the description or the keywords; a registry finds names alone. Answers are kept for an hour, and \
for a month where a place does not answer.")]
pub(super) struct Search {
    /// Words of names and descriptions
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// Search only stored answers; no requests to marketplaces or registries
    #[arg(long)]
    offline: bool,
}

impl Search {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let words = Words::new(&self.words).map_err(|why| anyhow::anyhow!("invalid search: {why}"))?;
        let session = InstallSession::without_program(common, terminal)?;
        let dirs = &session.context.dirs;
        let sources = sources(dirs)?;
        if sources.is_empty() {
            let hint = format!(
                "add them to `{}`: `marketplaces = [\"git+https://…\"]`, `registries = [\"https://…\"]`",
                dirs.config.join(FILE).display()
            );
            let why = "no marketplace or registry is configured, and haft has no default";
            return Err(with_hint(Some(&hint), why));
        }
        let folder = dirs.cache.join("search");
        let cache = Cache { folder: &folder, is_offline: self.offline };
        let installer = session.installer();
        let found = tokio::select! {
            found = installer.search(&sources, &words, &cache) => found,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        found.answers.iter().for_each(|answer| tell(answer, self.offline, terminal));
        let exit =
            if found.answers.iter().any(|answer| answer.is_partial) { Exit::Failure } else { Exit::Success };
        if terminal.json {
            terminal.json(&data(&found))?;
        } else if found.offers.is_empty() {
            terminal
                .message(format_args!("no result has all of these words: {}", plain(&self.words.join(" "))));
        } else {
            let shown = found.offers.iter().take(MAX_SHOWN).map(text).collect::<Vec<_>>().join("\n");
            terminal.data(&shown)?;
            let more = found.offers.len().saturating_sub(MAX_SHOWN);
            if more > 0 {
                terminal.message(format_args!(
                    "… and {more} more; add a word to narrow the results, or use `--json`"
                ));
            }
        }
        Ok(exit)
    }
}

fn tell(answer: &SourceAnswer, is_offline: bool, terminal: Terminal) {
    let SourceAnswer { source, age, problem, left_out, is_cut, .. } = answer;
    if let Some(problem) = problem {
        terminal.warning(&format!("`{source}` could not be asked again: {}", plain(&problem.to_string())));
    }
    // A state of less than an hour counts as new.
    if let Some(age) = age.filter(|_| is_offline || problem.is_some()) {
        terminal.message(format_args!("`{source}` is searched in its state of {} ago", rounded(age)));
    }
    if *is_cut {
        terminal.message(format_args!("`{source}` has more results than haft reads: use a longer word"));
    }
    if *left_out > 0 {
        terminal
            .message(format_args!("`{source}` has {left_out} plugins at addresses that `haft add` refuses"));
    }
}

/// Returns a time in its largest unit.
fn rounded(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    let (count, unit) = match minutes {
        0..120 => (minutes, "min"),
        120..2880 => (minutes / 60, "h"),
        _ => (minutes / 1440, "days"),
    };
    format!("{count} {unit}")
}

fn data(found: &Found) -> serde_json::Value {
    let sources = found.answers.iter().map(|answer| {
        json!({
            "source": answer.source,
            "age_seconds": answer.age.map(|age| age.as_secs()),
            "problem": answer.problem.as_ref().map(|problem| plain(&problem.to_string())),
            "left_out": answer.left_out,
            "is_cut": answer.is_cut,
            "is_partial": answer.is_partial,
        })
    });
    json!({ "results": found.offers, "sources": sources.collect::<Vec<_>>() })
}

fn text(offer: &Offer) -> String {
    let kind = match offer.kind {
        OfferKind::Plugin => "plugin",
        OfferKind::McpServer => "MCP server",
    };
    let what = shortened(&offer.description, MAX_DESCRIPTION);
    let what = if what.is_empty() { what } else { format!(": {what}") };
    let registry = offer.registry.iter().flat_map(|url| ["--registry", url.as_str()]);
    let words = ["haft", "add", &offer.place].into_iter().chain(registry);
    let name = plain(&offer.name);
    let mut text = format!("{HEAD}{name}{HEAD:#} ({kind}){what}\n");
    for (head, value) in [("add", shell_words::join(words)), ("from", offer.source.clone())] {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {DIM}{head:5}{DIM:#}{Column}{}", plain(&value));
    }
    text
}
