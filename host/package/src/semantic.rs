//! Parses versions of third-party packages as semantic versions.

use semver::{BuildMetadata, Prerelease, Version};

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
