//! Rules about addresses and paths. A rule records the user's approval and does not confine a tool: a redirect
//! leads to another address and a link to another file, and the grant decides which of them the tool reaches.

use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::encoding::percent_decoded;
use crate::grant::normalise;
use crate::pattern::Glob;
use crate::rule::RulePattern;

/// Returns whether an allowing rule matches this address: both its written and its parsed form.
pub(super) fn is_address_allowed(about: &str, address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && !address.contains('\\') && is_address_meant(about, url.as_str(), |about| about == "/")
}

/// Returns whether a refusing or asking rule matches this address: its written or its parsed form, with `%61`
/// decoded and not. A pattern that ends with a star matches everything below.
pub(super) fn is_address_touched(about: &str, address: &str) -> bool {
    let of_host = |path: &str| path == "/" || about.ends_with('*');
    let is_meant = |url: &str| {
        is_address_meant(about, url, of_host)
            || is_address_meant(&percent_decoded(about), &percent_decoded(url), of_host)
    };
    let url = Url::parse(address.trim()).ok();
    // Servers may decode `%2f..%2f`.
    let plain = url.as_ref().and_then(|url| Url::parse(&percent_decoded(url.as_str())).ok());
    let is_anywhere = parted(about).is_none() && {
        let about = Glob::new(&about.to_lowercase());
        url.iter().any(|url| about.matches(&url.as_str().to_lowercase()))
    };
    let mut urls = url.iter().chain(&plain).map(Url::as_str);
    Glob::new(about).matches(address) || is_anywhere || urls.any(is_meant)
}

/// Returns whether a pattern matches a URL. A star before the path matches a part of a host's name, and nothing
/// else. `of_host` returns whether a pattern without a path matches the paths.
fn is_address_meant(about: &str, url: &str, of_host: impl Fn(&str) -> bool) -> bool {
    match (parted(about), parted(url)) {
        (Some((about, about_path)), Some((own, path))) => {
            let is_path =
                if about_path.is_empty() { of_host(path) } else { Glob::new(about_path).matches(path) };
            // Case does not matter in either, and `own` is in lower case already.
            Glob::new(&about.to_lowercase()).matches(own) && is_path
        }
        _ => Glob::new(about).matches(url),
    }
}

/// Returns scheme and host, and the rest; `None` without a scheme.
fn parted(text: &str) -> Option<(&str, &str)> {
    let host = text.find("://")? + 3;
    let end = text.get(host..)?.find(['/', '?', '#']).map_or(text.len(), |end| host + end);
    text.split_at_checked(end)
}

/// The bases of relative paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places<'a> {
    /// The base of relative paths in the rule; `None` for that of the call.
    pub(crate) base: Option<&'a Path>,
    /// The base of relative paths in the call.
    pub(crate) workspace: Option<&'a Path>,
    /// The base of paths that begin with `~`.
    pub(crate) home: Option<&'a Path>,
}

/// Returns whether a pattern matches a path. A pattern that begins with a star matches files anywhere. `None` if a
/// base is unknown.
pub(super) fn is_path_meant(about: &str, path: &str, places: Places<'_>) -> Option<bool> {
    let path = resolved(path, places.workspace, places.home)?;
    if about.starts_with('*') {
        return Some(Glob::new(about).matches(&path));
    }
    let base = places.base.or(places.workspace).and_then(literal);
    let home = places.home.and_then(literal);
    let about = resolved(about, base.as_deref(), home.as_deref())?;
    (path.starts_with('/') == about.starts_with('/')).then(|| Glob::new(&about).matches(&path))
}

/// Returns a folder as the beginning of a pattern.
fn literal(folder: &Path) -> Option<PathBuf> {
    folder.to_str().map(|folder| RulePattern::escaped(folder).into())
}

/// Returns the path without `~`, `.` and `..`; `None` if its base is unknown.
fn resolved(path: &str, workspace: Option<&Path>, home: Option<&Path>) -> Option<String> {
    let path = match (path.strip_prefix('~'), workspace) {
        (Some(below), _) if below.is_empty() || below.starts_with('/') => {
            home?.join(below.trim_start_matches('/'))
        }
        // The home directory of another user.
        (Some(_), _) => return None,
        (None, Some(workspace)) => workspace.join(path),
        (None, None) => PathBuf::from(path),
    };
    let is_below = |part| part != Component::ParentDir;
    if !path.is_absolute() && !path.components().all(is_below) {
        return None;
    }
    normalise(&path).into_os_string().into_string().ok()
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
            ("HTTPS://Docs.rs/*", "https://docs.rs/url", true),
            ("https://docs.rs/URL", "https://docs.rs/url", false),
            ("https://docs.rs/url", "https://docs.rs/%75rl", false),
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
            ("*", "not a valid URL", false),
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
    fn neither_case_nor_percent_signs_hide_an_address() {
        for (about, address, is_meant) in [
            ("https://Evil.test/*", "https://evil.test/x", true),
            ("HTTPS://EVIL.TEST", "https://evil.test/", true),
            ("*Evil.test*", "https://evil.test/", true),
            ("https://a.test/admin/*", "https://a.test/%61dmin/", true),
            ("https://a.test/%61dmin/*", "https://a.test/admin/", true),
            ("https://a.test/admin/*", "https://a.test/x%2F..%2fadmin/", true),
            ("https://a.test/admin/*", "https://a.test/%6", false),
            ("https://a.test/admin/*", "https://a.test/Admin/", false),
            ("https://a.test/x%0a", "https://a.test/x%+a", false),
            ("https://a.test/100%", "https://a.test/100%", true),
        ] {
            assert_eq!(is_address_touched(about, address), is_meant, "{about} {address}");
        }
    }

    #[test]
    fn a_path_is_judged_without_its_dots() {
        let places = Places { workspace: Some(Path::new("/w")), home: Some(Path::new("/h")), base: None };
        for (about, path, is_meant) in [
            ("src/*", "src/a.rs", true),
            ("src/*", "/w/src/a.rs", true),
            ("src/*", "./x/../src//a/b.rs", true),
            ("/w/src/*", "src/a.rs", true),
            ("*.md", "/etc/x.md", true),
            ("~/x/*", "~/x/y", true),
            ("~/x/*", "/h/x/y", true),
            ("/h/x/*", "~/x/y", true),
            ("/h/x/*", "~//x/../x/y", true),
            ("~", "/h", true),
            ("*.md", "~/x.md", true),
            ("~/x/*", "/w/~/x/y", false),
            ("src/*", "src/../.git/config", false),
            ("src/*", "../src/a", false),
            ("src/*", "/src/a", false),
            ("src", "src/a", false),
        ] {
            assert_eq!(is_path_meant(about, path, places), Some(is_meant), "{about} {path}");
        }
    }

    #[test]
    fn a_path_from_nowhere_is_refused_and_not_allowed() {
        let places = Places { workspace: Some(Path::new("/w")), ..Places::default() };
        for (about, path, places) in [
            ("*", "../x", Places::default()),
            ("y", "../x", Places::default()),
            ("/a/*", "a/b", Places::default()),
            ("x/*", "~/x/y", places),
            ("*", "~", places),
            ("~/x/*", "/h/x/y", places),
            ("x/*", "~me/y", Places { home: Some(Path::new("/h")), ..places }),
        ] {
            assert_eq!(is_path_meant(about, path, places), None, "{about} {path}");
        }
        assert_eq!(is_path_meant("a/*", "a/b", Places::default()), Some(true));
    }

    /// A star in the name of a rule's base folder is a literal character.
    #[test]
    fn a_rule_starts_at_its_own_base() {
        let (base, workspace) = (Some(Path::new("/a*")), Some(Path::new("/w")));
        let places = Places { base, workspace, home: None };
        for (about, path, is_meant) in [
            ("src/*", "src/x", false),
            ("src/*", "/a*/src/x", true),
            ("src/*", "/ab/src/x", false),
            ("src/*", "../a*/src/x", true),
            ("/w/src/*", "src/x", true),
        ] {
            assert_eq!(is_path_meant(about, path, places), Some(is_meant), "{about} {path}");
        }
    }
}
