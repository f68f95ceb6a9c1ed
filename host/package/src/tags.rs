//! Versions of third-party packages and of tags, as semantic versions.

use semver::{BuildMetadata, Prerelease, Version};

/// A tag that names a version: `v1.2.0`, `1.2`, `words/1.0.0-rc.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionTag<'a> {
    /// The text before the version.
    prefix: &'a str,
    version: Version,
}

impl<'a> VersionTag<'a> {
    /// Parses a tag; `None` if it contains no version.
    pub(super) fn parse(tag: &'a str) -> Option<Self> {
        let is_start = |(at, c): &(usize, char)| {
            let before = tag.get(..*at).unwrap_or_default();
            // A number within a word is not a version: `sha2`, `x86`.
            let is_free = before.is_empty()
                || before == "v"
                || before.ends_with(['/', '-', '_'])
                || before.ends_with("-v")
                || before.ends_with("/v");
            c.is_ascii_digit() && is_free
        };
        tag.char_indices().filter(is_start).find_map(|(at, _)| {
            let (prefix, text) = tag.split_at_checked(at)?;
            Some(Self { prefix, version: version(text)? })
        })
    }
}

/// Parses a version of one to three numbers.
fn version(text: &str) -> Option<Version> {
    let (rest, build) = text.split_once('+').unwrap_or((text, ""));
    let (numbers, pre) = rest.split_once('-').unwrap_or((rest, ""));
    let numbers: Vec<u64> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [major, minor, patch] = match numbers.as_slice() {
        [major] => [*major, 0, 0],
        [major, minor] => [*major, *minor, 0],
        [major, minor, patch] => [*major, *minor, *patch],
        _ => return None,
    };
    let (pre, build) = (Prerelease::new(pre).ok()?, BuildMetadata::new(build).ok()?);
    Some(Version { major, minor, patch, pre, build })
}

/// Converts a version of PyPI or of an author to a semantic one: at most three numbers count; further numbers and
/// the text after a release are build metadata.
pub(super) fn semantic(text: &str) -> Version {
    if let Ok(version) = Version::parse(text) {
        return version;
    }
    let text = text.rsplit_once('!').map_or(text, |(_, text)| text).trim_start_matches('v');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (release, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let numbers: Vec<&str> = release.split('.').filter(|number| !number.is_empty()).collect();
    let number = |at: usize| numbers.get(at).and_then(|number| number.parse().ok()).unwrap_or_default();
    let plain = |text: &str| {
        let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        text.chars().map(fits).collect::<String>().trim_matches('-').to_owned()
    };
    let is_before = rest.starts_with(['a', 'b', 'r', 'c', '-']);
    let further = numbers.get(3..).unwrap_or_default().join(".");
    let (pre, build) = if rest.starts_with("dev") {
        // Before all others: a number precedes a word.
        (format!("0.{}", plain(rest)), further)
    } else if is_before {
        (plain(rest), further)
    } else {
        (String::new(), format!("{further}-{}", plain(rest)))
    };
    Version {
        major: number(0),
        minor: number(1),
        patch: number(2),
        pre: Prerelease::new(&pre).unwrap_or_default(),
        build: BuildMetadata::new(build.trim_matches('-')).unwrap_or_default(),
    }
}

/// Returns the latest of `tags` that is later than the version of `current`, the used tag, or than `installed`
/// if that tag is not a version. Prereleases count only if the used version is a prerelease.
pub(super) fn later<'t>(
    current: Option<&str>,
    installed: Option<&Version>,
    tags: impl IntoIterator<Item = &'t str>,
) -> Option<(Version, &'t str)> {
    let used = current.and_then(VersionTag::parse);
    let least = used.as_ref().map(|tag| &tag.version).or(installed)?;
    let is_alike = |prefix: &str| match &used {
        Some(used) => used.prefix == prefix,
        None => matches!(prefix, "" | "v"),
    };
    let named = tags.into_iter().filter_map(|tag| Some((VersionTag::parse(tag)?, tag)));
    let fits = named.filter(|(tag, _)| {
        is_alike(tag.prefix)
            && tag.version.cmp_precedence(least).is_gt()
            && (tag.version.pre.is_empty() || !least.pre.is_empty())
    });
    let latest = fits.max_by(|(one, _), (other, _)| one.version.cmp_precedence(&other.version));
    latest.map(|(found, tag)| (found.version, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(current: Option<&str>, installed: Option<&str>, tags: &[&'static str]) -> Option<&'static str> {
        let installed = installed.map(|version| version.parse().unwrap());
        later(current, installed.as_ref(), tags.iter().copied()).map(|(_, tag)| tag)
    }

    /// U7: the latest version follows semver, with a prerelease only for a prerelease.
    #[test]
    fn the_latest_version_is_that_of_semver() {
        let tags = ["0.9.0", "1.10.0", "1.9.0", "latest", "2.0.0-rc.1", "v3.0.0", "sha256-ab.sig", "x86"];
        assert_eq!(found(Some("1.0.0"), None, &tags), Some("1.10.0"));
        assert_eq!(found(Some("1.10.0"), None, &tags), None);
        assert_eq!(found(Some("1.10"), None, &tags), None);
        assert_eq!(found(Some("v1.0"), None, &tags), Some("v3.0.0"));
        assert_eq!(found(Some("2.0.0-beta.2"), None, &tags), Some("2.0.0-rc.1"));
        assert_eq!(
            found(None, Some("1.9.0"), &tags),
            Some("v3.0.0"),
            "of a commit the package's own version"
        );
        assert_eq!(found(Some("main"), None, &tags), None);
        assert_eq!(found(None, None, &tags), None);
    }

    /// U7: versions of other packages in one repository are not newer versions.
    #[test]
    fn versions_of_others_in_one_repository_are_no_newer_ones() {
        let tags = ["words-v1.1.0", "text-v2.0.0", "words-v1.0.0", "words/v9.0.0"];
        assert_eq!(found(Some("words-v1.0.0"), None, &tags), Some("words-v1.1.0"));
        assert_eq!(found(Some("words/v1.0.0"), None, &tags), Some("words/v9.0.0"));
    }
}
