//! The searched marketplaces and registries: `sources.toml` in the user's own configuration. A program.toml cannot add
//! one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::PackageSource;
use crate::listing::{TreeError, io_error};
use crate::registry::Registry;

/// The file in the folder of a person's configuration.
pub const FILE: &str = "sources.toml";

/// Maximum number of sources of each kind: all of them are queried.
const MAX_SOURCES: usize = 32;

/// The places that a person named.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Marketplaces of Claude Code: git repositories, or folders of this machine.
    pub marketplaces: Vec<PackageSource>,
    /// Registries of MCP servers; `haft add mcp:NAME` uses the first one.
    pub registries: Vec<Registry>,
}

/// Reasons why the file is not used.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] TreeError),
    /// The file is no TOML of this form.
    #[error("`{}` is not usable: {why}", path.display())]
    Form { path: PathBuf, why: String },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    marketplaces: Vec<String>,
    registries: Vec<String>,
}

impl Sources {
    /// Reads the file in `config`; without a file there are no sources. A folder may begin with `~`, which is `home`.
    ///
    /// # Errors
    /// The file cannot be read, has another form, or names an invalid place.
    pub fn in_folder(config: &Path, home: &Path) -> Result<Self, SourcesError> {
        let path = config.join(FILE);
        let text = match haft_manifest::read_bounded(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(io_error("read", &path))?,
        };
        let read = || {
            if text.len() > haft_manifest::MAX_FILE {
                return Err(format!("it has more than {} KiB", haft_manifest::MAX_FILE >> 10));
            }
            // The complete error quotes the line, which may contain a password.
            let Written { marketplaces, registries } =
                toml::from_slice(&text).map_err(|error: toml::de::Error| error.message().to_owned())?;
            if marketplaces.len().max(registries.len()) > MAX_SOURCES {
                return Err(format!("expected at most {MAX_SOURCES} of each kind"));
            }
            let marketplaces =
                marketplaces.iter().map(|text| marketplace(text, home)).collect::<Result<_, _>>()?;
            let registries = registries.iter().map(|text| registry(text)).collect::<Result<_, _>>()?;
            Ok(Self { marketplaces, registries })
        };
        read().map_err(|why| SourcesError::Form { path, why })
    }

    /// Returns whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.marketplaces.is_empty() && self.registries.is_empty()
    }
}

fn marketplace(text: &str, home: &Path) -> Result<PackageSource, String> {
    let shown = crate::download::shown_text(text);
    let wrong = |why: String| {
        format!(
            "`marketplaces` has `{shown}`: expected `git+https://…` or a folder that begins with `/` or `~`{why}"
        )
    };
    match text.parse().map_err(|error| wrong(format!(": {error}")))? {
        PackageSource::Git { plugin: Some(_), .. } => Err(wrong(", without a plugin".to_owned())),
        git @ PackageSource::Git { .. } => Ok(git),
        PackageSource::Path(path) => match path.strip_prefix("~") {
            Ok(inside) => Ok(PackageSource::Path(home.join(inside))),
            Err(_) if path.is_absolute() => Ok(PackageSource::Path(path)),
            Err(_) => Err(wrong(String::new())),
        },
        _ => Err(wrong(String::new())),
    }
}

fn registry(text: &str) -> Result<Registry, String> {
    match text.parse() {
        Ok(PackageSource::Url(url)) => Ok(Registry { url }),
        _ => Err(format!(
            "`registries` has `{}`: expected `https://…`, or `http://` of this machine, without a user's name",
            crate::download::shown_text(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn places_are_https_git_or_folders_that_a_person_wrote() {
        let place = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(place.path().join(FILE), text).unwrap();
            Sources::in_folder(place.path(), Path::new("/home/a")).map_err(|error| error.to_string())
        };
        let good = read(
            "marketplaces = ['git+https://a.test/b@v1', '~/m', '/m']\nregistries = ['https://r.test', 'http://127.0.0.1:1']",
        );
        let good = good.unwrap();
        let shown: Vec<String> = good.marketplaces.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["git+https://a.test/b@v1", "/home/a/m", "/m"]);
        assert_eq!(good.registries.len(), 2);
        for (text, said) in [
            ("marketplaces = ['m']", "`marketplaces` has `m`"),
            ("marketplaces = ['git+https://a.test/b#c']", "without a plugin"),
            ("marketplaces = ['git+https://u:pw@a.test/b']", "`git+https://a.test/b`"),
            ("marketplaces = ['npm:x']", "expected `git+https://…`"),
            ("marketplaces = ['git+http://a.test/b']", "expected `git+https://…`"),
            ("registries = ['http://r.test']", "expected `https://…`"),
            ("registries = ['https://u:pw@r.test']", "expected `https://…`"),
            ("registries = ['https://u:pw@r.test',, ]", "is not usable"),
            ("registry = []", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said) && !error.contains("pw"), "{text}: {error}");
        }
        assert!(Sources::in_folder(Path::new("/nowhere"), Path::new("/")).unwrap().is_empty());
    }
}
