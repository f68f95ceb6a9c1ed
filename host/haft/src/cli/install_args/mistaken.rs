//! What people give as a source and is none: what it is, and the source that they may mean. Looks at the text alone.

use std::path::Path;

/// Hosts of git repositories, whose pages people copy.
const FORGES: &[&str] = &["github.com", "gitlab.com", "codeberg.org", "bitbucket.org"];

/// Launchers, and what the package that they start is called as a source. Their options are passed over.
const LAUNCHERS: &[(&str, &str)] = &[
    ("npx", "npm:"),
    ("bunx", "npm:"),
    ("npm exec", "npm:"),
    ("pnpm dlx", "npm:"),
    ("npm install", "npm:"),
    ("npm i", "npm:"),
    ("uvx", "pypi:"),
    ("uv tool run", "pypi:"),
    ("uv tool install", "pypi:"),
    ("pipx run", "pypi:"),
    ("pipx install", "pypi:"),
    ("pip install", "pypi:"),
];

/// Says what a text is that is no source and no file, and what to do.
pub(super) fn what_is(text: &str) -> Option<(&'static str, String)> {
    let text = text.trim();
    if let Some(way_out) = launched(text) {
        return Some(("a command line", way_out));
    }
    if text.starts_with("docker ") || text.starts_with("podman ") {
        let way_out = "an image is no package; a `[[mcp_servers]]` entry in program.toml starts it, with the line as its `command`";
        return Some(("a command line", way_out.to_owned()));
    }
    if text.starts_with('@') && text.contains('/') {
        return Some(("the name of a package of npm", format!("did you mean `haft add npm:{text}`?")));
    }
    if let Some(page) = text.strip_prefix("https://").and_then(page) {
        return Some(("a page of a repository", format!("of the repository itself: `git+https://{page}`")));
    }
    if text.contains("://") || !names_a_registry(text) {
        return None;
    }
    let of_forge = text.split_once('/').is_some_and(|(host, _)| FORGES.contains(&host));
    let way_out = if of_forge {
        format!("of a repository: `git+https://{text}`")
    } else {
        format!("of a registry: `oci://{text}`")
    };
    Some(("no file or folder here", way_out))
}

/// The source of a package that a command line starts.
fn launched(text: &str) -> Option<String> {
    let starts = |(launcher, _): &&(&str, &str)| {
        text.strip_prefix(launcher).is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    let (launcher, scheme) = LAUNCHERS.iter().find(starts)?;
    let words = text.get(launcher.len()..)?.split_whitespace();
    let mut words = words.filter(|word| !word.starts_with('-'));
    let package = words.next()?;
    // `latest` is what is installed without a version.
    let package = package.strip_suffix("@latest").unwrap_or(package);
    let settings: Vec<String> =
        words.map(|word| format!(" --set arg={}", shell_words::quote(word))).collect();
    Some(format!("did you mean `haft add {scheme}{package}{}`?", settings.concat()))
}

/// The repository of a page of a forge: `github.com/owner/name` of `github.com/owner/name/tree/main`.
fn page(rest: &str) -> Option<String> {
    let rest = rest.trim_end_matches('/');
    let mut parts = rest.split('/');
    let (host, owner, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_page = parts.next().is_none_or(|part| matches!(part, "tree" | "blob" | "-" | "src"));
    let is_repository = FORGES.contains(&host)
        && is_page
        && !name.contains(['@', '?'])
        && Path::new(name).extension().is_none_or(|kind| kind != "git");
    is_repository.then(|| format!("{host}/{owner}/{name}"))
}

/// Whether a path reads like a registry's reference: `ghcr.io/owner/name:1.0`.
fn names_a_registry(path: &str) -> bool {
    let host = path.split_once('/').map_or("", |(host, _)| host);
    let is_other = ["npm:", "pypi:", "mcp:"].iter().any(|scheme| host.starts_with(scheme));
    !host.starts_with(['.', '~']) && host.contains(['.', ':']) && !is_other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_copy_from_elsewhere_is_told_with_the_source_it_may_mean() {
        for (text, expected) in [
            ("npx -y @a/server@latest ./docs", "`haft add npm:@a/server --set arg=./docs`"),
            ("uvx mcp-server-time", "`haft add pypi:mcp-server-time`"),
            ("docker run -i --rm mcp/fetch", "`[[mcp_servers]]`"),
            ("@a/server", "`haft add npm:@a/server`"),
            ("https://github.com/a/b", "`git+https://github.com/a/b`"),
            ("https://github.com/a/b/tree/main/src/x", "`git+https://github.com/a/b`"),
            ("github.com/a/b", "`git+https://github.com/a/b`"),
            ("ghcr.io/a/b:1.0", "`oci://ghcr.io/a/b:1.0`"),
        ] {
            let (_, way_out) = what_is(text).expect(text);
            assert!(way_out.contains(expected), "{text}: {way_out}");
        }
        for source in [
            "./words",
            "words.wasm",
            "npm:@a/b",
            "mcp:io.test/a",
            "oci://ghcr.io/a/b",
            "git+https://github.com/a/b",
            "https://github.com/a/b.git",
            "https://github.com/a/b/releases/download/v1/b.tar.gz",
            "https://github.com/a/b/archive/main.tar.gz",
        ] {
            assert_eq!(what_is(source), None, "{source}");
        }
    }
}
