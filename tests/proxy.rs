//! A company's proxy as the only way to other machines: its host names cannot be resolved here.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::cli::{Answer, Home};

const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n";
const LOGIN: &str = "ada:p4ssw0rd-of-the-proxy";
/// The login in base64.
const BASIC: &str = "YWRhOnA0c3N3MHJkLW9mLXRoZS1wcm94eQ==";

/// A strict proxy: it knows some names, and requires a login.
struct Proxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `known` has authorities, and the ports of this machine that serve them.
    fn new(known: Vec<(String, u16)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noting = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (known, noting) = (known.clone(), noting.clone());
                thread::spawn(move || serve(stream, &known, &noting));
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn serve(mut stream: TcpStream, known: &[(String, u16)], asked: &Mutex<Vec<String>>) {
    let head = head(&mut stream);
    let words: Vec<&str> = head.split(' ').collect();
    let ["CONNECT", authority, ..] = words[..] else { return };
    let has_login = head.to_ascii_lowercase().contains("proxy-authorization: basic") && head.contains(BASIC);
    let port = known.iter().find(|(name, _)| name == authority).map(|(_, port)| *port);
    asked.lock().unwrap().push(authority.to_owned());
    let (Some(port), true) = (port, has_login) else {
        let status = if has_login { "502 Bad Gateway" } else { "407 Proxy Authentication Required" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        return;
    };
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _ = write!(stream, "HTTP/1.1 200 Connected\r\n\r\n");
    let (mut from, mut to) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut stream);
    let _ = stream.shutdown(Shutdown::Write);
}

/// Starts a server on this machine and returns its port.
fn server(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || answer(stream));
        }
    });
    port
}

fn hello(mut stream: TcpStream) {
    let _ = stream.write_all(b"hello");
}

fn web(mut stream: impl Read + Write, body: &str) {
    let _ = head(&mut stream);
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.flush();
}

fn haft(home: &Home, login: &str, arguments: &[&str]) -> Answer {
    let output = home.command(arguments).env("PROXY_LOGIN", login).output().unwrap();
    let answer = Answer::from(output);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert!(!said.contains(LOGIN) && !said.contains(BASIC), "{said}");
    answer
}

/// Writes a program.toml with the proxy.
fn program(home: &Home, proxy: &Proxy, rest: &str) {
    let port = proxy.port;
    let network =
        format!("[network]\nproxy = \"http://127.0.0.1:{port}\"\nlogin = {{ env = \"PROXY_LOGIN\" }}\n");
    home.write("program.toml", &format!("{HEAD}{network}{rest}"));
}

#[test]
fn a_process_reaches_granted_names_through_the_proxy_and_no_others() {
    let proxy = Proxy::new(vec![
        ("closed.test:7777".into(), server(hello)),
        ("other.test:7777".into(), server(hello)),
    ]);
    let home = Home::new();
    program(&home, &proxy, "[sandbox]\nhosts = [\"closed.test:7777\"]\n");
    let script = "exec 3<>/dev/tcp/closed.test/7777 && head -c 5 <&3; python3 -c 'import socket; \
                  print(socket.create_connection((\"closed.test\", 7777)).recv(9))'; env; \
                  (echo >/dev/tcp/closed.test/22); (echo >/dev/tcp/other.test/7777); (echo >/dev/tcp/198.18.0.2/7777)";
    let arguments = serde_json::json!({ "command": script }).to_string();
    let answer = haft(&home, LOGIN, &["call", "bash", &arguments]);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert!(said.contains("hello") && said.contains("b'hello'") && !said.contains("PROXY"), "{said}");
    assert_eq!(proxy.asked(), ["closed.test:7777", "closed.test:7777"], "{said}");
    let refused = haft(&home, "ada:wrong-password", &["call", "bash", &arguments]);
    assert!(!format!("{}{}", refused.stdout, refused.stderr).contains("hello"));
    let log = home.haft(&["log", "--json"]).stdout;
    assert!(log.contains("connected: closed.test") && !log.contains(LOGIN) && !log.contains(BASIC), "{log}");
}

#[test]
fn a_plugin_asks_through_the_proxy() {
    let proxy = Proxy::new(vec![("web.test:80".into(), server(|stream| web(stream, "{\"page\": 4711}")))]);
    let home = Home::new();
    program(&home, &proxy, "");
    let fetched = haft(&home, LOGIN, &["call", "fetch_url", "{\"url\": \"http://web.test/\"}"]);
    assert!(fetched.stdout.contains("4711"), "{}{}", fetched.stdout, fetched.stderr);
    assert_eq!(proxy.asked(), ["web.test:80"]);
    let near = haft(&home, LOGIN, &["call", "fetch_url", "{\"url\": \"http://127.0.0.1:9/\"}"]);
    assert!(near.code != 0 && proxy.asked().len() == 1, "{}", near.stderr);
}

/// haft's own requests pass a proxy that terminates TLS; only `ca` makes haft trust the proxy's authority.
#[test]
fn haft_itself_asks_through_the_proxy_and_trusts_its_authority() {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own =
        CertificateParams::new(vec!["llm.test".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let chain = vec![own.der().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let models = server(move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        web(
            StreamOwned::new(connection, stream),
            "{\"data\": [{\"id\": \"model-4711\", \"object\": \"model\"}]}",
        );
    });
    let proxy = Proxy::new(vec![("llm.test:443".into(), models)]);
    let home = Home::new();
    fs::write(home.work().join("ca.pem"), authority.pem()).unwrap();
    let provider =
        "[provider]\nname = \"openai\"\nbase_url = \"https://llm.test/v1\"\nmodel = \"m\"\nmax_retries = 0\n";
    program(&home, &proxy, provider);
    let untrusted = haft(&home, LOGIN, &["models"]);
    assert!(!untrusted.stdout.contains("model-4711"), "{}", untrusted.stdout);
    program(&home, &proxy, &format!("ca = \"ca.pem\"\n{provider}"));
    let listed = haft(&home, LOGIN, &["models"]);
    assert!(listed.stdout.contains("model-4711"), "{}{}", listed.stdout, listed.stderr);
    let refused = haft(&home, "ada:wrong-password", &["models"]);
    assert!(!refused.stdout.contains("model-4711"), "{}", refused.stdout);
    assert!(proxy.asked().iter().all(|asked| asked == "llm.test:443"), "{:?}", proxy.asked());
}

/// If the login or the certificates of a proxy are missing or invalid, haft stops with an error and sends nothing
/// without the proxy.
#[test]
fn a_proxy_that_cannot_be_used_is_an_error() {
    let proxy = Proxy::new(Vec::new());
    let home = Home::new();
    program(&home, &proxy, "");
    let missing = home.haft(&["tools"]);
    assert!(missing.code != 0 && missing.stderr.contains("`login` of `[network]`"), "{}", missing.stderr);
    let odd = haft(&home, "no-password-here", &["tools"]);
    assert!(odd.code != 0 && odd.stderr.contains("is not `user:password`"), "{}", odd.stderr);
    home.write("ca.pem", "nothing");
    program(&home, &proxy, "ca = \"ca.pem\"\n");
    let empty = haft(&home, LOGIN, &["tools"]);
    assert!(empty.code != 0 && empty.stderr.contains("has no certificate in PEM"), "{}", empty.stderr);
}
