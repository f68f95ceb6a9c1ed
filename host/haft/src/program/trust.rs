//! Whether a program.toml counts: what it asks for beyond tools that work in its own folder is agreed to once by a
//! person, for the place where it lies. What was not agreed to is refused or left out. It asks nobody, and starts nothing.

mod permission;
mod permissions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::permission::{Part, Permission};
use self::permissions::permissions;
use super::Dirs;
use super::family::{Family, canonical};
use super::patterns::{plugin_prefix, server_prefix};
use haft_core::encoding::hex;
use haft_core::project::agents_md;
use haft_core::report::Problem;
use haft_core::tool::exposed_name;
use haft_manifest::{AgentKind, BackendTable, Builtins, Manifest, NatsTable, Sandbox};
use haft_package::Lock;

/// Bytes of a record: what the longest program.toml can ask for.
const MAX_RECORD: u64 = 1 << 20;

/// The permissions of programs that hold without being asked for again, by their places.
pub type Known = Arc<BTreeMap<PathBuf, BTreeSet<String>>>;

/// What happens to what a program.toml asks for and nobody agreed to.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The program is refused ([`Untrusted`]).
    #[default]
    Agreed,
    /// It is left out, but for what is known.
    LeftOut(Known),
    /// It holds: the user of this library, or the person by `HAFT_TRUST`, answers for every program.toml.
    Everything,
}

/// What a program.toml and the programs of its agents ask for, and which of that was agreed to at this place.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Where agreements are recorded.
    records: PathBuf,
    /// Its own file first.
    programs: Vec<Asking>,
    /// Files that say something to a model.
    guidance: Vec<String>,
}

/// What one program.toml asks for.
#[derive(Clone, Debug)]
struct Asking {
    place: PathBuf,
    permissions: Vec<Permission>,
}

/// A program.toml asks for what nobody agreed to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.sheet())]
pub struct Untrusted(pub Box<Agreement>);

/// An agreement, as it is written.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    program: PathBuf,
    agreed: BTreeSet<String>,
}

impl Agreement {
    pub(super) fn new(manifest: &Manifest, lock: &Lock, family: &Family, dirs: &Dirs) -> Self {
        let asking = |manifest: &Manifest, lock: &Lock| Asking {
            place: canonical(&manifest.path),
            permissions: permissions(manifest, lock, &dirs.home),
        };
        let own = std::iter::once(asking(manifest, lock));
        // A lock file that cannot be read pins nothing, and the program that it is for is not loaded.
        let members = family.members().iter().map(|member| {
            let lock = Lock::load(&haft_package::lock_path(&member.path)).ok().flatten();
            asking(member, &lock.unwrap_or_default())
        });
        let programs = own.chain(members).collect();
        Self { records: dirs.trust(), programs, guidance: guidance(manifest) }
    }

    /// Whether nothing is missing that anything here asks for.
    pub fn is_complete(&self) -> bool {
        self.missing(&Known::default()).next().is_none()
    }

    /// The lines that a person agrees to, those that nobody agreed to yet first; whether each was agreed to.
    pub fn lines(&self) -> Vec<(String, bool)> {
        let nothing = Known::default();
        let missing: Vec<&Permission> = self.missing(&nothing).map(|(_, permission)| permission).collect();
        let all = || self.programs.iter().flat_map(|program| &program.permissions);
        let is_missing = |permission: &&Permission| missing.contains(permission);
        let new = all().filter(is_missing).map(|permission| (permission.to_string(), false));
        new.chain(
            all()
                .filter(|permission| !is_missing(permission))
                .map(|permission| (permission.to_string(), true)),
        )
        .collect()
    }

    /// What is asked for and was not agreed to, for a person to read.
    pub fn sheet(&self) -> String {
        let new = self.lines().into_iter().filter(|(_, is_agreed)| !is_agreed);
        let lines: String = new.map(|(line, _)| format!("\n  {line}")).collect();
        let guidance: String = self.guidance.iter().map(|file| format!("\n  guidance   {file}")).collect();
        let place = self.programs.first().map(|own| own.place.display().to_string()).unwrap_or_default();
        format!("`{place}` requests rights beyond its folder:{lines}{guidance}")
    }

    /// Notes down that a person agreed to all of it. What was agreed to before still is.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn agree(&self) -> anyhow::Result<()> {
        self.programs.iter().try_for_each(|program| self.agree_to(program, |_| true))
    }

    /// The same of what it asks for and `before` did not: a person wrote that.
    ///
    /// # Errors
    /// As [`Self::agree`].
    pub fn agree_since(&self, before: &Self) -> anyhow::Result<()> {
        let old: Vec<_> = before.programs.iter().flat_map(|program| &program.permissions).collect();
        self.programs.iter().try_for_each(|program| self.agree_to(program, |new| !old.contains(&new)))
    }

    /// The same of what `haft add` writes alone: packages and plugins.
    ///
    /// # Errors
    /// As [`Self::agree`].
    pub fn agree_to_installed(&self) -> anyhow::Result<()> {
        self.programs.first().map_or(Ok(()), |own| self.agree_to(own, Permission::is_installed))
    }

    fn agree_to(&self, program: &Asking, is_meant: impl Fn(&Permission) -> bool) -> anyhow::Result<()> {
        let mut agreed = self.record(&program.place);
        let meant = program.permissions.iter().filter(|permission| is_meant(permission));
        agreed.extend(meant.map(|permission| permission.text().to_owned()));
        self.write(&program.place, agreed)
    }

    /// The lines about these that nobody agreed to.
    pub fn installed(&self) -> Vec<String> {
        let nothing = Known::default();
        let missing = self.missing(&nothing).map(|(_, permission)| permission);
        missing.filter(|permission| permission.is_installed()).map(Permission::to_string).collect()
    }

    /// Forgets what was agreed to at this place. Returns whether there was anything.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(&self) -> io::Result<bool> {
        let Some(own) = self.programs.first() else { return Ok(false) };
        match fs::remove_file(self.file(&own.place)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where it is recorded what was agreed to.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.programs.iter().map(|program| self.file(&program.place))
    }

    /// All that is asked for now.
    pub(super) fn known(&self) -> Known {
        let texts = |program: &Asking| {
            program.permissions.iter().map(|permission| permission.text().to_owned()).collect()
        };
        Arc::new(self.programs.iter().map(|program| (program.place.clone(), texts(program))).collect())
    }

    /// Takes out of `manifest` what nobody agreed to and is not `known`. A warning says so.
    pub(super) fn leave_out(&self, known: &Known, manifest: &mut Manifest) -> LeftOut {
        let mut left = LeftOut::default();
        for (index, permission) in self.missing(known) {
            // An agent's program is as good as it is agreed to.
            let part = if index == 0 { permission.part.clone() } else { Part::Agents };
            left.add(manifest, part, permission);
        }
        for (part, _) in &left.parts {
            take_out(manifest, part);
        }
        left
    }

    /// What nobody agreed to and is not `known`, with the number of the program that asks for it.
    fn missing<'a>(&'a self, known: &'a Known) -> impl Iterator<Item = (usize, &'a Permission)> {
        self.programs.iter().enumerate().flat_map(|(index, program)| {
            let agreed =
                if program.permissions.is_empty() { BTreeSet::new() } else { self.record(&program.place) };
            let known = known.get(&program.place);
            let is_new = move |permission: &&Permission| {
                !agreed.contains(permission.text())
                    && !known.is_some_and(|known| known.contains(permission.text()))
            };
            program.permissions.iter().filter(is_new).map(move |permission| (index, permission))
        })
    }

    /// What was agreed to for the program at `place`; nothing where the note cannot be read.
    fn record(&self, place: &Path) -> BTreeSet<String> {
        let read = || -> Option<Record> {
            let mut text = Vec::new();
            fs::File::open(self.file(place)).ok()?.take(MAX_RECORD).read_to_end(&mut text).ok()?;
            serde_json::from_slice(&text).ok()
        };
        read().filter(|record| record.program == place).map(|record| record.agreed).unwrap_or_default()
    }

    fn write(&self, place: &Path, agreed: BTreeSet<String>) -> anyhow::Result<()> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.records)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.records)?;
            serde_json::to_writer(&mut file, &Record { program: place.to_owned(), agreed })?;
            file.flush()?;
            file.persist(self.file(place))?;
            Ok(())
        };
        write().with_context(|| format!("cannot save your consent in `{}`", self.records.display()))
    }

    fn file(&self, place: &Path) -> PathBuf {
        let name = hex(&Sha256::digest(place.as_os_str().as_encoded_bytes()));
        self.records.join(format!("{name}.json"))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    parts: Vec<(Part, String)>,
    /// What the names of its tools begin with, and why they are not there.
    pub(super) unseen: Vec<(String, String)>,
}

impl LeftOut {
    fn add(&mut self, manifest: &Manifest, part: Part, permission: &Permission) {
        let why = "it is left out until you agree to it: `haft trust`";
        self.unseen.extend(prefix(manifest, &part).map(|prefix| (prefix, why.to_owned())));
        self.parts.push((part, permission.to_string()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether the rights of tools that are there are others than program.toml says.
    pub(super) fn changes_rights(&self) -> bool {
        let changes = |part: &Part| {
            matches!(part, Part::Workspace | Part::Sandbox | Part::Backend | Part::Search | Part::Fetch)
        };
        self.parts.iter().any(|(part, _)| changes(part))
    }

    /// Whether who may call is not known.
    pub(super) fn has_callers(&self) -> bool {
        self.parts.iter().any(|(part, _)| matches!(part, Part::Caller(_)))
    }

    /// What a person should know.
    pub(super) fn problem(&self) -> Option<Problem> {
        let lines: String = self.parts.iter().map(|(_, line)| format!("\n  {line}")).collect();
        let problem = Problem::new(format!("left out, because you have not agreed to:{lines}")).warning();
        let hint = "`haft trust` shows the requested rights and asks you once";
        (!self.is_empty()).then(|| problem.hint(hint))
    }
}

fn take_out(manifest: &mut Manifest, part: &Part) {
    match part {
        Part::Provider => manifest.provider = None,
        Part::Search => manifest.builtins.search_url = Builtins::default().search_url,
        Part::Fetch => manifest.builtins.fetch_allow.clear(),
        Part::Server(name) => manifest.mcp_servers.retain(|server| server.name.as_str() != name),
        Part::Command(name) => manifest.tools.retain(|tool| tool.name.as_str() != name),
        Part::Children => {
            manifest.mcp_servers.clear();
            manifest.tools.clear();
            manifest.packages.clear();
        }
        Part::Plugin(name) => manifest.plugins.retain(|plugin| plugin.name.as_str() != name),
        Part::Package(name) => manifest.packages.retain(|package| package.name.as_str() != name),
        Part::Agents => manifest.agents.retain(|agent| !matches!(agent.kind, AgentKind::Program(_))),
        Part::Nats => manifest.nats = NatsTable::default(),
        Part::Telemetry => manifest.telemetry = None,
        Part::Backend => manifest.backend = BackendTable::default(),
        Part::Caller(name) => manifest.serve.callers.retain(|caller| caller.name.as_str() != name),
        Part::Workspace => manifest.sandbox.workspace = None,
        Part::Sandbox => {
            let Sandbox { read, workspace, network, deny, .. } = std::mem::take(&mut manifest.sandbox);
            manifest.sandbox = Sandbox { read, workspace, network, deny, ..Sandbox::default() };
        }
    }
}

/// What the names of the tools of `part` begin with.
fn prefix(manifest: &Manifest, part: &Part) -> Option<String> {
    let program = || manifest.program.as_ref().map_or("", |program| program.name.as_str());
    match part {
        Part::Server(name) => Some(server_prefix(name)),
        Part::Command(name) => Some(exposed_name(&["program", program(), name])),
        Part::Plugin(name) => Some(plugin_prefix(name)),
        // What packages hold may be called anything.
        Part::Package(_) | Part::Children => Some(String::new()),
        // Agents ask the provider.
        Part::Agents | Part::Provider => Some(exposed_name(&["agent", ""])),
        _ => None,
    }
}

/// Files around the program that a model is told of.
fn guidance(manifest: &Manifest) -> Vec<String> {
    let agent = &manifest.agent;
    let is_there = |name: &&str| manifest.folder.join(name).exists();
    let told = agents_md::FILES.into_iter().find(is_there).filter(|_| agent.agents_md);
    let skills = Some(".agents/skills").filter(is_there).filter(|_| agent.skills);
    told.into_iter().chain(skills).map(|name| format!("{name} is part of the model's prompt")).collect()
}

#[cfg(test)]
mod tests;
