//! Credentials for registries, from the files that `docker login` and `podman login` write. A credential is
//! sent only to the registry that it was stored for and appears in no message.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::credential::{Credential, Secret, stored_secret};
use super::reference::Reference;
use haft_core::lookup::HostPrograms;
use haft_core::net::Retry;
use haft_core::secret::Redactor;

/// Limit on the bytes of a credential file: ten times a file with a hundred registries.
const MAX_FILE: u64 = 1 << 20;

/// The names of Docker Hub: credentials are stored under one name, and requests go to another.
const DOCKER_HUB: &[&str] = &["docker.io", "index.docker.io", "registry-1.docker.io"];

/// The credential files, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct CredentialFiles(Vec<PathBuf>);

impl CredentialFiles {
    /// Returns no files: every request is anonymous.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns these files.
    pub fn at(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(files.into_iter().collect())
    }

    /// Returns the files of docker and podman: `$REGISTRY_AUTH_FILE`, `$DOCKER_CONFIG/config.json`,
    /// `$XDG_RUNTIME_DIR/containers/auth.json`, `~/.config/containers/auth.json` and, unless `$DOCKER_CONFIG`
    /// is set, `~/.docker/config.json`.
    pub fn from_environment(home: &Path) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let docker = variable("DOCKER_CONFIG");
        let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let files = [
            variable("REGISTRY_AUTH_FILE"),
            docker.as_ref().map(|folder| folder.join("config.json")),
            variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
            Some(config.join("containers/auth.json")),
            docker.is_none().then(|| home.join(".docker/config.json")),
        ];
        Self(files.into_iter().flatten().collect())
    }

    pub(super) fn describe(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|path| format!("`{}`", path.display())).collect();
        if names.is_empty() { String::new() } else { format!(" in {}", names.join(", ")) }
    }

    /// Returns the first credential that is stored for this registry or for this repository of it.
    pub(super) async fn find(
        &self,
        programs: &HostPrograms,
        reference: &Reference,
    ) -> Result<Option<Credential>, String> {
        for path in &self.0 {
            let Some(stored) =
                read(path).map_err(|why| format!("cannot read `{}`: {why}", path.display()))?
            else {
                continue;
            };
            match stored.find(reference).map_err(|why| format!("`{}` {why}", path.display()))? {
                Some(Found::Secret(secret)) => {
                    return Ok(Some(Credential { secret, place: format!("`{}`", path.display()) }));
                }
                Some(Found::Helper { name, server }) => {
                    if let Some(secret) = stored_secret(programs, &name, &server).await? {
                        return Ok(Some(Credential { secret, place: format!("`docker-credential-{name}`") }));
                    }
                }
                None => {}
            }
        }
        Ok(None)
    }
}

/// A credential file of docker or podman; other keys are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(default)]
    auths: Map<String, Value>,
    #[serde(default)]
    cred_helpers: Map<String, Value>,
    #[serde(default)]
    creds_store: Option<String>,
}

enum Found {
    Secret(Secret),
    Helper { name: String, server: String },
}

impl Stored {
    /// Searches in docker's order: the registry's own helper, then the entry in the file, then the default
    /// helper.
    fn find(&self, reference: &Reference) -> Result<Option<Found>, String> {
        let helper = best(&self.cred_helpers, reference).and_then(|(key, name)| Some((key, name.as_str()?)));
        if let Some((server, name)) = helper.filter(|(_, name)| !name.is_empty()) {
            return Ok(Some(Found::Helper { name: name.to_owned(), server: server.to_owned() }));
        }
        let entry = best(&self.auths, reference);
        if let Some((key, entry)) = entry
            && let Some(secret) = secret(key, entry)?
        {
            return Ok(Some(Found::Secret(secret)));
        }
        let server = entry.map_or_else(|| server_of(reference), |(key, _)| key.to_owned());
        let store = self.creds_store.clone().filter(|name| !name.is_empty());
        Ok(store.map(|name| Found::Helper { name, server }))
    }
}

/// Returns the server name under which a helper stores a registry.
fn server_of(reference: &Reference) -> String {
    match reference.registry() {
        "docker.io" => "https://index.docker.io/v1/".to_owned(),
        registry => registry.to_owned(),
    }
}

/// Returns the entry that matches the longest part of the reference: podman stores some entries per repository.
fn best<'a>(entries: &'a Map<String, Value>, reference: &Reference) -> Option<(&'a str, &'a Value)> {
    let target = format!("{}/{}", reference.registry(), reference.repository());
    let fits = |key: &str| {
        let key = plain(key);
        let rest = target.strip_prefix(&key)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(key.len())
    };
    let fitting = entries.iter().filter_map(|(key, value)| Some((fits(key)?, key.as_str(), value)));
    fitting.max_by_key(|(length, ..)| *length).map(|(_, key, value)| (key, value))
}

/// Normalizes an entry's key to a registry or repository: without the scheme and the path that older versions
/// of docker write (`https://index.docker.io/v1/`).
fn plain(key: &str) -> String {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    let name = match bare {
        Some(bare) => bare.split('/').next().unwrap_or_default(),
        None => key.trim_end_matches('/'),
    };
    let (host, rest) = name.split_once('/').map_or((name, None), |(host, rest)| (host, Some(rest)));
    let host = if DOCKER_HUB.contains(&host) { "docker.io" } else { host };
    rest.map_or_else(|| host.to_owned(), |rest| format!("{host}/{rest}"))
}

/// Returns the secret of an entry; `None` if the entry only refers to a helper.
fn secret(key: &str, entry: &Value) -> Result<Option<Secret>, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(token) = text("identitytoken") {
        return Ok(Some(Secret::IdentityToken(token.into())));
    }
    if let Some(auth) = text("auth") {
        let decoded = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|pair| pair.split_once(':'));
        let (name, password) = pair
            .ok_or_else(|| format!("has an `auth` for `{key}` that is not the base64 of `name:password`"))?;
        let password = password.trim_end_matches('\0');
        return Ok(Some(Secret::Password { name: name.to_owned(), password: password.into() }));
    }
    Ok(text("username")
        .zip(text("password"))
        .map(|(name, password)| Secret::Password { name: name.to_owned(), password: password.into() }))
}

/// Reads and parses the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Stored>, String> {
    let file = match File::open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.map_err(|error| error.to_string())?,
    };
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("expected a file".to_owned());
    }
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("it is larger than {MAX_FILE} bytes"));
    }
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    // The message of serde_json contains the wrong value.
    let wrong = |error: serde_json::Error| {
        format!("it is not in the format of `docker login` (line {})", error.line())
    };
    serde_json::from_slice(&text).map(Some).map_err(wrong)
}

/// Credentials for registries, and the retries of requests.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The files that hold credentials.
    pub credentials: CredentialFiles,
    /// Redacts every credential that is sent.
    pub redactor: Redactor,
    /// The retries of a failed request.
    pub retry: Retry,
    /// The search path of `git` and of credential helpers.
    pub programs: HostPrograms,
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    /// `u:p-4711-0815`.
    const PAIR: &str = "dTpwLTQ3MTEtMDgxNQ==";

    async fn find(text: &str, reference: &str) -> Result<Option<Credential>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, text).unwrap();
        let missing = folder.path().join("none/auth.json");
        CredentialFiles::at([missing, file]).find(&HostPrograms::default(), &reference.parse().unwrap()).await
    }

    fn display(credential: Option<Credential>) -> String {
        match credential.map(|credential| credential.secret) {
            None => "nothing".to_owned(),
            Some(Secret::Password { name, password }) => format!("{name}:{}", password.expose_secret()),
            Some(Secret::IdentityToken(token)) => format!("token {}", token.expose_secret()),
        }
    }

    #[tokio::test]
    async fn an_entry_is_found_for_its_registry_and_no_other() {
        let text = format!(r#"{{ "auths": {{ "a.test:5000": {{ "auth": "{PAIR}" }} }} }}"#);
        assert_eq!(display(find(&text, "oci://a.test:5000/b/c").await.unwrap()), "u:p-4711-0815");
        for other in
            ["oci://a.test/b", "oci://a.test:50001/b", "oci://b.a.test:5000/b", "oci://xa.test:5000/b"]
        {
            assert_eq!(display(find(&text, other).await.unwrap()), "nothing", "{other}");
        }
    }

    #[tokio::test]
    async fn the_entry_of_a_repository_comes_before_the_registry_s() {
        let other = STANDARD.encode("other:password");
        let text = format!(
            r#"{{ "auths": {{ "a.test": {{ "auth": "{PAIR}" }}, "a.test/b": {{ "auth": "{other}" }} }} }}"#
        );
        assert_eq!(display(find(&text, "oci://a.test/b/c").await.unwrap()), "other:password");
        assert_eq!(display(find(&text, "oci://a.test/bc").await.unwrap()), "u:p-4711-0815");
    }

    #[tokio::test]
    async fn every_form_of_an_entry_is_read() {
        for (entry, expected) in [
            (r#"{ "username": "a", "password": "b" }"#, "a:b"),
            (r#"{ "auth": "", "identitytoken": "t" }"#, "token t"),
            (r"{ }", "nothing"),
        ] {
            let text = format!(r#"{{ "auths": {{ "https://index.docker.io/v1/": {entry} }}, "x": 1 }}"#);
            assert_eq!(display(find(&text, "oci://docker.io/a").await.unwrap()), expected, "{entry}");
        }
    }

    /// CL04: the error for an invalid file does not contain its content.
    #[tokio::test]
    async fn a_bad_file_is_named_and_not_repeated() {
        for text in [
            r#"{ "auths": { "a.test": { "auth": "c2VjcmV0LTQ3MTE=" } } }"#,
            r#"{ "auths": "c2VjcmV0LTQ3MTE=" }"#,
            r#"{ "auths": { "a.test": { "auth": "c2VjcmV0LTQ3MTE= "#,
        ] {
            let error = find(text, "oci://a.test/b").await.unwrap_err();
            assert!(error.contains("config.json") && !error.contains("c2VjcmV0"), "{error}");
        }
        let found =
            find(&format!(r#"{{ "auths": {{ "a.test": {{ "auth": "{PAIR}" }} }} }}"#), "oci://a.test/b")
                .await;
        assert!(!format!("{found:?}").contains("4711"));
    }
}
