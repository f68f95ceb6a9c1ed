//! What binds a program that works as an agent of another: the most that its tools may do, where its commands run, the
//! rules for calls, the hooks that see them, and which programs it works for. Nothing here widens a grant.

use std::path::PathBuf;

use super::call_rules::bounded;
use super::watching::Watching;
use haft_core::grant::{Grant, Root};
use haft_core::manifest::Manifest;
use haft_core::tool::{Entry, Rules, Toolbox};
use haft_sandbox::BackendConfig;

/// What binds a program that works as an agent of another.
#[derive(Clone, Debug)]
pub struct Under {
    most: Grant,
    backend: Option<BackendConfig>,
    chain: Vec<PathBuf>,
    rules: Rules,
    hooks: Vec<Watching>,
}

impl Under {
    pub(super) fn new(
        most: Grant,
        backend: Option<BackendConfig>,
        chain: Vec<PathBuf>,
        rules: Rules,
        hooks: Vec<Watching>,
    ) -> Self {
        Self { most, backend, chain, rules, hooks }
    }

    /// Where the commands run of the program that it works for; `None`: on this machine.
    pub(super) fn backend(&self) -> Option<&BackendConfig> {
        self.backend.as_ref()
    }

    /// The files of the programs that it works for, outermost first.
    pub(super) fn chain(&self) -> &[PathBuf] {
        &self.chain
    }

    /// The rules for calls of a program that has rules of its `own`.
    pub(super) fn rules(&self, own: Rules) -> Rules {
        bounded(own, &self.rules)
    }

    /// What sees the calls of its tools too.
    pub(super) fn hooks(&self) -> &[Watching] {
        &self.hooks
    }

    /// What is left of `wanted`. Values of its own that a component sees are no right, and stay.
    pub(super) fn narrowed(&self, wanted: &Grant) -> Grant {
        let grant = wanted.intersect(&self.most);
        wanted.values().iter().fold(grant, |grant, (name, value)| grant.with_value(name, value))
    }

    /// What is not left of `wanted`, in words that follow "may not".
    pub(super) fn withheld(&self, wanted: &Grant) -> Vec<String> {
        let left = self.narrowed(wanted);
        let path = |root: &Root| root.path().display().to_string();
        let read = wanted.readable().roots().into_iter().filter(|root| !left.readable().covers(root));
        let write = wanted.writable().roots().into_iter().filter(|root| !left.writable().covers(root));
        let hosts = wanted.hosts().iter().filter(|host| !left.hosts().contains(host));
        let variables = wanted.env().difference(left.env());
        let mut all: Vec<String> = read.map(|root| format!("read `{}`", path(&root))).collect();
        all.extend(write.map(|root| format!("write `{}`", path(&root))));
        all.extend(hosts.map(|host| format!("reach `{host}`")));
        all.extend(variables.map(|name| format!("see `{name}`")));
        all.extend((wanted.network() && !left.network()).then(|| "use the network".to_owned()));
        all.extend((wanted.unix_sockets() && !left.unix_sockets()).then(|| "use unix sockets".to_owned()));
        all
    }
}

/// The most that an agent of a program gets: of files and processes what `files` may, the built-in tools for files; of
/// hosts and variables what any tool of `toolbox` may. What is blocked for `fetch_url` is blocked.
pub(super) fn most(files: &Grant, toolbox: &Toolbox, manifest: &Manifest) -> Grant {
    let blocked = manifest.builtins.fetch_block.iter().cloned();
    let mut most = blocked.fold(files.clone(), Grant::with_blocked_host);
    for own in toolbox.entries().map(Entry::grant) {
        let hosts: Vec<_> = own.hosts().iter().filter(|host| !most.hosts().contains(host)).cloned().collect();
        most = hosts.into_iter().fold(most, Grant::with_host);
        most = own.env().iter().fold(most, Grant::with_env);
    }
    most
}
