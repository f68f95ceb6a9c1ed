//! Landlock: the second layer for writes, and the only one for reads. All features that the probe found are
//! required; partial enforcement is an error.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::confine::policy::Policy;

/// Character devices that programs rely on, and that store nothing. Only on these may a program use `ioctl`.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Devices that are private to a child with its own `/dev`.
const OWN_DEVICES: &[&str] = &["/dev/tty", "/dev/ptmx"];

/// Restricts this process and its descendants to the policy's files.
pub(super) fn apply(policy: &Policy, version: u32) -> Result<()> {
    let ruleset = prepared(policy, abi(version))?;
    let status = ruleset.restrict_self().context("cannot apply Landlock's rules")?;
    anyhow::ensure!(status.ruleset == RulesetStatus::FullyEnforced, "Landlock's rules are not enforced");
    Ok(())
}

fn prepared(policy: &Policy, abi: ABI) -> Result<RulesetCreated> {
    let handled = AccessFs::from_all(abi);
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(handled)?;
    let scope = scope(policy, abi);
    if !scope.is_empty() {
        ruleset = ruleset.scope(scope)?;
    }
    let mut rules = Rules { ruleset: ruleset.create()?, handled };
    for (path, access) in readable(policy).into_iter().chain(writable(policy, abi)) {
        rules.allow(&path, access)?;
    }
    Ok(rules.ruleset)
}

/// Returns the probed version, limited to the versions that this file handles.
fn abi(version: u32) -> ABI {
    match version {
        0..=3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    }
}

fn scope(policy: &Policy, abi: ABI) -> BitFlags<Scope> {
    let scopes = Scope::from_all(abi);
    if policy.unix_sockets { scopes & !Scope::AbstractUnixSocket } else { scopes }
}

struct Rules {
    ruleset: RulesetCreated,
    handled: BitFlags<AccessFs>,
}

impl Rules {
    /// Allows `access` on `path` and everything below it. Ignores a missing path, which cannot be allowed.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<()> {
        let Ok(file) = open(path) else { return Ok(()) };
        let access = access & self.handled & if is_directory(&file)? { access } else { of_files() };
        if access.is_empty() {
            return Ok(());
        }
        let failed = || format!("cannot allow `{}` in Landlock's rules", path.display());
        (&mut self.ruleset).add_rule(PathBeneath::new(file, access)).with_context(failed)?;
        Ok(())
    }
}

/// Opens an absolute path component by component: a tool may have replaced a directory on the way by a link, which
/// would move the rule. Works without `openat2`, which is missing inside another haft.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut place = openat(CWD, "/", step, Mode::empty())?;
    let mut parts = path.components().skip(1).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        place = openat(&place, part.as_os_str(), step | kind, Mode::empty())?;
    }
    Ok(place)
}

fn is_directory(file: &OwnedFd) -> Result<bool> {
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    Ok(kind == rustix::fs::FileType::Directory)
}

fn of_files() -> BitFlags<AccessFs> {
    AccessFs::Execute | AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

type Rule = (PathBuf, BitFlags<AccessFs>);

fn readable(policy: &Policy) -> Vec<Rule> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    if let Some(roots) = &policy.read {
        // A child needs its own entries in `/proc`; other processes are not visible there.
        let proc = policy.layers.namespaces.then(|| Path::new("/proc").to_owned());
        return roots.iter().cloned().chain(proc).map(|root| (root, reading)).collect();
    }
    if policy.layers.namespaces {
        return vec![("/".into(), reading)];
    }
    // Nothing covers hidden paths, and a rule cannot be reduced: names are visible everywhere, and the content
    // of everything except the parents of hidden paths is readable. Disks contain hidden files too, so only the
    // writable devices are readable.
    let mut rules = vec![("/".into(), AccessFs::ReadDir | AccessFs::Execute)];
    let hidden = [&policy.hidden[..], &["/dev".into()]].concat();
    rules.extend(beside(&hidden).into_iter().map(|path| (path, AccessFs::ReadFile.into())));
    rules
}

/// Returns everything that is neither in `hidden` nor a parent of it: its siblings at every level.
fn beside(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let is_above = |path: &Path| hidden.iter().any(|hidden| hidden.starts_with(path));
    let mut beside = Vec::new();
    let mut above = vec![PathBuf::from("/")];
    while let Some(directory) = above.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if !is_above(&path) {
                beside.push(path);
            } else if !hidden.contains(&path) {
                above.push(path);
            }
        }
    }
    beside
}

fn writable(policy: &Policy, abi: ABI) -> Vec<Rule> {
    // Device files would give access to the disk.
    let everything = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let of_devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let roots = policy.write.iter().flatten().map(|root| (root.clone(), everything & !AccessFs::IoctlDev));
    let devices = DEVICES.iter().map(|device| ((*device).into(), of_devices));
    let memory = ("/dev/shm".into(), everything & !AccessFs::IoctlDev);
    let mut rules: Vec<Rule> = roots.chain(devices).chain([memory]).collect();
    if policy.layers.namespaces {
        rules.extend(OWN_DEVICES.iter().map(|device| ((*device).into(), of_devices)));
        rules.push(("/dev/pts".into(), of_devices | AccessFs::ReadDir));
    }
    rules
}
