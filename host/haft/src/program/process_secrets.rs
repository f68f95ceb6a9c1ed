//! Reads the secrets that haft puts into the requests of a program's processes, and adds them to the grants of `bash`,
//! servers and commands.

use super::rights::Rights;
use haft_core::grant::HostSecret;
use haft_core::report::Problem;
use haft_manifest::{PlaceholderFile, ProcessSecret, SecretSource, Secrets, TextOrSecret};
use secrecy::{ExposeSecret, SecretString};

/// Returns the rights with the secrets, and the problems with those of secrets. A process works without the placeholder
/// of a value that is not available.
pub(super) async fn added(mut rights: Rights<'_>, mut problems: Vec<Problem>) -> (Rights<'_>, Vec<Problem>) {
    let (manifest, secrets) = (rights.manifest, rights.loaded.secrets());
    let bash = (&manifest.sandbox.secrets, &mut rights.grant);
    let processes = &mut rights.processes;
    let servers = manifest.mcp_servers.iter().zip(&mut processes.servers);
    let servers = servers.filter(|(server, _)| server.enabled);
    let servers = servers.map(|(server, own)| (&server.secrets, &mut own.grant));
    let commands = manifest.tools.iter().zip(&mut processes.commands);
    let commands = commands.map(|(tool, own)| (&tool.secrets, &mut own.grant));
    for (declared, grant) in std::iter::once(bash).chain(servers).chain(commands) {
        for secret in declared {
            match read(secret, secrets).await {
                Ok(secret) => *grant = grant.clone().with_secret(secret),
                Err(problem) => problems.push(problem),
            }
        }
    }
    (rights, problems)
}

async fn read(declared: &ProcessSecret, secrets: Secrets<'_>) -> Result<HostSecret, Problem> {
    let name = &declared.name.value;
    let value = value(declared, &declared.source, secrets).await?;
    let id = match &declared.access_key_id {
        None => None,
        Some(TextOrSecret::Text(id)) => Some(id.clone()),
        Some(TextOrSecret::Secret(source)) => {
            Some(self::value(declared, source, secrets).await?.expose_secret().to_owned())
        }
    };
    let file = |file: &PlaceholderFile| (file.variable.as_str().to_owned(), file.text.clone());
    Ok(HostSecret {
        name: name.clone(),
        hosts: declared.hosts.clone(),
        allow: declared.allow.clone(),
        variable: declared.variable.as_ref().map(|variable| variable.as_str().to_owned()),
        access_key: id,
        file: declared.placeholder_file.as_ref().map(file),
        value,
    })
}

async fn value(
    declared: &ProcessSecret,
    source: &SecretSource,
    secrets: Secrets<'_>,
) -> Result<SecretString, Problem> {
    secrets.read(source).await.map_err(|error| {
        let problem = Problem::new(format!("secret `{}` is not available: {error}", declared.name.value));
        error.hint().into_iter().fold(problem.at(declared.name.span, "this secret"), Problem::hint)
    })
}
