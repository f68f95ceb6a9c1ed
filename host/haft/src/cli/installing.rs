//! What the verbs on packages share: a program to change, a place to work, and something that was
//! fetched and looked at. Installs nothing.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::common::Common;
use super::consent::{Before, Page};
use super::terminal::{Hinted, Terminal};
use crate::program::{FILE_NAME, InstallContext, command_spec, described};
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_core::manifest::Name;
use haft_core::tool::exposed_name;
use haft_package::disclosure::{Disclosure, Item, ItemKind, Told};
use haft_package::oci::{Access, CredentialFiles};
use haft_package::signature::{PublicKey, Trust};
use haft_package::{
    Bundle, Digest, Fetched, Fetching, Held, Installing, Kind, Offered, OfferedPlugin, PackageSource, Pin,
    Project, ProjectError, Request, StoreError, fetch,
};
use haft_plugin_host::{Plugin, Source};
use haft_sandbox::native::command::{self, CommandSpec};

/// Memory that a component may use while it is asked for its tools, whatever it asks for itself.
const MAX_LISTING_MEMORY: u64 = 1 << 30;

/// A program, and where its packages are worked on.
pub(super) struct InstallWork {
    pub(super) project: Project,
    pub(super) bench: InstallContext,
}

/// What somebody knows of a thing before it is fetched.
pub(super) struct Expected<'a> {
    /// Of what is fetched.
    pub(super) digest: Option<Digest>,
    /// Whose signature it must have.
    pub(super) trust: &'a Trust,
}

impl Expected<'static> {
    /// Nothing is known.
    pub(super) fn nothing() -> Self {
        Self { digest: None, trust: &Trust::Nobody }
    }
}

/// As whom registries are asked.
pub(super) fn access(home: &Path, terminal: Terminal) -> Access {
    let credentials = CredentialFiles::of_environment(home);
    Access { credentials, redactor: terminal.redactor(), ..Access::default() }
}

/// The key that somebody names on the command line.
pub(super) fn trust(key: Option<&str>) -> anyhow::Result<Trust> {
    let given = |key: &str| match PublicKey::given(key) {
        Ok(key) => Ok(Trust::Given(key)),
        Err(error) => {
            Err(anyhow::anyhow!("invalid `--key`: {}", haft_core::report::plain(&error.to_string())))
        }
    };
    key.map_or(Ok(Trust::Nobody), given)
}

/// Something that was fetched and looked at. Dropping it leaves nothing.
pub(super) struct Arrival {
    pub(super) installing: Installing,
    pub(super) source: PackageSource,
    pub(super) fetched: Fetched,
    pub(super) offered: Offered,
    /// All that there is to agree to.
    pub(super) disclosure: Disclosure,
}

impl InstallWork {
    /// The program that the command line names, or the one here, even if it is not there yet.
    pub(super) fn open(common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let path = common.program.clone().unwrap_or_else(|| FILE_NAME.into());
        let project = Project::open(&path).map_err(told_project)?;
        let bench = InstallContext::new(&common.options(terminal, false)?, &project.manifest)?;
        Ok(Self { project, bench })
    }

    /// Keeps what is installed from being cleared away, and reads anew what is pinned: that cannot go any more.
    pub(super) fn hold(&mut self) -> anyhow::Result<Option<Held>> {
        let held = self.bench.store.hold().map_err(|error| told(None, error))?;
        self.project = Project::open(&self.project.path).map_err(told_project)?;
        Ok(held)
    }

    /// Fetches `source`, whose relative paths start from `base`, and looks at it. What is not `expected`
    /// is refused before it is looked at.
    pub(super) async fn fetch(
        &self,
        terminal: Terminal,
        (source, base): (PackageSource, &Path),
        wanted: Expected<'_>,
        name: Option<Name>,
    ) -> anyhow::Result<Arrival> {
        let installing = self.bench.store.install()?;
        let fetched = self.bring(terminal, installing.directory(), (&source, base), wanted).await?;
        let offered = Offered::new(&fetched.content, &fetched.kept, name, &stem(&source))
            .map_err(|error| told(error.hint(), error))?;
        let disclosure = Disclosure::of(&offered, &self.tools(&offered).await?)?;
        Ok(Arrival { installing, source, fetched, offered, disclosure })
    }

    /// Fetches `source` to `directory` and looks at nothing.
    pub(super) async fn bring(
        &self,
        terminal: Terminal,
        directory: &Path,
        (source, base): (&PackageSource, &Path),
        wanted: Expected<'_>,
    ) -> anyhow::Result<Fetched> {
        let home = &self.bench.places.home;
        let fetching = Fetching {
            directory,
            base,
            home,
            progress: terminal.progress(),
            expected: wanted.digest,
            access: &access(home, terminal),
            trust: wanted.trust,
            confiner: &self.bench.confiner,
            grant: &self.bench.errand,
        };
        let fetched = fetch(source, &fetching).await;
        fetched.map_err(|error| told(error.hint().as_deref(), error))
    }

    /// The tools of what is offered, by running its components with no rights.
    pub(super) async fn tools(&self, offered: &Offered) -> anyhow::Result<Vec<Told>> {
        let mut tools = Vec::new();
        for plugin in &offered.plugins {
            tools.extend(named(offered, &plugin.name, &self.tools_of(plugin).await?));
        }
        if let Some(bundle) = &offered.bundle {
            tools.extend(commands(bundle));
        }
        Ok(tools)
    }

    async fn tools_of(&self, offered: &OfferedPlugin) -> anyhow::Result<Vec<ToolDef>> {
        let source = Source::Pinned(offered.file.clone(), offered.digest.hex().to_owned());
        let usual = Limits::default();
        let limits = Limits {
            memory: offered.limits.memory.min(MAX_LISTING_MEMORY),
            time: offered.limits.time.min(usual.time),
            ..offered.limits
        };
        let plugin = Plugin::load(self.bench.engine()?, &offered.name, source, &limits).await;
        let plugin = plugin.with_context(|| format!("`{}` cannot be loaded", offered.name))?;
        Ok(plugin.tools().to_vec())
    }

    /// What somebody was shown when `pin` was made, as far as it is still to be had on this machine.
    pub(super) async fn previous(&self, pin: &Pin) -> Disclosure {
        let kept = async {
            self.check(pin).map_err(anyhow::Error::msg)?;
            let offered = self.installed(pin)?;
            let tools = self.tools(&offered).await?;
            Ok::<_, anyhow::Error>(Disclosure::of(&offered, &tools)?)
        };
        match kept.await {
            Ok(disclosure) => disclosure,
            Err(error) => {
                tracing::debug!(%error, "what was agreed to is not to be had as a whole");
                self.remembered(pin).unwrap_or_default()
            }
        }
    }

    /// The tools of a component that is not there any more, as they were listed once.
    fn remembered(&self, pin: &Pin) -> Option<Disclosure> {
        if pin.kind != Kind::Plugin {
            return None;
        }
        let engine = self.bench.engine().ok()?;
        let defs = Plugin::remembered(engine, pin.kept.hex())?;
        let name = pin.name.as_str();
        Some(Disclosure::of_tools(defs.into_iter().map(|def| exposed(name, def))))
    }

    /// What somebody reads before agreeing to `arrival` with these rights.
    pub(super) fn page<'a>(
        &'a self,
        arrival: &'a Arrival,
        granted: &'a [Request],
        before: Option<Before<'a>>,
    ) -> Page<'a> {
        let places = (self.project.folder(), self.bench.places.home.as_path());
        Page { arrival, granted, before, sandbox: &self.bench.sandbox, places }
    }

    /// What is installed for a pin, if it is there and whole enough to be understood.
    pub(super) fn installed(&self, pin: &Pin) -> anyhow::Result<Offered> {
        let store = &self.bench.store;
        let content = match pin.kind {
            Kind::Package => haft_package::Content::Tree(store.tree(&pin.kept), store.listing(&pin.kept)?),
            Kind::Plugin => haft_package::Content::Component(self.component(pin)),
        };
        Ok(Offered::new(&content, &pin.kept, Some(pin.name.clone()), pin.name.as_str())?)
    }

    /// Where the component of a pin is: in the store, or where its author has it.
    pub(super) fn component(&self, pin: &Pin) -> PathBuf {
        match &pin.source {
            PackageSource::Path(path) => self.project.manifest.resolve(path, &self.bench.places.home),
            _ => self.bench.store.component(&pin.kept),
        }
    }

    /// Whether the bytes of a pin are there and are what was agreed to.
    pub(super) fn check(&self, pin: &Pin) -> Result<(), String> {
        let is_component = pin.kind == Kind::Plugin;
        if !is_component || !matches!(pin.source, PackageSource::Path(_)) {
            return self.bench.store.check(&pin.kept, is_component).map_err(|error| error.to_string());
        }
        let file = self.component(pin);
        match Digest::of_file(&file, haft_package::MAX_SIZE) {
            Ok((found, _)) if found == pin.kept => Ok(()),
            Ok(_) => Err(StoreError::Changed(file).to_string()),
            Err(error) => Err(format!("cannot read `{}`: {error}", file.display())),
        }
    }

    /// Where an entry of program.toml comes from now.
    pub(super) fn source(&self, kind: Kind, name: &str) -> Option<PackageSource> {
        let manifest = &self.project.manifest;
        match kind {
            Kind::Package => {
                let package = manifest.packages.iter().find(|package| package.name.as_str() == name)?;
                Some(package.source.value.clone())
            }
            Kind::Plugin => {
                let plugin = manifest.plugins.iter().find(|plugin| plugin.name.as_str() == name)?;
                Some(plugin.component.value.source())
            }
        }
    }

    /// What program.toml grants an entry now.
    pub(super) fn granted(&self, kind: Kind, name: &str) -> Vec<Request> {
        let manifest = &self.project.manifest;
        let grant = match kind {
            Kind::Package => manifest
                .packages
                .iter()
                .find(|package| package.name.as_str() == name)
                .map(|entry| &entry.grant),
            Kind::Plugin => {
                manifest.plugins.iter().find(|plugin| plugin.name.as_str() == name).map(|entry| &entry.grant)
            }
        };
        let rights = grant.map(haft_core::manifest::GrantTable::rights).unwrap_or_default();
        rights.into_iter().map(|right| Request::Right(None, right)).collect()
    }

    /// The names of all entries that can be installed, in the order of the file.
    pub(super) fn entries(&self) -> Vec<(Kind, String)> {
        let manifest = &self.project.manifest;
        let packages = manifest.packages.iter().map(|package| (Kind::Package, package.name.to_string()));
        let plugins = manifest.plugins.iter().map(|plugin| (Kind::Plugin, plugin.name.to_string()));
        packages.chain(plugins).collect()
    }

    /// Fails where a plugin of `offered` has the name of another that is there.
    pub(super) fn check_clashes(&self, offered: &Offered) -> anyhow::Result<()> {
        let own = |name: &str| offered.plugins.iter().any(|plugin| plugin.name == name);
        let is_itself = |kind, name: &str| kind == offered.kind && name == offered.name.as_str();
        let manifest = &self.project.manifest;
        let plugins = manifest.plugins.iter().map(|plugin| plugin.name.as_str());
        let mut taken = plugins.filter(|name| own(name) && !is_itself(Kind::Plugin, name));
        if let Some(name) = taken.next() {
            anyhow::bail!(
                "it has a plugin `{name}`, and `{}` has another of that name",
                self.project.path.display()
            );
        }
        for pin in self.project.lock.pins.iter().filter(|pin| pin.kind == Kind::Package) {
            // What cannot be understood any more has no names to clash with.
            let Ok(other) = self.installed(pin) else { continue };
            let taken = other.plugins.iter().find(|plugin| own(&plugin.name));
            if let Some(plugin) = taken.filter(|_| !is_itself(pin.kind, pin.name.as_str())) {
                anyhow::bail!(
                    "it has a plugin `{}`, and the package `{}` has another of that name",
                    plugin.name,
                    pin.name
                );
            }
        }
        Ok(())
    }

    /// The entry of this name, or an error that names the nearest.
    pub(super) fn entry(&self, name: &str) -> anyhow::Result<Kind> {
        self.project.kind_of(name).ok_or_else(|| {
            let entries = self.entries();
            let near = haft_core::report::nearest(name, entries.iter().map(|(_, name)| name.as_str()));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let (name, path) = (haft_core::report::plain(name), self.project.path.display());
            anyhow::anyhow!("`{path}` has no package or plugin `{name}`{near}")
        })
    }
}

impl Arrival {
    /// What program.lock says of it.
    pub(super) fn pin(&self, granted: &[Request]) -> Pin {
        Pin {
            name: self.offered.name.clone(),
            kind: self.offered.kind,
            source: self.source.clone(),
            resolved: self.fetched.resolved.clone(),
            digest: self.fetched.digest.clone(),
            kept: self.fetched.kept.clone(),
            version: self.offered.version.clone(),
            contracts: self.offered.contracts(),
            signer: self.fetched.verdict.signer().cloned(),
            asked: self.offered.requests.iter().map(ToString::to_string).collect(),
            granted: granted.iter().map(ToString::to_string).collect(),
            shown: Some(self.disclosure.noted()),
        }
    }

    /// The names of its tools.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        let is_tool = |item: &&Item| item.kind == ItemKind::Tool;
        self.disclosure.items.iter().filter(is_tool).map(|item| item.name.as_str())
    }

    /// Puts it into the store. A component of this machine stays where it is.
    pub(super) fn keep(&self) -> Result<(), StoreError> {
        let stays = self.offered.kind == Kind::Plugin && matches!(self.source, PackageSource::Path(_));
        if stays { Ok(()) } else { self.installing.keep(&self.fetched.content, &self.fetched.kept) }
    }

    /// The same as data.
    pub(super) fn described(&self, granted: &[Request]) -> Value {
        let pin = self.pin(granted);
        json!({
            "name": pin.name.as_str(),
            "kind": pin.kind,
            "version": pin.version.map(|version| version.to_string()),
            "source": pin.source.to_string(),
            "resolved": pin.resolved,
            "digest": pin.digest.to_string(),
            "kept": pin.kept.to_string(),
            "signer": pin.signer.map(|signer| signer.to_string()),
            "contracts": pin.contracts,
            "tools": self.tools().collect::<Vec<_>>(),
            "asked": pin.asked,
            "granted": pin.granted,
        })
    }
}

/// The tools of a plugin as a model is told of them: under their exposed names, with the descriptions that
/// the package's program.toml puts in the place of their own.
fn named(offered: &Offered, plugin: &str, defs: &[ToolDef]) -> Vec<Told> {
    let plugins = offered.bundle.iter().flat_map(|bundle| &bundle.manifest.plugins);
    let declared = plugins.into_iter().find(|declared| declared.name.as_str() == plugin);
    let told = |def| Told { def: exposed(plugin, described(declared, def)), runs: Vec::new() };
    defs.iter().map(told).collect()
}

fn exposed(plugin: &str, def: ToolDef) -> ToolDef {
    ToolDef { name: exposed_name(&[plugin, &def.name]), ..def }
}

/// The commands of a package as tools, with what they run. What is on this machine's PATH is no part of
/// what somebody agrees to.
pub(super) fn commands(bundle: &Bundle) -> impl Iterator<Item = Told> {
    let program = bundle.program.name.as_str();
    bundle.manifest.tools.iter().map(move |tool| {
        let spec = command_spec(&bundle.manifest, program, tool);
        let spec = CommandSpec { required: Vec::new(), optional: Vec::new(), ..spec };
        let def = command::definition(&spec);
        let mut runs = vec![format!("runs: {}", shell_words::join(&spec.command))];
        let flags =
            tool.arguments.iter().filter_map(|argument| Some((&argument.name, argument.flag.as_ref()?)));
        runs.extend(flags.map(|(name, flag)| format!("with {flag} before `{name}`")));
        Told { def, runs }
    })
}

/// What a component is called that does not say, after where it comes from.
pub(super) fn stem(source: &PackageSource) -> String {
    let text = source.to_string();
    let path = text.split(['?', '@']).next().unwrap_or_default();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let last =
        if matches!(source, PackageSource::Oci(_)) { last.split(':').next().unwrap_or(last) } else { last };
    last.strip_suffix(".wasm").unwrap_or(last).to_owned()
}

/// An error with its way out.
pub(super) fn told(hint: Option<&str>, error: impl std::fmt::Display) -> anyhow::Error {
    match hint {
        Some(hint) => Hinted::new(format!("{error}"), hint).into(),
        None => anyhow::anyhow!("{error}"),
    }
}

/// The same of a program that cannot be read or changed.
pub(super) fn told_project(error: ProjectError) -> anyhow::Error {
    match error {
        ProjectError::Manifest(report) => report.into(),
        error => told(error.hint(), error),
    }
}
