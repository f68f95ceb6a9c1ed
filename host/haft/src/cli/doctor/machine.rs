//! The report of `haft doctor` on this machine: version, kernel, user, container and directories.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use haft::program::Dirs;
use rustix::fs::{Access, access};
use serde::Serialize;

use crate::cli::doctor::{Line, Mark};

#[derive(Serialize)]
pub(super) struct Machine {
    version: &'static str,
    kernel: String,
    architecture: &'static str,
    /// The name of the distribution.
    system: Option<String>,
    /// The user's id, and the user's name in the environment.
    user: (u32, Option<String>),
    pub(super) container: Option<&'static str>,
}

/// Files that container engines create in containers.
const MARKERS: &[(&str, &str)] = &[("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
/// Parts of the names of control groups of the first process in containers.
const GROUPS: &[(&str, &str)] =
    &[("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC")];

impl Machine {
    pub(super) fn gather() -> Self {
        let kernel = ["ostype", "osrelease"].map(|name| read(&format!("/proc/sys/kernel/{name}")));
        let kernel = kernel.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            // Without `/proc`, the name of the operating system replaces the version of the kernel.
            kernel: if kernel.is_empty() { std::env::consts::OS.to_owned() } else { kernel },
            architecture: std::env::consts::ARCH,
            system: read("/etc/os-release").and_then(|text| pretty_name(&text)),
            user: (rustix::process::geteuid().as_raw(), name),
            container: container(),
        }
    }

    pub(super) fn title(&self) -> String {
        let (number, name) = &self.user;
        let user = match name {
            Some(name) => format!("user {name} ({number})"),
            None => format!("user {number}"),
        };
        let container = self.container.map(|kind| format!("in a container ({kind})"));
        let platform = format!("haft {} on {} {}", self.version, self.kernel, self.architecture);
        let parts = [Some(platform), self.system.clone(), Some(user), container];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn pretty_name(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

fn container() -> Option<&'static str> {
    let marked = MARKERS.iter().find(|(marker, _)| Path::new(marker).exists());
    let groups = read("/proc/1/cgroup").unwrap_or_default();
    let grouped = || GROUPS.iter().find(|(group, _)| groups.contains(group));
    let named = || std::env::var_os("container").map(|_| "some kind");
    marked.or_else(grouped).map(|(_, kind)| *kind).or_else(named)
}

// The directories that haft uses. Inspects them only; a missing one is created at its first use.

/// Write permission for the group and for others.
const SHARED_WRITING: u32 = 0o022;
const SHARED: u32 = 0o077;

#[derive(Serialize)]
pub(super) struct Place {
    name: &'static str,
    path: PathBuf,
    state: State,
}

/// The state of a directory.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    /// Does not exist yet.
    Missing,
    /// Other users can read the private files of haft; with `writable` they can also change them.
    Shared {
        writable: bool,
    },
    /// Cannot be used, and the reason.
    Unusable(String),
}

/// Inspects the private directories of haft, and the directories that tools may write.
pub(super) fn inspect_dirs(dirs: &Dirs) -> Vec<Place> {
    let journal = dirs.journal();
    let own = [
        ("state", &dirs.state),
        ("journal", &journal),
        ("cache", &dirs.cache),
        ("config", &dirs.config),
        ("store", &dirs.store),
        ("answers", &dirs.answers),
    ];
    let tools = [("data", &dirs.data), ("temporary", &dirs.temporary)];
    let place = |is_own: bool| {
        move |(name, path): (&'static str, &PathBuf)| Place {
            name,
            path: path.clone(),
            state: state(path, is_own),
        }
    };
    tools.into_iter().map(place(false)).chain(own.into_iter().map(place(true))).collect()
}

fn state(path: &Path, is_own: bool) -> State {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return State::Missing,
        Err(error) => return State::Unusable(format!("cannot be read: {error}")),
    };
    if !found.is_dir() {
        return State::Unusable("is not a directory".to_owned());
    }
    if let Err(error) = access(path, Access::WRITE_OK | Access::EXEC_OK) {
        return State::Unusable(format!("not writable: {error}"));
    }
    if is_own { privacy(&found) } else { State::Good }
}

fn privacy(found: &Metadata) -> State {
    let mode = found.permissions().mode();
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    match (is_ours && mode & SHARED_WRITING == 0, mode & SHARED == 0) {
        (true, true) => State::Good,
        (kept, _) => State::Shared { writable: !kept },
    }
}

impl Place {
    /// Returns whether haft cannot work with the directory.
    pub(super) fn is_unusable(&self) -> bool {
        matches!(self.state, State::Unusable(_))
    }

    pub(super) fn line(&self) -> Line {
        let path = self.path.display();
        let line = |mark, text: String| Line::new(mark, self.name, text);
        match &self.state {
            State::Good => line(Mark::Good, path.to_string()),
            State::Missing => line(Mark::Absent, format!("{path} (does not exist yet)")),
            State::Shared { writable } => {
                let what = if *writable { "write" } else { "read" };
                line(Mark::Warning, format!("other users may {what} {path}"))
                    .hint([format!("`chmod 700 {path}`, owned by you")])
            }
            State::Unusable(why) => line(Mark::Bad, format!("{path} {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_called_as_it_calls_itself() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(pretty_name("NAME=x"), None);
    }

    #[test]
    fn what_is_haft_s_alone_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let with_mode = |mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            state(path, true)
        };
        assert_eq!(with_mode(0o700), State::Good);
        assert_eq!(with_mode(0o755), State::Shared { writable: false });
        assert_eq!(with_mode(0o770), State::Shared { writable: true });
        assert_eq!(state(path, false), State::Good);
        assert_eq!(state(&path.join("none"), true), State::Missing);
        fs::write(path.join("file"), "").unwrap();
        assert!(matches!(state(&path.join("file"), true), State::Unusable(_)));
    }
}
