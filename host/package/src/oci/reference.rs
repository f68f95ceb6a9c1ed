//! References to artifacts: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`. Has no default registry: the host
//! is always written.
//!
//! The parser of `oci-spec` 0.8 is not used: it completes `owner/words` to `docker.io` and a missing tag to
//! `:latest`, rejects `[::1]:5000`, accepts port 99999 and upper-case digests, and reports every other error as
//! `invalid reference format`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::{Digest, PackageSource};
use haft_core::net::is_loopback;

/// The prefix of a reference.
const SCHEME: &str = "oci://";

/// The tag of a reference without tag and digest, as in every client.
pub(super) const DEFAULT_TAG: &str = "latest";

/// Limit on the characters of a repository's name, from the distribution specification.
const MAX_REPOSITORY: usize = 255;
/// Limit on the characters of a tag, from the distribution specification.
const MAX_TAG: usize = 128;
/// Limit on the characters of a host name, from DNS.
const MAX_HOST: usize = 253;

/// A reference to an artifact in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// The error of a text that is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a reference to a registry: {why}")]
pub struct NotAReference {
    pub(super) text: String,
    pub(super) why: String,
}

impl NotAReference {
    /// Returns a hint for the user.
    pub fn hint(&self) -> String {
        format!("write `{SCHEME}ghcr.io/owner/name:1.0`, or `…@sha256:DIGEST` for fixed content")
    }
}

impl Reference {
    /// Returns the registry: a host, with its port if written.
    pub(crate) fn registry(&self) -> &str {
        &self.registry
    }

    pub(crate) fn repository(&self) -> &str {
        &self.repository
    }

    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest, if written.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    #[must_use]
    pub(crate) fn with_tag(&self, tag: &str) -> Self {
        Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() }
    }

    /// Adds the digest that the reference resolved to.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Returns the manifest with this digest in this repository, without a tag.
    #[must_use]
    pub fn at_digest(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    pub(crate) fn source(&self) -> PackageSource {
        PackageSource::Oci(self.to_string().trim_start_matches(SCHEME).to_owned())
    }

    pub(super) fn target(&self) -> String {
        match &self.digest {
            Some(digest) => digest.to_string(),
            None => self.tag.as_deref().unwrap_or(DEFAULT_TAG).to_owned(),
        }
    }

    /// Reports whether the registry is on this machine; only such a registry is reached without TLS.
    pub fn is_loopback(&self) -> bool {
        is_loopback(host_of(&self.registry))
    }

    pub(super) fn endpoint(&self) -> &str {
        // Docker Hub is the only registry whose name is not its host.
        if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| format!("expected it to begin with `{SCHEME}`"))?;
        let (registry, rest) = rest.split_once('/').ok_or("expected `HOST/REPOSITORY`")?;
        check_registry(registry)?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (
                rest,
                Some(self::digest(digest).map_err(|why| format!("`{digest}` is not a digest: {why}"))?),
            ),
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        check_repository(repository)?;
        tag.map(check_tag).transpose()?;
        let registry = registry.to_ascii_lowercase();
        // Docker Hub stores repositories without an owner under `library/`.
        let short = registry == "docker.io" && !repository.contains('/');
        let repository = if short { format!("library/{repository}") } else { repository.to_owned() };
        Ok(Self { registry, repository, tag: tag.map(str::to_owned), digest })
    }
}

impl FromStr for Reference {
    type Err = NotAReference;

    fn from_str(text: &str) -> Result<Self, NotAReference> {
        Self::parse(text).map_err(|why| NotAReference { text: text.to_owned(), why })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Parses a digest in a registry's notation: with its algorithm, in lower case.
pub(super) fn digest(text: &str) -> Result<Digest, &'static str> {
    const EXPECTED: &str = "expected `sha256:` and 64 lower-case hexadecimal digits";
    let parsed: Digest = text.parse().map_err(|_| EXPECTED)?;
    if parsed.to_string() == text { Ok(parsed) } else { Err(EXPECTED) }
}

/// Returns the host without its port and without the brackets of an IPv6 address.
pub(super) fn host_of(registry: &str) -> &str {
    match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    }
}

fn check_registry(registry: &str) -> Result<(), String> {
    let host = host_of(registry);
    let expected = || format!("`{registry}` is not a registry's host");
    let port = match registry.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or_else(expected)?;
            address.parse::<Ipv6Addr>().map_err(|_| expected())?;
            port.strip_prefix(':').or_else(|| (!port.is_empty()).then_some(port))
        }
        None => registry.split_once(':').map(|(_, port)| port),
    };
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err(format!("`{registry}` has an invalid port"));
    }
    if registry.starts_with('[') {
        return Ok(());
    }
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().next_back()];
        ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if host.len() > MAX_HOST || !host.split('.').all(is_label) {
        return Err(expected());
    }
    if !host.contains('.') && host != "localhost" && port.is_none() {
        return Err(format!("`{host}` is not a registry's host: it has neither a dot nor a port"));
    }
    Ok(())
}

/// Checks a repository's name: parts joined by `/`, each of letters and digits with single `.`, `_`, `__` or
/// any number of `-` between them.
fn check_repository(repository: &str) -> Result<(), String> {
    if repository.len() > MAX_REPOSITORY {
        return Err(format!("a repository's name has at most {MAX_REPOSITORY} characters"));
    }
    match repository.split('/').find(|part| !is_part(part)) {
        None => Ok(()),
        Some("") => Err("the repository's name has an empty part".to_owned()),
        Some(part) => Err(format!(
            "`{part}` cannot be part of a repository's name: expected lower-case letters, digits and single \
             `.`, `_` or `-` between them"
        )),
    }
}

fn is_part(part: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = part.split(|c: char| is_letter(u8::try_from(c).unwrap_or(0)));
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    let ends = [part.bytes().next(), part.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(is_letter)) && separators.into_iter().all(is_separator)
}

fn check_tag(tag: &str) -> Result<(), String> {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(is_first)
        && tag.bytes().all(|byte| is_first(byte) || matches!(byte, b'.' | b'-'));
    if fits {
        Ok(())
    } else {
        Err(format!("`{tag}` is not a tag: expected letters, digits, `_`, `.` and `-`"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_is_written_as_it_is_read() {
        let pinned = format!("oci://ghcr.io/owner/words:1.0@{DIGEST}");
        for text in [
            "oci://ghcr.io/owner/words:1.0",
            "oci://localhost/words",
            "oci://127.0.0.1:5000/a/b/c:v1.0-rc.1_x",
            "oci://[::1]:5000/words",
            "oci://registry:5000/a.b/c__d/e---f",
            &pinned,
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        let reference: Reference = pinned.parse().unwrap();
        assert_eq!((reference.registry(), reference.repository()), ("ghcr.io", "owner/words"));
        assert_eq!((reference.tag(), reference.target()), (Some("1.0"), DIGEST.to_owned()));
        assert_eq!("oci://a.test/b".parse::<Reference>().unwrap().target(), "latest");
    }

    /// PR08: no reference can name another path, host or request.
    #[test]
    fn hostile_references_are_refused() {
        let long = format!("oci://a.test/{}", "a".repeat(256));
        let tag = format!("oci://a.test/b:{}", "a".repeat(129));
        for text in [
            "ghcr.io/owner/words",
            "oci://",
            "oci://ghcr.io",
            "oci://ghcr.io/",
            "oci://owner/words",
            "oci://a.test//b",
            "oci://a.test/../b",
            "oci://a.test/b/..",
            "oci://a.test/b%2f",
            "oci://a.test/b?c=d",
            "oci://a.test/b#c",
            "oci://a.test/B",
            "oci://a.test/b c",
            "oci://a.test/b\r\nhost: c",
            "oci://user:password@a.test/b",
            "oci://user@a.test/b",
            "oci://a.test:0/b",
            "oci://a.test:99999/b",
            "oci://a.test:/b",
            "oci://a.test/b:",
            "oci://a.test/b:.c",
            "oci://a.test/b:c/d",
            "oci://a.test/b@sha256:00",
            "oci://a.test/b@sha512:00",
            "oci://-a.test/b",
            "oci://a..test/b",
            "oci://[::1/b",
            "oci://[zz]/b",
            "oci://[::1]x/b",
            &long,
            &tag,
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(error.to_string().contains("is not a reference to a registry: "), "{error}");
        }
    }

    #[test]
    fn docker_hub_keeps_what_has_no_owner_under_library() {
        let reference: Reference = "oci://docker.io/alpine".parse().unwrap();
        assert_eq!(
            (reference.repository(), reference.endpoint()),
            ("library/alpine", "registry-1.docker.io")
        );
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, expected) in [
            ("oci://localhost:5000/a", true),
            ("oci://127.9.0.1/a", true),
            ("oci://[::1]/a", true),
            ("oci://localhost.test/a", false),
            ("oci://10.0.0.1/a", false),
            ("oci://127.0.0.1.test/a", false),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().is_loopback(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(oci://)?[a-zA-Z0-9:/@.\\[\\]_-]{0,40}|\\PC{0,20}") {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
            }
        }
    }
}
