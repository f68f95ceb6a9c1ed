//! `haft update`: fetches anew what is installed. Whatever changed of what somebody agreed to is shown and
//! asked about; nothing else than the same is taken without a word.

use clap::Args;
use serde_json::{Value, json};

use super::Exit;
use super::add::expect_name;
use super::common::Common;
use super::consent::Before;
use super::terminal::Terminal;
use crate::cli::install_args::Rights;
use crate::cli::installing::{Arrival, Expected, InstallWork, told_project, trust};
use haft_package::disclosure::Change;
use haft_package::signature::Trust;
use haft_package::{Change as Written, Kind, PackageSource, Pin, Project, ProjectError, Request, edit, more};

#[derive(Debug, Args)]
#[command(after_help = "\
Everything that changed is shown and asked about: scripts, SKILL.md, what the tools say of themselves. `--yes`
agrees. What is granted stays what it is. Where the new one asks for more, that is granted with it; `--grant RIGHT`
grants no more than that besides, `--no-grant` nothing.")]
pub(super) struct Update {
    /// What to update; everything without one
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    rights: Rights,
    /// The public key that must have signed it now: itself or its file (cosign or minisign)
    #[arg(long, value_name = "FILE|KEY", requires = "names")]
    key: Option<String>,
}

/// What came of one entry.
enum Outcome {
    Same,
    Updated(Value),
    Declined(String),
}

impl Update {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let work = InstallWork::open(common, terminal)?;
        tokio::select! {
            done = self.work(&work, terminal) => done,
            // Whatever was fetched goes with the future that is dropped.
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    }

    async fn work(&self, work: &InstallWork, terminal: Terminal) -> anyhow::Result<Exit> {
        let entries = self.entries(work)?;
        if entries.is_empty() {
            terminal.message("nothing is installed here: no entry of program.toml is pinned in program.lock");
        }
        let (mut updated, mut declined, mut exit) = (Vec::new(), Vec::new(), Exit::Success);
        for (kind, name) in entries {
            match self.update(work, kind, &name, terminal).await {
                Ok(Outcome::Same) => terminal.message(format_args!("`{name}` is up to date")),
                Ok(Outcome::Updated(described)) => updated.push(described),
                Ok(Outcome::Declined(name)) => {
                    declined.push(name);
                    exit = Exit::Declined;
                }
                Err(error) if self.names.len() == 1 => return Err(error),
                // One that cannot be had does not keep the others from being updated.
                Err(error) => {
                    terminal.fail(&error.context(format!("`{name}` was not updated")));
                    exit = Exit::Failure;
                }
            }
        }
        if terminal.json {
            terminal.json(&json!({ "updated": updated, "declined": declined }))?;
        }
        Ok(exit)
    }

    /// The entries that were named; without names all that are pinned.
    fn entries(&self, work: &InstallWork) -> anyhow::Result<Vec<(Kind, String)>> {
        if self.names.is_empty() {
            let is_pinned = |entry: &(Kind, String)| work.project.lock.find(entry.0, &entry.1).is_some();
            return Ok(work.entries().into_iter().filter(is_pinned).collect());
        }
        let named = self.names.iter().map(|name| Ok((work.entry(name)?, name.clone())));
        named.collect()
    }

    async fn update(
        &self,
        work: &InstallWork,
        kind: Kind,
        name: &str,
        terminal: Terminal,
    ) -> anyhow::Result<Outcome> {
        let Some(source) = work.source(kind, name) else { return Ok(Outcome::Same) };
        let own = (kind == Kind::Plugin).then(|| name.parse()).transpose()?;
        let old = work.project.lock.find(kind, name);
        let trust = self.trust(old)?;
        let wanted = Expected { digest: None, trust: &trust };
        let arrival = work.fetch(terminal, (source, work.project.folder()), wanted, own).await?;
        expect_name(&arrival, kind, name)?;
        let shown = arrival.disclosure.noted();
        let is_same = old.is_some_and(|old| is_same(old, &arrival) && old.shown.as_ref() == Some(&shown));
        if is_same && work.check(&arrival.pin(&[])).is_ok() {
            return Ok(Outcome::Same);
        }
        work.check_clashes(&arrival.offered)?;
        let agreed = old.map(|pin| pin.asked.clone()).unwrap_or_default();
        let more = more(&agreed, &arrival.offered.requests);
        let new = self.new_grants(&arrival, &more, work)?;
        let changes = changes(work, old, &arrival).await;
        let stops = stops(old, &arrival, !more.is_empty());
        let granted: Vec<_> = work.granted(kind, name).into_iter().chain(new.iter().cloned()).collect();
        if let Some(why) = &stops {
            let before = old.map(|pin| Before { pin, more, changes: changes.clone() });
            let page = work.page(&arrival, &granted, before);
            terminal.warning(&format!("`{name}` {why}"));
            let question = ("Update it?", format!("haft update --full {name}"));
            if !self.rights.agree(terminal, &page, (question.0, &question.1)).await? {
                return Ok(Outcome::Declined(name.to_owned()));
            }
        }
        arrival.keep()?;
        write(work, &arrival, &new, &granted)?;
        terminal.message(format_args!("updated `{name}`{}", versions(old, &arrival)));
        let mut described = arrival.described(&granted);
        if let (Some(described), Some(changes)) = (described.as_object_mut(), changes) {
            described.insert("changes".to_owned(), changes.iter().map(as_data).collect());
        }
        Ok(Outcome::Updated(described))
    }

    /// Whoever signed it before has to have signed it again, unless somebody names another key.
    fn trust(&self, old: Option<&Pin>) -> anyhow::Result<Trust> {
        match old.and_then(|pin| pin.signer.clone()) {
            Some(signer) if self.key.is_none() => Ok(Trust::Pinned(signer)),
            _ => trust(self.key.as_deref()),
        }
    }

    /// What is granted besides what was: of what is new, all of it or what the command line says.
    fn new_grants(
        &self,
        arrival: &Arrival,
        more: &[&Request],
        work: &InstallWork,
    ) -> anyhow::Result<Vec<Request>> {
        let here = std::env::current_dir()?;
        let mut offered = arrival.offered.clone();
        if self.rights.grant.is_empty() {
            offered.requests = more.iter().map(|request| (*request).clone()).collect();
        }
        self.rights.chosen(&offered, &here, work.project.folder())
    }
}

/// Whether it is what is installed, from where and by whom that is.
fn is_same(old: &Pin, arrival: &Arrival) -> bool {
    let fetched = &arrival.fetched;
    old.kept == fetched.kept
        && old.source == arrival.source
        && old.signer.as_ref() == fetched.verdict.signer()
}

/// What is not as it was agreed to; `None` where nobody noted what that was.
async fn changes(work: &InstallWork, old: Option<&Pin>, arrival: &Arrival) -> Option<Vec<Change>> {
    let pin = old?;
    let noted = pin.shown.as_ref()?;
    Some(arrival.disclosure.changes(noted, &work.previous(pin).await))
}

fn as_data(change: &Change) -> Value {
    let lines: Vec<String> = change.lines.iter().map(ToString::to_string).collect();
    json!({ "name": change.name, "what": change.what, "difference": lines })
}

/// Why somebody has to be asked.
fn stops(old: Option<&Pin>, arrival: &Arrival, asks_more: bool) -> Option<String> {
    let Some(old) = old else { return Some("was not installed before".to_owned()) };
    let (before, now) = (old.version.as_ref(), arrival.offered.version.as_ref());
    let shown = |version: Option<&semver::Version>| version.map(ToString::to_string).unwrap_or_default();
    let is_here = matches!(arrival.source, PackageSource::Path(_));
    if asks_more {
        Some("asks for more than was agreed to".to_owned())
    } else if let (Some(before), Some(now)) = (&old.signer, arrival.fetched.verdict.signer())
        && before != now
    {
        Some(format!("is signed with {}, and was with {}", now.describe(), before.describe()))
    } else if before.zip(now).is_some_and(|(before, now)| now < before) {
        Some(format!("is older: {}, and {} is installed", shown(now), shown(before)))
    } else if !is_here && before.is_some() && before == now && old.kept != arrival.fetched.kept {
        Some(format!("is still called {}, and has another content", shown(now)))
    } else if old.shown.is_none() {
        Some("was pinned by an earlier haft, which did not note what it showed".to_owned())
    } else if old.kept != arrival.fetched.kept {
        Some("is not what was agreed to".to_owned())
    } else if old.shown != Some(arrival.disclosure.noted()) {
        Some("says something else of its tools than what was agreed to".to_owned())
    } else {
        None
    }
}

fn versions(old: Option<&Pin>, arrival: &Arrival) -> String {
    let before = old.and_then(|pin| pin.version.as_ref());
    match (before, arrival.offered.version.as_ref()) {
        (Some(before), Some(now)) if before == now => format!(" {now}: its content has changed"),
        (Some(before), Some(now)) => format!(" {before} → {now}"),
        (None, Some(now)) => format!(" to {now}"),
        (_, None) => format!(" to {}", arrival.fetched.digest.short()),
    }
}

/// Writes the new pin, and what is granted besides.
fn write(work: &InstallWork, arrival: &Arrival, new: &[Request], granted: &[Request]) -> anyhow::Result<()> {
    let (kind, name) = (arrival.offered.kind, arrival.offered.name.as_str());
    let is_package = kind == Kind::Package;
    let new: Vec<_> = new
        .iter()
        .filter(|request| !(is_package && matches!(request, Request::Limit(..))))
        .cloned()
        .collect();
    let done = Project::change(&work.project.path, &work.bench.store, |project| {
        let path = || project.path.clone();
        let text = edit::grant(&project.text, kind, name, &new)
            .map_err(|error| ProjectError::Edit { path: path(), error })?;
        let mut lock = project.lock.clone();
        lock.put(arrival.pin(granted));
        Ok(Written { text, lock })
    });
    done.map_err(told_project)
}
