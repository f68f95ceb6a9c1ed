//! Packages made from MCP servers in other formats: a folder with a program.toml that starts the server. The
//! remaining steps are those of every package. npm and uv install the content, with install scripts off.

mod attested;
mod bundle;
mod error;
mod npm;
mod pypi;
mod written;

use std::path::Path;

use haft_core::report::plain;
use haft_manifest::{SecretSource, TextOrSecret, Variable};
use jiff::Timestamp;

pub use self::error::ForeignError;
use crate::signature::Verdict;
use crate::tags::semantic;
use crate::{Fetching, Foreign, Origin, PackageSource};

/// The remedy for an MCP bundle of the older form.
pub(super) const DXT: &str = "this MCP bundle has an old format: its author must pack it again with `npx \
                              @anthropic-ai/mcpb pack` and `manifest_version` 0.3 or 0.4";

/// Between a version and the time when it was resolved, in program.lock.
const AS_OF: &str = " as of ";

/// A secret that a server needs and that has no source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretField {
    /// The setting that names the source.
    pub key: String,
    /// The author's description.
    pub title: Option<String>,
    /// The text before and after the secret in the server's value.
    pub around: (String, String),
}

/// A package made from a server.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The version and the time of its resolution: a later fetch of this version ignores newer dependencies. `None` for
    /// a bundle that contains its dependencies.
    pub(super) resolved: Option<String>,
    /// See [`crate::Fetched::notes`].
    pub(super) notes: Vec<String>,
    /// The result of the check of its attestations.
    pub(super) verdict: Verdict,
}

/// Creates a package in the folder `tree`, which exists only for a bundle: the files of its archive.
pub(super) async fn make(
    foreign: &Foreign,
    tree: &Path,
    fetching: &Fetching<'_>,
) -> Result<Made, ForeignError> {
    let now = foreign.values("before").next().map_or_else(now, str::to_owned);
    let made = match &foreign.origin {
        Origin::Npm(name, version) => {
            npm::make(foreign, (name, version.as_deref()), &now, tree, fetching).await?
        }
        Origin::Pypi(name, _) => pypi::make(foreign, name, tree, fetching).await?,
        Origin::File(_) | Origin::Url(_) => bundle::make(foreign, tree, fetching).await?,
    };
    Ok(Made { resolved: made.resolved.map(|version| format!("{version}{AS_OF}{now}")), ..made })
}

fn now() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second());
    now.unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// Returns the latest version in its registry; `None` for a bundle, which is in none.
pub(super) async fn latest(
    foreign: &Foreign,
    fetching: &Fetching<'_>,
) -> Result<Option<String>, ForeignError> {
    Ok(match &foreign.origin {
        Origin::Npm(name, _) => Some(npm::latest(name, fetching).await?),
        Origin::Pypi(name, _) => Some(pypi::latest(name, fetching).await?),
        Origin::File(_) | Origin::Url(_) => None,
    })
}

/// Returns the source with exactly the version in `resolved` of [`Made`].
pub(super) fn exact(foreign: &Foreign, resolved: &str) -> Foreign {
    let Some((version, now)) = resolved.split_once(AS_OF) else { return foreign.clone() };
    let mut exact = foreign.at(version);
    exact.settings.retain(|(key, _)| key != "before");
    exact.settings.push(("before".to_owned(), now.to_owned()));
    // The lock may have another author: its version is parsed like a user's.
    match exact.to_string().parse() {
        Ok(PackageSource::Foreign(read)) if read == exact => exact,
        _ => foreign.clone(),
    }
}

/// Returns the version in `resolved`, of [`Made`].
pub(super) fn resolved_version(resolved: &str) -> &str {
    resolved.split_once(AS_OF).map_or(resolved, |(version, _)| version)
}

/// The value of a server's setting: texts, or the source of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Texts(Vec<String>),
    Secret(SecretSource),
}

/// Returns the source of a secret: the one that the user gave, or the variable `own`.
pub(crate) fn secret_source(
    key: &str,
    given: &[String],
    own: Option<&str>,
) -> Result<Option<SecretSource>, ForeignError> {
    let wrong = || {
        let key = plain(key);
        let why = format!(
            "it is sensitive and is never stored in a file: put it into a variable and use `--set {key}=env:NAME`"
        );
        ForeignError::Value { key, why }
    };
    match (given, own) {
        ([], own) => own.map(|own| own.parse().map(SecretSource::Env)).transpose().map_err(|_| wrong()),
        ([one], _) => Foreign::secret_place(one).ok_or_else(wrong).map(Some),
        _ => Err(wrong()),
    }
}

/// Describes the source of a secret, for notes.
pub(crate) fn source_text(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("the variable `{name}`"),
        SecretSource::Keyring(entry) => format!("the keyring's entry `{entry}`"),
        SecretSource::File(path) => format!("the file `{}`", path.display()),
    }
}

/// Names a missing setting, with the author's description.
pub(crate) fn missing(key: &str, title: Option<&String>) -> String {
    let title = title.map(|title| format!(" ({})", plain(title))).unwrap_or_default();
    format!("`{}`{title}", plain(key))
}

/// Words and variables of a command.
type Added = (Vec<String>, Vec<(String, TextOrSecret)>);

/// Returns the words and variables that the settings of a package of npm or PyPI add to its command. `own` are the
/// settings that the caller reads itself.
fn added(foreign: &Foreign, own: &[&str]) -> Result<Added, ForeignError> {
    let (mut words, mut env) = (Vec::new(), Vec::new());
    for (key, value) in &foreign.settings {
        let wrong = |why: &str| ForeignError::Value { key: key.clone(), why: why.to_owned() };
        match key.split_once('.') {
            _ if key == "arg" => words.push(value.clone()),
            _ if key == "env" => {
                let own: Variable = value.parse().map_err(|_| wrong("expected the name of a variable"))?;
                env.push((value.clone(), TextOrSecret::Secret(SecretSource::Env(own))));
            }
            Some(("env", name)) => env.push((name.to_owned(), TextOrSecret::Text(value.clone()))),
            Some(("secret", name)) => {
                let source = Foreign::secret_place(value);
                let source = source.ok_or_else(|| wrong("expected `env:NAME` or `keyring:SERVICE/USER`"))?;
                env.push((name.to_owned(), TextOrSecret::Secret(source)));
            }
            _ if key == "before" || own.contains(&key.as_str()) => {}
            _ => {
                let known =
                    ["arg", "env", "env.NAME", "secret.NAME"].iter().chain(own).map(|key| (*key).to_owned());
                return Err(ForeignError::Setting { key: key.clone(), known: known.collect() });
            }
        }
    }
    Ok((words, env))
}

fn is_script_run(foreign: &Foreign) -> Result<bool, ForeignError> {
    match foreign.values("scripts").next() {
        None => Ok(false),
        Some("run") => Ok(true),
        Some(_) => Err(ForeignError::Value { key: "scripts".to_owned(), why: "expected `run`".to_owned() }),
    }
}

/// Selects the command that starts the server among those of a package: the named one, the only one, or the one
/// with the package's name.
fn chosen<T: PartialEq>(foreign: &Foreign, name: &str, all: Vec<(String, T)>) -> Result<T, ForeignError> {
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let is_alone = all.iter().all(|(_, target)| all.first().is_some_and(|(_, first)| first == target));
    let wanted = foreign.values("bin").next();
    let is_meant = |command: &str| match wanted {
        Some(wanted) => command == wanted,
        None => is_alone || command == name,
    };
    let found = all.into_iter().find(|(command, _)| is_meant(command));
    found
        .map(|(_, target)| target)
        .ok_or_else(|| ForeignError::Commands { name: name.to_owned(), commands: names })
}

/// Describes a folder without a program.toml, and how to install it.
pub(super) fn what_is(folder: &Path) -> String {
    let has = |file: &str| folder.join(file).is_file();
    let kinds: &[(&str, &str)] = &[
        ("manifest.json", "pack the folder as an MCP bundle first: `npx @anthropic-ai/mcpb pack`"),
        (
            "package.json",
            "add an npm package by its name, `haft add npm:NAME`; for an unpublished server write an \
             `[[mcp_servers]]` entry with its command",
        ),
        (
            "pyproject.toml",
            "add a PyPI package by its name, `haft add pypi:NAME`; for an unpublished server write an \
             `[[mcp_servers]]` entry with its command",
        ),
    ];
    let known = kinds.iter().find(|(file, _)| has(file)).map(|(_, way_out)| *way_out);
    known.unwrap_or("`haft init` writes one; for a single component give its file").to_owned()
}

#[cfg(test)]
mod tests;
