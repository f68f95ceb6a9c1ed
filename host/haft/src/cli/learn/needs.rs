//! The needs of a run as lines of program.toml: never wider than what was observed.

use std::path::{Path, PathBuf};

use super::subject::{Run, Subject};
use crate::cli::wrap::{distinct, right};
use haft_core::grant::{Grant, Outgoing, Proposal, Right, Service, Why};
use haft_core::report::plain;
use haft_manifest::{HOST_SETS, Manifest};
use haft_package::edit::ProposedLine;
use haft_sandbox::confine::{Connection, Observed, Refusal};

/// The lines of a proposal, and what no line is proposed for.
pub(super) struct Needs {
    /// The subject in reasons.
    subject: String,
    folder: PathBuf,
    /// The hosts that are granted already.
    held: Outgoing,
    /// Directories to read and to write.
    files: Vec<(Right, String)>,
    /// Hosts, and comments.
    others: Vec<ProposedLine>,
    /// Accesses without a line.
    pub(super) notes: Vec<String>,
}

impl Needs {
    pub(super) fn new(subject: &Subject, manifest: &Manifest) -> anyhow::Result<Self> {
        let folder = std::path::absolute(&manifest.folder)?.canonicalize()?;
        Ok(Self {
            subject: subject.name(),
            folder,
            held: Outgoing::new(subject.hosts(manifest), Vec::new()),
            files: Vec::new(),
            others: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Returns the rights to directories, with absolute paths, in the order of their discovery.
    pub(super) fn files(&self) -> impl Iterator<Item = &Right> {
        self.files.iter().map(|(right, _)| right)
    }

    /// Adds what a run needed: the hosts that it was connected to and what it was refused to change; if it failed, all that it
    /// was refused.
    pub(super) fn take(&mut self, observed: &Observed, run: &Run) {
        for connection in observed.connections() {
            self.take_connection(&connection);
        }
        let scripts = || run.scripts.iter().map(PathBuf::as_path);
        for refusal in observed.refused() {
            if refusal.is_incidental() || refusal.is_folder_of(scripts()) {
                continue;
            }
            // What it meant to change is missing, whatever its exit code says.
            let is_change = matches!(refusal, Refusal::Write(_) | Refusal::Remove(_));
            if run.has_succeeded && !is_change {
                self.note(&format!("not proposed, since it succeeded without: {refusal}"));
            } else {
                self.take_refusal(&refusal, &run.grant);
            }
        }
    }

    fn take_connection(&mut self, connection: &Connection) {
        let Connection { name, others, address, .. } = connection;
        if self.held.may_open(*address) {
            return;
        }
        if name.is_none() && others.is_empty() {
            let reason = format!("connect to {address}, an address without a name ({})", self.subject);
            self.push("hosts", address.to_string(), &reason, true);
        }
        for name in name.iter().chain(others) {
            if self.held.may_connect(name, *address).is_ok() {
                continue;
            }
            let host = Refusal::Host(name.clone(), Some(address.port()));
            let port = address.port();
            let set = HOST_SETS.iter().find(|(_, hosts)| port == 443 && hosts.contains(&name.as_str()));
            let set = set.map(|(set, _)| format!("; part of {set}")).unwrap_or_default();
            let reason = format!("connect to {name}:{port} ({}){set}", self.subject);
            self.push("hosts", host.host().unwrap_or_default(), &reason, false);
        }
    }

    fn take_refusal(&mut self, refusal: &Refusal, grant: &Grant) {
        let reason = format!("{refusal} ({})", self.subject);
        match refusal {
            Refusal::Host(..) => self.push("hosts", refusal.host().unwrap_or_default(), &reason, false),
            Refusal::Connect(address) if address.port() == 0 => {
                self.note(&format!("not proposed: a name leads to {}, a closed address", address.ip()));
            }
            Refusal::Connect(_) => self.push("hosts", refusal.host().unwrap_or_default(), &reason, true),
            Refusal::Request { .. } => {
                self.note(&format!("not proposed: {refusal}; `allow` of the secret names requests"));
            }
            Refusal::Socket(path) => {
                self.push("services", Service::of_socket(path).to_string(), &reason, true);
            }
            Refusal::Read(path) | Refusal::Write(path) | Refusal::Remove(path) => {
                self.take_path((refusal, path), &reason, grant);
            }
        }
    }

    fn take_path(&mut self, (refusal, path): (&Refusal, &Path), reason: &str, grant: &Grant) {
        match grant.closed_at(path).map(|closed| closed.why) {
            Some(Why::Store(store)) => self.push("credentials", store.to_string(), reason, true),
            Some(Why::StartUp) => self.push("write", self.relative(&path.to_string_lossy()), reason, true),
            Some(Why::Own | Why::Denied) => self.note(&format!("no line allows to {refusal}: it is closed")),
            None => match right(refusal, grant) {
                Some(right) if !self.files().any(|known| known.covers(&right)) => {
                    self.files.push((right, plain(reason)));
                }
                Some(_) => {}
                None => self.note(&format!("no line is proposed to {refusal}: {}", too_wide(path))),
            },
        }
    }

    fn push(&mut self, key: &'static str, value: String, reason: &str, is_comment: bool) {
        let is_known = |line: &ProposedLine| line.key == key && line.value == value;
        if !self.others.iter().any(is_known) {
            self.others.push(ProposedLine { key, value, reason: plain(reason), is_comment });
        }
    }

    fn note(&mut self, note: &str) {
        let note = plain(note);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the lines, with paths from the folder of program.toml.
    pub(super) fn lines(&self) -> Vec<ProposedLine> {
        let kept = distinct(self.files().cloned().collect());
        let files = self.files.iter().filter(|(right, _)| kept.contains(right));
        let files = files.filter_map(|(right, reason)| {
            let (key, path) = right.list_entry()?;
            let (value, reason) = (self.relative(&path), reason.clone());
            Some(ProposedLine { key, value, reason, is_comment: false })
        });
        files.chain(self.others.iter().cloned()).collect()
    }

    fn relative(&self, path: &str) -> String {
        match Path::new(path).strip_prefix(&self.folder) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => format!("./{}", rest.display()),
            Err(_) => path.to_owned(),
        }
    }
}

fn too_wide(path: &Path) -> String {
    match Proposal::for_path(path) {
        Proposal::TooWide(directory, why) => format!("that would grant `{}`, {why}", directory.display()),
        Proposal::Grant(_) => "its path is not UTF-8".to_owned(),
    }
}
