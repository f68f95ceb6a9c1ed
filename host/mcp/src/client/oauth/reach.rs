//! The addresses that a login may contact. The URLs that a server names are not trusted: they must be on the public
//! internet, or at addresses of the same kind as the server's own, so that no server makes haft contact this
//! machine, a private network or a cloud's metadata service. Each address is checked at connection time, after name
//! resolution. The owner of the server's name controls its resolution, so that a name alone never opens this
//! machine, and opens another kind of address only if the server has no other address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use tokio::sync::OnceCell;

use crate::client::address::{is_safe, is_this_machine};
use haft_core::grant::{AddressError, local};
use haft_core::upstream::Upstream;

/// The variables that name a proxy, which is the user's own choice of address.
const PROXIES: &[&str] =
    &["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// The reason why an address is not asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreachable {
    #[error("`{0}` would send data unencrypted")]
    Plain(Url),
    #[error("`{host}` resolves to {address}, a {kind}; the MCP server itself has no such address")]
    Inside { host: String, address: IpAddr, kind: AddressError },
    #[error("`{host}` now resolves to {address}; before it resolved to another kind of address")]
    Moved { host: String, address: IpAddr },
    #[error("`{0}` has no address")]
    Nowhere(String),
    #[error("`{0}` cannot be resolved: {1}")]
    Unresolved(String, std::io::Error),
}

/// Checks addresses for the logins at one server.
#[derive(Debug)]
pub(super) struct Reach {
    server: Url,
    /// The kind of the server's addresses, if they are not public; `None` for public ones.
    own: OnceCell<Option<AddressError>>,
    proxies: Vec<String>,
}

impl Reach {
    pub(super) fn of(server: &Url) -> Arc<Self> {
        let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        let proxies = proxies.filter_map(|text| Some(text.parse::<::http::Uri>().ok()?.host()?.to_owned()));
        Arc::new(Self { server: server.clone(), own: OnceCell::new(), proxies: proxies.collect() })
    }

    /// Checks that `url` may be requested, or opened by a browser, by its text; [`Self::resolved`] checks
    /// names.
    pub(super) async fn judge(&self, url: &Url) -> Result<(), Unreachable> {
        if !is_safe(url) {
            let mut shown = url.clone();
            shown.set_query(None);
            return Err(Unreachable::Plain(shown));
        }
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => self.allow(host, address).await,
            Err(_) => Ok(()),
        }
    }

    async fn allow(&self, host: &str, address: IpAddr) -> Result<(), Unreachable> {
        match local(address) {
            Some(kind) if self.own().await != Some(kind) => {
                Err(Unreachable::Inside { host: host.to_owned(), address, kind })
            }
            _ => Ok(()),
        }
    }

    async fn own(&self) -> Option<AddressError> {
        if is_this_machine(&self.server) {
            return Some(AddressError::Loopback);
        }
        let host = self.server.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let look = || async move {
            if let Ok(address) = host.parse() {
                return local(address);
            }
            let found = lookup_host((host.as_str(), 0)).await;
            let found: Vec<IpAddr> = found.into_iter().flatten().map(|address| address.ip()).collect();
            of_name(&found)
        };
        *self.own.get_or_init(look).await
    }

    /// Returns the addresses of `host`, all of which may be asked.
    async fn resolved(&self, host: &str) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = lookup_host((host, 0)).await;
        let found: Vec<_> = found.map_err(|error| Unreachable::Unresolved(host.to_owned(), error))?.collect();
        if found.is_empty() {
            return Err(Unreachable::Nowhere(host.to_owned()));
        }
        if Upstream::is(host) || self.proxies.iter().any(|proxy| proxy == host) {
            return Ok(found);
        }
        // Otherwise the owner of the name could first return a private address, and then a public one for the
        // answer.
        let is_server = self.server.host_str() == Some(host);
        let own = if is_server { self.own().await } else { None };
        for address in found.iter().map(SocketAddr::ip) {
            self.allow(host, address).await?;
            if own.is_some() && local(address) != own {
                return Err(Unreachable::Moved { host: host.to_owned(), address });
            }
        }
        Ok(found)
    }
}

/// Returns the kind of a name's addresses, if all are of one kind that is not public and that a name may have.
fn of_name(addresses: &[IpAddr]) -> Option<AddressError> {
    let mut kinds = addresses.iter().map(|address| local(*address));
    let kind = kinds.next()??;
    let is_possible = !matches!(kind, AddressError::Loopback | AddressError::Metadata);
    (is_possible && kinds.all(|other| other == Some(kind))).then_some(kind)
}

/// Resolves names for an HTTP client.
pub(super) struct Resolver(pub(super) Arc<Reach>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0.clone();
        Box::pin(async move {
            let found = reach.resolved(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn judged(server: &str, url: &str) -> Result<(), String> {
        let (server, url) = (Url::parse(server).unwrap(), Url::parse(url).unwrap());
        Reach::of(&server).judge(&url).await.map_err(|why| why.to_string())
    }

    /// The addresses that an MCP server leads to must be of its own kind: public, private or loopback.
    #[tokio::test]
    async fn a_server_leads_to_no_address_that_is_not_of_its_own_kind() {
        const PUBLIC: &str = "https://8.8.8.8/mcp";
        for inside in [
            "https://127.0.0.1/token",
            "https://[::1]/token",
            "https://10.0.0.1/token",
            "https://169.254.169.254/latest",
            "https://[::ffff:169.254.169.254]/latest",
            "https://0x7f.1/token",
            "https://[fd00:ec2::254]/",
        ] {
            let why = judged(PUBLIC, inside).await.unwrap_err();
            assert!(why.contains("the MCP server itself has no such address"), "{inside}: {why}");
        }
        assert_eq!(judged(PUBLIC, "https://1.1.1.1/token").await, Ok(()));
        assert_eq!(judged("https://10.1.1.1/mcp", "https://10.0.0.1/token").await, Ok(()));
        assert_eq!(judged("http://127.0.0.1:1/mcp", "http://[::1]:2/token").await, Ok(()));
        for other in ["https://10.0.0.1/token", "https://169.254.169.254/latest"] {
            assert!(judged("http://127.0.0.1:1/mcp", other).await.is_err(), "{other}");
        }
        for plain in ["http://8.8.8.8/token", "ftp://8.8.8.8/", "javascript:alert(1)", "file:///etc/passwd"] {
            assert!(
                judged(PUBLIC, plain).await.unwrap_err().contains("would send data unencrypted"),
                "{plain}"
            );
        }
    }

    /// A name opens the private network only if all its addresses are private.
    #[test]
    fn a_name_opens_the_kind_of_all_of_its_addresses() {
        let opened = |addresses: &[&str]| {
            of_name(&addresses.iter().map(|address| address.parse().unwrap()).collect::<Vec<IpAddr>>())
        };
        assert_eq!(opened(&["10.0.0.1"]), Some(AddressError::Private));
        assert_eq!(opened(&["10.0.0.1", "192.168.0.1", "fd00::1"]), Some(AddressError::Private));
        for addresses in [
            &["6.6.6.6"][..],
            &[],
            &["6.6.6.6", "127.0.0.1"],
            &["127.0.0.1", "6.6.6.6"],
            &["127.0.0.1"],
            &["::1"],
            &["169.254.169.254"],
            &["10.0.0.1", "6.6.6.6"],
            &["10.0.0.1", "127.0.0.1"],
        ] {
            assert_eq!(opened(addresses), None, "{addresses:?}");
        }
    }

    /// A name is judged by its resolution.
    #[tokio::test]
    async fn a_name_is_judged_by_its_addresses() {
        let public = Reach::of(&Url::parse("https://8.8.8.8/mcp").unwrap());
        assert!(matches!(public.resolved("localhost").await, Err(Unreachable::Inside { .. })));
        let own = Reach::of(&Url::parse("http://localhost:1/mcp").unwrap());
        assert!(own.resolved("localhost").await.is_ok());
    }
}
