//! The proxy between this machine and others, for all of this process. Requests and connections go to it, and it connects them (HTTP CONNECT, RFC 9110, section 9.3.6).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::Url;

use crate::grant::{HostName, local};

/// Bytes of the head of the proxy's answer.
const MAX_HEAD: usize = 8 << 10;
/// Time limit for the proxy's answer: it connects to the server first.
const CONNECT: Duration = Duration::from_mins(1);

static CHOSEN: OnceLock<Upstream> = OnceLock::new();

/// The address of a proxy: `http://host:port`, with port 80 if none is written. It has no user and no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl(Url);

/// Why a text is not a [`ProxyUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected the address of a proxy such as `http://proxy.example:3128`; `login` names its user and password"
)]
pub struct ProxyUrlError;

impl FromStr for ProxyUrl {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let url = Url::parse(text).map_err(|_| ProxyUrlError)?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        let is_proxy = url.scheme() == "http" && url.path() == "/" && url.fragment().is_none();
        if is_proxy && is_bare { Ok(Self(url)) } else { Err(ProxyUrlError) }
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A proxy.
#[derive(Debug)]
pub struct Upstream {
    /// Its address.
    pub proxy: ProxyUrl,
    /// The user and the password, with a colon between them.
    pub login: Option<SecretString>,
    /// Certificate authorities in PEM, besides those of the system: of a proxy that opens TLS.
    pub authorities: Vec<u8>,
    /// The hosts that are reached without it, with all names below them.
    pub direct: Vec<HostName>,
}

impl Upstream {
    /// Uses this proxy for the rest of the process, unless one is used already.
    pub fn choose(self) {
        // Connections through an earlier one exist.
        let _ = CHOSEN.set(self);
    }

    /// Returns the proxy of this process.
    pub fn chosen() -> Option<&'static Self> {
        CHOSEN.get()
    }

    /// Returns the proxy for `host`, a name or an address as in a URL; `None` if it is reached without one. So are all
    /// addresses that are not public.
    pub fn of(host: &str) -> Option<&'static Self> {
        Self::chosen().filter(|upstream| upstream.serves(host))
    }

    /// Returns whether `host` is the proxy itself, whose address is not judged.
    pub fn is(host: &str) -> bool {
        Self::chosen().is_some_and(|upstream| upstream.url().host_str() == Some(host))
    }

    /// Returns its address.
    pub fn url(&self) -> &Url {
        &self.proxy.0
    }

    fn serves(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_near =
            host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| local(address).is_some());
        !is_near && !self.direct.iter().any(|direct| direct.covers(host))
    }

    /// Returns the value of `proxy-authorization`.
    pub fn authorization(&self) -> Option<SecretString> {
        let encoded = |login: &SecretString| format!("Basic {}", STANDARD.encode(login.expose_secret()));
        self.login.as_ref().map(|login| encoded(login).into())
    }

    /// Returns the addresses of the proxy.
    ///
    /// # Errors
    /// Its name cannot be resolved.
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let host = self.url().host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = self.url().port_or_known_default().unwrap_or_default();
        Ok(lookup_host((host, port)).await?.collect())
    }

    /// Connects to `host` and `port` through the proxy, which resolves the name.
    ///
    /// # Errors
    /// The proxy is not there or refuses the connection. The error contains no password.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let connected = async { TcpStream::connect(&*self.addresses().await?).await };
        let mut stream = timeout(CONNECT, connected).await.unwrap_or_else(|_| Err(silent()))?;
        stream.set_nodelay(true)?;
        self.tunnel(&mut stream, host, port).await?;
        Ok(stream)
    }

    /// Has the proxy at the other end of `stream` connect to `host` and `port`.
    ///
    /// # Errors
    /// The proxy refuses the connection. The error contains no password.
    pub async fn tunnel(&self, stream: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
        let login = self.authorization();
        let login = login.map(|value| format!("Proxy-Authorization: {}\r\n", value.expose_secret()));
        let head = format!(
            "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{}\r\n",
            login.unwrap_or_default()
        );
        stream.write_all(head.as_bytes()).await?;
        let answer = timeout(CONNECT, head_of(stream)).await.unwrap_or_else(|_| Err(silent()))?;
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or_default();
        match status.parse::<u16>() {
            Ok(200..300) => Ok(()),
            Ok(status) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the proxy refuses the connection to `{host}:{port}` with status {status}"),
            )),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the proxy does not answer as one")),
        }
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the proxy does not answer")
}

/// Reads the head of an answer, and no byte after it: a server may speak first.
async fn head_of(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer of the proxy is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn upstream(port: u16, direct: &[&str]) -> Upstream {
        let direct = direct.iter().map(|host| host.parse().unwrap()).collect();
        let proxy = format!("http://127.0.0.1:{port}").parse().unwrap();
        Upstream { proxy, login: Some("ada:s3cret".into()), authorities: Vec::new(), direct }
    }

    #[test]
    fn this_machine_and_named_hosts_are_reached_directly() {
        let upstream = upstream(1, &["corp.test"]);
        for host in
            ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "corp.test", "a.corp.test"]
        {
            assert!(!upstream.serves(host), "{host}");
        }
        for host in ["api.test", "1.1.1.1", "localhost.test", "xcorp.test"] {
            assert!(upstream.serves(host), "{host}");
        }
    }

    #[test]
    fn the_address_of_a_proxy_holds_no_password() {
        let proxy: ProxyUrl = "http://proxy.test:3128".parse().unwrap();
        assert_eq!(proxy.to_string(), "http://proxy.test:3128");
        for wrong in [
            "proxy.test:3128",
            "https://proxy.test",
            "http://ada:pw@proxy.test",
            "http://p.test/x",
            "socks5://p.test",
        ] {
            assert!(wrong.parse::<ProxyUrl>().is_err(), "{wrong}");
        }
    }

    /// A server that speaks first loses no byte, and a refusal shows no password.
    #[tokio::test]
    async fn a_connection_is_asked_for_and_handed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in [
                &b"HTTP/1.1 200 Connected\r\nX: y\r\n\r\nhello"[..],
                b"HTTP/1.1 407 No\r\n\r\n",
                &[b'x'; 9000],
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.push(head_of(&mut stream).await.unwrap());
                stream.write_all(answer).await.unwrap();
            }
            asked
        });
        let upstream = upstream(port, &[]);
        let mut stream = upstream.connect("api.test", 443).await.unwrap();
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello");
        let refused = upstream.connect("api.test", 22).await.unwrap_err().to_string();
        assert_eq!(refused, "the proxy refuses the connection to `api.test:22` with status 407");
        assert!(upstream.connect("api.test", 443).await.unwrap_err().to_string().contains("too long"));
        let asked = serving.await.unwrap();
        assert!(
            asked[0].starts_with("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n"),
            "{}",
            asked[0]
        );
        assert!(asked[0].contains("Proxy-Authorization: Basic YWRhOnMzY3JldA==\r\n"), "{}", asked[0]);
        assert!(!format!("{upstream:?}").contains("s3cret"));
    }
}
