//! `haft inspect`: describes a package or a component, installed or not, from any source. Installs nothing; code
//! that is run has no rights.

mod component;
mod page;

use crate::cli::common::Common;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use self::component::{Component, Subject};
use super::Exit;
use super::terminal::{Hinted, Terminal, did_you_mean, rounded};
use crate::cli::install_session::{InstallSession, install_error, signer};
use haft::program::{builtin, builtin_names, command_tools};
use haft_core::limit::Limits;
use haft_core::report::plain;
use haft_package::disclosure::{Disclosure, ItemKind};
use haft_package::signature::Verdict;
use haft_package::{
    Content, Digest, Expected, Fetched, Kind, Offered, PackageSource, Pin, Request, source_stem,
};
use haft_plugin_host::Source;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft inspect words.wasm
  haft inspect ./github                       a package's folder
  haft inspect oci://ghcr.io/owner/words:1.0
  haft inspect github                         the installed package of this name
  haft inspect files                          a plugin built into haft")]
pub(super) struct Inspect {
    /// A file, a folder, an `https://`, `oci://` or `git+https://` address, or the name of an installed
    /// package or a built-in plugin
    #[arg(value_name = "WHAT")]
    what: String,
    /// Run nothing, not even to list the tools
    #[arg(long, alias = "only-look")]
    no_run: bool,
    /// Show texts and scripts in full
    #[arg(long)]
    full: bool,
    /// The required signer: a public key or its file (cosign or minisign), or `sigstore:ISSUER#SUBJECT`
    #[arg(long, value_name = "FILE|SIGNER")]
    key: Option<String>,
}

/// The findings about a package or component.
#[derive(Default)]
struct Found {
    name: String,
    version: Option<String>,
    description: Option<String>,
    /// The digest of the fetched or pinned content, which the report on a component need not repeat.
    digest: Option<Digest>,
    /// Names and texts, for the user.
    facts: Vec<(&'static str, String)>,
    /// The requested rights. `None` if they are unknown.
    asked: Option<Vec<String>>,
    /// The granted rights. `None` if it is not installed.
    granted: Option<Vec<String>>,
    components: Vec<Component>,
    /// The tools that do not belong to a component, and the files of a package.
    others: Disclosure,
    /// The unused part.
    ignored: Option<String>,
    problems: Vec<String>,
    /// Further data for `--json`.
    data: Value,
}

enum Meant {
    Entry(Kind, String),
    Builtin(&'static str, Source),
    Source(PackageSource),
}

impl Inspect {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        let found = tokio::select! {
            found = self.find(&session) => found?,
            // Dropping the future removes the fetched content.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        if terminal.json {
            terminal.json(&found.json())?;
        } else {
            let rest = format!("haft inspect --full {}", shell_words::quote(&plain(&self.what)));
            terminal.data(&page::render(&found, terminal.data_columns(), (!self.full).then_some(rest)))?;
        }
        let is_sound = found.problems.is_empty() && found.components.iter().all(Component::is_sound);
        Ok(if is_sound { Exit::Success } else { Exit::Program })
    }

    async fn find(&self, session: &InstallSession) -> anyhow::Result<Found> {
        match self.meant(session)? {
            Meant::Entry(kind, name) => self.entry(session, kind, &name).await,
            Meant::Builtin(name, source) => self.builtin(session, name, source).await,
            Meant::Source(source) => Box::pin(self.source(session, source)).await,
        }
    }

    /// Returns the subject. A bare word is a name first; `./word` is a file.
    fn meant(&self, session: &InstallSession) -> anyhow::Result<Meant> {
        let what = self.what.as_str();
        let is_word = !what.contains(['/', '.', ':']) && !what.is_empty();
        if is_word && let Some(kind) = session.project.kind_of(what) {
            return Ok(Meant::Entry(kind, what.to_owned()));
        }
        if is_word && let Some((name, source)) = builtin(what) {
            return Ok(Meant::Builtin(name, source));
        }
        let here = std::env::current_dir()?;
        let source = crate::cli::install_args::parse_source(what, &here, session.project.folder())?;
        if is_word && !Path::new(what).exists() {
            let entries = session.project.entries();
            let names = entries
                .iter()
                .map(|entry| entry.name.as_str())
                .chain(builtin_names().map(|name| -> &str { name }));
            let near = did_you_mean(what, names);
            let message = format!("`{what}` is not an installed package, a built-in plugin or a file{near}");
            return Err(Hinted::new(message, "`haft list` lists the installed packages").into());
        }
        Ok(Meant::Source(source))
    }

    async fn builtin(&self, session: &InstallSession, name: &str, source: Source) -> anyhow::Result<Found> {
        let subject =
            Subject { name: None, declared: None, title: name.to_owned(), source, limits: Limits::default() };
        let component = Component::inspect(subject, session.context.engine()?, self.no_run).await?;
        Ok(Found {
            facts: vec![("from", "part of haft: `[sandbox]` and `[builtins]` apply".to_owned())],
            components: vec![component],
            data: json!({ "kind": "builtin" }),
            ..Found::called(name)
        })
    }

    async fn entry(&self, session: &InstallSession, kind: Kind, name: &str) -> anyhow::Result<Found> {
        let pin = session.project.lock.find(kind, name);
        let entry = session.entry(kind, name);
        let source = entry.as_ref().map(|entry| &entry.source);
        let mut found = Found::called(name);
        found.facts.extend(source.iter().map(|source| ("from", source.to_string())));
        let granted = entry.iter().flat_map(|entry| &entry.granted);
        found.granted = Some(granted.map(request_text).collect());
        found.data = json!({
            "kind": kind,
            "source": source.map(ToString::to_string),
            "installed": pin.is_some(),
        });
        let offered = match (pin, source) {
            (Some(pin), _) => {
                found.pinned(session, pin);
                session.installer().installed(pin).map_err(|error| error.to_string())
            }
            (None, Some(PackageSource::Path(path))) if kind == Kind::Plugin => {
                let file = session.project.manifest.resolve(path, &session.context.dirs.home);
                offered_component(&file, name)
            }
            (None, _) => Err("it is not installed on this machine".to_owned()),
        };
        match offered {
            Ok(offered) => self.offered(session, &mut found, offered).await?,
            Err(why) => found.problems.push(why),
        }
        Ok(found)
    }

    async fn source(&self, session: &InstallSession, source: PackageSource) -> anyhow::Result<Found> {
        let trust = signer(self.key.as_deref())?;
        let installing = session.context.store.install()?;
        let expected = Expected { digest: None, trust };
        let fetched = session.installer().fetch(installing.directory(), &source, expected).await;
        let fetched = fetched.map_err(install_error)?;
        let stem = source_stem(&source);
        let mut found = Found::called(&stem);
        found.arrived(&source, &fetched);
        match Offered::new(&fetched.content, &fetched.kept, None, &stem) {
            Ok(offered) => self.offered(session, &mut found, offered).await?,
            Err(error) => {
                if let Content::Component(file) = &fetched.content {
                    let (title, source) = (stem, Source::File(file.clone()));
                    let subject =
                        Subject { name: None, declared: None, title, source, limits: Limits::default() };
                    found
                        .components
                        .push(Component::inspect(subject, session.context.engine()?, self.no_run).await?);
                }
                // The report on the component contains its errors.
                if found.components.iter().all(Component::is_sound) {
                    found.problems.push(error.to_string());
                }
            }
        }
        Ok(found)
    }

    async fn offered(
        &self,
        session: &InstallSession,
        found: &mut Found,
        offered: Offered,
    ) -> anyhow::Result<()> {
        found.name = offered.name.to_string();
        found.version = offered.version.as_ref().map(ToString::to_string);
        found.description.clone_from(&offered.description);
        found.asked = Some(offered.requests.iter().map(request_text).collect());
        if !offered.authors.is_empty() {
            found.facts.push(("by", offered.authors.join(", ")));
        }
        found.facts.extend(offered.license.clone().map(|license| ("licence", license)));
        if let Some(bundle) = &offered.bundle {
            let commands: Vec<_> = command_tools(bundle).collect();
            found.others = Disclosure::new(&offered, &commands)?;
            found.ignored = bundle.ignored_servers();
        }
        let declared = |name: &str| {
            let plugins = offered.bundle.iter().flat_map(|bundle| &bundle.manifest.plugins);
            plugins.into_iter().find(|declared| declared.name.as_str() == name).cloned()
        };
        for plugin in offered.plugins {
            let subject = Subject {
                name: Some(plugin.name.clone()),
                declared: declared(&plugin.name),
                title: plugin.name,
                source: Source::File(plugin.file),
                limits: plugin.limits,
            };
            found.components.push(Component::inspect(subject, session.context.engine()?, self.no_run).await?);
        }
        Ok(())
    }
}

impl Found {
    fn called(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Adds the facts in program.lock.
    fn pinned(&mut self, session: &InstallSession, pin: &Pin) {
        self.facts.extend(pin.resolved.clone().map(|resolved| ("", format!("that is {resolved}"))));
        let by = pin.signer.as_ref().map(|signer| format!("signed {}", signer.describe()));
        self.facts.push(("signature", by.unwrap_or_else(|| "not checked".to_owned())));
        self.facts.push(("pinned", pin.digest.to_string()));
        self.digest = Some(pin.digest.clone());
        if let Err(why) = session.installer().verify(pin) {
            self.problems.push(why.to_string());
        }
    }

    /// Adds the facts about fetched content.
    fn arrived(&mut self, source: &PackageSource, fetched: &Fetched) {
        self.facts.push(("from", source.to_string()));
        self.facts.extend(fetched.resolved.clone().map(|resolved| ("", format!("that is {resolved}"))));
        self.facts.push(("fetched", format!("{} ({})", fetched.digest, rounded(fetched.size))));
        self.facts.push(("signature", fetched.verdict.describe()));
        self.digest = Some(fetched.digest.clone());
        let (signer, claims) = match &fetched.verdict {
            Verdict::Unsigned => (None, Vec::new()),
            Verdict::Signed(signer) => (Some(signer.to_string()), Vec::new()),
            Verdict::Unchecked(claims) => (None, claims.clone()),
        };
        self.data = json!({
            "kind": if matches!(fetched.content, Content::Component(_)) { "component" } else { "package" },
            "source": source.to_string(),
            "resolved": fetched.resolved,
            "digest": fetched.digest.to_string(),
            "bytes": fetched.size,
            "signer": signer,
            "unchecked_signatures": claims,
            "installed": false,
        });
    }

    fn json(&self) -> Value {
        let mut all = json!({
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "asked": self.asked,
            "granted": self.granted,
            "components": self.components.iter().map(Component::json).collect::<Vec<_>>(),
            "commands": self.others.items.iter().filter(|item| item.kind == ItemKind::Tool).map(|item| json!({
                "name": item.name, "definition": item.text,
            })).collect::<Vec<_>>(),
            "files": self.others.items.iter().filter(|item| item.kind != ItemKind::Tool).map(|item| json!({
                "path": item.name, "digest": item.digest.to_string(), "bytes": item.size,
                "lines": item.text.as_ref().map(|_| item.lines()), "executable": item.executable,
            })).collect::<Vec<_>>(),
            "ignored": self.ignored,
            "problems": self.problems,
        });
        if let (Some(all), Value::Object(data)) = (all.as_object_mut(), &self.data) {
            all.extend(data.clone());
        }
        all
    }
}

fn offered_component(file: &Path, name: &str) -> Result<Offered, String> {
    let digest = Digest::of_file(file, haft_package::MAX_SIZE);
    let (digest, _) = digest.map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let content = Content::Component(file.to_owned());
    Offered::new(&content, &digest, name.parse().ok(), name).map_err(|error| error.to_string())
}

fn request_text(request: &Request) -> String {
    format!("{} {}", request.what(), request.detail())
}
