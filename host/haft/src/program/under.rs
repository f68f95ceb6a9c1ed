//! What binds a program that works as an agent of another: the most that its tools may do, where its commands run, which
//! never do, what is said of its calls, the hooks that see them, and which programs it works for. Nothing here widens a
//! grant.

use std::path::PathBuf;

use super::watching::Watching;
use haft_core::grant::{Grant, Root};
use haft_core::tool::{Bounds, Entry, Rules, Toolbox};
use haft_manifest::Manifest;
use haft_sandbox::BackendConfig;
use haft_sandbox::native::deny;

/// The line of program.toml that has a person asked before `bash` runs a command.
pub(super) const SHELL_CONFIRM: &str = "`shell_confirm = true` in `[builtins]`";

/// The line that has a person asked before `fetch_url` asks for an address.
pub(super) const FETCH_CONFIRM: &str = "`fetch_confirm = true` in `[builtins]`";

/// What binds a program that works as an agent of another.
#[derive(Clone, Debug)]
pub struct Under {
    most: Grant,
    backend: Option<BackendConfig>,
    chain: Vec<PathBuf>,
    bounds: Vec<Bounds>,
    denied: Vec<String>,
    hooks: Vec<Watching>,
}

/// What a program says that has agents.
pub(super) struct Said<'a> {
    pub(super) manifest: &'a Manifest,
    /// Its rules, with the folder that their relative paths start in.
    pub(super) rules: Rules,
    /// What binds itself, where it works for others.
    pub(super) under: Option<&'a Under>,
}

impl Under {
    /// What binds the agents of the program that says what `said` has: they get no more than `most`, their commands run on
    /// `backend` and `hooks` see their calls.
    pub(super) fn new(
        said: Said<'_>,
        most: Grant,
        backend: Option<BackendConfig>,
        chain: Vec<PathBuf>,
        hooks: Vec<Watching>,
    ) -> Self {
        let Said { manifest, rules, under } = said;
        let outer = under.map(Self::bounds).unwrap_or_default();
        let bounds = std::iter::once(own_bounds(manifest, rules)).chain(outer.iter().cloned()).collect();
        Self { most, backend, chain, bounds, denied: denied(manifest, under), hooks }
    }

    /// The most that its tools may do.
    pub(super) fn most(&self) -> &Grant {
        &self.most
    }

    /// Where the commands run of the program that it works for; `None`: on this machine.
    pub(super) fn backend(&self) -> Option<&BackendConfig> {
        self.backend.as_ref()
    }

    /// The files of the programs that it works for, outermost first.
    pub(super) fn chain(&self) -> &[PathBuf] {
        &self.chain
    }

    /// What the programs that it works for say of its calls, nearest first.
    pub(super) fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// What sees the calls of its tools too.
    pub(super) fn hooks(&self) -> &[Watching] {
        &self.hooks
    }

    /// What is left of `wanted`. Values of its own that a component sees are no right, and stay.
    pub(super) fn narrowed(&self, wanted: &Grant) -> Grant {
        let grant = wanted.intersect(&self.most);
        // Nor is a right what a process needs to run, and has to itself.
        let grant = grant.with_needs(wanted.needs().iter().cloned());
        let grant = match (wanted.private(), wanted.caches()) {
            (Some(own), Some(caches)) => grant.with_private(own.clone()).with_caches(caches.clone()),
            _ => grant,
        };
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
        let stores = wanted.credentials().difference(left.credentials());
        let mut all: Vec<String> = read.map(|root| format!("read `{}`", path(&root))).collect();
        all.extend(write.map(|root| format!("write `{}`", path(&root))));
        all.extend(hosts.map(|host| format!("reach `{host}`")));
        all.extend(variables.map(|name| format!("see `{name}`")));
        all.extend(stores.map(|store| format!("open the credential store `{store}`")));
        all.extend((wanted.state() != left.state()).then(|| "store as much state".to_owned()));
        all.extend((wanted.cache() != left.cache()).then(|| "use as large a cache".to_owned()));
        all.extend((wanted.network() && !left.network()).then(|| "use the network".to_owned()));
        all.extend((wanted.unix_sockets() && !left.unix_sockets()).then(|| "use unix sockets".to_owned()));
        all
    }
}

/// What a program says of the calls of its agents.
fn own_bounds(manifest: &Manifest, rules: Rules) -> Bounds {
    let builtins = &manifest.builtins;
    let line = |asks: bool, setting: &str| {
        asks.then(|| format!("{setting} of the program that calls this agent").into())
    };
    Bounds {
        rules,
        commands: line(builtins.shell_confirm, SHELL_CONFIRM),
        addresses: line(builtins.fetch_confirm, FETCH_CONFIRM),
    }
}

/// The commands that never run in a program, with those that never run in the programs that it works for.
pub(super) fn denied(manifest: &Manifest, under: Option<&Under>) -> Vec<String> {
    let usual = || deny::DEFAULT.iter().map(|pattern| (*pattern).to_owned()).collect();
    let mut all: Vec<String> = manifest.builtins.shell_deny.clone().unwrap_or_else(usual);
    let outer = under.map(|under| under.denied.as_slice()).unwrap_or_default();
    let further: Vec<String> = outer.iter().filter(|pattern| !all.contains(pattern)).cloned().collect();
    all.extend(further);
    all
}

/// The most that an agent of a program gets: of files and processes what `files` may, the built-in tools for files; of
/// hosts, variables and what is kept between calls what any tool of `toolbox` may. What is blocked for `fetch_url` is blocked.
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
        let said = Said { manifest: &manifest, rules, under: outer };
        Under::new(said, Grant::none(), None, Vec::new(), Vec::new())
    }

    /// Every program on the way counts, and none lifts what another says.
    #[test]
    fn what_callers_ask_and_deny_holds_all_the_way_down() {
        let asks = "[builtins]\nshell_confirm = true\nfetch_confirm = true\nshell_deny = [\"git push\"]\n";
        let outer = under(asks, None);
        let inner = under("[builtins]\nshell_deny = []\n[agent]\nallow = [\"*\"]\n", Some(&outer));
        let asked: Vec<_> =
            inner.bounds().iter().map(|it| (it.commands.is_some(), it.addresses.is_some())).collect();
        assert_eq!(asked, [(false, false), (true, true)]);
        assert_eq!(inner.denied, ["git push"]);
        let line = outer.bounds().first().and_then(|bounds| bounds.commands.as_deref());
        assert_eq!(line, Some("`shell_confirm = true` in `[builtins]` of the program that calls this agent"));
        let usual = Manifest::parse("", Path::new("program.toml")).unwrap();
        let all = denied(&usual, Some(&inner));
        assert_eq!(all.len(), deny::DEFAULT.len() + 1);
        assert_eq!(denied(&usual, Some(&under("", None))), deny::DEFAULT, "each once");
    }
}
