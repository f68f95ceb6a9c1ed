//! Headers that haft adds to a plugin's requests to one destination. The guest never sees their values. An
//! injection grants nothing.

use std::fmt;
use std::sync::Arc;

use hyper::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, RANGE, TE, TRAILER,
};
use secrecy::{ExposeSecret, SecretString};
use wasmtime_wasi_http::DEFAULT_FORBIDDEN_HEADERS;

use super::mask::{Mask, Masker};
use haft_core::grant::{Destination, HostPattern};

/// A header that haft adds to a plugin's requests to one destination, in place of the plugin's own header.
///
/// The plugin never sees the value: if a response repeats the secret, unmodified or in the escaped form of JSON or
/// URLs, the guest reads a `*` for each byte.
#[derive(Clone)]
pub struct Injection {
    host: HostPattern,
    name: HeaderName,
    value: HeaderValue,
    secret: SecretString,
}

/// The reason why a header cannot be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// For every host.
    #[error("a secret has one destination: expected a host, not `*`")]
    AnyHost,
    /// The name is invalid, or belongs to a header that haft sets.
    #[error("expected the name of an authentication header, such as `Authorization`")]
    Header,
    /// The value cannot be sent in a header.
    #[error("the secret has a line break or another character that is not allowed in a header")]
    Value,
    /// Too few bytes to be distinguished from other text.
    #[error("the secret has fewer than {} bytes, which is too short", Injection::MIN_SECRET)]
    Short,
    /// More bytes than servers take.
    #[error("the secret has more than {} bytes; servers refuse longer headers", Injection::MAX_SECRET)]
    Long,
}

impl Injection {
    /// Minimum size of a secret in bytes. A shorter secret would be masked at every coincidence, and thereby
    /// revealed.
    const MIN_SECRET: usize = 8;
    /// Maximum number of bytes of a secret: the limit of servers for all headers together.
    const MAX_SECRET: usize = 8 << 10;

    /// Returns `header: <prefix><secret>` in requests to `host`.
    pub fn new(
        host: HostPattern,
        header: &str,
        prefix: &str,
        secret: SecretString,
    ) -> Result<Self, InjectionError> {
        let bytes = secret.expose_secret().len();
        match () {
            () if host.is_any() => return Err(InjectionError::AnyHost),
            () if bytes < Self::MIN_SECRET => return Err(InjectionError::Short),
            () if bytes > Self::MAX_SECRET => return Err(InjectionError::Long),
            () => {}
        }
        let name = HeaderName::try_from(header).ok().filter(|name| !is_own(name));
        let name = name.ok_or(InjectionError::Header)?;
        let value = HeaderValue::try_from(format!("{prefix}{}", secret.expose_secret()));
        let mut value = value.map_err(|_| InjectionError::Value)?;
        value.set_sensitive(true);
        Ok(Self { host, name, value, secret })
    }
}

/// Returns whether a header controls the transfer of the message, which a plugin may not set.
fn is_own(name: &HeaderName) -> bool {
    const OWN: [HeaderName; 6] = [ACCEPT_ENCODING, CONTENT_LENGTH, EXPECT, RANGE, TE, TRAILER];
    OWN.contains(name) || DEFAULT_FORBIDDEN_HEADERS.contains(name)
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, name) = (self.host.to_string(), self.name.as_str());
        f.debug_struct("Injection").field("host", &host).field("header", &name).finish_non_exhaustive()
    }
}

/// All injections for one plugin. Clones share them.
#[derive(Clone, Default)]
pub struct Injections {
    all: Arc<[Injection]>,
    /// One mask of all secrets for every response, because one server may repeat a secret that was sent to another.
    mask: Option<Arc<Mask>>,
}

impl FromIterator<Injection> for Injections {
    /// Returns no injections if the secrets cannot be masked.
    fn from_iter<T: IntoIterator<Item = Injection>>(injections: T) -> Self {
        let all: Arc<[Injection]> = injections.into_iter().collect();
        if all.is_empty() {
            return Self::default();
        }
        let mask = Mask::new(all.iter().map(|injection| injection.secret.expose_secret()));
        mask.map(|mask| Self { all, mask: Some(Arc::new(mask)) }).unwrap_or_default()
    }
}

impl Injections {
    /// Adds the headers for `destination`. Returns whether there are any. Such a request asks for a complete,
    /// uncompressed response, because a compressed or partial one could hide a secret.
    pub(super) fn add(&self, destination: &Destination, headers: &mut HeaderMap) -> bool {
        let mut added = false;
        for injection in self.all.iter().filter(|injection| injection.host.matches(destination)) {
            headers.insert(injection.name.clone(), injection.value.clone());
            added = true;
        }
        if added {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            headers.remove(RANGE);
        }
        added
    }

    /// Masks the secrets in the headers of an answer. Removes a header with a secret in its name.
    pub(super) fn hide_in(&self, headers: &mut HeaderMap) {
        let Some(mask) = &self.mask else { return };
        let named: Vec<_> =
            headers.keys().filter(|name| mask.hide(name.as_str().as_bytes()).is_some()).cloned().collect();
        for name in named {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            if let Some(hidden) = mask.hide(value.as_bytes()) {
                *value = HeaderValue::from_bytes(&hidden).unwrap_or(HeaderValue::from_static("*"));
            }
        }
    }

    pub(super) fn masker(&self) -> Masker {
        Masker::new(self.mask.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(host: &str, header: &str, secret: &str) -> Result<Injection, InjectionError> {
        Injection::new(host.parse().unwrap(), header, "Bearer ", secret.to_owned().into())
    }

    fn to(authority: &str) -> Destination {
        Destination::new("https", authority).unwrap()
    }

    #[test]
    fn what_cannot_be_injected_says_why() {
        use InjectionError::*;
        for (host, header, secret, expected) in [
            ("*", "Authorization", "hunter2hunter2", AnyHost),
            ("api.test", "Host", "hunter2hunter2", Header),
            ("api.test", "content-length", "12345678", Header),
            ("api.test", "Transfer-Encoding", "hunter2hunter2", Header),
            ("api.test", "no name", "hunter2hunter2", Header),
            ("api.test", "Authorization", "hunter2\nX-Evil: 1", Value),
            ("api.test", "Authorization", "hunter2", Short),
            ("api.test", "Authorization", &"x".repeat(9000), Long),
        ] {
            assert_eq!(injection(host, header, secret).unwrap_err(), expected, "{host} {header}");
        }
    }

    /// CL04: an injection does not print its secret.
    #[test]
    fn an_injection_does_not_show_its_secret() {
        let injection = injection("api.test", "X-Key", "hunter2hunter2").unwrap();
        let shown = format!("{injection:?} {:?}", injection.value);
        assert!(!shown.contains("hunter2") && shown.contains("x-key"), "{shown}");
    }

    #[test]
    fn only_the_destination_gets_the_header() {
        let injections = Injections::from_iter([injection("api.test", "X-Key", "hunter2hunter2").unwrap()]);
        let mut headers = HeaderMap::new();
        for name in ["x-key", "accept-encoding", "range"] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("guest"));
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("guest"));
        }
        let untouched = headers.clone();
        for other in ["api.test:444", "other.test", "a.api.test"] {
            assert!(!injections.add(&to(other), &mut headers));
        }
        assert!(!injections.add(&Destination::new("http", "api.test:443").unwrap(), &mut headers));
        assert_eq!(headers, untouched);
        assert!(injections.add(&to("api.test"), &mut headers));
        let all: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(all, [("x-key", &b"Bearer hunter2hunter2"[..]), ("accept-encoding", b"identity")]);
    }

    #[test]
    fn answers_have_no_secret_in_their_headers() {
        let injections = Injections::from_iter([injection("api.test", "X-Key", "hunter2hunter2").unwrap()]);
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("<Bearer hunter2hunter2>"));
        headers.insert("x-hunter2hunter2", HeaderValue::from_static("1"));
        headers.insert("x-other", HeaderValue::from_static("hunter2"));
        injections.hide_in(&mut headers);
        let all: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(all, [("x-echo", &b"<Bearer **************>"[..]), ("x-other", b"hunter2")]);
    }
}
