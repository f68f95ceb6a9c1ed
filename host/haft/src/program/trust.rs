//! Consent to a program.toml: the user agrees once, for the location of the file, to the permissions beyond tools
//! that work in its own folder. Permissions without agreement are refused or omitted. Prompts nobody, and starts
//! nothing.

mod permission;
mod permissions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::permission::{Part, Permission};
use self::permissions::permissions;
use super::Dirs;
use super::dirs::{new_record, read_record};
use super::family::{Family, canonical};
use super::patterns::{plugin_prefix, server_prefix};
use haft_core::encoding::hex;
use haft_core::project::agents_md;
use haft_core::report::Problem;
use haft_core::tool::exposed_name;
use haft_manifest::{AgentKind, BackendTable, Builtins, Manifest, NatsTable, Network, Sandbox};
use haft_package::Lock;

/// Maximum size in bytes of a record: the permissions of the longest program.toml.
const MAX_RECORD: u64 = 1 << 20;

/// Permissions that need no further agreement, by the place of their program.
pub type Known = Arc<BTreeMap<PathBuf, BTreeSet<String>>>;

/// The treatment of a program.toml's permissions without agreement.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The program is refused ([`Untrusted`]).
    #[default]
    Agreed,
    /// These permissions are omitted, except the known ones.
    LeftOut(Known),
    /// All permissions are in force: the user of this library, or `HAFT_TRUST`, trusts every program.toml.
    Everything,
}

/// The permissions of a program.toml and of its agents' programs, and the agreed ones for this location.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// The directory of agreements.
    records: PathBuf,
    /// The programs, the program itself first.
    programs: Vec<Asking>,
    /// Files with instructions to a model.
    guidance: Vec<String>,
}

/// The permissions of one program.toml.
#[derive(Clone, Debug)]
struct Asking {
    place: PathBuf,
    permissions: Vec<Permission>,
}

/// The error for permissions without agreement.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.sheet())]
pub struct Untrusted(pub Box<Agreement>);

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
        // A lock file that cannot be read pins nothing, and its program is not loaded.
        let members = family.members.iter().map(|member| {
            let lock = Lock::load(&haft_package::lock_path(&member.path)).ok().flatten();
            asking(member, &lock.unwrap_or_default())
        });
        let programs = own.chain(members).collect();
        Self { records: dirs.trust(), programs, guidance: guidance(manifest) }
    }

    /// Returns whether the user agreed to all requested permissions.
    pub fn is_complete(&self) -> bool {
        self.missing(&Known::default()).next().is_none()
    }

    /// Returns the lines of the permissions, those without agreement first, each with whether the user agreed to
    /// it.
    pub fn lines(&self) -> Vec<(String, bool)> {
        let nothing = Known::default();
        let missing: Vec<&Permission> = self.missing(&nothing).map(|(_, permission)| permission).collect();
        let all = self.programs.iter().flat_map(|program| &program.permissions);
        let mut lines: Vec<_> =
            all.map(|permission| (permission.to_string(), !missing.contains(&permission))).collect();
        lines.sort_by_key(|(_, is_agreed)| *is_agreed);
        lines
    }

    /// Returns the permissions without agreement, as a sheet for the user.
    pub fn sheet(&self) -> String {
        let new = self.lines().into_iter().filter(|(_, is_agreed)| !is_agreed);
        let lines: String = new.map(|(line, _)| format!("\n  {line}")).collect();
        let guidance: String = self.guidance.iter().map(|file| format!("\n  guidance   {file}")).collect();
        let place = self.programs.first().map(|own| own.place.display().to_string()).unwrap_or_default();
        format!("`{place}` requests rights beyond its folder:{lines}{guidance}")
    }

    /// Records the agreement to all permissions. Earlier agreements stay.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn agree(&self) -> anyhow::Result<()> {
        self.programs.iter().try_for_each(|program| self.agree_to(program, |_| true))
    }

    /// Records the agreement to permissions that `before` did not have, because the user wrote them. Servers of skills
    /// are not in the file that the user wrote, and need consent of their own.
    ///
    /// # Errors
    /// Like [`Self::agree`].
    pub fn agree_since(&self, before: &Self) -> anyhow::Result<()> {
        let old: Vec<_> = before.programs.iter().flat_map(|program| &program.permissions).collect();
        let is_written = |new: &Permission| !new.is_of_skill() && !old.contains(&new);
        self.programs.iter().try_for_each(|program| self.agree_to(program, is_written))
    }

    /// Records the agreement to the entries of `haft add` only: packages and plugins.
    ///
    /// # Errors
    /// Like [`Self::agree`].
    pub fn agree_to_installed(&self) -> anyhow::Result<()> {
        self.programs.first().map_or(Ok(()), |own| self.agree_to(own, Permission::is_installed))
    }

    fn agree_to(&self, program: &Asking, is_meant: impl Fn(&Permission) -> bool) -> anyhow::Result<()> {
        let mut agreed = self.record(&program.place);
        let meant = program.permissions.iter().filter(|permission| is_meant(permission));
        agreed.extend(meant.map(|permission| permission.text().to_owned()));
        self.write(&program.place, agreed)
    }

    /// Returns the lines of the permissions of entries of `haft add` without agreement.
    pub fn installed(&self) -> Vec<String> {
        let nothing = Known::default();
        let missing = self.missing(&nothing).map(|(_, permission)| permission);
        missing.filter(|permission| permission.is_installed()).map(Permission::to_string).collect()
    }

    /// Removes the agreements for this location. Returns whether there were any.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn forget(&self) -> io::Result<bool> {
        let Some(own) = self.programs.first() else { return Ok(false) };
        match fs::remove_file(self.file(&own.place)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the files of the agreements.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.programs.iter().map(|program| self.file(&program.place))
    }

    /// Returns all requested permissions.
    pub(super) fn known(&self) -> Known {
        let texts = |program: &Asking| {
            program.permissions.iter().map(|permission| permission.text().to_owned()).collect()
        };
        Arc::new(self.programs.iter().map(|program| (program.place.clone(), texts(program))).collect())
    }

    /// Removes the parts of `manifest` whose permissions are neither agreed to nor `known`. Returns the removed
    /// parts.
    pub(super) fn leave_out(&self, known: &Known, manifest: &mut Manifest) -> LeftOut {
        let mut left = LeftOut::default();
        for (index, permission) in self.missing(known) {
            // Permissions of an agent's program need their own agreement.
            let part = if index == 0 { permission.part.clone() } else { Part::Agents };
            left.add(manifest, part, permission);
        }
        for (part, _) in &left.parts {
            take_out(manifest, part);
        }
        left
    }

    /// Returns the permissions that are neither agreed to nor `known`, with the index of their program.
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

    /// Returns the agreement for the program at `place`; empty if the record cannot be read.
    fn record(&self, place: &Path) -> BTreeSet<String> {
        let text = read_record(&self.file(place), MAX_RECORD).ok().flatten();
        let record = text.and_then(|text| serde_json::from_slice::<Record>(&text).ok());
        record.filter(|record| record.program == place).map(|record| record.agreed).unwrap_or_default()
    }

    fn write(&self, place: &Path, agreed: BTreeSet<String>) -> anyhow::Result<()> {
        let (file, record) = (self.file(place), Record { program: place.to_owned(), agreed });
        let written = new_record(&file, &record).and_then(|new| Ok(new.persist(&file)?));
        written.map(drop).with_context(|| format!("cannot save your consent in `{}`", self.records.display()))
    }

    fn file(&self, place: &Path) -> PathBuf {
        let name = hex(&Sha256::digest(place.as_os_str().as_encoded_bytes()));
        self.records.join(format!("{name}.json"))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    parts: Vec<(Part, String)>,
    /// Name prefixes of the omitted tools, and the reasons.
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

    /// Returns whether the rights of the existing tools differ from program.toml.
    pub(super) fn changes_rights(&self) -> bool {
        let changes = |part: &Part| {
            matches!(part, Part::Workspace | Part::Sandbox | Part::Backend | Part::Search | Part::Fetch)
        };
        self.parts.iter().any(|(part, _)| changes(part))
    }

    /// Returns whether a caller was omitted.
    pub(super) fn has_callers(&self) -> bool {
        self.parts.iter().any(|(part, _)| matches!(part, Part::Caller(_)))
    }

    /// Returns the warning for the user.
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
        Part::Server(name) | Part::SkillServer(name) => {
            manifest.mcp_servers.retain(|server| server.name.as_str() != name);
        }
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
        Part::Network => manifest.network = Network::default(),
        Part::Backend => manifest.backend = BackendTable::default(),
        Part::Caller(name) => manifest.serve.callers.retain(|caller| caller.name.as_str() != name),
        Part::Workspace => manifest.sandbox.workspace = None,
        Part::Sandbox => {
            let Sandbox { read, workspace, network, hosts, deny, .. } = std::mem::take(&mut manifest.sandbox);
            manifest.sandbox = Sandbox { read, workspace, network, hosts, deny, ..Sandbox::default() };
        }
    }
}

/// Returns the name prefix of the tools of `part`.
fn prefix(manifest: &Manifest, part: &Part) -> Option<String> {
    let program = || manifest.program.as_ref().map_or("", |program| program.name.as_str());
    match part {
        Part::Server(name) | Part::SkillServer(name) => Some(server_prefix(name)),
        Part::Command(name) => Some(exposed_name(&["program", program(), name])),
        Part::Plugin(name) => Some(plugin_prefix(name)),
        // Tools of packages may have any name.
        Part::Package(_) | Part::Children => Some(String::new()),
        // Agents need the provider.
        Part::Agents | Part::Provider => Some(exposed_name(&["agent", ""])),
        _ => None,
    }
}

/// Returns the files beside the program with instructions to a model.
fn guidance(manifest: &Manifest) -> Vec<String> {
    let agent = &manifest.agent;
    let is_there = |name: &&str| manifest.folder.join(name).exists();
    let told = agents_md::FILES.into_iter().find(is_there).filter(|_| agent.agents_md);
    let skills = Some(".agents/skills").filter(is_there).filter(|_| agent.skills);
    told.into_iter().chain(skills).map(|name| format!("{name} is part of the model's prompt")).collect()
}

#[cfg(test)]
mod tests;
