//! How the parts of a permission are put into words: exact, so that another right is another text.

use haft_manifest::{
    Argument, CallerProof, ContainerEngine, KeysAt, SecretSource, TextOrSecret, is_credential,
};
use haft_package::{Kind, Lock};

pub(super) fn engine_name(engine: ContainerEngine) -> &'static str {
    match engine {
        ContainerEngine::Docker => "docker",
        ContainerEngine::Podman => "podman",
    }
}

/// What a caller shows that whoever wrote program.toml may know. The value of a variable that is called as credentials are
/// is the person's own, and is compared and sent nowhere.
pub(super) fn shown(proof: &CallerProof) -> Option<String> {
    match proof {
        CallerProof::Token(SecretSource::Env(name)) if is_credential(name.as_str()) => None,
        CallerProof::Token(source) => Some(format!("has the token in {}", place(source))),
        CallerProof::Jwt(rule) => {
            let keys = match &rule.keys {
                KeysAt::Url(url) => format!("at {url}"),
                KeysAt::File(file) => format!("in {}", file.display()),
            };
            Some(format!("comes from {}, whose keys are {keys}", rule.issuer))
        }
    }
}

/// Where a secret is kept.
pub(super) fn place(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("${name}"),
        SecretSource::File(path) => path.display().to_string(),
        SecretSource::Keyring(entry) => format!("the keyring's {entry}"),
    }
}

/// What a call that leaves an argument out adds to the command line, and what stands before its value.
pub(super) fn words(argument: &Argument) -> String {
    let Argument { flag, default, name: _, description: _, kind: _, required: _ } = argument;
    let flag = flag.as_ref().map(|flag| shell_words::quote(flag));
    let value = default
        .as_ref()
        .map_or_else(|| "…".to_owned(), |value| shell_words::quote(&value.to_string()).into_owned());
    flag.map_or_else(|| format!(" {value}"), |flag| format!(" {flag} {value}"))
}

/// Names with their values, or where these are kept.
pub(super) fn values(head: &str, values: &[(String, TextOrSecret)]) -> String {
    let value = |(name, value): &(String, TextOrSecret)| match value {
        TextOrSecret::Text(text) => format!("{head} {name}={}", shell_words::quote(text)),
        TextOrSecret::Secret(source) => format!("{head} {name} from {}", place(source)),
    };
    values.iter().map(value).collect()
}

/// What is pinned of an entry, and so is run.
pub(super) fn pinned(lock: &Lock, kind: Kind, name: &str) -> String {
    lock.find(kind, name).map(|pin| format!(", pinned as {}", pin.kept)).unwrap_or_default()
}
