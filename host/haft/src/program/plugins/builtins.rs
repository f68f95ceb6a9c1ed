//! The built-in plugins and their grants. Grants exactly the rights of `[sandbox]` and `[builtins]`.

use super::PendingPlugin;
use crate::program::rights::Rights;
use haft_core::grant::{Grant, HostPattern};
use haft_core::limit::Limits;
use haft_core::tool::SubjectArgument;
use haft_manifest::{Builtins, Label};
use haft_plugin_host::{GrantPlace, Source};

/// A component that is a part of haft. `plugins/builtins.rs` has the list.
struct Builtin {
    name: &'static str,
    packed: Packed,
}

/// A component, packed by `build.rs`.
struct Packed {
    /// The component, compressed by gzip.
    gzip: &'static [u8],
    /// The recorded listing; empty if there is none.
    recorded: &'static str,
}

/// A component of `plugins/built`.
macro_rules! packed {
    ($file:literal) => {
        Packed {
            gzip: include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".gz")),
            recorded: include_str!(concat!(env!("OUT_DIR"), "/", $file, ".json")),
        }
    };
}

const BUILTINS: &[Builtin] = include!("../../../builtins.rs");

/// The digests of the built components, in the format of `sha256sum`.
const SUMS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/built/SHA256SUMS"));

impl Builtin {
    /// Returns the labels of the workers that run the component.
    fn on<'m>(&self, builtins: &'m Builtins) -> &'m [Label] {
        let on = &builtins.on;
        match self.name {
            "files" => &on.files,
            "fetch" => &on.fetch,
            "search" => &on.search,
            "time" => &on.time,
            _ => &[],
        }
    }

    fn source(&self) -> Source {
        let is_own = |file: &str| {
            file.strip_suffix(".wasm").and_then(|file| file.strip_prefix("plugins/built/")) == Some(self.name)
        };
        let own = SUMS.lines().filter_map(|line| line.split_once("  ")).find(|(_, file)| is_own(file));
        let Packed { gzip, recorded } = self.packed;
        Source::Packed {
            gzip,
            digest: own.map(|(sum, _)| sum),
            recorded: (!recorded.is_empty()).then_some(recorded),
        }
    }
}

/// Returns the built-in component called `name`, and its name.
pub fn builtin(name: &str) -> Option<(&'static str, Source)> {
    let found = BUILTINS.iter().find(|builtin| builtin.name == name);
    found.map(|builtin| (builtin.name, builtin.source()))
}

/// Returns the names of all built-in components.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|builtin| builtin.name)
}

/// The variable with the endpoint of `search`.
const SEARCH_URL: &str = "SEARCH_URL";

/// Returns the enabled built-in plugins. They have the rights of `[sandbox]`; `time` needs no right.
pub(super) fn enabled<'a>(rights: &Rights<'a>) -> Vec<PendingPlugin<'a>> {
    let own = &rights.manifest.builtins;
    // A target has its own file tools.
    let switches = Builtins { files: own.files && rights.target.is_none(), ..own.clone() };
    let placed = BUILTINS.iter().filter(|builtin| rights.placement.loads(builtin.on(own)));
    let pending = placed.filter_map(|builtin| {
        let pending = pending(builtin, &switches, (&rights.grant, &rights.files))?;
        Some(PendingPlugin { on: builtin.on(own), ..pending })
    });
    pending.collect()
}

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
        on: &[],
    })
}

/// Returns the grant of every public host and the hosts in `fetch_allow`, without the blocked hosts.
fn fetch(switches: &Builtins, sandbox: &Grant) -> Grant {
    let grant = Grant::none().with_host(HostPattern::any());
    let allowed = switches.fetch_allow.iter().chain(sandbox.hosts());
    let grant = allowed.cloned().fold(grant, Grant::with_host);
    switches.fetch_block.iter().cloned().fold(grant, Grant::with_blocked_host)
}

/// Returns the grant of the search endpoint's host.
fn search(switches: &Builtins) -> Grant {
    let grant = switches.search_host().into_iter().fold(Grant::none(), Grant::with_host);
    grant.with_value(SEARCH_URL, &switches.search_url)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use haft_core::encoding::hex;
    use haft_plugin_host::{Engine, EngineOptions, Plugin};
    use sha2::{Digest, Sha256};

    use super::*;

    /// Returns the listing of the built-in component, compiled and queried.
    async fn listed(engine: &Engine, builtin: &Builtin) -> String {
        let bytes = builtin.source().read().unwrap().into_owned();
        let source = Source::Embedded(bytes.leak());
        let plugin = Plugin::load(engine, builtin.name, source, &Limits::default()).await.unwrap();
        plugin.record().unwrap()
    }

    fn record_of(builtin: &Builtin) -> PathBuf {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("built");
        built.join(builtin.name).with_extension("json")
    }

    /// The records equal the components' lists, because starts rely on them. `plugins/build` runs this with
    /// `HAFT_RECORD` to write them.
    #[tokio::test]
    async fn the_records_are_what_the_components_list() {
        let engine = Engine::new(&EngineOptions::default());
        for builtin in BUILTINS {
            let (listed, file) = (listed(&engine, builtin).await, record_of(builtin));
            if std::env::var_os("HAFT_RECORD").is_some() {
                std::fs::write(&file, &listed).unwrap();
            }
            let recorded = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(recorded, listed, "{}: run `plugins/build`", file.display());
        }
    }

    /// Lists the built-in components from the records, without code and without an engine.
    #[tokio::test]
    async fn what_haft_carries_is_known_without_being_compiled() {
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("cache");
        let engine = Engine::new(&EngineOptions { cache: Some(cache.clone()), ..EngineOptions::default() });
        for builtin in BUILTINS {
            let known = Plugin::from_cache(&engine, builtin.name, builtin.source()).unwrap();
            let known =
                known.unwrap_or_else(|| panic!("{} has no record: run `plugins/build`", builtin.name));
            assert_eq!(known.record().unwrap(), builtin.packed.recorded);
        }
        assert!(!cache.exists(), "the engine has started, and opened its cache");
    }

    /// Compiled code is found by these digests.
    #[test]
    fn the_digests_are_those_of_what_haft_carries() {
        for builtin in BUILTINS {
            let source = builtin.source();
            let Source::Packed { digest: Some(sum), .. } = source else {
                panic!("{} has none", builtin.name)
            };
            let bytes = source.read().unwrap();
            assert_eq!(
                (hex(&Sha256::digest(&bytes)).as_str(), bytes.len() as u64),
                (sum, source.size()),
                "{}",
                builtin.name
            );
        }
    }
}
