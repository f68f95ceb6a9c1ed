//! The sealed files of a program.toml: files that it names and that decide rights, or that haft or a tool with more
//! rights reads or runs. No tool may write one, and none may read a key. Opens no file, but determines which words
//! of a command are scripts.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use haft_core::grant::may_be;

use super::{AnswerForm, CallerProof, Component, KeysAt, Manifest, SecretSource, Transport};

/// What tools may not do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Neither read nor write it.
    Hidden,
    /// Not write it.
    Fixed,
}

/// Ends of the names of what an interpreter runs.
const SCRIPTS: &[&str] = &["bash", "cjs", "js", "lua", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "ts"];

impl Manifest {
    /// Every sealed file, absolute, where `~` is `home`. Programs of agents are sealed with the files that they name.
    pub fn sealed(&self, home: &Path) -> Vec<(Seal, PathBuf)> {
        let secrets = self.secrets().into_iter().filter_map(SecretSource::file);
        let hidden = secrets.chain(self.nats.certificate.iter().map(|(_, key)| &**key));
        let hidden = hidden.map(|path| (Seal::Hidden, self.resolve(path, home)));
        let fixed = self.deciding().into_iter().map(|path| (Seal::Fixed, self.resolve(path, home)));
        let words = self.commands().flat_map(|words| self.scripts_of(words, home));
        hidden.chain(fixed).chain(words.map(|path| (Seal::Fixed, path))).collect()
    }

    /// What is read by haft itself, as written.
    fn deciding(&self) -> Vec<&Path> {
        let nats = self.nats.certificate.iter().map(|(certificate, _)| &**certificate);
        let authority = self
            .nats
            .ca
            .iter()
            .chain(&self.network.ca)
            .chain(&self.backend.ssh_config)
            .map(|path| &*path.value);
        let keys = self.serve.callers.iter().filter_map(|caller| match &caller.proof {
            CallerProof::Jwt(rule) => match &rule.keys {
                KeysAt::File(path) => Some(&**path),
                KeysAt::Url(_) => None,
            },
            CallerProof::Token(_) => None,
        });
        let components = self.plugins.iter().filter_map(|plugin| match &plugin.component.value {
            Component::File(path) => Some(&**path),
            Component::Url(_) | Component::Oci(_) => None,
        });
        let schema = self.agent.output.iter().filter_map(|form| match &form.value {
            AnswerForm::File(path) => Some(&**path),
            AnswerForm::Table(_) => None,
        });
        nats.chain(authority).chain(keys).chain(components).chain(schema).collect()
    }

    /// The words of everything that is started.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        let servers = self.mcp_servers.iter().filter_map(|server| match &server.transport {
            Transport::Stdio { command, .. } => Some(&command.value),
            Transport::Http { .. } => None,
        });
        self.tools.iter().map(|tool| &tool.command.value).chain(servers)
    }

    /// The files that the words of a command may mean and that are programs: one that is data does not change. A
    /// server's relative words start from its workspace.
    pub fn scripts_of(&self, words: &[String], home: &Path) -> Vec<PathBuf> {
        let workspace = self.sandbox.workspace.as_ref().map(|path| self.resolve(&path.value, home));
        let meant = words.iter().map(Path::new).flat_map(|word| {
            let there = workspace.iter().map(move |workspace| workspace.join(word));
            std::iter::once(self.resolve(word, home)).chain(there)
        });
        let is_script = |path: &PathBuf| {
            let end = path.extension().and_then(|end| end.to_str());
            let runs = |found: &Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
            end.is_some_and(|end| SCRIPTS.contains(&end)) || may_be(path, runs)
        };
        meant.filter(is_script).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::catalogue::{Kind, Table};
    use super::super::table::FromTable;
    use super::*;

    /// Keys that take a path and are not sealed, each with the reason.
    const NOT_SEALED: &[(&str, &str)] = &[
        ("build.command", "a build runs what is in the project: its sources too"),
        ("build.wit", "read when a person builds; what comes of it is a component, which is sealed"),
        ("program.include", "patterns of what `haft plugin pack` takes into a package"),
        ("serve.callers.grant.deny", "closed to the caller's tools itself"),
        ("serve.callers.grant.read", "directories of a caller's tools"),
        ("serve.callers.grant.write", "directories of a caller's tools"),
        ("plugins.grant.deny", "closed to the plugin itself"),
        ("plugins.grant.read", "directories of the plugin"),
        ("plugins.grant.write", "directories of the plugin"),
        ("mcp_servers.grant.deny", "closed to the server itself"),
        ("mcp_servers.grant.read", "directories of the server"),
        ("mcp_servers.grant.write", "directories of the server"),
        ("tools.grant.deny", "closed to the command itself"),
        ("tools.grant.read", "directories of the command"),
        ("tools.grant.write", "directories of the command"),
        ("packages.grant.deny", "closed to the package's plugins itself"),
        ("packages.grant.read", "directories of the package"),
        ("packages.grant.write", "directories of the package"),
        ("packages.source", "copied and pinned by its digest when it is installed"),
        ("sandbox.deny", "closed to tools itself"),
        ("sandbox.read", "directories of tools"),
        ("sandbox.workspace", "the directory of tools"),
        ("sandbox.write", "directories of tools"),
    ];

    /// A program.toml with every sealed key, and the file that each names.
    const ALL: &str = r#"
[program]
name = "p"
version = "0.1.0"
[[tools]]
name = "t"
description = "d"
command = "./tools.command.sh"
grant = { hosts = ["h.example"] }
[tools.secrets.key]
hosts = ["h.example"]
variable = "A"
file = "tools.secrets.file"
access_key_id = { file = "tools.secrets.access_key_id.file" }
[[mcp_servers]]
name = "s"
command = "./mcp_servers.command.sh"
args = ["./mcp_servers.args.py", "--data", "./data.db"]
env = { A = { file = "mcp_servers.env.file" } }
grant = { hosts = ["h.example"] }
[mcp_servers.secrets.key]
hosts = ["h.example"]
variable = "A"
file = "mcp_servers.secrets.file"
access_key_id = { file = "mcp_servers.secrets.access_key_id.file" }
[[mcp_servers]]
name = "h"
url = "https://example.com"
headers = { A = { file = "mcp_servers.headers.file" } }
[mcp_servers.oauth]
client_id = "c"
client_secret = { file = "mcp_servers.oauth.client_secret.file" }
private_key = { file = "mcp_servers.oauth.private_key.file" }
client_credentials = true
[[mcp_servers]]
name = "i"
url = "https://example.com"
[mcp_servers.oauth]
client_id = "c"
[mcp_servers.oauth.identity_provider]
issuer = "https://example.com"
client_id = "c"
client_secret = { file = "mcp_servers.oauth.identity_provider.client_secret.file" }
id_token = { file = "mcp_servers.oauth.identity_provider.id_token.file" }
[[mcp_servers]]
name = "r"
url = "https://example.com"
[mcp_servers.oauth]
client_id = "c"
[mcp_servers.oauth.identity_provider]
issuer = "https://example.com"
client_id = "c"
refresh_token = { file = "mcp_servers.oauth.identity_provider.refresh_token.file" }
[[plugins]]
name = "x"
component = "plugins.component"
[plugins.config]
api_token = { file = "plugins.config.file" }
[plugins.secrets.key]
host = "example.com"
header = "A"
file = "plugins.secrets.file"
[[packages]]
name = "y"
source = "./y"
[packages.config]
api_token = { file = "packages.config.file" }
[packages.secrets.key]
host = "example.com"
header = "A"
file = "packages.secrets.file"
[provider]
name = "openai"
model = "m"
api_key = { file = "provider.api_key.file" }
headers = { A = { file = "provider.headers.file" } }
[agent]
output = "agent.output"
[sandbox]
hosts = ["h.example"]
[sandbox.secrets.key]
hosts = ["h.example"]
variable = "A"
file = "sandbox.secrets.file"
access_key_id = { file = "sandbox.secrets.access_key_id.file" }
[[serve.callers]]
name = "c"
tools = ["*"]
token = { file = "serve.callers.token.file" }
[[serve.callers]]
name = "j"
tools = ["*"]
[serve.callers.jwt]
issuer = "https://i.example"
audience = "a"
jwks_file = "serve.callers.jwt.jwks_file"
[telemetry]
endpoint = "https://t.example"
headers = { A = { file = "telemetry.headers.file" } }
[nats]
urls = ["tls://n.example"]
user = { file = "nats.user.file" }
password = { file = "nats.password.file" }
ca = "nats.ca"
certificate = "nats.certificate"
key = "nats.key"
[network]
proxy = "http://proxy.example:3128"
login = { file = "network.login.file" }
ca = "network.ca"
[backend]
ssh = "box"
ssh_config = "backend.ssh_config"
"#;

    /// Keys whose files are secrets, and alternatives of keys that `ALL` has.
    const ALTERNATIVES: &[(&str, &str)] = &[
        ("nats.token.file", "nats.password.file"),
        ("nats.credentials.file", "nats.password.file"),
        ("nats.nkey.file", "nats.password.file"),
        ("agents.program", "sealed with its family, by the program"),
    ];

    fn keys(table: &'static Table, above: &str, found: &mut BTreeSet<String>) {
        for key in table.keys() {
            kinds(&key.kind, &format!("{above}{}", key.name), found);
        }
    }

    fn kinds(kind: &'static Kind, name: &str, found: &mut BTreeSet<String>) {
        match kind {
            Kind::Path | Kind::PathOrJson | Kind::Command => {
                found.insert(name.to_owned());
            }
            Kind::List(inner) | Kind::Map(inner) => kinds(inner, name, found),
            Kind::Table(table) => {
                keys(table, &format!("{name}."), found);
            }
            Kind::TextOrSecret | Kind::Setting => {
                found.insert(format!("{name}.file"));
            }
            _ => {}
        }
    }

    /// X14, X15: every path of a program.toml is sealed, or is in a list with the reason.
    #[test]
    fn every_key_that_takes_a_path_is_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = Manifest::parse(ALL, &folder.path().join("program.toml")).unwrap();
        let sealed = manifest.sealed(Path::new("/home"));
        let files: BTreeSet<String> = sealed
            .iter()
            .map(|(_, path)| path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned())
            .collect();
        let mut all = BTreeSet::from(["mcp_servers.args".to_owned(), "plugins.component".to_owned()]);
        keys(&Manifest::TABLE, "", &mut all);
        let mut forgotten = Vec::new();
        for key in all {
            let is_named = files.iter().any(|file| file.trim_start_matches("./").starts_with(&key));
            let alternative = ALTERNATIVES.iter().chain(NOT_SEALED).any(|(name, _)| *name == key);
            if !is_named && !alternative {
                forgotten.push(key);
            }
        }
        assert_eq!(forgotten, [""; 0], "neither sealed nor an exception");
        assert!(!files.iter().any(|file| file.contains("data.db")));
        let is_hidden = |path: &Path| {
            let name = path.to_string_lossy();
            name.ends_with(".file") || name.ends_with("nats.key")
        };
        for (seal, path) in sealed {
            assert_eq!(seal == Seal::Hidden, is_hidden(&path), "{}", path.display());
        }
    }
}
