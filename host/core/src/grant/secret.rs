//! Secrets that child processes use and never have: a process gets a placeholder, which haft replaces in its requests to
//! the secret's hosts. A grant has them only with single hosts.

use secrecy::{ExposeSecret, SecretString};

use super::{Destination, Grant, HostPattern, RequestPattern};

/// A secret for requests to its hosts.
#[derive(Clone, Debug)]
pub struct HostSecret {
    /// The name in messages.
    pub name: String,
    /// The only destinations.
    pub hosts: Vec<HostPattern>,
    /// The only requests to the hosts; all if empty.
    pub allow: Vec<RequestPattern>,
    /// The variable of the process that has the placeholder.
    pub variable: Option<String>,
    /// The variable of the process with the path of a file, and the text of the file. `{}` stands for the placeholder.
    pub file: Option<(String, String)>,
    /// The access key, if the value is the secret access key of AWS, with which requests are signed (Signature Version 4).
    pub access_key: Option<String>,
    /// The secret.
    pub value: SecretString,
}

impl HostSecret {
    /// Returns whether requests to `destination` are requests to one of the secret's hosts.
    pub fn is_for(&self, destination: &Destination) -> bool {
        self.hosts.iter().any(|host| host.matches(destination))
    }

    /// Returns whether a request to one of the secret's hosts is one of those that it is for. `path` is as in the
    /// request, without the query.
    pub fn allows(&self, method: &str, destination: &Destination, path: &str) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|rule| rule.matches(method, destination, path))
    }
}

impl PartialEq for HostSecret {
    fn eq(&self, other: &Self) -> bool {
        let parts = |one: &Self| {
            let Self { name, hosts, allow, variable, file, access_key, value: _ } = one.clone();
            (name, hosts, allow, variable, file, access_key)
        };
        parts(self) == parts(other) && self.value.expose_secret() == other.value.expose_secret()
    }
}

impl Eq for HostSecret {}

impl Grant {
    /// Adds a secret for hosts of child processes.
    #[must_use]
    pub fn with_secret(mut self, secret: HostSecret) -> Self {
        self.children.secrets.push(secret);
        self
    }

    /// Returns the secrets for the hosts of child processes; none if they have all of the network.
    pub fn secrets(&self) -> &[HostSecret] {
        if self.child_hosts().is_empty() { &[] } else { &self.children.secrets }
    }
}
