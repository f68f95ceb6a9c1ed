//! Packages of npm, installed by this machine's npm with install scripts off. The package keeps the versions and
//! digests of all installed content as package-lock.json.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use super::written::{Server, read_json};
use super::{ForeignError, Made, added, attested, chosen, is_script_run};
use crate::listing::{io_error, relative};
use crate::runner::{MAX_OUTPUT, Runner};
use crate::{Fetching, Foreign};

/// The fixed options of `npm`: no scripts, no links, no notices, and a lock that is independent of the mirror.
const SETTINGS: &[&str] = &[
    "--ignore-scripts",
    // A separate npm, with the settings of the repository, would build a dependency from git.
    "--git=false",
    "--no-bin-links",
    "--no-audit",
    "--no-fund",
    "--no-progress",
    "--no-update-notifier",
    "--omit=dev",
    "--save-exact",
    "--omit-lockfile-registry-resolved",
    "--loglevel=error",
];

/// Scripts that npm runs at an installation.
const SCRIPTS: &[&str] = &["preinstall", "install", "postinstall"];

/// Installed packages with scripts that are named; the rest is counted.
const MAX_NAMED: usize = 20;

#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Locked {
    /// The digests of the tarball, which npm compared.
    integrity: Option<String>,
    #[serde(default)]
    has_install_script: bool,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Version,
    description: Option<String>,
    license: Option<Value>,
    bin: Option<Bin>,
    #[serde(default)]
    scripts: BTreeMap<String, String>,
}

/// The commands: one with the package's name, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Bin {
    One(String),
    Many(BTreeMap<String, String>),
}

/// Installs a package as of the time `before` into the new folder `tree`; see [`Made`]; its version alone is resolved.
pub(super) async fn make(
    foreign: &Foreign,
    (name, version): (&str, Option<&str>),
    before: &str,
    tree: &Path,
    fetching: &Fetching<'_>,
) -> Result<Made, ForeignError> {
    let (words, env) = added(foreign, &["bin", "scripts"])?;
    let npm = Runner::new("npm", fetching)?;
    fs::create_dir(tree).map_err(io_error("create folder", tree))?;
    let wanted = format!("{name}@{}", version.unwrap_or("latest"));
    let prefix = format!("--prefix={}", tree.display());
    // The lock, possibly from another machine, determines the versions.
    let before = format!("--before={before}");
    let arguments = ["install", &prefix, &before].into_iter().chain(SETTINGS.iter().copied());
    let arguments = arguments.chain(["--", &wanted]);
    npm.run("install", arguments, MAX_OUTPUT).await?;
    let package: Package = read_json(&tree.join("node_modules").join(name), "package.json")?;
    let lock: Lock = read_json(tree, "package-lock.json")?;
    let own = lock.packages.get(&format!("node_modules/{name}"));
    let integrity = own.and_then(|own| own.integrity.as_deref());
    let (verdict, trouble) = attested::of_npm((name, &package.version), integrity, &npm, fetching).await?;
    let mut notes = scripts(foreign, (tree, &lock), &prefix, fetching).await?;
    notes.extend(trouble);
    let mut command = vec!["node".to_owned(), start(foreign, name, &package)?];
    command.extend(words);
    let version = package.version.to_string();
    let license = package.license.as_ref().and_then(Value::as_str).map(str::to_owned);
    let (description, author) = (package.description, None);
    let name = name.rsplit('/').next().unwrap_or(name).to_owned();
    Server { name, version: package.version, description, author, license, command, env }.write(tree)?;
    Ok(Made { resolved: Some(version), notes, verdict })
}

pub(super) async fn latest(name: &str, fetching: &Fetching<'_>) -> Result<String, ForeignError> {
    let npm = Runner::new("npm", fetching)?;
    let arguments = ["view", "--loglevel=error", "--no-update-notifier", "--", name, "version"];
    Ok(npm.run("view", arguments, MAX_OUTPUT).await?.trim().to_owned())
}

fn start(foreign: &Foreign, name: &str, package: &Package) -> Result<String, ForeignError> {
    let own = name.rsplit('/').next().unwrap_or(name);
    let all = match &package.bin {
        None => Vec::new(),
        Some(Bin::One(file)) => vec![(own.to_owned(), file.clone())],
        Some(Bin::Many(files)) => files.iter().map(|(name, file)| (name.clone(), file.clone())).collect(),
    };
    let file = chosen(foreign, own, all)?;
    let outside = || ForeignError::Unsupported(format!("`bin` of `{name}` is outside the package"));
    Ok(format!("./node_modules/{name}/{}", relative(Path::new(&file)).ok_or_else(outside)?))
}

/// Lists the installed packages with install scripts; runs the scripts if the source requests that, without network
/// and with write access only to the directory of this fetch.
async fn scripts(
    foreign: &Foreign,
    (tree, lock): (&Path, &Lock),
    prefix: &str,
    fetching: &Fetching<'_>,
) -> Result<Vec<String>, ForeignError> {
    let is_run = is_script_run(foreign)?;
    let with_scripts = lock.packages.iter().filter(|(_, package)| package.has_install_script);
    // Optional packages of other systems are in the lock, and are not installed.
    let installed = with_scripts.map(|(path, _)| tree.join(path)).filter(|folder| folder.is_dir());
    let mut notes = installed.map(|folder| script(&folder, is_run)).collect::<Result<Vec<_>, _>>()?;
    if is_run && !notes.is_empty() {
        let npm = Runner::alone("npm", fetching)?;
        let cache = format!("--cache={}", fetching.directory.join("npm").display());
        let settings =
            ["--ignore-scripts=false", "--foreground-scripts", "--no-bin-links", "--loglevel=error"];
        let arguments = ["rebuild", prefix, &cache].into_iter().chain(settings);
        npm.run("rebuild", arguments, MAX_OUTPUT).await?;
    }
    let more = notes.len().saturating_sub(MAX_NAMED);
    notes.truncate(MAX_NAMED);
    if more > 0 {
        notes.push(format!("{more} more packages have install scripts"));
    }
    if !is_run && !notes.is_empty() {
        notes.push(
            "if it does not work without them, use `--run-scripts`: they run in the sandbox, without network"
                .to_owned(),
        );
    }
    Ok(notes)
}

fn script(folder: &Path, is_run: bool) -> Result<String, ForeignError> {
    let package: Package = read_json(folder, "package.json")?;
    let scripts = SCRIPTS.iter().filter_map(|name| package.scripts.get(*name)).cloned();
    let scripts: Vec<String> = scripts.collect();
    // Without an install script, npm compiles the project in `binding.gyp`.
    let text = if scripts.is_empty() { "node-gyp rebuild".to_owned() } else { scripts.join("; ") };
    let done = if is_run { "was run" } else { "was not run" };
    Ok(format!("the install script of `{} {}` {done}: `{text}`", package.name, package.version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::PackageSource;

    #[test]
    fn the_command_of_a_package_is_the_one_that_is_named_or_plain() {
        let start = |source: &str, bin: Value| {
            let package = json!({ "name": "@a/server", "version": "1.0.0", "bin": bin });
            let PackageSource::Foreign(foreign) = source.parse().unwrap() else { panic!("{source}") };
            let package = serde_json::from_value(package).unwrap();
            start(&foreign, "@a/server", &package).map_err(|error| error.to_string())
        };
        let at = |file: &str| Ok(format!("./node_modules/@a/server/{file}"));
        assert_eq!(start("npm:@a/server", json!("./dist/index.js")), at("dist/index.js"));
        assert_eq!(start("npm:@a/server", json!({ "x": "a.js" })), at("a.js"));
        assert_eq!(start("npm:@a/server", json!({ "x": "a.js", "y": "a.js" })), at("a.js"));
        assert_eq!(start("npm:@a/server", json!({ "x": "a.js", "server": "b.js" })), at("b.js"));
        let two = json!({ "x": "a.js", "y": "b.js" });
        assert_eq!(start("npm:@a/server#bin=y", two.clone()), at("b.js"));
        assert_eq!(start("npm:@a/server", two).unwrap_err(), "`server` has several commands: `x`, `y`");
        assert_eq!(start("npm:@a/server", json!({})).unwrap_err(), "`server` has no command to start");
        for outside in ["../../x.js", "/etc/x.js"] {
            assert!(start("npm:@a/server", json!(outside)).unwrap_err().contains("is outside"), "{outside}");
        }
    }
}
