//! Marketplaces of Claude Code: `.claude-plugin/marketplace.json` lists plugins and their locations, in its own
//! repository or in another one. Fetches nothing itself.

use std::fs;
use std::path::{Path, PathBuf};

use haft_core::grant::Root;
use haft_core::report::plain;
use haft_manifest::PackageSource;
use serde_json::Value;

use super::{CLAUDE, MAX_JSON, is_plugin};
use crate::download::Url;
use crate::folder::write;
use crate::listing::{TreeError, io_error};

/// The file of a marketplace.
pub(crate) const FILE: &str = ".claude-plugin/marketplace.json";

/// Maximum number of listed names of plugins.
const MAX_NAMED: usize = 40;

/// Fields of an entry that a manifest has too.
const OF_MANIFEST: &[&str] = &["name", "description", "version", "author", "license", "skills", "mcpServers"];

/// Reasons why a marketplace has no such plugin.
#[derive(Debug, thiserror::Error)]
pub enum MarketplaceError {
    /// The folder is not a marketplace.
    #[error("`#{0}` selects a plugin of a marketplace, but there is no `{FILE}`: {1}")]
    Absent(String, String),
    /// The folder is not a marketplace, and no plugin is named.
    #[error("there is no marketplace: no `{FILE}`: {0}")]
    Missing(String),
    /// The marketplace has no plugin with this name.
    #[error("the marketplace has no plugin `{name}`; it has {known}")]
    Unknown { name: String, known: String },
    /// The plugin's source has no known form.
    #[error("the marketplace gives the source of `{0}` in a form that haft does not support")]
    Source(String),
    /// A marketplace of others names a place that may be this machine or a network of the person.
    #[error(
        "the marketplace gives the source `{url}` for `{name}`: expected an HTTPS URL with a public host name"
    )]
    Address { name: String, url: String },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The place of the plugin.
    pub(crate) place: Place,
    /// The manifest for a plugin without one.
    pub(crate) manifest: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// A folder of the marketplace, without `..`.
    Here(PathBuf),
    /// A folder of another repository.
    Elsewhere {
        /// The URL of the repository.
        url: String,
        /// The commit, tag or branch.
        reference: Option<String>,
        /// The folder, without `..`.
        inside: PathBuf,
    },
}

/// Finds the plugin `name` of the marketplace in `folder`. Unless the marketplace is the user's own (`is_local`),
/// the plugin has to be in its repository or on a public host.
pub(crate) fn find(folder: &Path, name: &str, is_local: bool) -> Result<Entry, MarketplaceError> {
    let absent = |why: String| MarketplaceError::Absent(plain(name), plain(&why));
    let market = read(folder).map_err(absent)?;
    let entry = entries(&market).find(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    let unknown = || MarketplaceError::Unknown { name: plain(name), known: names(&market) };
    let entry = entry.ok_or_else(unknown)?;
    let place = place(entry, &market).ok_or_else(|| MarketplaceError::Source(plain(name)))?;
    if let Some(url) = place.refused(is_local) {
        return Err(MarketplaceError::Address { name: plain(name), url: plain(url) });
    }
    let own = |key: &&str| Some(((*key).to_owned(), entry.get(*key)?.clone()));
    let manifest = Value::Object(OF_MANIFEST.iter().filter_map(own).collect());
    Ok(Entry { place, manifest })
}

/// A plugin of a marketplace, as a search shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The keywords, tags and category.
    pub(crate) keywords: String,
}

/// Lists the plugins of the marketplace in `folder` that [`find`] finds, and counts the others.
pub(crate) fn list(folder: &Path, is_local: bool) -> Result<(Vec<Told>, usize), MarketplaceError> {
    let market = read(folder).map_err(|why| MarketplaceError::Missing(plain(&why)))?;
    let is_found =
        |entry: &&Value| place(entry, &market).is_some_and(|place| place.refused(is_local).is_none());
    let told = |entry: &Value| {
        let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let lists = ["keywords", "tags"].into_iter().filter_map(|key| entry.get(key)?.as_array()).flatten();
        let keywords =
            lists.filter_map(Value::as_str).chain([word("category")]).collect::<Vec<_>>().join(" ");
        Told { name: word("name").to_owned(), description: word("description").to_owned(), keywords }
    };
    let found: Vec<Told> = entries(&market).filter(is_found).map(told).collect();
    let others = entries(&market).count() - found.len();
    Ok((found, others))
}

/// Describes the plugins of the marketplace in `folder`; `None` if it is not one.
pub(crate) fn told(folder: &Path) -> Option<String> {
    let market = read(folder).ok()?;
    Some(format!(
        "this is a marketplace: add one of its plugins with `haft add PLACE#NAME`: {}",
        names(&market)
    ))
}

impl Place {
    /// The URL that is not fetched from, where the marketplace is not a folder of the person (`is_local`).
    fn refused(&self, is_local: bool) -> Option<&str> {
        match self {
            Self::Elsewhere { url, .. } if !is_local && !is_public(url) => Some(url),
            _ => None,
        }
    }
}

fn read(folder: &Path) -> Result<Value, String> {
    let root = Root::resolve(Path::new("/"), folder).and_then(|root| root.folder());
    let content =
        root.and_then(|root| root.read(Path::new(FILE), MAX_JSON)).map_err(|error| error.to_string())?;
    serde_json::from_slice(&content.bytes).map_err(|error| error.to_string())
}

fn entries(market: &Value) -> impl Iterator<Item = &Value> {
    market.get("plugins").and_then(Value::as_array).into_iter().flatten()
}

fn names(market: &Value) -> String {
    let all: Vec<&str> = entries(market).filter_map(|entry| entry.get("name")?.as_str()).collect();
    let named: Vec<String> = all.iter().take(MAX_NAMED).map(|name| format!("`{}`", plain(name))).collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

fn place(entry: &Value, market: &Value) -> Option<Place> {
    let source = entry.get("source")?;
    let word = |key: &str| source.get(key).and_then(Value::as_str);
    if let Some(path) = source.as_str() {
        let base = market.get("metadata").and_then(|about| about.get("pluginRoot")).and_then(Value::as_str);
        let base = base.filter(|_| !path.starts_with("./")).unwrap_or_default();
        return inside(&format!("{base}/{path}")).map(Place::Here);
    }
    let url = match word("source")? {
        "github" => format!("https://github.com/{}", word("repo")?),
        "url" | "git-subdir" | "git" => word("url")?.to_owned(),
        _ => return None,
    };
    let reference = word("sha").or_else(|| word("ref")).map(|name| format!("@{name}")).unwrap_or_default();
    let text = format!("git+{}{reference}", url.trim_end_matches('/'));
    let inside = inside(word("path").unwrap_or_default())?;
    match text.parse::<PackageSource>().ok()? {
        PackageSource::Git { url, reference, .. } => Some(Place::Elsewhere { url, reference, inside }),
        _ => None,
    }
}

/// Reports whether a URL is HTTPS to a host of several labels: no address, and no name of this machine.
fn is_public(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    // git reads the URL for itself, and does not end the host at a backslash.
    let is_clear = url.username().is_empty() && url.password().is_none() && !text.contains('\\');
    let last = url.domain().and_then(|name| name.trim_end_matches('.').rsplit_once('.'));
    let is_name = last.is_some_and(|(_, last)| !matches!(last, "localhost" | "local"));
    url.scheme() == "https" && is_clear && is_name
}

fn inside(path: &str) -> Option<PathBuf> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.map(|part| (part != "..").then_some(part)).collect()
}

/// Writes the manifest into the copied plugin `tree`, which has none, and leaves only the skills that it names.
pub(crate) fn complete(manifest: &Value, tree: &Path) -> Result<(), TreeError> {
    if is_plugin(|file| tree.join(file).is_file()) {
        return Ok(());
    }
    if let Some(named) = manifest.get("skills").and_then(Value::as_array) {
        let named: Vec<PathBuf> = named.iter().filter_map(|path| inside(path.as_str()?)).collect();
        let skills = tree.join("skills");
        for entry in fs::read_dir(&skills).into_iter().flatten().flatten() {
            let path = Path::new("skills").join(entry.file_name());
            if !named.contains(&path) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(entry.path()).map_err(io_error("remove", &entry.path()))?;
            }
        }
    }
    let path = tree.join(CLAUDE);
    let folder = path.parent().unwrap_or(tree);
    fs::create_dir_all(folder).map_err(io_error("create folder", folder))?;
    let text = manifest.to_string();
    write(text.as_bytes(), &path, text.len() as u64, false).map_err(io_error("write", &path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plugin_is_where_its_marketplace_says() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join(".claude-plugin")).unwrap();
        let sha = "0123456789012345678901234567890123456789";
        let market = json!({ "plugins": [
            { "name": "here", "source": "./plugins/here", "skills": ["./skills/a"] },
            { "name": "up", "source": "../other" },
            { "name": "hub", "source": { "source": "github", "repo": "a/b", "ref": "v1" } },
            { "name": "sub", "source": { "source": "git-subdir", "url": "https://a.test/b.git", "path": "p/q", "sha": sha } },
            { "name": "odd", "source": { "source": "url", "url": "file:///etc" } },
            { "name": "near", "source": { "source": "url", "url": "https://10.0.0.1/b.git" } },
        ] });
        fs::write(place.path().join(FILE), market.to_string()).unwrap();
        let found = |name: &str| {
            find(place.path(), name, false).map(|entry| entry.place).map_err(|error| error.to_string())
        };
        assert_eq!(found("here"), Ok(Place::Here("plugins/here".into())));
        let git = |url: &str, reference: &str, inside: &str| {
            let (url, reference) = (url.to_owned(), Some(reference.to_owned()));
            Ok(Place::Elsewhere { url, reference, inside: inside.into() })
        };
        assert_eq!(found("hub"), git("https://github.com/a/b", "v1", ""));
        for (url, expected) in [
            ("https://a.test/b", true),
            ("https://a.test:8443/b", true),
            ("http://a.test/b", false),
            ("https://127.0.0.1/b", false),
            ("https://0x7f.1/b", false),
            ("https://[::1]/b", false),
            ("https://localhost/b", false),
            ("https://a.localhost./b", false),
            ("https://a.test@10.0.0.1/b", false),
            ("ssh://a.test/b", false),
            (r"https://10.0.0.1\.a.test/", false),
            (r"https://a.test\.b.test/", false),
            ("https://[::1]x/", false),
            ("https://A.LOCAL/b", false),
        ] {
            assert_eq!(is_public(url), expected, "{url}");
        }
        assert_eq!(found("sub"), git("https://a.test/b.git", sha, "p/q"));
        assert!(found("up").unwrap_err().contains("in a form"), "{:?}", found("up"));
        assert!(found("odd").is_err(), "{:?}", found("odd"));
        assert!(found("near").unwrap_err().contains("expected an HTTPS URL"), "{:?}", found("near"));
        assert!(find(place.path(), "near", true).is_ok());
        assert!(found("none").unwrap_err().contains("it has `here`, `up`"));
        assert!(
            find(&place.path().join("x"), "here", true).unwrap_err().to_string().contains("there is no `")
        );
    }
}
