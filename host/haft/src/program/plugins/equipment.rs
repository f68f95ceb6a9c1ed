//! The resources of a loaded plugin besides its grant: headers that haft adds to its requests, storage, and
//! configuration. Its grant limits the storage.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::PendingPlugin;
use crate::program::rights::Rights;
use haft_core::report::Problem;
use haft_core::tool::Schema;
use haft_manifest::{Located, PluginSecret, Secrets, Setting};
use haft_plugin_host::{Config, Injection, Plugin, PluginOptions, Storage};
use haft_state::Owner;

/// Returns the plugin with all of its resources, and problems for unavailable ones. A built-in plugin has none.
pub(super) async fn equipped(
    rights: &Rights<'_>,
    pending: &PendingPlugin<'_>,
    plugin: Plugin,
) -> (Plugin, Vec<Problem>) {
    let mut problems = Vec::new();
    let Some(declared) = pending.declared else { return (plugin, problems) };
    let secrets = rights.loaded.secrets();
    let injections = injections(pending.secrets(), secrets, &mut problems).await;
    let options = PluginOptions {
        injections: injections.into_iter().collect(),
        storage: storage(rights, pending),
        config: config(pending, &plugin, secrets, &mut problems).await,
        // The program decides on reuse; a package's setting does not count.
        reuse: declared.reuse.filter(|_| pending.package.is_none()),
        responder: None,
    };
    (plugin.with(options), problems)
}

/// Returns the headers that haft adds to the plugin's requests. An unavailable value is a problem, and is
/// omitted.
async fn injections(
    declared: Vec<&PluginSecret>,
    secrets: Secrets<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Injection> {
    let mut injections = Vec::new();
    for secret in declared {
        match injection(secret, secrets).await {
            Ok(injection) => injections.push(injection),
            Err(problem) => problems.push(problem),
        }
    }
    injections
}

async fn injection(secret: &PluginSecret, secrets: Secrets<'_>) -> Result<Injection, Problem> {
    let name = &secret.name.value;
    let value = secrets
        .read(&secret.source)
        .await
        .map_err(|error| error.problem(&format!("secret `{name}`")).at(secret.name.span, "this secret"))?;
    Injection::new(secret.host.clone(), &secret.header, &secret.prefix, value).map_err(|error| {
        Problem::new(format!("secret `{name}` cannot be used: {error}")).at(secret.name.span, "this secret")
    })
}

/// Returns the storage of the plugin, if it has the right to one.
fn storage(rights: &Rights<'_>, pending: &PendingPlugin<'_>) -> Option<Storage> {
    pending.grant.state().or(pending.grant.cache())?;
    let package = pending.package.map(|package| package.name.as_str());
    let owner = Owner::new(&rights.manifest.path, package, &pending.name);
    Some(Storage::new(rights.dirs.homes(), owner))
}

/// Returns the plugin's configuration; `None` if program.toml has none. An unavailable value is a problem, and is
/// omitted. A value that violates the component's schema is a problem, and is passed on unmodified.
async fn config(
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
                    let what = format!("the key `{}` of the configuration of `{}`", key.value, pending.name);
                    problems.push(error.problem(&what).at(key.span, "this key"));
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

/// Returns the settings of the plugin's own program.toml and, for a package, the overrides of the program. A
/// package that names a secret does not get it.
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

/// Returns a value in the form of `wasi:config`.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the difference between the configuration and the component's schema.
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
    let problem = Problem::new(format!("the configuration of `{name}` does not match its schema: {why}"));
    Some(pending.at(problem, "this plugin"))
}
