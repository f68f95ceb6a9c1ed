//! Tests of the requested permissions, of programs without them, and of the stored agreements.

use super::*;

/// A program.toml that needs consent for every part.
const ALL: &str = r#"
[program]
name = "p"
version = "0.1.0"
[sandbox]
mode = "rwx"
workspace = "/srv/work"
write = ["/srv/out", "./inside"]
services = ["docker", 5432]
credentials = ["ssh"]
deny = ["/srv/private"]
[provider]
name = "openai"
model = "m"
base_url = "https://llm.example/v1"
headers = { X-Team = { env = "TEAM" } }
[builtins]
search_url = "https://search.example/"
fetch_allow = ["http://localhost:8080"]
[[tools]]
name = "t"
description = "d"
command = ["sh", "-c", "echo  two words"]
env = ["LANG"]
arguments = [{ name = "n", description = "d", type = "integer", flag = "-n", default = 3 }]
[[mcp_servers]]
name = "s"
command = "./server"
env = { MODE = "fast", KEY = { file = "~/key" } }
[[mcp_servers]]
name = "off"
enabled = false
command = "never"
[[plugins]]
name = "x"
component = "https://example.com/x.wasm"
hooks = ["bash"]
[plugins.grant]
read = ["/etc", "./docs"]
hosts = ["api.example.com"]
env = ["HOME"]
[plugins.config]
api_token = { env = "X_TOKEN" }
[plugins.secrets.key]
host = "api.example.com"
header = "Authorization"
env = "X_KEY"
[[plugins]]
name = "inside"
component = "inside.wasm"
[plugins.grant]
read = ["."]
state = "1MiB"
[[packages]]
name = "y"
source = "./y"
[[agents]]
name = "a"
description = "d"
program = "./a"
[telemetry]
endpoint = "https://t.example"
[network]
proxy = "http://proxy.example:3128"
login = { env = "PROXY_LOGIN" }
ca = "ca.pem"
no_proxy = ["corp.example"]
[nats]
urls = ["tls://n.example"]
token = { env = "NATS" }
[backend]
ssh = "box"
[[serve.callers]]
name = "c"
tools = ["*"]
token = { file = "c.token" }
"#;

/// The displayed sheet.
const SHEET: &str = "`FOLDER/program.toml` requests rights beyond its folder:
  provider   openai at https://llm.example/v1, gets the key in $OPENAI_API_KEY; header X-Team from $TEAM
  server     `s`: ./server; with MODE=fast; with KEY from ~/key
  command    `t`: sh -c 'echo  two words' -n 3; sees $LANG
  package    `y` from ./y
  processes  read everything that you may read, but not /srv/private, with the network
  plugin     `x` from https://example.com/x.wasm
  plugin     `x` sees and may refuse the calls of bash
  plugin     `x` reads /etc
  plugin     `x` reaches api.example.com
  plugin     `x` sees $HOME
  plugin     `x` gets $X_TOKEN as `api_token`
  plugin     `x` sends $X_KEY to api.example.com as Authorization
  agent      `a`: FOLDER/./a
  sandbox    `bash` and the tools for files work in /srv/work
  sandbox    mode rwx: `bash` writes anywhere
  sandbox    writes /srv/out
  sandbox    `bash` reads your ssh credentials
  sandbox    `bash` uses docker, with which it is root on this machine: it starts containers with any file
  sandbox    `bash` reaches port 5432 of this machine
  backend    commands run on box
  web_search asks https://search.example/
  fetch_url  reaches http://localhost:8080
  nats       tls://n.example with $NATS
  network    other machines are reached through http://proxy.example:3128, with the login in $PROXY_LOGIN, which may show \
certificates of ca.pem, but not corp.example
  telemetry  call data is sent to https://t.example
  caller     `c` has the token in c.token";

fn parsed(folder: &Path) -> Manifest {
    Manifest::parse(ALL, &folder.join("program.toml")).unwrap()
}

fn agreement(folder: &Path, manifest: &Manifest) -> Agreement {
    let permissions = permissions(manifest, &Lock::default(), Path::new("/home/ada"));
    let asking = Asking { place: manifest.path.clone(), permissions };
    Agreement { records: folder.join("trust"), programs: vec![asking], guidance: Vec::new() }
}

/// Shows everything outside of the folder, and nothing inside it.
#[test]
fn every_part_is_shown_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = agreement(folder.path(), &parsed(folder.path())).sheet();
    let place = folder.path().display().to_string();
    assert_eq!(sheet.replace(&place, "FOLDER"), SHEET);
}

/// Without consent only the parts that need no consent remain.
#[test]
fn what_is_left_asks_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = parsed(folder.path());
    let asked = agreement(folder.path(), &manifest);
    let left = asked.leave_out(&Known::default(), &mut manifest);
    let rest = agreement(folder.path(), &manifest);
    assert_eq!(rest.lines(), Vec::new());
    assert!(left.changes_rights() && left.has_callers() && left.problem().is_some());
    assert_eq!(manifest.plugins.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["inside"]);
    let known = asked.known();
    assert!(asked.missing(&known).next().is_none() && !asked.is_complete());
}

/// A record of another program, or a damaged one, agrees to nothing.
#[test]
fn a_note_holds_for_its_own_place() {
    let folder = tempfile::tempdir().unwrap();
    let asked = agreement(folder.path(), &parsed(folder.path()));
    asked.agree().unwrap();
    assert!(asked.is_complete());
    let file = asked.files().next().unwrap();
    let written = fs::read_to_string(&file).unwrap();
    fs::write(&file, written.replace("program.toml", "other.toml")).unwrap();
    assert!(!asked.is_complete());
    fs::write(&file, written.trim_end_matches('}')).unwrap();
    assert!(!asked.is_complete());
}

fn permits(own: &str) -> Vec<Permission> {
    let text = format!("[program]\nname = \"p\"\nversion = \"0.1.0\"\n{own}");
    let manifest = Manifest::parse(&text, Path::new("/nowhere/program.toml")).unwrap();
    permissions(&manifest, &Lock::default(), Path::new("/home/ada"))
}

/// A different right needs a different agreement: a server with the words of a command, further words of a command,
/// another component with equal rights, one value with the text of two.
#[test]
fn another_right_is_another_line() {
    let command = "[[tools]]\nname = \"s\"\ndescription = \"d\"\ncommand = \"git log\"\n";
    let server = "[[mcp_servers]]\nname = \"s\"\ncommand = \"git log\"\n";
    let argued =
        format!("{command}arguments = [{{ name = \"a\", description = \"d\", default = \"--exec=x\" }}]\n");
    let plugin = |file: &str| {
        format!("[[plugins]]\nname = \"s\"\ncomponent = {file:?}\n[plugins.grant]\nread = [\"/etc\"]\n")
    };
    let files = |rights: &str| plugin("a.wasm") + rights;
    let backend = |rights: &str| format!("[backend]\nssh = \"box\"\n{rights}\n");
    let read = |paths: &str| format!("{server}[sandbox]\nread = [{paths}]\n");
    let nats = |rights: &str| format!("[nats]\nurls = [\"tls://n.example\"]\n{rights}\n");
    let login = |rights: &str| {
        format!("[[mcp_servers]]\nname = \"s\"\nurl = \"https://s.example\"\noauth = {{ {rights} }}\n")
    };
    let texts = |own: &str| permits(own).iter().map(|own| own.text().to_owned()).collect::<BTreeSet<_>>();
    for (one, other) in [
        (command, server),
        (command, &argued),
        (&plugin("a.wasm"), &plugin("b.wasm")),
        (&files("deny = [\"/etc/a\", \"/etc/b\"]"), &files("deny = [\"/etc/a, /etc/b\"]")),
        (&read("\"/a, but not /b\""), &(read("\"/a\"") + "deny = [\"/b\"]")),
        (&backend("files = [\"/a, /b\"]"), &backend("files = [\"/a\", \"/b\"]")),
        (&backend("shell = \"sh, in /a\""), &backend("shell = \"sh\"\ndirectory = \"/a\"")),
        (&backend("engine = \"docker\""), &backend("ssh_config = \"docker\"")),
        (&nats("token = { file = \"a, trusts b\" }"), &nats("token = { file = \"a\" }\nca = \"b\"")),
        (&nats("token = { file = \"$A\" }"), &nats("token = { env = \"A\" }")),
        (&login("client_id = \"a for b\""), &login("client_id = \"a\", scopes = [\"b\"]")),
    ] {
        assert!(!texts(other).is_subset(&texts(one)), "{one} {other}");
    }
}

/// Agreement to installed content is not agreement to a server, regardless of its text.
#[test]
fn what_is_installed_is_told_by_its_table() {
    let server = "[[mcp_servers]]\nname = \"s\"\ncommand = [\"sh\", \", pinned as sha256:0\"]\n";
    let package = "[[packages]]\nname = \"y\"\nsource = \"./y\"\n";
    let installed = permits(&format!("{server}{package}")).into_iter().filter(Permission::is_installed);
    let parts: Vec<_> = installed.map(|own| own.part).collect();
    assert_eq!(parts, [Part::Package("y".into()), Part::Children]);
}
