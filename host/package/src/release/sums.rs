//! Reads `SHA256SUMS`. Whether it is to be believed is judged before.

use semver::Version;

use crate::Digest;

/// A tarball that a release has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tarball {
    pub(super) version: Version,
    pub(super) name: String,
    pub(super) digest: Digest,
}

/// The tarballs for this target, compressed by gzip. Other lines are of other files.
pub(super) fn tarballs<'a>(text: &'a str, target: &'a str) -> impl Iterator<Item = Tarball> + 'a {
    text.lines().filter_map(move |line| {
        let (digest, name) = line.split_once("  ")?;
        let rest = name.strip_prefix("haft-")?.strip_suffix(".tar.gz")?;
        let version = rest.strip_suffix(target)?.strip_suffix('-')?;
        Some(Tarball { version: version.parse().ok()?, digest: digest.parse().ok()?, name: name.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tarballs_of_one_target_are_found() {
        let digest = "0123456789abcdef".repeat(4);
        let line = |name: &str| format!("{digest}  {name}\n");
        let text = [
            line("haft-1.2.3-x86_64-unknown-linux-musl.tar.xz"),
            line("haft-1.2.3-x86_64-unknown-linux-musl.tar.gz"),
            line("haft-2.0.0-rc.1-x86_64-unknown-linux-musl.tar.gz"),
            line("haft-3.0.0-aarch64-unknown-linux-musl.tar.gz"),
            line("haft-../../x86_64-unknown-linux-musl.tar.gz"),
            line("haft-/4.0.0-x86_64-unknown-linux-musl.tar.gz"),
            "short  haft-5.0.0-x86_64-unknown-linux-musl.tar.gz\n".to_owned(),
            line("haft--x86_64-unknown-linux-musl.tar.gz"),
        ]
        .concat();
        let found: Vec<_> = tarballs(&text, "x86_64-unknown-linux-musl").collect();
        let versions: Vec<_> = found.iter().map(|tarball| tarball.version.to_string()).collect();
        assert_eq!(versions, ["1.2.3", "2.0.0-rc.1"]);
        assert_eq!(found[0].digest.hex(), digest);
    }
}
