//! `haft add`: installs a package or a component, with the user's consent to its content and its requests. Another
//! version of an installed entry replaces that entry. Without a source, the verb fetches the entries that
//! program.lock pins and this machine lacks.

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::Exit;
use super::common::Common;
use super::install_args::{Rights, Settings, parse_source};
use super::install_session::{
    InstallSession, TerminalConsent, install_error, installed_json, project_error, put, signer, sources,
    with_hint,
};
use super::terminal::Terminal;
use super::trusted::{self, Kept};
use super::update::report_replaced;
use haft::program::Agreement;
use haft_core::report::plain;
use haft_manifest::{KeyringEntry, Name, SecretError, SecretSource, Secrets, TextOrSecret};
use haft_package::edit::{self, NewServer};
use haft_package::registry::{Registered, Registry, RegistryError, Start, Wanted};
use haft_package::{
    Added, Addition, Digest, Expected, FetchError, ForeignError, InstallError, Installed, Installer,
    PackageSource, ProjectEntry, ProjectError, Restored, SecretField, Updated,
};

#[derive(Debug, Args)]
#[command(after_help = "SOURCE is one of:
  a folder with a program.toml, or an archive of one (.tar.gz, .tgz, .tar)
  a component (.wasm), or an MCP bundle (.mcpb): a path or an https:// URL
  oci://REGISTRY/NAME:TAG
  git+https://HOST/REPOSITORY[@REFERENCE]
  npm:NAME[@VERSION], pypi:NAME[==VERSION]   an MCP server
  mcp:NAMESPACE/NAME[@VERSION]               an entry of --registry

Examples:
  haft add ./github
  haft add words.wasm --grant read=./docs
  haft add oci://ghcr.io/owner/words:1.1   another version: shows the differences
  haft add npm:@modelcontextprotocol/server-filesystem --set arg=. --grant write=.
  haft add pypi:mcp-server-time            its tools are mcp__mcp-server-time__…
  haft add github.mcpb --set token=env:GITHUB_TOKEN
  haft add mcp:io.github.ada/notes --registry https://mcp.example.com
  haft add ../other --as mine              under another name")]
pub(super) struct Add {
    /// The source; without one, everything in program.toml and program.lock
    source: Option<String>,
    #[command(flatten)]
    rights: Rights,
    #[command(flatten)]
    settings: Settings,
    /// Install it under another name; the names of a package's plugins then start with this name
    #[arg(long = "as", alias = "name", value_name = "NAME", requires = "source")]
    name: Option<Name>,
    /// The registry of MCP servers for `mcp:NAME` [default: `HAFT_MCP_REGISTRY`, else the first of `registries` in sources.toml; there is none by itself]
    #[arg(long, value_name = "URL", requires = "source")]
    registry: Option<String>,
    /// The SHA-256 digest that the fetched content must have
    #[arg(long, value_name = "SHA256", requires = "source")]
    digest: Option<Digest>,
    /// The required signer: a public key or its file (cosign or minisign), or `sigstore:ISSUER#SUBJECT`. The
    /// signer is pinned: updates need the same signer
    #[arg(long, value_name = "FILE|SIGNER", requires = "source")]
    key: Option<String>,
    /// Install even if required programs are missing
    #[arg(long)]
    force: bool,
}

impl Add {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        let installing = async {
            match &self.source {
                Some(source) => self.add(&session, source, terminal).await,
                None => self.restore(&session, terminal).await,
            }
        };
        let kept = Kept::before(&session.project.path).await;
        let exit = tokio::select! {
            done = installing => done?,
            // Dropping the future removes the fetched content.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        kept.renew().await?;
        Ok(exit)
    }

    async fn add(&self, session: &InstallSession, written: &str, terminal: Terminal) -> anyhow::Result<Exit> {
        let here = std::env::current_dir()?;
        let (source, digest, asked) = match written.strip_prefix("mcp:") {
            None => {
                let source = parse_source(written, &here, session.project.folder())?;
                (self.settings.added(source)?, None, Asked::default())
            }
            Some(named) => match find(self, session, named, terminal).await? {
                Found::Package(source, digest, asked) => (source, digest, asked),
                Found::Done(exit) => return Ok(exit),
            },
        };
        let is_other = self.digest.as_ref().zip(digest.as_ref()).is_some_and(|(own, other)| own != other);
        anyhow::ensure!(!is_other, "the registry's digest differs from `--digest`");
        let shown =
            if let PackageSource::Foreign(_) = source { source.to_string() } else { written.to_owned() };
        let digest = self.digest.clone().or(digest);
        let addition = Addition {
            source,
            name: self.name.clone(),
            expected: Expected { digest, trust: signer(self.key.as_deref())? },
            allow_missing_programs: self.force,
        };
        let full_command = format!("haft inspect --full {}", shell_words::quote(&plain(&shown)));
        let consent = TerminalConsent { rights: &self.rights, terminal, session, here, full_command };
        let was_there = session.project.exists();
        let added = self.added(session, addition, &consent, asked).await?;
        match added {
            Added::New(installed) => {
                if terminal.json {
                    terminal.json(&installed_json(&installed))?;
                }
                report_installed(session, &installed, was_there, terminal);
            }
            Added::Changed(Updated::Replaced { installed, changes }) => {
                let data = report_replaced(session, &installed, changes, terminal);
                if terminal.json {
                    terminal.json(&data)?;
                }
            }
            Added::Changed(Updated::Unchanged) => {
                if terminal.json {
                    terminal.json(&json!({ "unchanged": true }))?;
                }
                terminal.message("already installed: this version and content");
                self.warn_of_unused_rights(terminal);
            }
            Added::Changed(Updated::Declined) | Added::Declined => return Ok(Exit::Declined),
        }
        Ok(Exit::Success)
    }

    /// Adds a package or component. Asks for the secrets that it needs, and stores the entered values.
    async fn added(
        &self,
        session: &InstallSession,
        mut addition: Addition,
        consent: &TerminalConsent<'_>,
        mut asked: Asked,
    ) -> anyhow::Result<Added> {
        let terminal = consent.terminal;
        let installer = Installer { asks: self.asks(terminal), ..session.installer() };
        let added = match installer.add(addition.clone(), consent).await {
            Err(InstallError::Fetch(FetchError::Foreign(ForeignError::Secrets { server, fields }))) => {
                asked = Asked::at(terminal, session, &server, &fields).await?;
                if let PackageSource::Foreign(foreign) = &mut addition.source {
                    foreign.settings.extend(asked.settings.clone());
                }
                session.installer().add(addition, consent).await
            }
            added => added,
        };
        let added = added.map_err(install_error)?;
        if !matches!(added, Added::Declined | Added::Changed(Updated::Declined)) {
            asked.store(terminal, session).await?;
        }
        Ok(added)
    }

    /// Warns that options for rights have no effect on an installed entry.
    fn warn_of_unused_rights(&self, terminal: Terminal) {
        if self.rights.no_grant || !self.rights.grant.is_empty() {
            terminal.warning("`--grant` and `--no-grant` had no effect: existing grants do not change");
            terminal.hint("`haft grant NAME RIGHT` writes a grant; remove one in program.toml");
        }
    }

    /// Returns whether haft asks for secrets.
    fn asks(&self, terminal: Terminal) -> bool {
        terminal.has_person() && !self.rights.yes
    }

    /// Fetches pinned entries that this machine lacks, and asks for consent to entries without a pin.
    async fn restore(&self, session: &InstallSession, terminal: Terminal) -> anyhow::Result<Exit> {
        if !self.agreed_to_lock(session, terminal).await? {
            return Ok(Exit::Declined);
        }
        let (mut fetched, mut is_declined, mut has_failed) = (Vec::new(), false, false);
        // Content that another program installed is registered for this program too.
        session.installer().register().map_err(install_error)?;
        let (here, full_command) = (std::env::current_dir()?, "haft add --full".to_owned());
        let consent = TerminalConsent { rights: &self.rights, terminal, session, here, full_command };
        for entry in session.project.entries() {
            match session.installer().restore(&entry, &consent).await {
                Ok(Restored::Present | Restored::Unpinned) => {}
                Ok(restored @ (Restored::Fetched | Restored::Adopted)) => {
                    let word = if restored == Restored::Fetched { "fetched" } else { "installed" };
                    terminal.message(format_args!("{word} `{}`", entry.name));
                    fetched.push(entry.name.to_string());
                }
                Ok(Restored::Declined) => is_declined = true,
                Ok(Restored::OtherSource) => {
                    warn_of_other_source(&entry, terminal);
                    is_declined = true;
                }
                // A failed entry does not prevent others.
                Err(error) => {
                    let what = format!("`{}` was not installed", entry.name);
                    terminal.fail(&install_error(error).context(what));
                    has_failed = true;
                }
            }
        }
        let exit = match (has_failed, is_declined) {
            (true, _) => Exit::Failure,
            (false, true) => Exit::Declined,
            (false, false) => Exit::Success,
        };
        if terminal.json {
            terminal.json(&json!({ "fetched": fetched }))?;
        } else if fetched.is_empty() && exit == Exit::Success {
            terminal.message("everything is installed");
        }
        Ok(exit)
    }
}

impl Add {
    /// Returns whether the user agreed to the packages and plugins. A program.lock that came with its folder is not
    /// consent.
    async fn agreed_to_lock(&self, session: &InstallSession, terminal: Terminal) -> anyhow::Result<bool> {
        let agreement = Agreement::of(Some(&session.project.path)).await?;
        let lines = agreement.installed();
        if lines.is_empty() || trusted::is_everything_agreed_to()? {
            return Ok(true);
        }
        terminal.message(format_args!(
            "you have not agreed to these packages of program.toml and program.lock:\n  {}",
            lines.join("\n  ")
        ));
        let is_agreed = self.rights.yes || (terminal.has_person() && terminal.confirm("install it?").await?);
        if is_agreed {
            agreement.agree_to_installed()?;
        } else {
            terminal
                .hint("`haft inspect SOURCE` shows the package; `haft add --yes` agrees without a question");
        }
        Ok(is_agreed)
    }
}

fn warn_of_other_source(entry: &ProjectEntry, terminal: Terminal) {
    let name = &entry.name;
    terminal.warning(&format!("`{name}` is pinned from another source"));
    terminal.hint(&format!("`haft update {name}` installs the source of program.toml"));
}

fn report_installed(session: &InstallSession, installed: &Installed, was_there: bool, terminal: Terminal) {
    let (name, path) = (installed.pin.name.as_str(), session.project.path.display());
    if !was_there {
        terminal.message(format_args!("created `{path}`"));
    }
    terminal.message(format_args!("installed `{name}` in `{path}`"));
    if let Some(tool) = installed.tools.first() {
        terminal.hint(&format!("`haft call {tool} '{{…}}'` calls its first tool, `haft tools` lists all"));
    }
}

/// The prefix of the names of keyring entries.
const OURS: &str = "haft";

#[derive(Default)]
struct Asked {
    /// The settings that refer to the secrets.
    settings: Vec<(String, String)>,
    /// The entered values, for the keyring.
    values: Vec<(KeyringEntry, SecretString)>,
}

impl Asked {
    /// Asks for `fields` of `server`. Without a keyring it asks for nothing: the secrets are environment variables.
    async fn at(
        terminal: Terminal,
        session: &InstallSession,
        server: &str,
        fields: &[SecretField],
    ) -> anyhow::Result<Self> {
        let mut asked = Self::default();
        let Ok(name) = Name::of_text(server) else { return Ok(asked) };
        let (redactor, home) = (terminal.redactor(), session.context.dirs.home.as_path());
        let secrets = Secrets::new(&session.project.manifest, home, &redactor);
        for field in fields {
            let key = plain(&field.key);
            let Ok(entry) = format!("{OURS}/{name}/{}", field.key).parse::<KeyringEntry>() else { continue };
            match secrets.read(&SecretSource::Keyring(entry.clone())).await {
                // The stored secret may belong to a server of the same name from another author.
                Ok(_) => {
                    let hint = format!("`--set {key}=keyring:{entry}` uses the stored value for this server");
                    return Err(with_hint(
                        Some(&hint),
                        format!("the keyring already has an entry `{entry}`"),
                    ));
                }
                Err(SecretError::NotInKeyring(_)) => {}
                Err(error) => {
                    terminal.hint(&format!("cannot read the variable `{key}`: {error}"));
                    return Ok(Self::default());
                }
            }
            let title = field.title.as_ref().map(|title| format!(" ({})", plain(title))).unwrap_or_default();
            let entered =
                terminal.secret(&format!("`{key}`{title}, stored in the keyring as `{entry}`:")).await?;
            let entered = entered.expose_secret();
            anyhow::ensure!(!entered.is_empty(), "no value entered for `{key}`; nothing was changed");
            let (before, after) = &field.around;
            asked.values.push((entry.clone(), format!("{before}{entered}{after}").into()));
            asked.settings.push((field.key.clone(), format!("keyring:{entry}")));
        }
        Ok(asked)
    }

    /// Stores the entered values, after the user has agreed to the server.
    async fn store(&self, terminal: Terminal, session: &InstallSession) -> anyhow::Result<()> {
        let (redactor, home) = (terminal.redactor(), session.context.dirs.home.as_path());
        let secrets = Secrets::new(&session.project.manifest, home, &redactor);
        for (entry, value) in &self.values {
            secrets.store(entry, value).await?;
            terminal.message(format_args!("stored `{entry}` in the keyring"));
        }
        Ok(())
    }
}

enum Found {
    /// A package, with its digest if the registry states one.
    Package(PackageSource, Option<Digest>, Asked),
    /// The verb has ended: the entry is written, or the user did not agree.
    Done(Exit),
}

/// Finds the server `named`. Writes the entry of a server with a URL.
async fn find(add: &Add, session: &InstallSession, named: &str, terminal: Terminal) -> anyhow::Result<Found> {
    let registry = registry(add, session)?;
    let mut wanted = Wanted::parse(named).map_err(registry_error)?;
    (wanted.settings, wanted.asks) = (add.settings.pairs()?, add.asks(terminal));
    let (found, asked) = match registry.find(&wanted).await {
        Err(RegistryError::Foreign(ForeignError::Secrets { server, fields })) => {
            let asked = Asked::at(terminal, session, &server, &fields).await?;
            wanted.settings.extend(asked.settings.clone());
            wanted.asks = false;
            (registry.find(&wanted).await.map_err(registry_error)?, asked)
        }
        found => (found.map_err(registry_error)?, Asked::default()),
    };
    found.notes.iter().for_each(|note| terminal.message(format_args!("note: {note}")));
    let Registered { version, start, .. } = found;
    let named = format!("`{}` {} of `{}`", plain(named), plain(&version), registry.shown());
    match start {
        Start::Package { source, digest } => {
            terminal.message(format_args!("{named} is `{}`", plain(&source.to_string())));
            Ok(Found::Package(add.settings.with_scripts(source), digest, asked))
        }
        Start::Remote { name, url, headers } => {
            terminal.message(format_args!("{named} answers at `{}`", plain(&url)));
            let server = Server { name: own_name(add, &name)?, url, headers };
            Ok(Found::Done(server.add(add, session, &asked, terminal).await?))
        }
    }
}

/// Returns the registry from the command line, the environment, or the first entry of `sources.toml`.
fn registry(add: &Add, session: &InstallSession) -> anyhow::Result<Registry> {
    if let Some(url) = add.registry.clone().filter(|url| !url.is_empty()) {
        return Ok(Registry { url });
    }
    let missing = || {
        let hint = "set `--registry URL`, the variable `HAFT_MCP_REGISTRY`, or `registries` of \
                    `~/.config/haft/sources.toml`, such as to your company's registry";
        with_hint(Some(hint), "no registry of MCP servers is set, and haft has no default registry")
    };
    sources(&session.context.dirs)?.registries.into_iter().next().ok_or_else(missing)
}

fn registry_error(error: RegistryError) -> anyhow::Error {
    with_hint(error.hint().as_deref(), error)
}

fn own_name(add: &Add, name: &str) -> anyhow::Result<Name> {
    match &add.name {
        Some(name) => Ok(name.clone()),
        None => Name::of_text(name)
            .map_err(|error| with_hint(Some("`--as NAME` names it"), format!("no usable name: {error}"))),
    }
}

struct Server {
    name: Name,
    url: String,
    headers: Vec<(String, TextOrSecret)>,
}

impl Server {
    /// Shows the entry for program.toml, asks for consent, and writes the entry.
    async fn add(
        &self,
        add: &Add,
        session: &InstallSession,
        asked: &Asked,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let project = &session.project;
        let name = self.name.as_str();
        if project.manifest.mcp_servers.iter().any(|server| server.name.as_str() == name) {
            let hint = "`--as NAME` gives this server another name; edit program.toml to change an entry";
            return Err(with_hint(
                Some(hint),
                format!("`{}` already has an MCP server `{name}`", project.path.display()),
            ));
        }
        let new =
            NewServer { name, command: &[], url: Some(&self.url), values: &self.headers, enabled: true };
        let failed = |error| project_error(ProjectError::Edit { path: project.path.clone(), error });
        let text = edit::add_server(&edit::begun(&project.text, project.folder()), &new).map_err(failed)?;
        terminal.new_lines(&project.text, &text);
        if !add.rights.yes {
            if !terminal.has_person() {
                let hint = "`--yes` agrees without a question";
                return Err(with_hint(Some(hint), "nothing was changed: there is no terminal to ask at"));
            }
            if !terminal.confirm("Write it?").await? {
                terminal.message("nothing was changed");
                return Ok(Exit::Declined);
            }
        }
        asked.store(terminal, session).await?;
        put(project, &text).await?;
        terminal.message(format_args!("wrote `{name}` to `{}`", project.path.display()));
        Ok(Exit::Success)
    }
}
