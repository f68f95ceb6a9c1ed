//! The bounds of a program that is an agent of another program: the most rights of its tools, the backend, the
//! rules and refused commands of the calling programs, the hooks that see its calls, and the chain of calling
//! programs. Widens no grant.

use std::path::PathBuf;

use super::chosen_tools::Watching;
use haft_core::grant::{Grant, Root};
use haft_core::tool::{Bounds, Entry, Rules, Toolbox};
use haft_manifest::Manifest;
use haft_sandbox::BackendConfig;
use haft_sandbox::native::deny;

/// The line of program.toml that demands the user's approval before `bash` runs a command.
pub(super) const SHELL_CONFIRM: &str = "`shell_confirm = true` in `[builtins]`";

/// The line that demands the user's approval before `fetch_url` requests a URL.
pub(super) const FETCH_CONFIRM: &str = "`fetch_confirm = true` in `[builtins]`";

/// The bounds of a program that is an agent of another program.
#[derive(Clone, Debug)]
pub struct Under {
    /// The most rights that the agent's tools may have.
    pub(super) most: Grant,
    /// The backend of the calling program's commands; `None` for this machine.
    pub(super) backend: Option<BackendConfig>,
    /// The files of the calling programs.
    pub(super) chain: Vec<PathBuf>,
    /// The rules of the calling programs for the agent's calls, nearest first.
    pub(super) bounds: Vec<Bounds>,
    /// The commands that the calling programs refuse.
    pub(super) denied: Vec<String>,
    /// The hooks of the calling programs.
    pub(super) hooks: Vec<Watching>,
}

impl Under {
    /// Returns the remainder of `wanted`. A component's configuration values are not rights, and remain.
    pub(super) fn narrowed(&self, wanted: &Grant) -> Grant {
        let grant = wanted.intersect(&self.most);
        // The paths that a process needs to run, and its private directory, are not rights either.
        let grant = grant.with_needs(wanted.needs().iter().cloned());
        let grant = match (wanted.private(), wanted.caches()) {
            (Some(own), Some(caches)) => grant.with_private(own.clone()).with_caches(caches.clone()),
            _ => grant,
        };
        wanted.values().iter().fold(grant, |grant, (name, value)| grant.with_value(name, value))
    }

    /// Returns the removed part of `wanted`, as text that follows "may not".
    pub(super) fn withheld(&self, wanted: &Grant) -> Vec<String> {
        let left = self.narrowed(wanted);
        let path = |root: &Root| root.path().display().to_string();
        let read = wanted.readable().roots().into_iter().filter(|root| !left.readable().covers(root));
        let write = wanted.writable().roots().into_iter().filter(|root| !left.writable().covers(root));
        let hosts = wanted.hosts().iter().filter(|host| !left.hosts().contains(host));
        let variables = wanted.env().difference(left.env());
        let stores = wanted.credentials().difference(left.credentials());
        let mut all: Vec<String> = read.map(|root| format!("read `{}`", path(&root))).collect();
        all.extend(write.map(|root| format!("write `{}`", path(&root))));
        all.extend(hosts.map(|host| format!("reach `{host}`")));
        all.extend(variables.map(|name| format!("see `{name}`")));
        all.extend(stores.map(|store| format!("open the credential store `{store}`")));
        all.extend((wanted.state() != left.state()).then(|| "store as much state".to_owned()));
        all.extend((wanted.cache() != left.cache()).then(|| "use as large a cache".to_owned()));
        all.extend((wanted.network() && !left.network()).then(|| "use the network".to_owned()));
        let hosts =
            wanted.child_hosts().iter().filter(|host| !left.network() && !left.child_hosts().contains(host));
        all.extend(hosts.map(|host| format!("reach `{host}`")));
        let services = wanted.services().iter();
        let services = services.filter(|service| !left.unix_sockets() && !left.services().contains(service));
        all.extend(services.map(|service| format!("use the service `{service}`")));
        all.extend((wanted.unix_sockets() && !left.unix_sockets()).then(|| "use unix sockets".to_owned()));
        all
    }
}

/// Returns the rules of a program for the calls of its agents, and those of the calling programs. `rules` has the base
/// folder of their relative paths.
pub(super) fn bounds(manifest: &Manifest, rules: Rules, under: Option<&Under>) -> Vec<Bounds> {
    let builtins = &manifest.builtins;
    let line = |asks: bool, setting: &str| {
        asks.then(|| format!("{setting} of the program that calls this agent").into())
    };
    let own = Bounds {
        rules,
        commands: line(builtins.shell_confirm, SHELL_CONFIRM),
        addresses: line(builtins.fetch_confirm, FETCH_CONFIRM),
    };
    let outer = under.map(|under| under.bounds.as_slice()).unwrap_or_default();
    std::iter::once(own).chain(outer.iter().cloned()).collect()
}

/// Returns the commands that a program refuses, including those of the calling programs.
pub(super) fn denied(manifest: &Manifest, under: Option<&Under>) -> Vec<String> {
    let usual = || deny::DEFAULT.iter().map(|pattern| (*pattern).to_owned()).collect();
    let mut all: Vec<String> = manifest.builtins.shell_deny.clone().unwrap_or_else(usual);
    let outer = under.map(|under| under.denied.as_slice()).unwrap_or_default();
    let further: Vec<String> = outer.iter().filter(|pattern| !all.contains(pattern)).cloned().collect();
    all.extend(further);
    all
}

/// Returns the most rights of an agent of a program: files and processes as `files`, the rights of the built-in
/// file tools; hosts, variables and storage as any tool of `toolbox`; without the hosts in `fetch_block`.
pub(super) fn most(files: &Grant, toolbox: &Toolbox, manifest: &Manifest) -> Grant {
    let blocked = manifest.builtins.fetch_block.iter().cloned();
    let mut most = blocked.fold(files.clone(), Grant::with_blocked_host);
    for own in toolbox.entries().map(Entry::grant) {
        let hosts: Vec<_> = own.hosts().iter().filter(|host| !most.hosts().contains(host)).cloned().collect();
        most = hosts.into_iter().fold(most, Grant::with_host);
        most = own.env().iter().fold(most, Grant::with_env);
        most = own.state().into_iter().fold(most, Grant::with_state);
        most = own.cache().into_iter().fold(most, Grant::with_cache);
    }
    most
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn under(text: &str, outer: Option<&Under>) -> Under {
        let manifest = Manifest::parse(text, Path::new("program.toml")).unwrap();
        let rules = crate::program::chosen_tools::rules(&manifest, Path::new("/home/me"));
        Under {
            most: Grant::none(),
            backend: None,
            chain: Vec::new(),
            bounds: bounds(&manifest, rules, outer),
            denied: denied(&manifest, outer),
            hooks: Vec::new(),
        }
    }

    /// Every calling program adds its rules, and none relaxes the rules of another.
    #[test]
    fn what_callers_ask_and_deny_holds_all_the_way_down() {
        let asks = "[builtins]\nshell_confirm = true\nfetch_confirm = true\nshell_deny = [\"git push\"]\n";
        let outer = under(asks, None);
        let inner = under("[builtins]\nshell_deny = []\n[agent]\nallow = [\"*\"]\n", Some(&outer));
        let asked: Vec<_> =
            inner.bounds.iter().map(|it| (it.commands.is_some(), it.addresses.is_some())).collect();
        assert_eq!(asked, [(false, false), (true, true)]);
        assert_eq!(inner.denied, ["git push"]);
        let line = outer.bounds.first().and_then(|bounds| bounds.commands.as_deref());
        assert_eq!(line, Some("`shell_confirm = true` in `[builtins]` of the program that calls this agent"));
        let usual = Manifest::parse("", Path::new("program.toml")).unwrap();
        let all = denied(&usual, Some(&inner));
        assert_eq!(all.len(), deny::DEFAULT.len() + 1);
        assert_eq!(denied(&usual, Some(&under("", None))), deny::DEFAULT, "each once");
    }
}
