//! The traces of hostile programs: every effect that an escape can leave.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::{Value, json};

use super::host::{Host, command};
use super::stage::{Props, Service, Stage};

/// The state of files and directories: contents, modes, owners, times, names, links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    roots: Vec<PathBuf>,
    found: BTreeMap<PathBuf, String>,
}

impl Snapshot {
    pub(super) fn of(roots: &[PathBuf]) -> Self {
        let mut found = BTreeMap::new();
        for root in roots {
            scan(root, &mut found);
        }
        Self { roots: roots.to_vec(), found }
    }

    /// The changes since the snapshot.
    pub(super) fn changes(&self) -> Option<String> {
        let now = Self::of(&self.roots);
        let names = self.found.keys().chain(now.found.keys());
        let changed = names.filter(|name| self.found.get(*name) != now.found.get(*name));
        let mut changed: Vec<_> = changed.map(|name| name.file_name().unwrap().to_string_lossy()).collect();
        changed.dedup();
        (!changed.is_empty()).then(|| format!("changed: {}", changed.join(", ")))
    }
}

fn scan(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(about) = path.symlink_metadata() else { return };
    let content = if about.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let numbers = [about.ino(), about.mode().into(), about.uid().into(), about.gid().into(), about.nlink()];
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    found.insert(path.to_owned(), format!("{numbers:?} {times:?} {content:?}"));
    for entry in fs::read_dir(path).into_iter().flatten().filter(|_| about.is_dir()) {
        scan(&entry.unwrap().path(), found);
    }
}

/// An idle process, and its state at the start.
pub(super) struct Victim {
    child: Child,
    before: String,
}

impl Victim {
    pub(super) fn new() -> Self {
        let child = command("sleep").arg("1000").spawn().unwrap();
        let before = nature(child.id());
        Self { child, before }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn harm(&mut self) -> Option<String> {
        if let Some(status) = self.child.try_wait().unwrap() {
            return Some(format!("victim: {status}"));
        }
        (nature(self.child.id()) != self.before).then(|| "victim changed".to_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Priority, scheduler, processors and limits of a process.
fn nature(process: u32) -> String {
    let read = |name| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap();
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let status = read("status");
    let processors = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
    format!("{} {} {processors:?} {}", fields[16], fields[38], read("limits"))
}

impl Stage {
    /// The outcome of every case. Called once, after late effects had time; `struck` are the cases that reached the
    /// host.
    pub(super) fn outcomes(&mut self, host: &Host, struck: &[&str]) -> Vec<Value> {
        let stand = self.stand.end();
        let outcome = |props: &mut Props| {
            let struck = struck.contains(&props.case.name) || stand[props.case.name] == true;
            let escape = struck.then(|| "reached the host".to_owned()).or_else(|| props.trace(&host.secret));
            let said = fs::read_to_string(props.inside.join("answer"));
            json!({"case": props.case.name, "escape": escape, "said": said.unwrap_or_default()})
        };
        self.props.iter_mut().map(outcome).collect()
    }
}

impl Props {
    fn trace(&mut self, secret: &str) -> Option<String> {
        let confessed = fs::read_to_string(self.inside.join("escaped")).ok();
        let harm = self.victim.as_mut().and_then(Victim::harm);
        let reached = self.services.iter_mut().any(Service::was_reached);
        let traces = [
            self.before.changes(),
            harm,
            reached.then(|| "reached a service".to_owned()),
            confessed.map(|text| text.trim().replace('\n', ", ")),
            self.loot(secret),
            left_inside(&self.inside),
        ];
        traces.into_iter().flatten().next()
    }

    fn loot(&self, secret: &str) -> Option<String> {
        let loot = fs::read(self.inside.join("loot")).ok()?;
        String::from_utf8_lossy(&loot).contains(secret).then(|| "read the secret".to_owned())
    }
}

/// A file that must not remain even in the workspace after the call.
fn left_inside(inside: &Path) -> Option<String> {
    for entry in fs::read_dir(inside).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let Ok(about) = path.symlink_metadata() else { continue };
        let capabilities = rustix::fs::lgetxattr(&path, "security.capability", &mut [0; 64]).is_ok();
        if name.starts_with("late")
            || about.file_type().is_block_device()
            || about.file_type().is_char_device()
            || (about.is_file() && about.mode() & 0o6000 != 0)
            || capabilities
        {
            return Some(format!("left `{name}`"));
        }
    }
    None
}
