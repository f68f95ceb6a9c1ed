//! Patterns of HTTP requests: `METHOD URL`. A path that servers may read in more than one way matches no pattern.

use std::fmt;
use std::str::FromStr;

use super::{Destination, HostPattern};
use crate::encoding::strictly_decoded;
use crate::pattern::are_in_order;

/// A pattern of requests: `GET https://api.github.com/repos/me/**`.
///
/// `*` is every method; in the path it is any part of one segment, and `**` is any number of segments. The query does not
/// count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPattern {
    /// `None` for every method.
    method: Option<String>,
    host: HostPattern,
    path: String,
}

/// Why a text is not a [`RequestPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a method and a URL without a query, such as `GET https://api.github.com/repos/me/**` or `* https://api.github.com/**`"
)]
pub struct RequestPatternError;

impl RequestPattern {
    /// Returns whether the pattern matches a request. `path` is as in the request, without the query.
    pub fn matches(&self, method: &str, destination: &Destination, path: &str) -> bool {
        let is_method = self.method.as_deref().is_none_or(|own| own == method);
        let is_path = |path: &String| matches_path(&self.path, path);
        is_method
            && self.host.matches(destination)
            && readings(path).is_some_and(|readings| readings.iter().all(is_path))
    }

    /// Returns the pattern of the destinations.
    pub fn host(&self) -> &HostPattern {
        &self.host
    }
}

impl FromStr for RequestPattern {
    type Err = RequestPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (method, url) = text.split_once(' ').ok_or(RequestPatternError)?;
        let is_method = method == "*" || method.bytes().all(|byte| byte.is_ascii_uppercase());
        let path =
            url.find("://").and_then(|scheme| url.get(scheme + 3..)?.find('/').map(|at| scheme + 3 + at));
        let (host, path) =
            url.split_at_checked(path.ok_or(RequestPatternError)?).ok_or(RequestPatternError)?;
        if method.is_empty() || !is_method || path.contains(['?', '#', '%', '\\', ' ']) {
            return Err(RequestPatternError);
        }
        let host: HostPattern = host.parse().map_err(|_| RequestPatternError)?;
        let method = Some(method.to_owned()).filter(|method| method != "*");
        Ok(Self { method, host, path: path.to_owned() })
    }
}

impl fmt::Display for RequestPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, host, path } = self;
        let host = host.to_string();
        let scheme = if host.contains("://") { "" } else { "https://" };
        write!(f, "{} {scheme}{host}{path}", method.as_deref().unwrap_or("*"))
    }
}

/// Returns what servers may take a path for: with encoded slashes as slashes, and as parts of a segment. `None` if there
/// are more ways to read it, such as `..`, which some servers resolve.
fn readings(path: &str) -> Option<[String; 2]> {
    let split = strictly_decoded(path)?;
    let whole: Vec<String> = path.split('/').map(strictly_decoded).collect::<Option<_>>()?;
    let whole = whole.iter().map(|segment| segment.replace('/', "%2F")).collect::<Vec<_>>().join("/");
    let segment = |segment: &str| {
        let name = segment.split(';').next().unwrap_or_default();
        // Some servers ignore spaces at the end of a name.
        let is_relative = name.contains('.') && name.chars().all(|char| matches!(char, '.' | ' '));
        !is_relative && !segment.contains(['\\', '%']) && !segment.contains(char::is_control)
    };
    let is_clear = split.starts_with('/') && split.split('/').all(segment) && !split.contains("//");
    is_clear.then_some([split, whole])
}

/// Compares a path with a pattern in which some segments stand for any number of segments.
fn matches_path(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let is_any = |part: &&str| *part == "**";
    let (mut at, mut read, mut retry) = (0, 0, None);
    while let Some(segment) = path.get(read) {
        match pattern.get(at) {
            Some(part) if is_any(part) => {
                at += 1;
                retry = Some((at, read));
            }
            Some(part) if are_in_order(part.split('*'), segment) => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((after, from)) = retry else { return false };
                (at, read, retry) = (after, from + 1, Some((after, from + 1)));
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(is_any))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(pattern: &str, method: &str, path: &str) -> bool {
        let destination = Destination::new("https", "a.test").unwrap();
        pattern.parse::<RequestPattern>().unwrap().matches(method, &destination, path)
    }

    #[test]
    fn a_pattern_names_methods_hosts_and_paths() {
        let rule = "GET https://a.test/repos/me/**";
        for path in ["/repos/me", "/repos/me/x", "/repos/me/x/issues", "/repos/m%65/x"] {
            assert!(is_allowed(rule, "GET", path), "{path}");
        }
        assert!(!is_allowed(rule, "POST", "/repos/me/x") && is_allowed("* https://a.test/**", "POST", "/x"));
        assert!(!is_allowed("GET https://b.test/**", "GET", "/x"));
        assert!(!is_allowed("GET http://a.test/**", "GET", "/x"));
        assert!(is_allowed("GET https://a.test/v*/x", "GET", "/v1/x"));
        assert!(!is_allowed("GET https://a.test/v*/x", "GET", "/v1/y/x"));
        assert!(is_allowed("GET https://a.test/**/x", "GET", "/y/z/x"));
        assert_eq!(rule.parse::<RequestPattern>().unwrap().to_string(), rule);
    }

    /// A path that servers may read in two ways matches no rule.
    #[test]
    fn a_path_with_two_meanings_matches_nothing() {
        for path in [
            "/repos/me/../you",
            "/repos/me/%2e%2e/you",
            "/repos/me/..;x/you",
            "/repos/me/..%2fyou",
            "/repos/me/..%5cyou",
            "/repos/me/%252e%252e/you",
            "/repos/me//you",
            "/repos%2fme/x",
            "/repos/me/%ff",
            "/repos/me/%2",
            "/repos/me/%00",
            "*",
            "/repos/you",
            "/repos/men",
        ] {
            assert!(!is_allowed("GET https://a.test/repos/me/**", "GET", path), "{path}");
        }
    }

    #[test]
    fn what_is_no_pattern_of_requests_is_refused() {
        for text in [
            "https://a.test/",
            "get https://a.test/",
            "GET a.test",
            "GET https://a.test",
            "GET https://a.test/?x",
            "",
        ] {
            assert!(text.parse::<RequestPattern>().is_err(), "{text}");
        }
    }
}
