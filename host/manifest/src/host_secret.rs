//! `[sandbox.secrets]`, `[tools.secrets]` and `[mcp_servers.secrets]`: secrets that haft puts into a process's requests to
//! single hosts. The process has a placeholder.

use haft_core::grant::{HostPattern, RequestPattern};
use haft_core::report::Problem;

use super::entry::{Entry, Located};
use super::hosts::{HOSTS, holds_to_hosts, hosts};
use super::name::Variable;
use super::plugin::encrypted;
use super::secret::{SecretSource, TextOrSecret};
use super::section::Section;
use super::table::{FromValue, Kind, table, texts};

table! {
    /// A secret that haft puts into a process's requests to some hosts. The process never has it, only a placeholder.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ProcessSecret = "" => checked {
        /// What it is called in messages.
        #[read(rows &[], Section::head)]
        pub name: Located<String>,
        /// the hosts that get the secret; the process must be granted each of them, and not all of the network
        #[read(HOSTS, secret_hosts)]
        #[also("host", "url")]
        pub hosts: Vec<HostPattern>,
        /// Where the value is kept.
        #[read(flatten)]
        pub source: SecretSource,
        /// the variable in which the process finds the placeholder, such as `GH_TOKEN`
        #[also("name", "as")]
        pub variable: Option<Variable> = None,
        /// a file with the placeholder, such as a `.npmrc`; the process finds its path in a variable
        #[also("template")]
        pub placeholder_file: Option<PlaceholderFile> = None,
        /// for a secret access key of AWS or S3: the access key, which the process finds a placeholder of in
        /// `AWS_ACCESS_KEY_ID`; requests that are signed with the placeholders are signed again
        #[read(Kind::TextOrSecret, |entry| entry.text_or_secret("access_key_id").map(Some))]
        #[also("access_key", "aws")]
        pub access_key_id: Option<TextOrSecret> = None,
        /// the only requests to these hosts, such as `GET https://api.github.com/repos/me/**`; default all
        #[also("methods", "paths", "rules", "requests")]
        pub allow: Vec<RequestPattern> = Vec::new(),
    }
}

table! {
    /// A file that haft writes for a process.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PlaceholderFile = "" => with_placeholder {
        /// the variable with the path of the file, such as `NPM_CONFIG_USERCONFIG`
        #[also("name", "as")]
        pub variable: Variable,
        /// the text of the file; `{}` stands for the placeholder
        #[also("content", "template")]
        pub text: String,
    }
}

impl ProcessSecret {
    /// Returns the places of its values: the secret, and the access key if that is kept as one.
    pub fn sources(&self) -> impl Iterator<Item = &SecretSource> {
        std::iter::once(&self.source).chain(self.access_key_id.as_ref().and_then(TextOrSecret::source))
    }
}

texts! { RequestPattern: Kind::Pattern("^(\\*|[A-Z]+) https?://[^/?#@]+/[^?#%\\\\ ]*$") }

pub(super) const SECRETS: Kind = Kind::Map(&ProcessSecret::KIND);

pub(super) fn secrets(entry: &Entry<'_>) -> Option<Vec<ProcessSecret>> {
    entry.secrets("{ env = \"NAME\", hosts = [\"api.example.com\"], variable = \"NAME\" }")
}

fn secret_hosts(entry: &Entry<'_>) -> Option<Vec<HostPattern>> {
    hosts(entry)?.into_iter().map(|host| encrypted(entry, host)).collect()
}

fn checked(secret: ProcessSecret, section: &Section<'_>) -> ProcessSecret {
    if secret.variable.is_none() && secret.placeholder_file.is_none() {
        section.reject_whole(
            "expected a `variable` or a `placeholder_file`, in which the process finds the placeholder",
        );
    }
    let elsewhere = |rule: &&RequestPattern| !secret.hosts.iter().any(|host| host.contains(rule.host()));
    if let Some(rule) = secret.allow.iter().find(elsewhere) {
        section.reject("allow", format!("`{rule}` is not a request to one of `hosts`"));
    }
    secret
}

fn with_placeholder(file: PlaceholderFile, section: &Section<'_>) -> PlaceholderFile {
    if !file.text.contains("{}") {
        section.reject("text", "expected a text with `{}`, which stands for the placeholder");
    }
    file
}

/// Rejects secrets of a process with these hosts and variables: a secret needs single hosts, and counts for nothing if
/// the process has its value anyway.
pub(super) fn check(
    section: &Section<'_>,
    secrets: &[ProcessSecret],
    granted: &[HostPattern],
    env: &[String],
) {
    let reject = |secret: &ProcessSecret, label: String, hint: String| {
        let message = format!("the secret `{}` cannot stay outside of the process", secret.name.value);
        section.notes().add(Problem::new(message).at(secret.name.span, label).hint(hint));
    };
    for secret in secrets {
        let is_granted = |host: &&HostPattern| !granted.iter().any(|granted| granted.contains(host));
        let hosts = || secret.hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ");
        if !holds_to_hosts(granted) {
            let label =
                "the process is not limited to single `hosts`, through which haft leads its connections";
            reject(secret, label.to_owned(), format!("write `hosts = [{}]` into its rights", hosts()));
        } else if let Some(host) = secret.hosts.iter().find(is_granted) {
            let label = format!("`{host}` is not one of the process's `hosts`");
            reject(secret, label, format!("add \"{host}\" to `hosts` of its rights"));
        }
        if let SecretSource::Env(name) = &secret.source
            && env.iter().any(|granted| granted == name.as_str())
        {
            let label = format!("`env` of the process names `{}`, which has the value", name.as_str());
            reject(secret, label, format!("remove `{}` from `env`", name.as_str()));
        }
    }
}
