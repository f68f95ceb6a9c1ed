//! The command line of an install: the source and the rights. Grants nothing itself.

use std::path::Path;
use std::str::FromStr;

use clap::Args;

use super::consent_page::is_grantable;
use super::terminal::Hinted;
use haft_core::grant::{Right, RightError, normalise};
use haft_core::report::plain;
use haft_package::{Foreign, Offered, Origin, PackageSource, Request};

/// Which rights, and whether to ask.
#[derive(Clone, Debug, Args)]
pub(super) struct Rights {
    /// Agree to what is shown, without being asked
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Grant this instead of all that is asked for: `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`,
    /// `credentials=STORE`, `state=SIZE`, `cache=SIZE`, `secret=NAME`
    #[arg(long, value_name = "RIGHT", conflicts_with = "no_grant")]
    pub(super) grant: Vec<RightsChoice>,
    /// Grant nothing of what is asked for
    #[arg(long)]
    pub(super) no_grant: bool,
    /// Show texts, scripts and changes whole, however long they are
    #[arg(long)]
    pub(super) full: bool,
}

/// What a source of an MCP server is to be told.
#[derive(Clone, Debug, Args)]
pub(super) struct Settings {
    /// A setting of an MCP server of npm, PyPI or a bundle: `arg=WORD` and `env=VARIABLE` of the first two, the
    /// bundle's own otherwise. They become a part of the source, after `#`
    #[arg(long, value_name = "KEY=VALUE", requires = "source")]
    set: Vec<String>,
    /// Run the install scripts of npm packages, confined and without network; they are off otherwise
    #[arg(long, requires = "source")]
    run_scripts: bool,
}

impl Settings {
    /// `source` with these settings.
    pub(super) fn added(&self, source: PackageSource) -> anyhow::Result<PackageSource> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(anyhow::anyhow!("`--set` expects `KEY=VALUE`")),
        };
        let mut settings = self.set.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
        settings.extend(self.run_scripts.then(|| ("scripts".to_owned(), "run".to_owned())));
        match source {
            source if settings.is_empty() => Ok(source),
            PackageSource::Foreign(mut foreign) => {
                foreign.settings.extend(settings);
                // What cannot be written down is refused here.
                Ok(PackageSource::Foreign(foreign).to_string().parse()?)
            }
            _ => anyhow::bail!("`--set` and `--run-scripts` are for `npm:NAME`, `pypi:NAME` and MCP bundles"),
        }
    }
}

/// Something that is granted by hand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RightsChoice {
    /// A right.
    Right(Right),
    /// A secret that is asked for by this name.
    Secret(String),
}

impl FromStr for RightsChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("secret=") {
            Some(name) if !name.is_empty() => Ok(Self::Secret(name.to_owned())),
            _ => text.parse().map(Self::Right).map_err(|error: RightError| match error {
                RightError::Form => {
                    "expected `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`, `state=SIZE`, \
                     `cache=SIZE` or `secret=NAME`"
                        .to_owned()
                }
                RightError::Host(error) => error.to_string(),
                RightError::Store(error) => error.to_string(),
            }),
        }
    }
}

impl Rights {
    /// What is to be granted of what is offered. Relative directories start from `here`, as on any command
    /// line, and are written as seen from `folder`.
    pub(super) fn chosen(
        &self,
        offered: &Offered,
        here: &Path,
        folder: &Path,
    ) -> anyhow::Result<Vec<Request>> {
        let grantable = || offered.requests.iter().filter(|request| is_grantable(request)).cloned();
        if self.no_grant {
            return Ok(Vec::new());
        }
        if self.grant.is_empty() {
            return Ok(for_whole_package(grantable()));
        }
        let mut chosen = Vec::new();
        for choice in &self.grant {
            chosen.push(match choice {
                RightsChoice::Right(right) => Request::Right(None, with_path_from(right, here, folder)?),
                RightsChoice::Secret(name) => requested_secret(offered, name)?,
            });
        }
        // Limits give access to no files, so naming rights does not exclude them.
        chosen.extend(grantable().filter(|request| matches!(request, Request::Limit(..))));
        Ok(for_whole_package(chosen))
    }
}

/// What program.toml can say: for all plugins of a package alike, each thing once.
fn for_whole_package(requests: impl IntoIterator<Item = Request>) -> Vec<Request> {
    let mut whole: Vec<Request> = Vec::new();
    for request in requests {
        let request = match request {
            Request::Right(_, right) => Request::Right(None, right),
            Request::Secret(_, secret) => Request::Secret(None, secret),
            other => other,
        };
        if !whole.contains(&request) {
            whole.push(request);
        }
    }
    whole
}

fn requested_secret(offered: &Offered, name: &str) -> anyhow::Result<Request> {
    let is_meant =
        |request: &&Request| matches!(request, Request::Secret(_, secret) if secret.name.value == name);
    let found = offered.requests.iter().find(is_meant).cloned();
    found.ok_or_else(|| anyhow::anyhow!("`--grant secret={name}`: no secret of this name is asked for"))
}

/// A right with its directory as seen from `folder`.
fn with_path_from(right: &Right, here: &Path, folder: &Path) -> anyhow::Result<Right> {
    Ok(match right {
        Right::Read(path) => Right::Read(path_from(path, here, folder)?),
        Right::Write(path) => Right::Write(path_from(path, here, folder)?),
        other => other.clone(),
    })
}

/// What a person in `here` calls `path`, as it is called from `folder`.
fn path_from(path: &str, here: &Path, folder: &Path) -> anyhow::Result<String> {
    if path.starts_with(['/', '~']) {
        return Ok(path.to_owned());
    }
    let folder = std::path::absolute(folder)?;
    let is_same =
        folder.canonicalize().is_ok_and(|folder| here.canonicalize().is_ok_and(|here| folder == here));
    if folder == here || is_same {
        return Ok(path.to_owned());
    }
    let whole = normalise(&here.join(path));
    let seen = match whole.strip_prefix(normalise(&folder)) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
        Ok(inside) => Path::new(".").join(inside),
        Err(_) => whole,
    };
    Ok(seen.to_string_lossy().into_owned())
}

/// The source for the program.toml of `folder`, from a path relative to `here`.
pub(super) fn parse_source(text: &str, here: &Path, folder: &Path) -> anyhow::Result<PackageSource> {
    if !here.join(text).exists()
        && let Some((what, way_out)) = what_is(text)
    {
        return Err(Hinted::new(format!("`{}` is {what}", plain(text)), way_out).into());
    }
    let source: PackageSource =
        text.parse().map_err(|error| anyhow::anyhow!("invalid source `{}`: {error}", plain(text)))?;
    match source {
        PackageSource::Foreign(Foreign { origin: Origin::File(path), settings }) => {
            let path =
                path.to_str().ok_or_else(|| anyhow::anyhow!("invalid source: its path is not UTF-8"))?;
            let origin = Origin::File(path_from(path, here, folder)?.into());
            Ok(PackageSource::Foreign(Foreign { origin, settings }))
        }
        PackageSource::Path(path) => {
            let path =
                path.to_str().ok_or_else(|| anyhow::anyhow!("invalid source: its path is not UTF-8"))?;
            Ok(PackageSource::Path(path_from(path, here, folder)?.into()))
        }
        other => Ok(other),
    }
}

// What people give as a source and is none: what it is, and the source that they may mean. Looks at the text alone.

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
fn what_is(text: &str) -> Option<(&'static str, String)> {
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
    fn paths_are_written_as_seen_from_the_program() {
        let seen = |path: &str, here: &str, folder: &str| {
            path_from(path, Path::new(here), Path::new(folder)).unwrap()
        };
        assert_eq!(seen("./docs", "/a", "/a"), "./docs");
        assert_eq!(seen("docs", "/a/b", "/a"), "./b/docs");
        assert_eq!(seen("..", "/a/b", "/a"), ".");
        assert_eq!(seen("../x", "/a/b", "/a/c"), "/a/x");
        assert_eq!(seen("/x", "/a/b", "/a/c"), "/x");
        assert_eq!(seen("~/x", "/a/b", "/a/c"), "~/x");
    }

    #[test]
    fn what_is_given_is_a_right_or_a_secret() {
        assert_eq!("secret=token".parse(), Ok(RightsChoice::Secret("token".into())));
        assert_eq!("read=.".parse(), Ok(RightsChoice::Right(Right::Read(".".into()))));
        assert!("secret=".parse::<RightsChoice>().unwrap_err().contains("secret=NAME"));
        assert!("host=a b".parse::<RightsChoice>().unwrap_err().contains("host name"));
    }

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
