//! Converts an entry of a registry to a source of haft, or to a URL.

use haft_core::report::plain;
use haft_manifest::{Foreign, PackageSource, SecretSource, TextOrSecret};

use super::entry::{Answer, Argument, ArgumentKind, Input, Package, Remote, Status, TransportKind};
use super::input::Values;
use super::{Registered, RegistryError, Start, Wanted};
use crate::ForeignError;
use crate::foreign::Value;

/// The setting that chooses among the packages and addresses of an entry.
const USE: &str = "use";

/// The value of `--set` for a URL.
const REMOTE: &str = "remote";

/// The registries of npm and PyPI, as entries name them.
const REGISTRIES: &[(&str, &[&str])] =
    &[("npm", &["https://registry.npmjs.org"]), ("pypi", &["https://pypi.org", "https://pypi.org/simple"])];

/// Options of `npx` that have no meaning without it.
const MEANINGLESS: &[&str] = &["-y", "--yes"];

pub(super) fn resolved(answer: &Answer, wanted: &Wanted) -> Result<Registered, RegistryError> {
    let (used, settings): (Vec<_>, Vec<_>) = wanted.settings.iter().cloned().partition(|(key, _)| key == USE);
    let used = used.into_iter().next().map(|(_, value)| value);
    let mut values = Values::new(&settings, wanted.asks);
    let entry = &answer.server;
    let start = match chosen(answer, used.as_deref())? {
        Chosen::Package(package) if package.registry_type == "mcpb" => {
            // The bundle's manifest defines the settings.
            return Ok(Registered {
                version: entry.version.clone(),
                start: bundle(package, &settings)?,
                notes: notes(answer, Vec::new()),
            });
        }
        Chosen::Package(package) => self::package(package, &mut values)?,
        Chosen::Remote(remote) => self::remote(remote, &entry.name, &mut values)?,
    };
    Ok(Registered {
        version: entry.version.clone(),
        start,
        notes: notes(answer, values.finish(wanted.stem())?),
    })
}

fn notes(answer: &Answer, mut notes: Vec<String>) -> Vec<String> {
    if answer.meta.status() == Some(Status::Deprecated) {
        notes.insert(0, "its author has deprecated it".to_owned());
    }
    notes
}

enum Chosen<'a> {
    Package(&'a Package),
    Remote(&'a Remote),
}

/// Selects the form to install: the user's choice, otherwise the first package that haft can install, otherwise a
/// URL.
fn chosen<'a>(answer: &'a Answer, used: Option<&str>) -> Result<Chosen<'a>, RegistryError> {
    let entry = &answer.server;
    let is_meant = |kind: &str| used.is_none_or(|used| used == kind);
    let is_known = |package: &&Package| matches!(package.registry_type.as_str(), "npm" | "pypi" | "mcpb");
    let packages = entry.packages.iter().filter(|package| is_meant(&package.registry_type));
    let usable =
        packages.clone().filter(is_known).find(|package| package.transport.kind == TransportKind::Stdio);
    if let Some(package) = usable {
        return Ok(Chosen::Package(package));
    }
    let mut remotes = entry.remotes.iter().filter(|_| is_meant(REMOTE));
    if let Some(remote) = remotes.find(|remote| remote.kind == TransportKind::StreamableHttp) {
        return Ok(Chosen::Remote(remote));
    }
    if let Some(used) =
        used.filter(|used| !entry.packages.iter().any(|package| package.registry_type == **used))
    {
        let mut has: Vec<_> = entry.packages.iter().map(|package| package.registry_type.as_str()).collect();
        has.extend((!entry.remotes.is_empty()).then_some(REMOTE));
        let why = format!("the entry has `{}`, not `{}`", plain(&has.join("`, `")), plain(used));
        return Err(ForeignError::Value { key: USE.to_owned(), why }.into());
    }
    Err(unusable(entry.packages.iter().find(|package| is_meant(&package.registry_type))))
}

fn unusable(package: Option<&Package>) -> RegistryError {
    let Some(package) = package else {
        let what = "it has neither a package nor a streamable HTTP URL: haft does not support the older \
            HTTP+SSE";
        return ForeignError::Unsupported(what.to_owned()).into();
    };
    let (kind, identifier) = (plain(&package.registry_type), plain(&package.identifier));
    let (what, way_out) = match package.registry_type.as_str() {
        "npm" | "pypi" | "mcpb" => (
            format!("its package `{identifier}` of {kind} serves HTTP instead of stdio"),
            "start the server yourself, and write its URL as `url` of an `[[mcp_servers]]` entry".to_owned(),
        ),
        "oci" => (
            format!("its package `{identifier}` is a container image, which haft does not install"),
            "write an `[[mcp_servers]]` entry: `command = \"docker run -i --rm IMAGE\"`".to_owned(),
        ),
        _ => (
            format!("its package `{identifier}` is of {kind}, which haft does not support"),
            "install it yourself, and write its command to an `[[mcp_servers]]` entry".to_owned(),
        ),
    };
    RegistryError::Elsewhere { what, way_out }
}

fn bundle(package: &Package, settings: &[(String, String)]) -> Result<Start, RegistryError> {
    let unfit =
        |why: &str| ForeignError::Unsupported(format!("its bundle `{}` {why}", plain(&package.identifier)));
    let digest = package.file_sha256.as_ref().and_then(|text| format!("sha256:{text}").parse().ok());
    let digest = Some(digest.ok_or_else(|| unfit("has no valid `fileSha256`"))?);
    let source = source(&package.identifier, settings.to_vec())?;
    if !matches!(&source, PackageSource::Foreign(Foreign { origin: haft_manifest::Origin::Url(_), .. })) {
        return Err(unfit("is not a URL that ends with `.mcpb`").into());
    }
    Ok(Start::Package { source, digest })
}

fn package(package: &Package, values: &mut Values<'_>) -> Result<Start, RegistryError> {
    let (kind, identifier) = (package.registry_type.as_str(), plain(&package.identifier));
    check_registry(package)?;
    if package.file_sha256.is_some() {
        return Err(RegistryError::Elsewhere {
            what: format!(
                "its entry has a `fileSha256` for `{identifier}` of {kind}, which haft cannot compare"
            ),
            way_out: format!("use `haft add {kind}:{identifier}`, with the digests of {kind}"),
        });
    }
    let Some(version) = &package.version else {
        let text = format!("its entry has no version of `{identifier}`");
        return Err(ForeignError::Unsupported(text).into());
    };
    let runtime = words(&package.runtime_arguments, values)?;
    if let Some(word) = runtime.iter().find(|word| !MEANINGLESS.contains(&word.as_str())) {
        let hint = package.runtime_hint.as_deref().unwrap_or("its runtime");
        let what =
            format!("it needs the argument `{}` for `{}`, which haft does not run", plain(word), plain(hint));
        let way_out = format!("`haft add {kind}:{identifier}` installs the package without it");
        return Err(RegistryError::Elsewhere { what, way_out });
    }
    let mut settings: Vec<(String, String)> =
        words(&package.arguments, values)?.into_iter().map(|word| ("arg".to_owned(), word)).collect();
    for pair in &package.environment_variables {
        let name = &pair.name;
        match values.value(name, name, &pair.input)? {
            None | Some(Value::Secret(SecretSource::File(_))) => {}
            Some(Value::Secret(SecretSource::Env(own))) if own.as_str() == name => {
                settings.push(("env".to_owned(), name.clone()));
            }
            Some(Value::Secret(SecretSource::Keyring(entry))) => {
                settings.push((format!("secret.{name}"), format!("keyring:{entry}")));
            }
            Some(Value::Secret(SecretSource::Env(own))) => {
                settings.push((format!("secret.{name}"), format!("env:{own}")));
            }
            Some(Value::Texts(texts)) => settings.push((format!("env.{name}"), texts.join(","))),
        }
    }
    let between = if kind == "npm" { "@" } else { "==" };
    let source = source(&format!("{kind}:{}{between}{version}", package.identifier), settings)?;
    Ok(Start::Package { source, digest: None })
}

/// Refuses all but the usual registry: the user configures the source of packages.
fn check_registry(package: &Package) -> Result<(), RegistryError> {
    let Some(base) = &package.registry_base_url else { return Ok(()) };
    let is_usual = |(kind, usual): &(&str, &[&str])| {
        package.registry_type == *kind && usual.contains(&base.trim_end_matches('/'))
    };
    if REGISTRIES.iter().any(is_usual) {
        return Ok(());
    }
    let (kind, base) = (&package.registry_type, plain(base));
    let variable = if kind == "npm" { "npm_config_registry" } else { "UV_DEFAULT_INDEX" };
    Err(RegistryError::Elsewhere {
        what: format!("its package is of another registry of {kind}: `{base}`"),
        way_out: format!("set the variable `{variable}` to that URL for `haft add {kind}:NAME`"),
    })
}

fn source(text: &str, settings: Vec<(String, String)>) -> Result<PackageSource, ForeignError> {
    let unusable = |error: haft_manifest::SourceError| {
        ForeignError::Unsupported(format!("its package is not usable (`{}`): {error}", plain(text)))
    };
    // A `#` would begin settings of the entry's author.
    let parsed = if text.contains('#') { Err(haft_manifest::SourceError::Url) } else { text.parse() };
    match parsed.map_err(unusable)? {
        PackageSource::Foreign(foreign) => {
            // Printed and parsed again: a source that cannot be written is refused here.
            let whole = PackageSource::Foreign(Foreign { settings, ..foreign }).to_string();
            whole.parse().map_err(unusable)
        }
        other => Ok(other),
    }
}

fn words(arguments: &[Argument], values: &mut Values<'_>) -> Result<Vec<String>, ForeignError> {
    let mut words = Vec::new();
    for argument in arguments {
        let name = argument.name.as_deref().unwrap_or_default();
        let key = match argument.kind {
            ArgumentKind::Named => name.trim_start_matches('-'),
            ArgumentKind::Positional => argument.value_hint.as_deref().unwrap_or("value"),
        };
        let texts = match values.value(key, key, &argument.input)? {
            None => continue,
            Some(Value::Texts(texts)) => texts,
            Some(Value::Secret(_)) => {
                let text = format!(
                    "it needs the secret `{}` on its command line, where others can read it",
                    plain(key)
                );
                return Err(ForeignError::Unsupported(text));
            }
        };
        if texts.len() > 1 && !argument.is_repeated {
            return Err(ForeignError::Value { key: plain(key), why: "it has one value".to_owned() });
        }
        for text in texts {
            match argument.kind {
                ArgumentKind::Positional => words.push(text),
                ArgumentKind::Named if name.is_empty() => {
                    return Err(ForeignError::Unsupported(
                        "its entry has a named argument without a name".to_owned(),
                    ));
                }
                // A flag alone.
                ArgumentKind::Named if text.is_empty() => words.push(name.to_owned()),
                ArgumentKind::Named if name.starts_with("--") => words.push(format!("{name}={text}")),
                ArgumentKind::Named => words.extend([name.to_owned(), text]),
            }
        }
    }
    Ok(words)
}

fn remote(remote: &Remote, name: &str, values: &mut Values<'_>) -> Result<Start, ForeignError> {
    let own = name.rsplit('/').next().unwrap_or(name).to_owned();
    let variables = Input {
        variables: remote.variables.iter().map(|(name, input)| (name.clone(), input.clone())).collect(),
        ..Input::default()
    };
    let url = values.address(&remote.url, &variables)?.unwrap_or_default();
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let mut headers = Vec::new();
    for header in &remote.headers {
        let variable: String = format!("{own}_{}", header.name).chars().map(word).collect();
        match values.value(&header.name, &variable, &header.input)? {
            None => {}
            Some(Value::Texts(texts)) => {
                headers.push((header.name.clone(), TextOrSecret::Text(texts.join(", "))));
            }
            Some(Value::Secret(source)) => headers.push((header.name.clone(), TextOrSecret::Secret(source))),
        }
    }
    Ok(Start::Remote { name: own, url, headers })
}
