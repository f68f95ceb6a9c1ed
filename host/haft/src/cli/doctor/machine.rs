//! What haft runs on.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// A machine, or what passes for one.
#[derive(Serialize)]
pub(super) struct Machine {
    /// haft's own version.
    version: &'static str,
    /// The kernel, with its version.
    kernel: String,
    architecture: &'static str,
    /// What the distribution calls itself.
    system: Option<String>,
    /// The number of the user, and the name that the environment gives.
    user: (u32, Option<String>),
    /// The kind of container that this is.
    pub(super) container: Option<&'static str>,
}

/// Files that container engines leave in what they start.
const MARKERS: &[(&str, &str)] = &[("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
/// What the control groups of the first process are called inside containers.
const GROUPS: &[(&str, &str)] =
    &[("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC")];

impl Machine {
    pub(super) fn gather() -> Self {
        let kernel = ["ostype", "osrelease"].map(|name| read(&format!("/proc/sys/kernel/{name}")));
        let kernel = kernel.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            // Where there is no `/proc` the system has to do.
            kernel: if kernel.is_empty() { std::env::consts::OS.to_owned() } else { kernel },
            architecture: std::env::consts::ARCH,
            system: read("/etc/os-release").and_then(|text| pretty_name(&text)),
            user: (rustix::process::geteuid().as_raw(), name),
            container: container(),
        }
    }

    /// All of it on one line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_called_as_it_calls_itself() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(pretty_name("NAME=x"), None);
    }
}
