//! The command-line arguments of an install: the source and the rights. Grants nothing itself.

mod mistaken;

use std::path::Path;
use std::str::FromStr;

use clap::Args;

use super::consent_page::is_grantable;
use super::terminal::Hinted;
use haft_core::grant::{Right, RightError, normalise};
use haft_core::report::plain;
use haft_package::{Foreign, Offered, Origin, PackageSource, Request};

#[derive(Clone, Debug, Args)]
pub(super) struct Rights {
    /// Agree without a question
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Grant this right instead of all requested rights: `read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`,
    /// `credentials=STORE`, `state=SIZE`, `cache=SIZE`, `secret=NAME`
    #[arg(long, value_name = "RIGHT", conflicts_with = "no_grant")]
    pub(super) grant: Vec<RightsChoice>,
    /// Grant no requested right
    #[arg(long)]
    pub(super) no_grant: bool,
    /// Show texts, scripts and changes in full
    #[arg(long)]
    pub(super) full: bool,
}

/// What a source of an MCP server is to be told.
#[derive(Clone, Debug, Args)]
pub(super) struct Settings {
    /// A setting of an MCP server of npm, PyPI, a bundle or a registry: `arg=WORD` and `env=VARIABLE` for npm
    /// and PyPI, the server's own settings otherwise. haft appends them to the source, after `#`
    #[arg(long, value_name = "KEY=VALUE", requires = "source")]
    set: Vec<String>,
    /// Run the install scripts of npm packages, and build PyPI packages that have no wheel: in the sandbox,
    /// without network. The default is neither
    #[arg(long, requires = "source")]
    run_scripts: bool,
}

impl Settings {
    /// Returns `source` with these settings.
    pub(super) fn added(&self, source: PackageSource) -> anyhow::Result<PackageSource> {
        let settings = self.pairs()?;
        match self.with_scripts(source) {
            source if settings.is_empty() && !self.run_scripts => Ok(source),
            PackageSource::Foreign(mut foreign) => {
                let at = foreign.settings.len() - usize::from(self.run_scripts);
                foreign.settings.splice(at..at, settings);
                // The source is printed and parsed again, so that a source that cannot be written is refused here.
                Ok(PackageSource::Foreign(foreign).to_string().parse()?)
            }
            _ => anyhow::bail!(
                "`--set` and `--run-scripts` are for `npm:NAME`, `pypi:NAME`, `mcp:NAME` and MCP bundles"
            ),
        }
    }

    /// Returns the values of `--set`.
    pub(super) fn pairs(&self) -> anyhow::Result<Vec<(String, String)>> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(anyhow::anyhow!("`--set` expects `KEY=VALUE`")),
        };
        self.set.iter().map(pair).collect()
    }

    /// Returns `source`. Its code runs at the installation if `--run-scripts` is set.
    pub(super) fn with_scripts(&self, source: PackageSource) -> PackageSource {
        match source {
            PackageSource::Foreign(mut foreign) if self.run_scripts => {
                foreign.settings.push(("scripts".to_owned(), "run".to_owned()));
                PackageSource::Foreign(foreign)
            }
            source => source,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RightsChoice {
    Right(Right),
    /// A secret with this requested name.
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
                error => error.to_string(),
            }),
        }
    }
}

impl Rights {
    /// Returns the requests of `offered` to grant. Relative directories start from `here`, as on any command line,
    /// and are written relative to `folder`.
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
        // Limits give access to no files. Naming rights therefore does not exclude limits.
        chosen.extend(grantable().filter(|request| matches!(request, Request::Limit(..))));
        Ok(for_whole_package(chosen))
    }
}

/// Returns the requests in the form of program.toml: for all plugins of a package alike, without duplicates.
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
    found.ok_or_else(|| {
        anyhow::anyhow!("`--grant secret={name}`: the package requests no secret of this name")
    })
}

/// Returns a right with its directory relative to `folder`.
fn with_path_from(right: &Right, here: &Path, folder: &Path) -> anyhow::Result<Right> {
    Ok(match right {
        Right::Read(path) => Right::Read(path_from(path, here, folder)?),
        Right::Write(path) => Right::Write(path_from(path, here, folder)?),
        other => other.clone(),
    })
}

/// Converts `path`, relative to `here`, to a path relative to `folder`.
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

/// Returns the source for the program.toml of `folder`, from a path relative to `here`.
pub(super) fn parse_source(text: &str, here: &Path, folder: &Path) -> anyhow::Result<PackageSource> {
    if !here.join(text).exists()
        && let Some((what, way_out)) = mistaken::what_is(text)
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
}
