//! Secrets appear only at their sources and their destinations: the tests run haft with several secrets, try
//! everything that could show one, and search every file and every output.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::agent::fake::{Answer, Fake, calls, says};
use crate::common::{hostile, own_cache};
use crate::http::server::{Server, with};

/// In the environment, under a name that only providers use, and unused.
const UNUSED: &str = "sk-unused-4711-QmFzZTY0";
/// In a file, as the provider's key.
const KEY: &str = "sk-file-0815/with+odd=characters";
/// In the environment, as a header of the provider.
const HEADER: &str = "gateway-header-5f3a9c";
/// In the environment, as a header of a plugin's requests.
const PLUGIN: &str = "plugin-header-77ab12";
/// In the environment, for an MCP server.
const SERVER: &str = "server-variable-90cd34";
/// In the kernel's keyring, if the kernel has one.
const RING: &str = "keyring-entry-e5f678";

/// The secrets that haft has in every test.
const ALL: [&str; 5] = [UNUSED, KEY, HEADER, PLUGIN, SERVER];

/// A home directory for haft's files, and a separate directory with the key.
struct Home {
    directory: tempfile::TempDir,
    keys: tempfile::TempDir,
}

impl Home {
    fn new(base_url: &str) -> Self {
        Self::granting(base_url, "https://api.test")
    }

    /// A home whose plugin can reach `host` with a secret.
    fn granting(base_url: &str, host: &str) -> Self {
        let temporary = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = Self { directory: temporary(), keys: temporary() };
        own_cache(home.directory.path());
        for folder in ["work", "tmp"] {
            fs::create_dir(home.path(folder)).unwrap();
        }
        fs::write(home.key(), format!("{KEY}\n")).unwrap();
        fs::set_permissions(home.key(), PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(home.path("work/program.toml"), program(base_url, host, &home.key())).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn key(&self) -> PathBuf {
        self.keys.path().join("key")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env("HOME", self.directory.path())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("ANTHROPIC_API_KEY", UNUSED)
            .env("GATEWAY", HEADER)
            .env("PLUGIN_KEY", PLUGIN)
            .env("SERVER_KEY", SERVER)
            .env_remove("HAFT_LOG")
            .stdin(Stdio::null());
        command
    }

    /// The text of both output streams of haft.
    fn haft(&self, arguments: &[&str]) -> String {
        let Output { stdout, stderr, .. } = self.command(arguments).output().unwrap();
        format!("{}\n{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
    }

    /// The files that contain a secret in any readable form.
    fn files_with_secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.directory.path().to_owned()];
        let mut searched = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    searched += 1;
                    let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                    found.extend(shown(&text).map(|secret| format!("{secret} in {}", path.display())));
                }
            }
        }
        assert!(searched >= 3, "only {searched} files were written");
        found
    }
}

fn program(base_url: &str, host: &str, key: &Path) -> String {
    format!(
        r#"
[program]
name = "secretive"
version = "0.1.0"
[sandbox]
workspace = "."
[provider]
name = "openai"
model = "fake"
base_url = "{base_url}"
api_key = {{ file = "{}" }}
headers = {{ X-Gateway = {{ env = "GATEWAY" }} }}
max_retries = 0
[[plugins]]
name = "guest"
component = "{}"
[plugins.grant]
hosts = ["{host}"]
[plugins.secrets.api]
host = "{host}"
header = "X-Key"
prefix = "Key "
env = "PLUGIN_KEY"
[[mcp_servers]]
name = "server"
command = "true"
env = {{ A_KEY = {{ env = "SERVER_KEY" }} }}
enabled = false
"#,
        key.display(),
        hostile().display()
    )
}

/// The secrets that appear in `text`.
fn shown(text: &str) -> impl Iterator<Item = &'static str> {
    ALL.into_iter().filter(move |secret| {
        // A truncated secret counts too.
        let encoded = BASE64_STANDARD.encode(secret);
        let forms = [&secret[..secret.len() - 4], &secret[4..], &encoded[..encoded.len() - 4]];
        forms.iter().any(|form| text.contains(form))
    })
}

/// A command that prints all accessible data of a child, and the secrets that the model passed.
fn confession() -> String {
    let all = ALL.join(" ");
    format!(
        "env; tr '\\0' '\\n' </proc/self/environ; cat /proc/$PPID/environ 2>/dev/null; \
         printf '%s' '{all}' | base64 -w0; printf '%s\\n' '{all}' >&2; \
         for secret in {all}; do printf 'cut %.22s' $secret | tail -c 18; sleep 0.01; done"
    )
}

/// CL04: a secret in the environment, in a key file or in a granted header appears in no file, no output and no
/// child, and each secret reaches its destination.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_no_file_output_or_child() {
    let bash = json!({ "command": confession() }).to_string();
    let print = json!({ "text": ALL.join(" ") }).to_string();
    let fake = Fake::start([
        calls(&[
            ("call_1", "bash", &bash),
            ("call_2", "guest__print", &print),
            ("call_3", "guest__echo", &print),
        ]),
        calls(&[("call_4", "guest__env", "{}"), ("call_5", ALL[0], "{}"), ("call_6", "read", &print)]),
        says(&format!("your secrets are {}", ALL.join(", "))),
        Answer::Http(
            401,
            &[],
            json!({ "error": { "message": format!("wrong key {KEY} {HEADER}") } }).to_string().into(),
        ),
    ])
    .await;
    // The server repeats the request in its answer.
    let server = Server::answering(|head| with("200 OK", "", head));
    let home = Home::granting(&fake.base_url(), &server.url());
    let ask = json!({ "url": server.url() }).to_string();
    let outputs = tokio::task::spawn_blocking(move || {
        let outputs = vec![
            home.haft(&["-vvv", "run", &format!("what is {UNUSED}?")]),
            home.haft(&["-vvv", "run", "and now?"]),
            home.haft(&["-vvv", "call", "bash", &json!({ "command": "env" }).to_string()]),
            home.haft(&["--json", "call", "guest__echo", &json!({ "text": PLUGIN }).to_string()]),
            home.haft(&["call", "guest__echo", PLUGIN]),
            home.haft(&["call", SERVER]),
            home.haft(&["-vvv", "call", "guest__http_get", &ask]),
            home.haft(&["check"]),
            home.haft(&["--json", "tools"]),
            home.haft(&["log"]),
            home.haft(&["--json", "log"]),
        ];
        assert_eq!(home.files_with_secrets(), Vec::<String>::new());
        outputs
    });
    let outputs = outputs.await.unwrap();
    for output in &outputs {
        assert_eq!(shown(output).collect::<Vec<_>>(), Vec::<&str>::new(), "{output}");
    }
    assert!(outputs[0].contains("your secrets are ***, ***"), "{}", outputs[0]);
    assert!(outputs[1].contains("wrong key *** ***"), "{}", outputs[1]);
    assert_eq!(fake.header("authorization"), Some(format!("Bearer {KEY}")));
    assert_eq!(fake.header("x-gateway"), Some(HEADER.into()));
    assert!(server.seen().concat().contains(&format!("x-key: Key {PLUGIN}\r\n")), "{:?}", server.seen());
    assert!(outputs[6].contains(&format!("x-key: Key {}", "*".repeat(PLUGIN.len()))), "{}", outputs[6]);
    // The results of the model's calls.
    for request in fake.requests() {
        let report =
            request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
        let report: Vec<String> = report.map(Value::to_string).collect();
        assert_eq!(shown(&report.concat()).collect::<Vec<_>>(), Vec::<&str>::new());
    }
    fake.assert_done();
}

/// CL04: haft uses a key from the keyring, and removes it from all outputs.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_the_keyring_is_used_and_not_shown() {
    use linux_keyutils::{KeyRing, KeyRingIdentifier};
    let entry = format!("haft.test/{}", std::process::id());
    let key =
        KeyRing::from_special_id(KeyRingIdentifier::User, true).and_then(|ring| ring.add_key(&entry, RING));
    let Ok(key) = key else {
        return eprintln!("this kernel has no keyring for this process: nothing tested");
    };
    let fake = Fake::start([says(&format!("it is {RING}"))]).await;
    let home = Home::new(&fake.base_url());
    let file = home.path("work/program.toml");
    let text = fs::read_to_string(&file).unwrap();
    let written = format!("api_key = {{ file = \"{}\" }}", home.key().display());
    fs::write(&file, text.replace(&written, &format!("api_key = {{ keyring = \"{entry}\" }}"))).unwrap();
    let answer = tokio::task::spawn_blocking(move || {
        let answer = home.haft(&["-vvv", "run", "what is it?"]);
        assert_eq!(home.files_with_secrets(), Vec::<String>::new());
        answer + &home.haft(&["--json", "log"])
    });
    let answer = answer.await.unwrap();
    key.invalidate().unwrap();
    assert!(answer.contains("it is ***") && !answer.contains(RING), "{answer}");
    assert_eq!(fake.header("authorization"), Some(format!("Bearer {RING}")));
}

/// The error for an unreadable secret names its source and the way to correct it.
#[test]
fn a_secret_that_is_not_there_is_said_with_the_way_out() {
    let home = Home::new("http://127.0.0.1:1/v1");
    let file = home.path("work/program.toml");
    let text = fs::read_to_string(&file).unwrap();
    let written = format!("{{ file = \"{}\" }}", home.key().display());
    for (source, expected) in [
        ("{ env = \"HAFT_TEST_NONE\" }", "`HAFT_TEST_NONE` is not set"),
        ("{ file = \"none\" }", "work/none`: No such file"),
        ("{ keyring = \"haft.test/none\" }", "hint: "),
    ] {
        fs::write(&file, text.replace(&written, source)).unwrap();
        let mut command = home.command(&["run", "hi"]);
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/no/such/bus");
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5));
        assert!(stderr.contains("error: ") && stderr.contains(expected), "{stderr}");
    }
}

/// haft uses a key file that other users can read, and warns of it.
#[test]
fn a_key_that_everybody_can_read_is_warned_of() {
    let home = Home::new("http://127.0.0.1:1/v1");
    assert!(!home.haft(&["tools"]).contains("chmod"));
    fs::set_permissions(home.key(), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(home.haft(&["tools"]).contains(&format!("`chmod 600 {}`", home.key().display())));
}
