//! The HTTP tests on public addresses, with names that the system's resolver finds: in a new user, network and mount
//! namespace, in which this machine is the whole internet.
#![expect(clippy::disallowed_methods, reason = "these tests run themselves, and haft")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use haft::grant::{Grant, HostPattern};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::server::{Connection, Server, ok, redirect};
use super::{decisions, hosts};
use crate::common::{cache, hostile};
use crate::guest::Guest;
use crate::web::Web;

/// The address of `api.test`; it was a public one.
const PUBLIC: &str = "93.184.215.14";

const PRIVATE: &str = "10.9.8.7";

const METADATA: &str = "169.254.169.254";

const HOSTS: &str = "\
127.0.0.1 localhost
93.184.215.14 api.test other.test
10.9.8.7 private.test
127.0.0.1 loopback.test
169.254.169.254 metadata.test
10.9.8.7 mixed.test
93.184.215.14 mixed.test
";

/// Creates the network of the tests below, and runs one of them in it.
const SCRIPT: &str = "
ip link set lo up
for address in 93.184.215.14 10.9.8.7 169.254.169.254; do ip address add $address/32 dev lo; done
mount --bind \"$HAFT_TEST_FOLDER/hosts\" /etc/hosts
exec \"$0\" --exact \"$1\" --ignored --nocapture --test-threads 1
";

/// The variable with the folder of a test in a namespace.
const FOLDER: &str = "HAFT_TEST_FOLDER";

/// Runs the ignored test `name` of this file in a new namespace. A missing namespace is a failure, because no other
/// test covers these promises.
fn in_a_namespace(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hosts"), HOSTS).unwrap();
    let this = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-euc", SCRIPT])
        .arg(this)
        .arg(format!("http::namespace::{name}"))
        .env(FOLDER, folder.path())
        .env("SSL_CERT_FILE", folder.path().join("authority.pem"))
        .env_remove("SSL_CERT_DIR")
        // haft must not use these proxies.
        .envs(["http_proxy", "https_proxy", "all_proxy"].map(|proxy| (proxy, "http://127.0.0.1:1")))
        .stdin(Stdio::null())
        .output()
        .expect("`unshare` of util-linux is needed");
    let shown =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "in namespaces of its own, with `ip` of iproute2 (are user namespaces allowed here?):\n{shown}"
    );
}

/// FU03: a guest reaches the granted host and port alone.
#[test]
fn a_granted_name_is_reached_and_nothing_else() {
    in_a_namespace("inside_a_granted_name");
}

/// FU02: `hosts = ["*"]` reaches public addresses alone.
#[test]
fn every_public_host_is_public() {
    in_a_namespace("inside_every_public_host");
}

#[test]
fn certificates_are_for_the_name_and_from_somebody_trusted() {
    in_a_namespace("inside_certificates");
}

/// FU03: haft's refusal contains the line that would allow the host.
#[test]
fn haft_itself_says_what_would_allow_a_host() {
    in_a_namespace("inside_haft");
}

/// FU03: `fetch_url` reads public hosts alone.
#[test]
fn fetch_url_reads_the_public_web_and_no_more() {
    in_a_namespace("inside_fetch_url");
}

/// The servers of the network; a guest must reach none of them except `api`.
struct World {
    /// The server of `api.test`; `/to/URL` redirects to the URL.
    api: Server,
    others: Vec<Server>,
}

impl World {
    fn new() -> Self {
        let api = Server::at(&format!("{PUBLIC}:0"), |head, stream| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let answer = path.strip_prefix("/to/").map_or_else(|| ok("the api"), redirect);
            let _ = stream.write_all(&answer);
        });
        let port = api.port();
        let others = [
            format!("{PUBLIC}:0"),
            format!("127.0.0.1:{port}"),
            format!("{PRIVATE}:{port}"),
            format!("{METADATA}:{port}"),
            format!("{METADATA}:80"),
        ];
        Self { api, others: others.iter().map(|address| Server::saying(address, "forbidden")).collect() }
    }

    fn nobody_else_was_asked(&self) {
        for other in &self.others {
            assert!(other.seen().is_empty(), "{}: {:?}", other.address, other.seen());
        }
    }
}

/// FU03: a guest reaches exactly the granted host and port, also through redirects.
#[tokio::test]
#[ignore = "run by its namesake, in a namespace"]
async fn inside_a_granted_name() {
    let world = World::new();
    let port = world.api.port();
    let url = format!("http://api.test:{port}");
    let guest = Guest::new(hosts(&[&url])).await;
    assert!(guest.says("http_get", json!({ "url": format!("{url}/x") })).await.ends_with("the api"));
    assert_eq!(decisions(&guest), [format!("allowed GET {url} ({PUBLIC})")]);
    assert!(world.api.seen().concat().to_ascii_lowercase().contains(&format!("host: api.test:{port}\r\n")));
    for elsewhere in [
        format!("http://api.test:{}", world.others[0].port()),
        format!("http://other.test:{port}"),
        format!("http://{PUBLIC}:{port}"),
        format!("http://loopback.test:{port}"),
        format!("http://127.0.0.1:{port}"),
        format!("http://{METADATA}/latest"),
        format!("https://api.test:{port}"),
    ] {
        let refused = guest.fails("http_get", json!({ "url": elsewhere })).await;
        assert!(refused.contains("HttpRequestDenied"), "{elsewhere}: {refused}");
        let followed = json!({ "url": format!("{url}/to/{elsewhere}"), "follow": true });
        let refused = guest.fails("http_get", followed).await;
        assert!(refused.contains("HttpRequestDenied"), "to {elsewhere}: {refused}");
    }
    for addr in [format!("{PUBLIC}:{port}"), format!("127.0.0.1:{port}")] {
        let refused = guest.fails("connect", json!({ "addr": addr })).await;
        assert!(refused.contains("Permission denied"), "{refused}");
    }
    let refused = guest.fails("connect", json!({ "addr": format!("api.test:{port}") })).await;
    assert!(refused.contains("plugins have no DNS"), "{refused}");
    world.nobody_else_was_asked();
}

/// FU02: haft checks the address of a name, also if the name is granted.
#[tokio::test]
#[ignore = "run by its namesake, in a namespace"]
async fn inside_every_public_host() {
    let world = World::new();
    let port = world.api.port();
    let any = Guest::new(Grant::none().with_host(HostPattern::any())).await;
    let names = ["private.test", "loopback.test", "metadata.test", "localhost"];
    let urls = names.map(|name| format!("http://{name}:{port}"));
    let listed = Guest::new(hosts(&urls[..3].iter().map(String::as_str).collect::<Vec<_>>())).await;
    for (name, url) in names.iter().zip(&urls) {
        let refused = any.fails("http_get", json!({ "url": url })).await;
        assert!(refused.contains("DestinationIpProhibited"), "{name}: {refused}");
        let followed = json!({ "url": format!("http://api.test:{port}/to/{url}"), "follow": true });
        let refused = any.fails("http_get", followed).await;
        assert!(refused.contains("DestinationIpProhibited"), "to {name}: {refused}");
    }
    for url in &urls[..3] {
        let refused = listed.fails("http_get", json!({ "url": url })).await;
        assert!(refused.contains("DestinationIpProhibited"), "{url}: {refused}");
    }
    world.nobody_else_was_asked();
    for host in ["api.test", "other.test", PUBLIC, "mixed.test"] {
        let url = format!("http://{host}:{port}");
        let guest = Guest::new(Grant::none().with_host(HostPattern::any())).await;
        assert!(guest.says("http_get", json!({ "url": url })).await.ends_with("the api"), "{host}");
        assert_eq!(decisions(&guest), [format!("allowed GET {url} ({PUBLIC})")]);
    }
    let missing = any.fails("http_get", json!({ "url": "http://nowhere.test/" })).await;
    assert!(missing.contains("ErrorCode::DnsError"), "{missing}");
    world.nobody_else_was_asked();
}

/// FU02, FU03: the built-in tool without grants reaches public hosts alone, and follows no redirect to another host.
#[tokio::test]
#[ignore = "run by its namesake, in a namespace"]
async fn inside_fetch_url() {
    let world = World::new();
    let port = world.api.port();
    let web = Web::new("");
    let api = format!("http://api.test:{port}");
    assert!(web.says("fetch_url", &json!({ "url": api })).ends_with("\n\nthe api"));
    let other = format!("{api}/to/http://other.test:{port}/x");
    let answer = web.says("fetch_url", &json!({ "url": other }));
    assert!(answer.contains(&format!("Redirected to: http://other.test:{port}/x\n")), "{answer}");
    for host in ["private.test", "loopback.test", "localhost", "127.0.0.1", "[::1]", PRIVATE, METADATA] {
        let elsewhere = format!("http://{host}:{port}/");
        for url in [elsewhere.clone(), format!("{api}/to/{elsewhere}")] {
            let refused = web.fails("fetch_url", &json!({ "url": url }));
            assert!(refused.contains("access was denied"), "{url}: {refused}");
        }
    }
    world.nobody_else_was_asked();
}

/// A server with TLS as `name`, with a certificate of `issuer`.
fn encrypted(name: &str, issuer: &CertifiedIssuer<'_, KeyPair>) -> Server {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    let config = Arc::new(config);
    let greet = move |mut stream: TcpStream| -> Option<Box<dyn Connection>> {
        let mut connection = ServerConnection::new(config.clone()).unwrap();
        connection.complete_io(&mut stream).ok()?;
        Some(Box::new(StreamOwned::new(connection, stream)))
    };
    Server::greeting(&format!("{PUBLIC}:0"), greet, |_, stream| {
        let _ = stream.write_all(&ok("encrypted"));
    })
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A TLS connection needs a certificate for the name, from an authority that the system trusts.
#[tokio::test]
#[ignore = "run by its namesake, in a namespace"]
async fn inside_certificates() {
    let (trusted, unknown) = (authority(), authority());
    let folder = std::env::var_os(FOLDER).unwrap();
    fs::write(Path::new(&folder).join("authority.pem"), trusted.pem()).unwrap();
    let (good, forged) = (encrypted("api.test", &trusted), encrypted("api.test", &unknown));
    // The server sends an answer before the request.
    let greet = |mut stream: TcpStream| -> Option<Box<dyn Connection>> {
        stream.write_all(&ok("unencrypted URL")).ok()?;
        Some(Box::new(stream))
    };
    let plain = Server::greeting(&format!("{PUBLIC}:0"), greet, |_, _| {});
    let any = Guest::new(Grant::none().with_host(HostPattern::any())).await;
    let url = |name: &str, server: &Server| format!("https://{name}:{}", server.port());
    let answer = any.says("http_get", json!({ "url": url("api.test", &good) })).await;
    assert!(answer.ends_with("encrypted"), "{answer}");
    for (url, expected) in [
        (url("other.test", &good), "TlsCertificateError"),
        (url(PUBLIC, &good), "TlsCertificateError"),
        (url("api.test", &forged), "TlsCertificateError"),
        (url("api.test", &plain), "TlsProtocolError"),
    ] {
        let refused = any.fails("http_get", json!({ "url": url })).await;
        assert!(refused.contains(expected), "{url}: {refused}");
        assert!(refused.contains(&format!("no encrypted connection to `{url}`: ")), "{refused}");
    }
    assert_eq!((good.seen().len(), forged.seen().len()), (1, 0));
}

/// FU03: a grant in program.toml reaches the host, and a refusal contains the line for another host.
#[tokio::test]
#[ignore = "run by its namesake, in a namespace"]
async fn inside_haft() {
    let world = World::new();
    let port = world.api.port();
    let folder = std::env::var_os(FOLDER).unwrap();
    let program = format!(
        "[program]\nname = \"x\"\nversion = \"1.0.0\"\n[sandbox]\nworkspace = \"work\"\n[[plugins]]\nname = \"guest\"\ncomponent = {:?}\n[plugins.grant]\nhosts = [\"http://api.test:{port}\"]\n",
        hostile()
    );
    fs::create_dir(Path::new(&folder).join("work")).unwrap();
    fs::write(Path::new(&folder).join("program.toml"), program).unwrap();
    let haft = |url: &str| {
        let arguments = json!({ "url": url }).to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(["call", "guest__http_get", &arguments])
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("HAFT_TRUST", "1")
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let answer = haft(&format!("http://api.test:{port}/"));
    assert!(answer.contains("the api"), "{answer}");
    let refused = haft(&format!("http://other.test:{port}/"));
    let line = format!("add `hosts = [\"http://other.test:{port}\"]` to `[plugins.grant]` of `guest`");
    assert!(refused.contains("HttpRequestDenied") && refused.contains(&line), "{refused}");
    world.nobody_else_was_asked();
}
