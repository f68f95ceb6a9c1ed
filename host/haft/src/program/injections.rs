//! The headers that haft adds to plugins' requests, with their values. Nothing is sent from here.

use haft_core::report::Problem;
use haft_manifest::PluginSecret;
use haft_manifest::Secrets;
use haft_plugin_host::Injection;

/// The headers of a plugin. One whose value cannot be had is a problem, and the plugin works
/// without it.
pub(super) async fn for_plugin(
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
    let value = secrets.read(&secret.source).await.map_err(|error| {
        let problem = Problem::new(format!("secret `{name}` cannot be had: {error}"));
        error.hint().into_iter().fold(problem.at(secret.name.span, "this secret"), Problem::hint)
    })?;
    Injection::new(secret.host.clone(), &secret.header, &secret.prefix, value).map_err(|error| {
        Problem::new(format!("secret `{name}` cannot be used: {error}")).at(secret.name.span, "this secret")
    })
}
