//! A host over TLS, and its clients: Python, with a connection for each request, with one connection, and with 1 GiB.
//! Unconfined, with the host granted, and with a secret for the host, so that haft opens TLS.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use haft::backend::confine::Confiner;
use haft::grant::{Grant, HostSecret};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::rounds::rounds;
use crate::{BYTES, ROUNDS, confined, median, plain, report};

const CLIENT: &str = include_str!("https.py");
/// The variable with the certificate authority of the host; haft reads it once.
const AUTHORITY: &str = "SSL_CERT_FILE";

/// Runs this program again with the certificate authority of a host. Returns whether it ran.
pub(crate) fn has_run_with_authority() -> bool {
    if std::env::var_os(AUTHORITY).is_some_and(|file| Path::new(&file).with_file_name("host").exists()) {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, "authority of the benchmark");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let host = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    for (name, text) in [("ca", authority.pem()), ("host", host.pem()), ("key", key.serialize_pem())] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "this program itself")]
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ran = again.args(std::env::args_os().skip(1)).env(AUTHORITY, folder.path().join("ca")).status();
    assert!(ran.unwrap().success());
    true
}

/// Serves clients; returns the port.
fn host(folder: &Path) -> u16 {
    let config = config(folder);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            stream.set_nodelay(true).unwrap();
            let connection = ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || serve(BufReader::new(StreamOwned::new(connection, stream))));
        }
    });
    port
}

fn config(folder: &Path) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(folder.join("host")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key")).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

/// Answers the requests of a connection to its end.
fn serve(mut stream: BufReader<StreamOwned<ServerConnection, TcpStream>>) {
    let content = vec![b'.'; 1 << 18];
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head) {
                Ok(1..) => {}
                _ => return,
            }
        }
        let size = if head.starts_with("GET /large") { BYTES } else { 200 };
        let to = stream.get_mut();
        let kind = "Content-Type: application/octet-stream";
        write!(to, "HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {size}\r\n\r\n").unwrap();
        let mut left = usize::try_from(size).unwrap();
        while left > 0 {
            let piece = left.min(content.len());
            to.write_all(&content[..piece]).unwrap();
            left -= piece;
        }
        to.flush().unwrap();
    }
}

/// Prints a row for each deed.
pub(crate) async fn measure(confiner: &Confiner, grant: &Grant) {
    let authority = std::env::var(AUTHORITY).unwrap();
    let port = host(Path::new(&authority).parent().unwrap());
    let hosts = grant.clone().with_child_host(format!("localhost:{port}").parse().unwrap());
    let secret = HostSecret {
        name: "token".to_owned(),
        hosts: vec![format!("localhost:{port}").parse().unwrap()],
        allow: Vec::new(),
        variable: Some("TOKEN".to_owned()),
        file: None,
        access_key: None,
        value: "ghp_0123456789abcdefghijklmnopqrstuvwxyz".into(),
    };
    let secrets = hosts.clone().with_secret(secret);
    println!("{:<26}{:>12}{:>16}{:>16}", "HTTPS, p50 ms", "plain", "single hosts", "with a secret");
    for deed in ["connections", "requests", "large"] {
        let words = || ["python3", "-c", CLIENT, deed, &port.to_string()].map(str::to_owned).to_vec();
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds(ROUNDS) {
            times[0].push(plain(words()).await);
            times[1].push(confined(confiner, &hosts, words()).await.0);
            times[2].push(confined(confiner, &secrets, words()).await.0);
        }
        report(deed, times.map(median));
    }
}
