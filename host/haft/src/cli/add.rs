//! `haft add`: installs a package or a component, once somebody has read what it is and asks for. Without
//! a source it fetches what program.lock pins and this machine has not got.

use crate::cli::common::Common;
use clap::Args;
use serde_json::json;

use super::Exit;
use super::terminal::{Hinted, Terminal};
use crate::cli::install_args::Rights;
use crate::cli::installing::{Arrival, Expected, InstallWork, told, told_project, trust};
use crate::program::missing;
use haft_core::manifest::Name;
use haft_core::report::plain;
use haft_package::signature::Trust;
use haft_package::{Change, Digest, Kind, PackageSource, Pin, Project, ProjectError, Request, edit};

#[derive(Debug, Args)]
#[command(after_help = "\
SOURCE is a folder with a program.toml, an archive of one (.tar.gz, .tgz, .tar), a component (.wasm), each on
this machine or at an https:// URL, oci://REGISTRY/NAME:TAG, or git+https://HOST/REPOSITORY[@REFERENCE].

Examples:
  haft add ./github
  haft add https://example.com/github-1.0.0.tar.gz
  haft add words.wasm --grant read=./docs
  haft add                    what program.lock pins and this machine has not got")]
pub(super) struct Add {
    /// Where it comes from; without it, what program.toml and program.lock name
    source: Option<String>,
    #[command(flatten)]
    rights: Rights,
    /// Call a component something else than it calls itself
    #[arg(long, requires = "source")]
    name: Option<Name>,
    /// What is fetched must have this SHA-256 digest
    #[arg(long, value_name = "SHA256", requires = "source")]
    digest: Option<Digest>,
    /// The public key that must have signed it: itself or its file (cosign or minisign). It is pinned: updates must
    /// be signed with it too
    #[arg(long, value_name = "FILE|KEY", requires = "source")]
    key: Option<String>,
    /// Install it although programs that it requires are missing
    #[arg(long)]
    force: bool,
}

impl Add {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let work = InstallWork::open(common, terminal)?;
        tokio::select! {
            done = self.work(&work, terminal) => done,
            // Whatever was fetched goes with the future that is dropped.
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    }

    async fn work(&self, work: &InstallWork, terminal: Terminal) -> anyhow::Result<Exit> {
        match &self.source {
            Some(source) => self.add(work, source, terminal).await,
            None => self.restore(work, terminal).await,
        }
    }

    async fn add(&self, work: &InstallWork, written: &str, terminal: Terminal) -> anyhow::Result<Exit> {
        let here = std::env::current_dir()?;
        let source = crate::cli::install_args::source(written, &here, work.project.folder())?;
        let place = (source, work.project.folder());
        let trust = trust(self.key.as_deref())?;
        let wanted = Expected { digest: self.digest.clone(), trust: &trust };
        let arrival = work.fetch(terminal, place, wanted, self.name.clone()).await?;
        self.check(work, &arrival)?;
        let granted = self.rights.chosen(&arrival.offered, &here, work.project.folder())?;
        let page = work.page(&arrival, &granted, None);
        let rest = format!("haft inspect --full {}", shell_words::quote(&plain(written)));
        if !self.rights.agree(terminal, &page, ("Install it?", &rest)).await? {
            return Ok(Exit::Declined);
        }
        arrival.keep()?;
        let was_there = work.project.exists();
        write(work, &arrival, &granted)?;
        if terminal.json {
            terminal.json(&arrival.described(&granted))?;
        }
        said(work, &arrival, was_there, terminal);
        Ok(Exit::Success)
    }

    /// What speaks against installing it, before anybody is asked.
    fn check(&self, work: &InstallWork, arrival: &Arrival) -> anyhow::Result<()> {
        let (name, path) = (arrival.offered.name.as_str(), work.project.path.clone());
        if work.project.kind_of(name).is_some() {
            return Err(told_project(ProjectError::Taken { path, name: name.to_owned() }));
        }
        work.check_clashes(&arrival.offered)?;
        let missing = arrival.offered.bundle.as_ref().map(missing).unwrap_or_default();
        if !missing.is_empty() && !self.force {
            let message = format!("`{name}` requires what is not on PATH: {}", missing.join(", "));
            return Err(Hinted::new(
                message,
                "install it first; `--force` adds the package anyway, without its tools until then",
            )
            .into());
        }
        Ok(())
    }

    /// Fetches what is pinned and not there, and asks about what is not pinned.
    async fn restore(&self, work: &InstallWork, terminal: Terminal) -> anyhow::Result<Exit> {
        let (mut fetched, mut exit) = (Vec::new(), Exit::Success);
        // What is there already, since another program installed it, is this one's too from now on.
        if !work.project.lock.pins.is_empty() {
            work.bench.store.register(&haft_package::lock_path(&work.project.path))?;
        }
        for (kind, name) in work.entries() {
            let source = work.source(kind, &name);
            let Some(source) = source else { continue };
            match work.project.lock.find(kind, &name) {
                Some(pin) if pin.source == source && work.check(pin).is_ok() => {}
                Some(pin) if pin.source == source && (pin.shown.is_some() || stays(pin)) => {
                    if refetch(work, pin, terminal).await? {
                        fetched.push(name);
                    }
                }
                // An earlier haft pinned it: nobody knows what was shown to whom.
                Some(pin) if pin.source == source => {
                    if self.adopt(work, (kind, &name, source), Some(pin), terminal).await? {
                        fetched.push(name);
                    } else {
                        exit = Exit::Declined;
                    }
                }
                None if matches!((kind, &source), (Kind::Plugin, PackageSource::Path(_))) => {}
                Some(_) => {
                    terminal.warning(&format!("`{name}` is pinned from another source"));
                    terminal.hint(&format!("`haft update {name}` installs what program.toml names"));
                    exit = Exit::Declined;
                }
                None if self.adopt(work, (kind, &name, source), None, terminal).await? => fetched.push(name),
                None => exit = Exit::Declined,
            }
        }
        if terminal.json {
            terminal.json(&json!({ "fetched": fetched }))?;
        } else if fetched.is_empty() && exit == Exit::Success {
            terminal.say("everything is installed");
        }
        Ok(exit)
    }

    /// Installs an entry that somebody wrote into program.toml by hand, with what they grant there; with `pinned`
    /// nothing else than that, which an earlier haft noted without what it showed.
    async fn adopt(
        &self,
        work: &InstallWork,
        (kind, name, source): (Kind, &str, PackageSource),
        pinned: Option<&Pin>,
        terminal: Terminal,
    ) -> anyhow::Result<bool> {
        let own = (kind == Kind::Plugin).then(|| name.parse()).transpose()?;
        let place = (pinned.map_or(source, Pin::exact_source), work.project.folder());
        let wanted = pinned.map_or_else(Expected::nothing, pinned_content);
        let arrival = work.fetch(terminal, place, wanted, own).await?;
        expect_name(&arrival, kind, name)?;
        let granted = work.granted(kind, name);
        let page = work.page(&arrival, &granted, None);
        let question = ("Install it with what program.toml grants?", "haft add --full");
        if !self.rights.agree(terminal, &page, question).await? {
            return Ok(false);
        }
        arrival.keep()?;
        let new = arrival.pin(&granted);
        pin(
            work,
            match pinned.cloned() {
                // Its signature may be no longer to be had; whoever updates it must have the same key all the same.
                Some(Pin { source, resolved, signer, .. }) => Pin { source, resolved, signer, ..new },
                None => new,
            },
        )?;
        terminal.say(format_args!("installed `{name}`"));
        Ok(true)
    }
}

/// Whether it is a component that is used where its author has it.
fn stays(pin: &Pin) -> bool {
    pin.kind == Kind::Plugin && matches!(pin.source, PackageSource::Path(_))
}

/// Fetches what a pin says, from where it says; false where it is for its author to put there.
async fn refetch(work: &InstallWork, pin: &Pin, terminal: Terminal) -> anyhow::Result<bool> {
    let name = pin.name.as_str();
    if stays(pin) {
        let why = work.check(pin).err().unwrap_or_default();
        return Err(told(
            Some(&format!("`haft update {name}` shows what it is now and asks again")),
            format_args!("`{name}` is not what was installed: {why}"),
        ));
    }
    let own = (pin.kind == Kind::Plugin).then(|| pin.name.clone());
    let place = (pin.exact_source(), work.project.folder());
    let arrival = work.fetch(terminal, place, pinned_content(pin), own).await?;
    if arrival.fetched.kept != pin.kept {
        anyhow::bail!("`{name}` is fetched with another content than program.lock pins");
    }
    if pin.shown.as_ref().is_some_and(|shown| *shown != arrival.disclosure.noted()) {
        return Err(told(
            Some(&format!("`haft update {name}` shows what they say now and asks again")),
            format_args!("the tools of `{name}` say something else than what was agreed to"),
        ));
    }
    arrival.keep()?;
    terminal.say(format_args!("fetched `{name}`"));
    Ok(true)
}

/// What is pinned is known by its digest, whether or not its signature is still to be had.
fn pinned_content(pin: &Pin) -> Expected<'static> {
    Expected { digest: Some(pin.digest.clone()), trust: &Trust::Nobody }
}

/// Refuses something that calls itself otherwise than its entry.
pub(super) fn expect_name(arrival: &Arrival, kind: Kind, name: &str) -> anyhow::Result<()> {
    let found = &arrival.offered;
    if found.kind != kind {
        let table = kind.table();
        anyhow::bail!(
            "`{name}` is in `[[{table}]]`, and what is there now belongs into `[[{}]]`",
            found.kind.table()
        );
    }
    if found.name.as_str() != name {
        return Err(told(
            Some("`haft add` it by its new name, and `haft remove` the old one"),
            format_args!("`{name}` calls itself `{}` now; it is left as it is", found.name.as_str()),
        ));
    }
    Ok(())
}

/// Writes the new entry and its pin.
fn write(work: &InstallWork, arrival: &Arrival, granted: &[Request]) -> anyhow::Result<()> {
    let offered = &arrival.offered;
    let done = Project::change(&work.project.path, &work.bench.store, |project| {
        if project.kind_of(offered.name.as_str()).is_some() {
            let (path, name) = (project.path.clone(), offered.name.to_string());
            return Err(ProjectError::Taken { path, name });
        }
        let source = arrival.source.to_string();
        // A package's limits are its own; a component has nowhere else to have them.
        let is_package = offered.kind == Kind::Package;
        let granted: Vec<_> = granted
            .iter()
            .filter(|request| !(is_package && matches!(request, Request::Limit(..))))
            .cloned()
            .collect();
        let entry = edit::NewEntry {
            kind: offered.kind,
            name: offered.name.as_str(),
            source: &source,
            granted: &granted,
        };
        let text = edit::add(&project.text, &entry)
            .map_err(|error| ProjectError::Edit { path: project.path.clone(), error })?;
        let mut lock = project.lock.clone();
        lock.put(arrival.pin(&granted));
        Ok(Change { text, lock })
    });
    done.map_err(told_project)
}

/// Pins without changing program.toml.
pub(super) fn pin(work: &InstallWork, pin: Pin) -> anyhow::Result<()> {
    let done = Project::change(&work.project.path, &work.bench.store, |project| {
        let mut lock = project.lock.clone();
        lock.put(pin);
        Ok(Change { text: project.text.clone(), lock })
    });
    done.map_err(told_project)
}

fn said(work: &InstallWork, arrival: &Arrival, was_there: bool, terminal: Terminal) {
    let (name, path) = (arrival.offered.name.as_str(), work.project.path.display());
    if !was_there {
        terminal.say(format_args!("there was no `{path}`; made one"));
    }
    terminal.say(format_args!("installed `{name}` in `{path}`"));
    if let Some(tool) = arrival.tools().next() {
        terminal.hint(&format!("`haft call {tool} '{{…}}'` calls its first tool, `haft tools` lists all"));
    }
}
