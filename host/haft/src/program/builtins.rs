//! The plugins that haft carries in itself: which of them there are, and what each may do. Grants
//! what `[sandbox]` and `[builtins]` say and not a thing more.

use super::assembly::Assembly;
use super::pending_plugin::PendingPlugin;
use haft_core::grant::{Grant, HostPattern};
use haft_core::limit::Limits;
use haft_core::manifest::Builtins;
use haft_core::tool::SubjectArgument;
use haft_plugin_host::{GrantPlace, Source};

/// A component that comes with haft. The list of them is `plugins/builtins.rs`.
struct Builtin {
    name: &'static str,
    /// Compressed by gzip.
    component: &'static [u8],
}

/// A file of `plugins/built` as `build.rs` compressed it.
macro_rules! packed {
    ($file:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".gz"))
    };
}

const BUILTINS: &[Builtin] = include!("../../../../plugins/builtins.rs");

/// The digests of what was built, as `sha256sum` writes them.
const SUMS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/built/SHA256SUMS"));

impl Builtin {
    fn source(&self) -> Source {
        let is_own = |file: &str| {
            file.strip_suffix(".wasm").and_then(|file| file.strip_prefix("plugins/built/")) == Some(self.name)
        };
        let own = SUMS.lines().filter_map(|line| line.split_once("  ")).find(|(_, file)| is_own(file));
        Source::Packed { gzip: self.component, digest: own.map(|(sum, _)| sum) }
    }
}

/// The component of this name that comes with haft, and the name.
pub fn builtin(name: &str) -> Option<(&'static str, Source)> {
    let found = BUILTINS.iter().find(|builtin| builtin.name == name);
    found.map(|builtin| (builtin.name, builtin.source()))
}

/// The names of all components that come with haft.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|builtin| builtin.name)
}

/// The variable that tells `search` where to ask.
const SEARCH_URL: &str = "SEARCH_URL";

/// The built-in plugins that are switched on. They follow `[sandbox]`, of which `files` are the rights of the one for
/// files; `time` needs no right.
pub(super) fn enabled(
    assembly: &mut Assembly<'_>,
    sandbox: &Grant,
    files: &Grant,
) -> Vec<PendingPlugin<'static>> {
    let own = &assembly.manifest.builtins;
    // A target has tools of its own for its files.
    let switches = Builtins { files: own.files && !assembly.is_target, ..own.clone() };
    BUILTINS.iter().filter_map(|builtin| pending(builtin, &switches, (sandbox, files))).collect()
}

/// A built-in plugin with what it may do, if it is switched on.
fn pending(
    builtin: &Builtin,
    switches: &Builtins,
    (sandbox, files): (&Grant, &Grant),
) -> Option<PendingPlugin<'static>> {
    let all = SubjectArgument::All;
    let (grant, place, about) = match builtin.name {
        "files" => {
            (switches.files.then(|| files.clone()), GrantPlace::Sandbox, SubjectArgument::Path("file_path"))
        }
        "fetch" => {
            let grant = switches.fetch.then(|| fetch(switches, sandbox));
            (grant, GrantPlace::FetchAllow, SubjectArgument::Address("url"))
        }
        "search" => (switches.search.then(|| search(switches)), GrantPlace::SearchUrl, all),
        "time" => (switches.time.then(Grant::none), GrantPlace::Sandbox, all),
        _ => (Some(Grant::none()), GrantPlace::Sandbox, all),
    };
    Some(PendingPlugin {
        name: builtin.name.to_owned(),
        source: builtin.source(),
        grant: grant?,
        place,
        limits: Limits::default(),
        about,
        declared: None,
        package: None,
        agreed: None,
    })
}

/// Every public host, the hosts that are allowed besides, and none that is blocked.
fn fetch(switches: &Builtins, sandbox: &Grant) -> Grant {
    let grant = Grant::none().with_host(HostPattern::any());
    let allowed = switches.fetch_allow.iter().chain(sandbox.hosts());
    let grant = allowed.cloned().fold(grant, Grant::with_host);
    switches.fetch_block.iter().cloned().fold(grant, Grant::with_blocked_host)
}

/// The one host that is asked, and the page there.
fn search(switches: &Builtins) -> Grant {
    let grant = switches.search_host().into_iter().fold(Grant::none(), Grant::with_host);
    grant.with_value(SEARCH_URL, &switches.search_url)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Compiled code is looked up by them.
    #[test]
    fn the_digests_are_those_of_what_haft_carries() {
        for builtin in BUILTINS {
            let source = builtin.source();
            let Source::Packed { digest: Some(sum), .. } = source else {
                panic!("{} has none", builtin.name)
            };
            let bytes = source.read().unwrap();
            let own: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((own.as_str(), bytes.len() as u64), (sum, source.size()), "{}", builtin.name);
        }
    }
}
