//! What plugins keep, and what they read of their configuration. How much may be kept is their grant's affair; here is
//! only to whom it belongs, and which values they are told.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::Dirs;
use super::pending_plugin::PendingPlugin;
use haft_core::grant::Grant;
use haft_core::report::Problem;
use haft_core::tool::Schema;
use haft_manifest::Secrets;
use haft_manifest::{Located, Manifest, Setting};
use haft_plugin_host::{Config, Plugin, Storage};
use haft_state::Owner;

/// Where the plugin keeps things, if it may: that of a built-in plugin, which keeps nothing, is nowhere.
pub(super) fn storage(manifest: &Manifest, dirs: &Dirs, pending: &PendingPlugin<'_>) -> Option<Storage> {
    let may_keep = |grant: &Grant| grant.state().or(grant.cache()).is_some();
    if pending.declared.is_none() || !may_keep(&pending.grant) {
        return None;
    }
    let package = pending.package.map(|package| package.name.as_str());
    Some(Storage::new(dirs.homes(), Owner::new(&manifest.path, package, &pending.name)))
}

/// What the plugin is told of its configuration; `None` where program.toml says nothing of it. A value that cannot be had,
/// or does not fit the schema that the component brings, is a problem: the plugin works without the former, and is told
/// the latter as it is.
pub(super) async fn config(
    pending: &PendingPlugin<'_>,
    plugin: &Plugin,
    secrets: Secrets<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Config> {
    let settings = settings(pending)?;
    let (mut values, mut told, mut hidden) = (Map::new(), Vec::new(), Vec::new());
    for (key, setting) in settings {
        let value = match setting {
            Setting::Value(value) => value.clone(),
            Setting::Secret(source) => match secrets.read(source).await {
                Ok(secret) => {
                    hidden.push(key.value.as_str());
                    Value::from(secret.expose_secret())
                }
                Err(error) => {
                    let text = format!(
                        "the key `{}` of the configuration of `{}` cannot be had: {error}",
                        key.value, pending.name
                    );
                    let problem = Problem::new(text).at(key.span, "this key");
                    problems.push(error.hint().into_iter().fold(problem, Problem::hint));
                    continue;
                }
            },
        };
        told.push((key.value.clone(), SecretString::from(text(&value))));
        values.insert(key.value.clone(), value);
    }
    problems.extend(misfit(pending, plugin, (Value::Object(values), &hidden)));
    Some(Config::new(told))
}

/// What the plugin's own program.toml says and, of a package, what the program says instead. A package is not told a
/// secret because it names one.
fn settings<'a>(pending: &PendingPlugin<'a>) -> Option<Vec<(&'a Located<String>, &'a Setting)>> {
    let own = pending.declared.and_then(|declared| declared.config.as_ref());
    let package = pending.package.and_then(|package| package.config.as_ref());
    if own.is_none() && package.is_none() {
        return None;
    }
    let is_replaced = |key: &str| package.is_some_and(|all| all.iter().any(|(other, _)| other.value == key));
    let is_own = |(key, setting): &&(Located<String>, Setting)| {
        pending.package.is_none() || matches!(setting, Setting::Value(_)) && !is_replaced(&key.value)
    };
    let own = own.into_iter().flatten().filter(is_own);
    Some(own.chain(package.into_iter().flatten()).map(|(key, setting)| (key, setting)).collect())
}

/// As `wasi:config` hands values over.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What is wrong with the configuration, by the component's schema.
fn misfit(
    pending: &PendingPlugin<'_>,
    plugin: &Plugin,
    (values, hidden): (Value, &[&str]),
) -> Option<Problem> {
    let schema = plugin.config_schema()?;
    let name = &pending.name;
    let why = match Schema::of_configuration(schema) {
        Ok(schema) => schema.check_hiding(&values, hidden).err()?.to_string(),
        Err(error) => format!("its schema cannot be used: {error}"),
    };
    let problem = Problem::new(format!("the configuration of `{name}` is not what it expects: {why}"));
    Some(match pending.span() {
        Some(span) => problem.at(span, "this plugin"),
        None => problem,
    })
}
