//! Admission of browsers: with an unused link, and then with the cookie received for it. Only digests are stored,
//! in memory.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::COOKIE;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use haft_core::random;
use haft_core::sync::Lock;

/// The random bytes of a key: 128 bits. Narrow terminals would break a longer link.
const KEY: usize = 16;

const LINK_LIFE: Duration = Duration::from_hours(1);

/// The maximum number of admitted browsers; one more replaces the first.
const MAX_BROWSERS: usize = 16;

/// The path of a link, before its key.
pub(super) const OPEN: &str = "/open/";

/// A link that admits one browser once.
#[derive(Debug)]
pub struct Link {
    url: SecretString,
    key: SecretString,
}

pub(super) struct Keys {
    address: SocketAddr,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// The unused link, and its expiry.
    link: Option<(Hash, Instant)>,
    /// The cookies of the browsers, oldest first.
    browsers: Vec<Hash>,
}

type Hash = [u8; 32];

impl Link {
    /// Returns the URL, to be shown to the person at the terminal once.
    pub fn url(&self) -> &SecretString {
        &self.url
    }

    /// Returns the key in the URL, for redaction.
    pub fn key(&self) -> &SecretString {
        &self.key
    }
}

impl Keys {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, state: Lock::default() }
    }

    /// Creates a new link, which replaces the previous one.
    pub(super) fn link(&self) -> io::Result<Link> {
        let key = random::name::<KEY>()?;
        self.state.lock().link = Some((hash(&key), Instant::now() + LINK_LIFE));
        let url = SecretString::from(format!("http://{}{OPEN}{key}", self.address));
        Ok(Link { url, key: SecretString::from(key) })
    }

    /// Exchanges the key of a link, which is then used up, for a cookie.
    pub(super) fn redeem(&self, key: &str) -> io::Result<Option<String>> {
        let cookie = random::name::<KEY>()?;
        let mut state = self.state.lock();
        let is_good =
            |(known, until): &(Hash, Instant)| is_same(known, &hash(key)) && Instant::now() < *until;
        if state.link.take_if(|link| is_good(link)).is_none() {
            return Ok(None);
        }
        if state.browsers.len() >= MAX_BROWSERS {
            state.browsers.remove(0);
        }
        state.browsers.push(hash(&cookie));
        Ok(Some(format!("{}={cookie}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name())))
    }

    /// Returns whether a request has the cookie of a browser.
    pub(super) fn knows(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            texts.flat_map(|text| text.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let shown = cookies.find(|(known, _)| *known == name).map(|(_, value)| hash(value));
        shown.is_some_and(|shown| self.state.lock().browsers.iter().any(|known| is_same(known, &shown)))
    }

    /// Returns the name of the cookie, with the port, because browsers send the cookies of a host to all of its
    /// ports.
    fn cookie_name(&self) -> String {
        format!("haft-page-{}", self.address.port())
    }
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text).into()
}

/// Compares in constant time.
fn is_same(known: &Hash, given: &Hash) -> bool {
    known.iter().zip(given).fold(0, |difference, (known, given)| difference | (known ^ given)) == 0
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_link_lets_in_one_browser_once() {
        let keys = Keys::new("127.0.0.1:80".parse().unwrap());
        let knows = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, format!("other=1; {cookie}").parse().unwrap());
            keys.knows(&headers)
        };
        assert_eq!(keys.redeem("").unwrap(), None);
        let (first, second) = (keys.link().unwrap(), keys.link().unwrap());
        assert_eq!(keys.redeem(first.key.expose_secret()).unwrap(), None, "another was made");
        let cookie = keys.redeem(second.key.expose_secret()).unwrap().unwrap();
        assert_eq!(keys.redeem(second.key.expose_secret()).unwrap(), None, "used");
        let cookie = cookie.split(';').next().unwrap();
        assert!(knows(cookie) && !knows(&format!("{cookie}x")) && !knows("haft-page-80="));
        assert!(!keys.knows(&HeaderMap::new()));
    }
}
