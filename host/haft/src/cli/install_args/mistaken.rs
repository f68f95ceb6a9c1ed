//! Recognises texts that users give as a source and that are not one, and proposes the probable source. Inspects
//! the text only.

use std::path::Path;

/// Hosts of git repositories, whose pages users copy.
const FORGES: &[&str] = &["github.com", "gitlab.com", "codeberg.org", "bitbucket.org"];

/// Launchers, and the prefix of the source for their packages. Options of a launcher are skipped.
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

/// Prefixes of sources in other programs: of repositories at a forge, and of images.
const FORGE_SCHEMES: &[(&str, &str)] = &[
    ("github:", "github.com"),
    ("gh:", "github.com"),
    ("gitlab:", "gitlab.com"),
    ("bitbucket:", "bitbucket.org"),
];
const IMAGE_SCHEMES: &[&str] =
    &["docker:", "docker://", "docker.io/", "docker run ", "podman run ", "docker mcp "];

/// Pages of registries, and the prefix of the source for the package of a page.
const PAGES: &[(&str, &str)] = &[
    ("www.npmjs.com/package/", "npm:"),
    ("npmjs.com/package/", "npm:"),
    ("pypi.org/project/", "pypi:"),
    ("registry.modelcontextprotocol.io/v0.1/servers/", "mcp:"),
];

/// Collections of servers with their own names and commands.
const COLLECTIONS: &[&str] = &[
    "smithery:",
    "@smithery/cli",
    "smithery ",
    "https://smithery.ai/",
    "https://glama.ai/",
    "https://mcp.so/",
    "https://www.pulsemcp.com/",
];

/// Commands that register a server with another client. The server's own command line follows after ` -- `.
const CLIENTS: &[&str] = &["claude mcp add", "codex mcp add", "gemini mcp add", "haft wrap"];

/// Package managers that haft does not support.
const INSTALLERS: &[&str] = &[
    "go install ",
    "go run ",
    "cargo install ",
    "brew install ",
    "dotnet tool ",
    "dnx ",
    "deno run ",
    "jsr:",
    "nuget:",
    "cargo:",
];

/// The remedy for a command of this machine.
const BY_COMMAND: &str = "write an `[[mcp_servers]]` entry with this line as its `command` to program.toml";

/// Returns the kind of a text that is neither a source nor a file, and the remedy.
pub(super) fn what_is(text: &str) -> Option<(&'static str, String)> {
    let text = text.trim();
    let begins = |all: &[&str]| all.iter().any(|start| text.starts_with(start));
    if begins(CLIENTS) {
        let own = text.split_once(" -- ").and_then(|(_, command)| what_is(command));
        let way_out =
            own.map_or_else(|| "`haft import` reads the servers of that client".to_owned(), |(_, own)| own);
        return Some(("a command line of another client", way_out));
    }
    if text.starts_with('{') {
        return Some(("the configuration of a client", "`haft import FILE` reads a file with it".to_owned()));
    }
    if COLLECTIONS.iter().any(|name| text.split_whitespace().any(|word| word.starts_with(name.trim_end()))) {
        let way_out = "find the package or address on its web page: `haft add npm:NAME`, `haft add \
                       pypi:NAME`, or `url` in an `[[mcp_servers]]` entry";
        return Some(("of a collection that haft does not support", way_out.to_owned()));
    }
    if let Some(way_out) = launched(text) {
        return Some(("a command line", way_out));
    }
    if begins(IMAGE_SCHEMES) {
        return Some((
            "a container image",
            format!("an image is not a package; {BY_COMMAND}: `docker run -i --rm IMAGE`"),
        ));
    }
    if begins(INSTALLERS) {
        return Some((
            "of a package manager that haft does not support",
            format!("install it yourself; {BY_COMMAND}"),
        ));
    }
    if text.starts_with('@') && text.contains('/') {
        return Some(("the name of a package of npm", format!("did you mean `haft add npm:{text}`?")));
    }
    let of_forge = FORGE_SCHEMES.iter().find_map(|(scheme, host)| Some((host, text.strip_prefix(scheme)?)));
    if let Some((host, repository)) = of_forge {
        let repository = repository.trim_start_matches('/').replace('#', "@");
        return Some((
            "a repository",
            format!("of the repository itself: `git+https://{host}/{repository}`"),
        ));
    }
    if let Some(rest) = text.strip_prefix("https://") {
        return page_of(rest);
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
    Some(("not a file or folder here", way_out))
}

/// Returns the kind of a page of a registry or forge, and the remedy.
fn page_of(rest: &str) -> Option<(&'static str, String)> {
    for (page, scheme) in PAGES {
        let Some(name) = rest.strip_prefix(page) else { continue };
        let name =
            name.split("/v/").next()?.split("/versions").next()?.trim_end_matches('/').replace("%2F", "/");
        return Some(("a page of a registry", format!("did you mean `haft add {scheme}{name}`?")));
    }
    let page = page(rest)?;
    Some(("a page of a repository", format!("of the repository itself: `git+https://{page}`")))
}

/// Returns the source of the package that a command line starts.
fn launched(text: &str) -> Option<String> {
    let starts = |(launcher, _): &&(&str, &str)| {
        text.strip_prefix(launcher).is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    let (launcher, scheme) = LAUNCHERS.iter().find(starts)?;
    let mut words = text.get(launcher.len()..)?.split_whitespace().peekable();
    let (mut package, mut command) = (None, None);
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        // The package has another name than its command.
        match option.split_once('=').unwrap_or((option, "")) {
            ("--from" | "-p" | "--package", "") => package = words.next(),
            ("--from" | "--package", named) => package = Some(named),
            _ => {}
        }
    }
    if package.is_some() {
        command = words.next();
    }
    let package = package.or_else(|| words.next())?;
    // A source without a version installs `latest`.
    let package = package.strip_suffix("@latest").unwrap_or(package);
    let mut words: Vec<&str> = words.collect();
    if package == "mcp-remote" {
        let url = words.first().copied().unwrap_or("URL");
        return Some(format!("haft connects to it: write `url = \"{url}\"` in an `[[mcp_servers]]` entry"));
    }
    if package.contains("://") || package.contains(':') {
        return Some(format!("`{package}` is in no registry: {BY_COMMAND}"));
    }
    let package = match package.split_once('@') {
        Some((name, version)) if *scheme == "pypi:" => format!("{name}=={version}"),
        _ => package.to_owned(),
    };
    words.retain(|word| !matches!(*word, "--"));
    let own = command.filter(|command| *command != package).map(|command| format!(" --set bin={command}"));
    let settings = words.iter().map(|word| format!(" --set arg={}", shell_words::quote(word)));
    let settings: String = own.into_iter().chain(settings).collect();
    Some(format!("did you mean `haft add {scheme}{package}{settings}`?"))
}

/// Returns the repository of a page of a forge: `github.com/owner/name` for `github.com/owner/name/tree/main`.
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

/// Returns whether a path looks like a registry's reference: `ghcr.io/owner/name:1.0`.
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
            ("uvx mcp-server-time@1.2", "`haft add pypi:mcp-server-time==1.2`"),
            (
                "uvx --from mcp-tools mcp-server --port 1",
                "`haft add pypi:mcp-tools --set bin=mcp-server --set arg=--port --set arg=1`",
            ),
            ("uvx --from git+https://github.com/a/b c", "`git+https://github.com/a/b` is in no registry"),
            ("npx --package=@a/b c", "`haft add npm:@a/b --set bin=c`"),
            ("npx github:a/b", "`github:a/b` is in no registry"),
            ("npx -y mcp-remote https://a.test/mcp", "`url = \"https://a.test/mcp\"`"),
            (
                "npx -y @smithery/cli install @a/b --client claude",
                "find the package or address on its web page",
            ),
            ("smithery:@a/b", "find the package or address on its web page"),
            ("https://smithery.ai/server/@a/b", "find the package or address on its web page"),
            ("claude mcp add time -- uvx mcp-server-time", "`haft add pypi:mcp-server-time`"),
            ("claude mcp add-json x", "`haft import`"),
            ("{ \"mcpServers\": {} }", "`haft import FILE`"),
            ("docker run -i --rm mcp/fetch", "`[[mcp_servers]]`"),
            ("docker:mcp/fetch", "`docker run -i --rm IMAGE`"),
            ("docker.io/mcp/fetch", "`docker run -i --rm IMAGE`"),
            ("go install github.com/a/b@latest", "install it yourself"),
            ("github:a/b#v1", "`git+https://github.com/a/b@v1`"),
            ("https://www.npmjs.com/package/@a/b/v/1.0.0", "`haft add npm:@a/b`"),
            ("https://pypi.org/project/mcp-server-time/", "`haft add pypi:mcp-server-time`"),
            (
                "https://registry.modelcontextprotocol.io/v0.1/servers/io.test%2Fa/versions/latest",
                "`haft add mcp:io.test/a`",
            ),
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
