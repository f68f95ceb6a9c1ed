//! The locations of credentials and of typed input: closed to tools until program.toml opens a store by its name. A
//! table only: this file searches for nothing.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::report::nearest;

/// A credential store of one program, or of several of a kind. Stores are compared by their names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    name: &'static str,
    /// Files and directories, relative to the home directory, or absolute.
    places: &'static [&'static str],
    /// Environment variables with another location, and the path to append. A value may be a list of paths.
    moved: &'static [(&'static str, &'static str)],
    /// Messages of programs that cannot open the store, unless they name its path.
    signs: &'static [&'static str],
}

/// Base directories that a variable can move.
const BASES: &[(&str, &str)] = &[(".config/", "XDG_CONFIG_HOME"), (".local/share/", "XDG_DATA_HOME")];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The keys named in its `config` belong to the store too, at any location.
    row("ssh", &[".ssh"]).signs(&["Permission denied (publickey", "Host key verification failed"]),
    row("gnupg", &[".gnupg"]).moved(&[("GNUPGHOME", "")]),
    row("age", &[".config/sops/age", ".config/age", ".age"]).moved(&[("SOPS_AGE_KEY_FILE", "")]),
    row("netrc", &[".netrc", "_netrc"]).moved(&[("NETRC", "")]),

    row("git", &[".git-credentials", ".config/git/credentials"]).signs(&["could not read Username for"]),
    row("gh", &[".config/gh"]).moved(&[("GH_CONFIG_DIR", "")]).signs(&["gh auth login"]),
    row("hub", &[".config/hub"]).moved(&[("HUB_CONFIG", "")]),
    row("glab", &[".config/glab-cli"]).moved(&[("GLAB_CONFIG_DIR", "")]),
    row("tea", &[".config/tea"]),

    row("npm", &[".npmrc"]).moved(&[("NPM_CONFIG_USERCONFIG", ""), ("npm_config_userconfig", "")])
        .signs(&["ENEEDAUTH"]),
    row("yarn", &[".yarnrc.yml"]),
    row("bun", &[".bunfig.toml", ".config/.bunfig.toml"]),
    row("pypi", &[".pypirc", ".config/pypoetry/auth.toml", ".config/uv/credentials.toml", ".local/share/uv/credentials"]),
    row("cargo", &[".cargo/credentials", ".cargo/credentials.toml"])
        .moved(&[("CARGO_HOME", "credentials"), ("CARGO_HOME", "credentials.toml")]),
    row("gem", &[".gem/credentials", ".local/share/gem/credentials", ".bundle/config"]),
    row("composer", &[".composer/auth.json", ".config/composer/auth.json"]).moved(&[("COMPOSER_HOME", "auth.json")]),
    row("maven", &[".m2/settings.xml", ".m2/settings-security.xml"]),
    row("gradle", &[".gradle/gradle.properties"]).moved(&[("GRADLE_USER_HOME", "gradle.properties")]),
    row("nuget", &[".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config"]),
    row("hex", &[".hex/hex.config"]).moved(&[("HEX_HOME", "hex.config")]),
    row("docker", &[".docker/config.json", ".config/containers/auth.json", "/run/secrets"])
        .moved(&[("DOCKER_CONFIG", "config.json"), ("REGISTRY_AUTH_FILE", ""), ("XDG_RUNTIME_DIR", "containers/auth.json")]),
    row("kube", &[".kube", "/var/run/secrets/kubernetes.io"]).moved(&[("KUBECONFIG", "")]),
    row("helm", &[".config/helm/registry", ".config/helm/repositories.yaml"]),

    row("aws", &[".aws"])
        .moved(&[("AWS_SHARED_CREDENTIALS_FILE", ""), ("AWS_CONFIG_FILE", ""), ("AWS_WEB_IDENTITY_TOKEN_FILE", "")])
        .signs(&["Unable to locate credentials"]),
    row("azure", &[".azure"]).moved(&[("AZURE_CONFIG_DIR", "")]),
    row("gcloud", &[".config/gcloud", ".boto"])
        .moved(&[("CLOUDSDK_CONFIG", ""), ("GOOGLE_APPLICATION_CREDENTIALS", ""), ("BOTO_CONFIG", "")]),
    row("oci", &[".oci"]).moved(&[("OCI_CLI_CONFIG_FILE", "")]),
    row("ibmcloud", &[".bluemix"]).moved(&[("IBMCLOUD_HOME", ".bluemix")]),
    row("aliyun", &[".aliyun"]),
    row("doctl", &[".config/doctl"]),
    row("hcloud", &[".config/hcloud"]).moved(&[("HCLOUD_CONFIG", "")]),
    row("linode", &[".config/linode-cli"]),
    row("openstack", &[".config/openstack"]),
    row("fly", &[".fly"]),
    row("heroku", &[".config/heroku", ".local/share/heroku"]),
    row("vercel", &[".vercel", ".local/share/com.vercel.cli"]),
    row("netlify", &[".config/netlify", ".netlify"]),
    row("wrangler", &[".wrangler/config", ".config/.wrangler/config", ".cloudflared"]),
    row("firebase", &[".config/configstore/firebase-tools.json"]),
    row("railway", &[".railway"]),
    row("stripe", &[".config/stripe"]),
    row("sentry", &[".sentryclirc"]),
    row("databricks", &[".databrickscfg"]).moved(&[("DATABRICKS_CONFIG_FILE", "")]),
    row("snowflake", &[".snowflake", ".snowsql", ".config/snowflake"]),
    row("huggingface", &[".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface"])
        .moved(&[("HF_HOME", "token"), ("HF_HOME", "stored_tokens"), ("HF_TOKEN_PATH", "")]),
    row("kaggle", &[".kaggle", ".config/kaggle"]).moved(&[("KAGGLE_CONFIG_DIR", "")]),
    row("terraform", &[".terraform.d/credentials.tfrc.json", ".terraformrc", ".tofurc"])
        .moved(&[("TF_CLI_CONFIG_FILE", "")]),
    row("pulumi", &[".pulumi/credentials.json"]).moved(&[("PULUMI_HOME", "credentials.json")]),
    row("vault", &[".vault-token", ".vault"]),
    row("ansible", &[".vault_pass", ".vault_pass.txt"]).moved(&[("ANSIBLE_VAULT_PASSWORD_FILE", "")]),
    row("rclone", &[".config/rclone", ".rclone.conf"]).moved(&[("RCLONE_CONFIG", "")]),
    row("s3cmd", &[".s3cfg", ".mc", ".config/s3"]),
    row("restic", &[".config/restic"]).moved(&[("RESTIC_PASSWORD_FILE", "")]),
    row("nats", &[".config/nats", ".nsc", ".local/share/nats/nsc"]),

    row("postgres", &[".pgpass", ".pg_service.conf"]).moved(&[("PGPASSFILE", ""), ("PGSERVICEFILE", "")]),
    row("mysql", &[".my.cnf", ".mylogin.cnf"]).moved(&[("MYSQL_TEST_LOGIN_FILE", "")]),
    row("mongodb", &[".mongorc.js", ".mongodb"]),

    row("pass", &[".password-store", ".local/share/gopass", ".config/gopass"]).moved(&[("PASSWORD_STORE_DIR", "")]),
    row("op", &[".config/op", ".op"]).moved(&[("OP_CONFIG_DIR", "")]),
    row("bitwarden", &[".config/Bitwarden CLI", ".config/Bitwarden", ".config/rbw", ".local/share/rbw"])
        .moved(&[("BITWARDENCLI_APPDATA_DIR", "")]),
    row("keepassxc", &[".config/keepassxc", ".cache/keepassxc"]),
    row("keyrings", &[
        ".local/share/keyrings", ".local/share/kwalletd", ".local/share/python_keyring", ".pki", "Library/Keychains",
    ]),
    row("browsers", &[
        ".mozilla", ".thunderbird", ".librewolf", ".zen", ".waterfox", ".config/mozilla",
        ".config/google-chrome", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/chromium",
        ".config/BraveSoftware", ".config/microsoft-edge", ".config/microsoft-edge-beta", ".config/microsoft-edge-dev",
        ".config/opera", ".config/vivaldi", ".local/share/epiphany", ".config/qutebrowser", ".local/share/qutebrowser",
        "snap/firefox", "snap/chromium", "snap/brave", "snap/thunderbird",
        ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", ".var/app/org.chromium.Chromium",
        ".var/app/com.brave.Browser", ".var/app/com.microsoft.Edge", ".var/app/org.mozilla.Thunderbird",
        "Library/Application Support/Firefox", "Library/Application Support/Google/Chrome", "Library/Cookies",
        "Library/Application Support/Chromium", "Library/Application Support/BraveSoftware",
        "Library/Application Support/Microsoft Edge", "Library/Safari",
    ]),
    row("histories", &[
        ".bash_history", ".zsh_history", ".zhistory", ".zsh_sessions", ".histfile", ".history", ".sh_history",
        ".ash_history", ".ksh_history", ".mksh_history", ".local/share/fish/fish_history", ".config/nushell/history.txt",
        ".config/nushell/history.sqlite3", ".local/share/powershell/PSReadLine", ".local/share/atuin",
        ".local/share/mcfly", ".python_history", ".local/state/python/history", ".ipython/profile_default/history.sqlite",
        ".node_repl_history", ".bun_repl_history", ".irb_history", ".php_history", ".psql_history", ".mysql_history",
        ".mariadb_history", ".sqlite_history", ".rediscli_history", ".mongosh", ".dbshell", ".lesshst",
    ]).moved(&[
        ("HISTFILE", ""), ("NODE_REPL_HISTORY", ""), ("PSQL_HISTORY", ""), ("MYSQL_HISTFILE", ""),
        ("SQLITE_HISTORY", ""), ("PYTHON_HISTORY", ""), ("REDISCLI_HISTFILE", ""),
    ]),

    // Other agents and assistants.
    row("claude", &[".claude/.credentials.json", ".claude.json"]).moved(&[("CLAUDE_CONFIG_DIR", ".credentials.json")]),
    row("codex", &[".codex/auth.json"]).moved(&[("CODEX_HOME", "auth.json")]),
    row("gemini", &[".gemini/oauth_creds.json", ".gemini/.env", ".gemini/google_accounts.json"]),
    row("copilot", &[".config/github-copilot", ".copilot"]),
    row("cursor", &[".config/cursor/auth.json", ".cursor/cli-config.json"]),
    row("opencode", &[".local/share/opencode/auth.json"]),
    row("aider", &[".aider.conf.yml", ".oauth-keys"]),
    row("goose", &[".config/goose/secrets.yaml"]),
    row("llm", &[".config/io.datasette.llm/keys.json"]).moved(&[("LLM_USER_PATH", "keys.json")]),
];

const fn row(name: &'static str, places: &'static [&'static str]) -> Row {
    Row { name, places, moved: &[], signs: &[] }
}

impl Row {
    const fn moved(self, moved: &'static [(&'static str, &'static str)]) -> Self {
        Self { moved, ..self }
    }

    const fn signs(self, signs: &'static [&'static str]) -> Self {
        Self { signs, ..self }
    }
}

/// A credential store, which `credentials` in a grant opens by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CredentialStore(&'static Row);

/// The reason why a text is not a [`CredentialStore`]. The message omits the text, which may be a secret in the
/// wrong place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown credential store; {0}")]
pub struct CredentialStoreError(String);

impl CredentialStore {
    /// The store whose `config` names keys of `ssh`.
    pub const SSH: &'static str = "ssh";

    /// Returns all stores.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(Self)
    }

    /// Returns the name of the store.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the messages of programs that cannot open the store and do not name its path.
    pub(super) fn signs(self) -> &'static [&'static str] {
        self.0.signs
    }

    /// Returns the possible paths of the store for the home directory `home`; `variable` looks up environment
    /// variables.
    pub fn places(self, home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.0.places.iter().map(|place| home.join(place)).collect();
        for (base, name) in BASES {
            let Some(moved) = variable(name) else { continue };
            let inside = self.0.places.iter().filter_map(|place| place.strip_prefix(base));
            places.extend(inside.map(|rest| home.join(&moved).join(rest)));
        }
        for (name, rest) in self.0.moved {
            let Some(value) = variable(name) else { continue };
            let paths = std::env::split_paths(&value).map(|path| in_home(&path, home).join(rest));
            places.extend(paths);
        }
        places
    }
}

/// Replaces a leading `~` in `path` by `home`.
pub fn in_home(path: &Path, home: &Path) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_owned(), |rest| home.join(rest))
}

impl FromStr for CredentialStore {
    type Err = CredentialStoreError;

    fn from_str(text: &str) -> Result<Self, CredentialStoreError> {
        let names = || Self::all().map(Self::name);
        Self::all().find(|store| store.name() == text).ok_or_else(|| {
            let hint = match nearest(text, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            CredentialStoreError(hint)
        })
    }
}

impl fmt::Display for CredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// F1: each store and each place occurs once.
    #[test]
    fn each_store_and_place_is_there_once() {
        let names: BTreeSet<_> = CredentialStore::all().collect();
        assert_eq!(names.len(), ROWS.len());
        let places = || ROWS.iter().flat_map(|row| row.places);
        assert_eq!(places().collect::<BTreeSet<_>>().len(), places().count());
        for place in places() {
            let path = Path::new(place);
            assert!(
                !place.ends_with('/') && path.components().all(|part| part.as_os_str() != ".."),
                "{place}"
            );
        }
    }

    /// F1: a variable adds places to a store, and the usual places stay.
    #[test]
    fn variables_move_a_store_and_leave_it_where_it_was() {
        let environment = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some("/x".into()),
            "KUBECONFIG" => Some("/a:~/b".into()),
            "CARGO_HOME" => Some("/c".into()),
            _ => None,
        };
        let places =
            |name: &str| name.parse::<CredentialStore>().unwrap().places(Path::new("/home/me"), environment);
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(places("gh"), paths(&["/home/me/.config/gh", "/x/gh"]));
        assert_eq!(
            places("kube"),
            paths(&["/home/me/.kube", "/var/run/secrets/kubernetes.io", "/a", "/home/me/b"])
        );
        assert_eq!(
            places("cargo"),
            paths(&[
                "/home/me/.cargo/credentials",
                "/home/me/.cargo/credentials.toml",
                "/c/credentials",
                "/c/credentials.toml"
            ])
        );
    }

    /// F1: the error for an unknown store suggests the nearest name.
    #[test]
    fn an_unknown_store_is_told_with_the_nearest() {
        let error = |text: &str| text.parse::<CredentialStore>().unwrap_err().to_string();
        assert_eq!(error("shh"), "unknown credential store; did you mean `ssh`?");
        assert!(error("something-else").contains("there are ssh, gnupg"));
    }
}
