//! Secrets that stay outside of child processes: programs authenticate to a host with a placeholder, and no child has
//! the secret. The hosts are strict fakes on this machine; their certificates come from an authority that haft
//! trusts.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself, and hosts")]

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::cli::{Answer, Home};

const SERVER: &str = include_str!("child_secrets/server.py");
const PROGRAMS: &str = include_str!("child_secrets/programs.py");
const MEMORY: &str = include_str!("child_secrets/memory.py");
const HOSTS: &str = include_str!("child_secrets/hosts.py");
const CLIENTS: &str = include_str!("child_secrets/clients.py");
const WAYS: &str = include_str!("child_secrets/ways.py");

/// A home whose haft trusts an authority and has a secret in `$REAL`, and hosts that require the secret.
struct World {
    home: Home,
    outside: tempfile::TempDir,
    secret: String,
    hosts: Vec<Host>,
}

struct Host {
    child: Child,
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    fn new() -> Self {
        let (home, outside) = (Home::new(), tempfile::tempdir().unwrap());
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.distinguished_name.push(DnType::CommonName, "authority of the test");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let host = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        fs::write(outside.path().join("ca.pem"), authority.pem()).unwrap();
        fs::write(outside.path().join("host.pem"), host.pem()).unwrap();
        fs::write(outside.path().join("host.key"), key.serialize_pem()).unwrap();
        fs::write(outside.path().join("server.py"), SERVER).unwrap();
        fs::create_dir(outside.path().join("files")).unwrap();
        let random = || RandomState::new().hash_one(0);
        let random = format!("{:016x}{:04x}", random(), random() & 0xffff);
        let mut world = Self { home, outside, secret: format!("QZQZ{random}"), hosts: Vec::new() };
        world.start(&[]);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    /// Starts another host.
    fn start(&mut self, more: &[&str]) {
        let (host, _) = self.started("server.py", more);
        self.hosts.push(host);
    }

    /// Runs a program of hosts. Returns the ports of all of them too.
    fn started(&self, program: &str, more: &[&str]) -> (Host, Vec<u16>) {
        let files = [program, "host.pem", "host.key"].map(|name| self.path(name));
        let mut child = Command::new("python3")
            .args(files)
            .arg(&self.secret)
            .arg(self.path("files"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ports = said.next().unwrap();
        let ports: Vec<u16> = ports.split(' ').map(|port| port.parse().unwrap()).collect();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = lines.clone();
        std::thread::spawn(move || said.for_each(|line| heard.lock().unwrap().push(line)));
        (Host { child, port: ports[0], lines }, ports)
    }

    /// Starts the hosts of the ways, and writes the ways and program.toml: the first host and the third one have the
    /// secret and rules, the third one has another name at its address, and the last one is not granted. Returns the
    /// words of the command line of the ways.
    fn with_ways(&self) -> (Host, String) {
        fs::write(self.path("hosts.py"), HOSTS).unwrap();
        let (host, ports) = self.started("hosts.py", &[]);
        let [first, other, shared, closed] = ports[..] else { panic!("{ports:?}") };
        for (name, text) in [("clients.py", CLIENTS), ("ways.py", WAYS)] {
            self.home.write(name, text);
        }
        let rules = ["GET ok", "GET socket", "GET answers/*", "GET area/**", "POST upload"]
            .map(|rule| format!("\"{}\"", rule.replace(' ', &format!(" https://localhost:{first}/"))));
        let rules = rules.join(", ");
        self.home.write(
            "program.toml",
            &format!(
                "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [\"localhost:{first}\", \"localhost:{other}\", \
                 \"localhost:{shared}\", \"127.0.0.1:{shared}\"]\n[sandbox.secrets.key]\nenv = \"REAL\"\n\
                 hosts = [\"localhost:{first}\", \"localhost:{shared}\"]\nvariable = \"TOKEN\"\n\
                 allow = [{rules}, \"GET https://localhost:{shared}/ok\"]\n"
            ),
        );
        (host, format!("{first} {other} {shared} {closed}"))
    }

    fn port(&self) -> u16 {
        self.hosts[0].port
    }

    /// Writes program.toml: `bash` reaches the hosts and has a placeholder of the secret for the first host; `keys`
    /// go into `[sandbox.secrets.key]`.
    fn program(&self, keys: &str) {
        let hosts: Vec<String> =
            self.hosts.iter().map(|host| format!("\"localhost:{}\"", host.port)).collect();
        let (hosts, port) = (hosts.join(", "), self.port());
        self.home.write(
            "program.toml",
            &format!(
                "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nhosts = [{hosts}]\n[sandbox.secrets.key]\n\
                 env = \"REAL\"\nhosts = [\"localhost:{port}\"]\nvariable = \"TOKEN\"\n{keys}\n"
            ),
        );
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        let mut command = self.home.command(arguments);
        command.env("SSL_CERT_FILE", self.path("ca.pem")).env("REAL", &self.secret);
        Answer::from(command.output().unwrap())
    }

    fn bash(&self, command: &str) -> Answer {
        self.haft(&["call", "bash", &json!({ "command": command }).to_string()])
    }

    /// All records of the journal.
    fn journal(&self) -> Vec<Value> {
        let log = self.haft(&["log", "--json"]).stdout;
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn git(folder: &Path, line: &str) {
    let ran = Command::new("git").args(line.split(' ')).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// A git repository that a host serves as plain files.
fn repository(folder: &Path) {
    let work = folder.join("work");
    fs::create_dir(&work).unwrap();
    git(&work, "init -q");
    fs::write(work.join("file"), "x").unwrap();
    git(&work, "add file");
    git(&work, "-c user.name=a -c user.email=a@b.test commit -q -m x");
    git(folder, "clone -q --bare work repo.git");
    git(&folder.join("repo.git"), "update-server-info");
}

#[test]
fn programs_use_a_host_with_a_placeholder() {
    let world = World::new();
    repository(&world.path("files"));
    world.program(
        "[sandbox.secrets.key.placeholder_file]\nvariable = \"NPM_CONFIG_USERCONFIG\"\n\
         text = \"//localhost:${PORT}/:_authToken={}\\n\"\n",
    );
    world.home.write("programs.py", PROGRAMS);
    let said = world.bash(&format!("PORT={} python3 programs.py {0}", world.port()));
    let lines = || said.stdout.lines().filter(|line| line.starts_with("ok "));
    assert!(!said.stdout.contains("WRONG") && lines().count() >= 24, "{}{}", said.stdout, said.stderr);
    let log = world.haft(&["log", "--net"]).stdout;
    assert!(log.contains("with the secret `key`"), "{log}");
    let kept = serde_json::to_string(&world.journal()).unwrap();
    assert!(kept.contains("with the secret `key`") && !kept.contains(&world.secret), "{kept}");
}

/// The connections of a child to a host share haft's connections to the host; those of another child do not.
#[test]
fn a_child_shares_connections_to_a_host() {
    let world = World::new();
    world.program("");
    let url = format!("https://localhost:{}/ok", world.port());
    let command = format!(
        "for i in 1 2 3 4 5 6 7 8; do curl -sS -o /dev/null -D - -H \"X-Key: $TOKEN\" {url} | grep -i x-peer; done"
    );
    let peers = || -> Vec<String> { world.bash(&command).stdout.lines().map(str::to_owned).collect() };
    let [first, second] = [peers(), peers()];
    assert!(first.len() == 8 && second.len() == 8, "{first:?} {second:?}");
    let [mut first, second] = [first, second].map(BTreeSet::from_iter);
    // A connection that was idle for a while is not used again.
    assert!(first.len() < 8 && second.len() < 8, "{first:?} {second:?}");
    first.retain(|peer| second.contains(peer));
    assert!(first.is_empty(), "{first:?}");
}

#[test]
fn the_secret_is_nowhere_in_the_child() {
    let world = World::new();
    world.program("");
    world.home.write("memory.py", MEMORY);
    let said = world.bash(&format!("python3 memory.py {}", world.port()));
    assert!(
        said.stdout.contains("200 a") && said.stdout.contains("True found 0 []"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    // The control: the search finds the secret in a child that has it.
    let text = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[[tools]]\nname = \"t\"\ndescription = \"d\"\n\
                command = \"python3 memory.py\"\nenv = [\"REAL\"]\n";
    world.home.write("program.toml", text);
    let said = world.haft(&["call", "program__p__t", "{}"]).stdout;
    assert!(said.contains("True found ") && !said.contains("found 0 "), "{said}");
}

#[test]
fn a_request_outside_of_the_rules_is_refused() {
    let world = World::new();
    let port = world.port();
    world.program(&format!("allow = [\"GET https://localhost:{port}/ok\"]"));
    let base = format!("https://localhost:{port}");
    let get = |what: &str| {
        world.bash(&format!("curl -sS -w ' %{{http_code}}' --path-as-is -H \"X-Key: $TOKEN\" {what}; false"))
    };
    let allowed = get(&format!("{base}/ok"));
    let all = allowed.stdout + &allowed.stderr;
    assert!(all.contains("authorized 200"), "{all}");
    for request in [
        format!("{base}/leak"),
        format!("-X POST {base}/ok"),
        format!("{base}/ok/../leak"),
        format!("{base}/ok%2f..%2fleak"),
        format!("-H 'X-HTTP-Method-Override: DELETE' {base}/ok"),
        format!("-H 'X-Original-URL: /leak' {base}/ok"),
    ] {
        let said = get(&request);
        let all = said.stdout + &said.stderr;
        assert!(all.contains(" 403") && all.contains("to `allow` of the secret `key`"), "{request}: {all}");
    }
    let said = get(&format!("-X DELETE {base}/ok"));
    let line = format!("hint: the sandbox refused to send `DELETE {base}/ok` with the secret `key`");
    assert!((said.stdout.clone() + &said.stderr).contains(&line), "{}{}", said.stdout, said.stderr);
    let heard = world.hosts[0].lines.lock().unwrap().clone();
    assert!(heard.len() == 1 && heard[0].starts_with("GET /ok 200"), "{heard:?}");
    let log = world.haft(&["log", "--net"]).stdout;
    assert!(log.contains(&format!("refused: send `DELETE {base}/ok`")), "{log}");
}

const ISSUER: &str = "import socket, ssl, sys
context = ssl.create_default_context()
name = sys.argv[2]
stream = context.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[1]))), server_hostname=name)
print('issuer', stream.getpeercert()['issuer'])
";

/// haft replaces the placeholder only on connections to the secret's host; connections to other hosts keep the host's
/// own TLS.
#[test]
fn another_host_gets_the_placeholder_and_its_own_tls() {
    let mut world = World::new();
    world.start(&[]);
    world.program("");
    let (first, other) = (world.port(), world.hosts[1].port);
    // Another granted host at the address and port of the secret's host.
    let text = fs::read_to_string(world.home.work().join("program.toml")).unwrap();
    world
        .home
        .write("program.toml", &text.replacen("hosts = [", &format!("hosts = [\"127.0.0.1:{first}\", "), 1));
    world.home.write("issuer.py", ISSUER);
    let said = world.bash(&format!(
        "python3 issuer.py {first} localhost; python3 issuer.py {other} localhost; python3 issuer.py {first} 127.0.0.1
         for host in localhost:{other} 127.0.0.1:{first}; do curl -sS -H \"X-Key: $TOKEN\" https://$host/ok; done"
    ));
    let issuers: Vec<&str> = said.stdout.lines().filter(|line| line.starts_with("issuer")).collect();
    assert!(issuers.len() == 3, "{}{}", said.stdout, said.stderr);
    assert!(issuers[0].contains("haft: certificate"), "{issuers:?}");
    assert!(issuers[1..].iter().all(|issuer| issuer.contains("authority of the test")), "{issuers:?}");
    assert_eq!(said.stdout.matches("no secret came").count(), 2, "{}{}", said.stdout, said.stderr);
}

#[test]
fn a_placeholder_is_worth_something_for_its_own_process_alone() {
    let world = World::new();
    world.program("");
    let [first, second] = ["first", "second"].map(|name| {
        let said = world.bash("echo \"token $TOKEN\"; cat /dev/haft/ca.pem | wc -l");
        let token = said.stdout.lines().find_map(|line| line.strip_prefix("token ")).map(str::to_owned);
        token.unwrap_or_else(|| panic!("{name}: {}{}", said.stdout, said.stderr))
    });
    assert!(first != second && first.len() == 40 && !first.contains(&world.secret[..8]));
    let ask = |token: &str| {
        world.bash(&format!("curl -sS -H \"X-Key: {token}\" https://localhost:{}/ok", world.port())).stdout
    };
    assert!(ask("$TOKEN").contains("authorized"));
    assert!(ask(&first).contains("no secret came") && ask(&second).contains("no secret came"));
    let said = world.bash(
        "for it in 'echo x >> /dev/haft/ca.pem' 'rm /dev/haft/ca.pem' 'mv /dev/haft /dev/x' 'touch /dev/haft/y' 'chmod 777 /dev/haft'; \
         do bash -c \"$it\" && echo \"changed by $it\"; done; ls /dev/haft",
    );
    assert!(said.stdout.trim_end().ends_with("ca.pem"), "{}{}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("changed by"), "{}", said.stdout);
}

/// No attempt of the catalogue brings the secret to the child, to another host or into a request that the rules forbid. The
/// hosts check each request too.
#[test]
fn no_way_leads_a_secret_out() {
    let world = World::new();
    let (hosts, ports) = world.with_ways();
    let sibling = world.bash("echo \"token $TOKEN\"").stdout;
    let sibling = sibling.lines().find_map(|line| line.strip_prefix("token ")).unwrap();
    let said = world.bash(&format!("python3 ways.py {ports} {sibling}"));
    let lines = |start: &str| said.stdout.lines().filter(|line| line.starts_with(start)).count();
    let held = lines("held ");
    assert!(
        lines("OUT ") == 0 && said.stdout.contains(&format!("{held} ways")) && held >= 330,
        "{held}: {}{}",
        said.stdout,
        said.stderr
    );
    let wrong = hosts.lines.lock().unwrap().clone();
    assert!(wrong.is_empty(), "{wrong:?} {}", said.stdout);
}

/// With the secret itself and without haft the attempts succeed, which proves that the catalogue works.
#[test]
fn the_ways_lead_a_secret_out_where_nothing_holds_them() {
    let world = World::new();
    let (hosts, ports) = world.with_ways();
    let mut command = Command::new("python3");
    command.arg("ways.py").args(ports.split(' ')).arg("none").current_dir(world.home.work());
    let said = Answer::from(command.env("TOKEN", &world.secret).output().unwrap());
    let out = said.stdout.lines().filter(|line| line.starts_with("OUT ")).count();
    let wrong = hosts.lines.lock().unwrap().len();
    assert!(out >= 200 && wrong >= 100, "{out}, {wrong}: {}{}", said.stdout, said.stderr);
}

/// A command with its own grant reads its placeholder file and authenticates with the placeholder; its host has no
/// TLS.
#[test]
fn a_command_has_secrets_of_its_own() {
    let mut world = World::new();
    world.start(&["plain"]);
    let port = world.hosts[1].port;
    let tool = format!(
        "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \
         \"curl -sS -u me:$(cat $FILE) http://localhost:{port}/ok; echo $TOKEN\"]\n[tools.grant]\nread = [\".\"]\n\
         hosts = [\"http://localhost:{port}\"]\n[tools.secrets.\"a/b\"]\nenv = \"REAL\"\nhosts = [\"http://localhost:{port}\"]\n\
         placeholder_file = {{ variable = \"FILE\", text = \"{{}}\" }}\n"
    );
    world.home.write("program.toml", &tool);
    let said = world.haft(&["call", "program__p__t", "{}"]);
    assert!(said.stdout.contains("authorized"), "{}{}", said.stdout, said.stderr);
    let checked = world.haft(&["check"]);
    let line =
        format!("`t` has a placeholder of the secret `a/b`, which haft sends to http://localhost:{port}");
    assert!(checked.stdout.contains(&line), "{}{}", checked.stdout, checked.stderr);
    let mut command = world.home.command(&["trust", "--json"]);
    let asked = Answer::from(command.env_remove("HAFT_TRUST").output().unwrap());
    let all = asked.stdout + &asked.stderr;
    assert!(all.contains(&format!("`t` sends $REAL to http://localhost:{port}")), "{all}");
}

const HTTP2: &str = "const [certificate, key, secret] = process.argv.slice(2);
const fs = require('fs');
const server = require('http2').createSecureServer({cert: fs.readFileSync(certificate), key: fs.readFileSync(key)});
server.on('stream', (stream, headers) => {
  const is_right = headers['x-key'] === secret;
  stream.respond({':status': is_right ? 200 : 401, 'content-type': 'text/plain', 'x-version': 'h2'});
  stream.end(is_right ? 'authorized ' + headers[':authority'] : 'no secret came');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

/// One connection carries many requests to a host that accepts only HTTP/2.
#[test]
fn http2_is_spoken_on_both_sides() {
    let mut world = World::new();
    if haft::lookup::find_on_path("node").is_none() {
        eprintln!("SKIPPED: there is no node");
        return;
    }
    fs::write(world.path("server.js"), HTTP2).unwrap();
    let files = ["server.js", "host.pem", "host.key"].map(|name| world.path(name));
    let mut child =
        Command::new("node").args(files).arg(&world.secret).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = said.next().unwrap().parse().unwrap();
    world.hosts[0] = Host { child, port, lines: Arc::default() };
    world.program("");
    let script = format!(
        "const session = require('http2').connect('https://localhost:{port}', {{ca: require('fs').readFileSync(process.env.SSL_CERT_FILE)}});
         const ask = () => new Promise((done) => {{
           const request = session.request({{'x-key': process.env.TOKEN}}); let text = '';
           request.on('data', (piece) => text += piece).on('end', () => done(text)).on('error', (error) => done('' + error));
         }});
         Promise.all(Array.from({{length: 50}}, ask)).then((all) => {{
           console.log(all.filter((text) => text === 'authorized localhost:{port}').length, all[0]); session.close();
         }});"
    );
    world.home.write("ask.js", &script);
    let said = world.bash("node ask.js");
    assert!(said.stdout.contains("50 authorized"), "{}{}", said.stdout, said.stderr);
}

const S3: &str = "import os, sys
import boto3
from botocore.config import Config
print('id', os.environ['AWS_ACCESS_KEY_ID'])
s3 = boto3.client('s3', endpoint_url=sys.argv[1], region_name='eu-west-1', config=Config(s3={'addressing_style': 'path'}, retries={'total_max_attempts': 1}))
s3.put_object(Bucket='bucket', Key='a b/c', Body=b'content')
print('got', s3.get_object(Bucket='bucket', Key='a b/c')['Body'].read(), [it['Key'] for it in s3.list_objects_v2(Bucket='bucket', Prefix='a b')['Contents']])
";

/// haft signs requests of an S3 client with the key that only haft has; the host verifies the signature.
#[test]
fn an_s3_client_signs_with_a_placeholder() {
    if !Command::new("python3").args(["-c", "import boto3"]).output().unwrap().status.success() {
        eprintln!("SKIPPED: there is no boto3");
        return;
    }
    let world = World::new();
    let base = format!("https://localhost:{}", world.port());
    let key = "variable = \"AWS_SECRET_ACCESS_KEY\"\naccess_key_id = \"AKIAREALREALREALREAL\"\n";
    world.program("");
    let text = fs::read_to_string(world.home.work().join("program.toml")).unwrap();
    world.home.write("program.toml", &text.replace("variable = \"TOKEN\"\n", key));
    world.home.write("s3.py", S3);
    let said = world.bash(&format!("python3 s3.py {base}"));
    assert!(said.stdout.contains("got b'content' ['a b/c']"), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("id AKIA") && !said.stdout.contains("REAL"), "{}", said.stdout);
    let signed = "Authorization: AWS4-HMAC-SHA256 Credential=$AWS_ACCESS_KEY_ID/20300101/a/s3/aws4_request, SignedHeaders=host, Signature=0";
    let said = world.bash(&format!(
        "curl -sS -H 'X-Amz-Date: 20300101T000000Z' -H 'X-Amz-Content-SHA256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD' -H \"{signed}\" {base}/bucket/x"
    ));
    assert!(said.stdout.contains("each piece of its body is signed"), "{}{}", said.stdout, said.stderr);
}
