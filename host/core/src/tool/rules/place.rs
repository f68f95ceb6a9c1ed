//! Rules about addresses and paths. A rule is what a person agrees to, not what holds a tool: a redirection leads to
//! another address and a link to another file, and it is the grant that says which of them may be reached.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use url::Url;

use super::glob::Glob;

/// Whether a rule that allows means this address: as it is written, and as it is understood.
pub(super) fn is_address_allowed(about: &str, address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && !address.contains('\\') && is_address_meant(about, url.as_str(), |about| about == "/")
}

/// Whether a rule that refuses or asks means this address: as it is written, or as it is understood. One that ends with a
/// star means all that is below.
pub(super) fn is_address_touched(about: &str, address: &str) -> bool {
    let url = Url::parse(address.trim());
    let is_meant =
        |url: Url| is_address_meant(about, url.as_str(), |path| path == "/" || about.ends_with('*'));
    Glob::new(about).matches(address) || url.is_ok_and(is_meant)
}

/// A star before the path stands for a part of a host's name, and for nothing else. `of_host` says which paths a pattern
/// without any means.
fn is_address_meant(about: &str, url: &str, of_host: impl Fn(&str) -> bool) -> bool {
    match (parted(about), parted(url)) {
        (Some((about, about_path)), Some((own, path))) => {
            let is_path =
                if about_path.is_empty() { of_host(path) } else { Glob::new(about_path).matches(path) };
            Glob::new(about).matches(own) && is_path
        }
        _ => Glob::new(about).matches(url),
    }
}

/// Scheme and host, and the rest; `None` where there is no scheme.
fn parted(text: &str) -> Option<(&str, &str)> {
    let host = text.find("://")? + 3;
    let end = text.get(host..)?.find(['/', '?', '#']).map_or(text.len(), |end| host + end);
    text.split_at_checked(end)
}

/// Whether a rule that allows means this path. A relative path starts at `workspace`.
pub(super) fn is_path_allowed(about: &str, path: &str, workspace: Option<&Path>) -> bool {
    resolved(path, workspace).is_some_and(|path| path_glob(about, workspace).matches(&path))
}

/// Whether a rule that refuses or asks means this path. One that cannot be told is meant.
pub(super) fn is_path_touched(about: &str, path: &str, workspace: Option<&Path>) -> bool {
    resolved(path, workspace).is_none_or(|path| path_glob(about, workspace).matches(&path))
}

/// A pattern that begins with a star means files anywhere; a relative one starts at the workspace.
fn path_glob(about: &str, workspace: Option<&Path>) -> Glob {
    let is_anywhere = about.starts_with('*');
    let about = if is_anywhere { Some(Cow::from(about)) } else { resolved(about, workspace).map(Cow::from) };
    Glob::new(&about.unwrap_or_default())
}

/// The path without `.` and `..`. `None` where it is relative to what is not known.
fn resolved(path: &str, workspace: Option<&Path>) -> Option<String> {
    let path = match (Path::new(path), workspace) {
        (path, _) if path.is_absolute() || path.starts_with("~") => path.to_owned(),
        (path, Some(workspace)) => workspace.join(path),
        (path, None) if path.components().all(|part| part != Component::ParentDir) => path.to_owned(),
        _ => return None,
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_judged_as_it_is_understood() {
        for (about, address, is_allowed) in [
            ("https://docs.rs/*", "https://docs.rs/url", true),
            ("https://docs.rs/*", "HTTPS://DOCS.RS/url", true),
            ("https://docs.rs/*", "https://docs.rs", true),
            ("https://docs.rs", "https://docs.rs/", true),
            ("https://*.rs/*", "https://docs.rs/url", true),
            ("https://docs.rs/a/*", "https://docs.rs/a/../b", false),
            ("https://docs.rs/*", "https://docs.rs@evil.test/", false),
            ("https://docs.rs*", "https://docs.rs@evil.test/", false),
            ("https://docs.rs*", "https://docs.rs:x@evil.test/", false),
            ("https://docs.rs/*", "https://docs.rs\\@evil.test/", false),
            ("https://docs.rs/*", "https://docs.rs.evil.test/", false),
            ("https://*.rs/*", "https://evil.test/x.rs/", false),
            ("https://*.rs/*", "https://evil.test?x.rs/", false),
            ("https://*.rs*", "https://evil.test#x.rs", false),
            ("https://docs.rs/*", "http://docs.rs/", false),
            ("*", "not an address", false),
        ] {
            assert_eq!(is_address_allowed(about, address), is_allowed, "{about} {address}");
        }
    }

    #[test]
    fn an_address_is_refused_however_it_is_written() {
        for address in [
            "https://evil.test/",
            "https://EVIL.test",
            " https://evil.test/x",
            "https://evil%2Etest/",
            "https:evil.test",
        ] {
            assert!(is_address_touched("https://evil.test*", address), "{address}");
        }
        assert!(!is_address_touched("https://evil.test/*", "https://good.test/evil.test/"));
    }

    #[test]
    fn a_path_is_judged_without_its_dots() {
        let workspace = Some(Path::new("/w"));
        for (about, path, is_meant) in [
            ("src/*", "src/a.rs", true),
            ("src/*", "/w/src/a.rs", true),
            ("src/*", "./x/../src//a/b.rs", true),
            ("/w/src/*", "src/a.rs", true),
            ("*.md", "/etc/x.md", true),
            ("~/x/*", "~/x/y", true),
            ("src/*", "src/../.git/config", false),
            ("src/*", "../src/a", false),
            ("src/*", "/src/a", false),
            ("src", "src/a", false),
        ] {
            assert_eq!(is_path_allowed(about, path, workspace), is_meant, "{about} {path}");
            assert_eq!(is_path_touched(about, path, workspace), is_meant, "{about} {path}");
        }
    }

    #[test]
    fn a_path_from_nowhere_is_refused_and_not_allowed() {
        assert!(!is_path_allowed("*", "../x", None) && is_path_touched("y", "../x", None));
        assert!(is_path_allowed("a/*", "a/b", None));
    }
}
