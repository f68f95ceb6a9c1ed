//! The headers that haft adds to plugins' requests, with their values. Nothing is sent from here.

use secrecy::SecretString;

use crate::grant::HostPattern;
use crate::manifest::Plugin;
use crate::report::Problem;
use crate::secret::Secrets;

/// A header that a plugin's requests to one destination get.
#[derive(Debug)]
#[expect(dead_code, reason = "INJECTION: `Plugin::with_injections` takes these once plugins have HTTP")]
pub(super) struct SecretHeader {
    /// The only destination it is sent to.
    pub host: HostPattern,
    /// Its name.
    pub header: String,
    /// Written before the secret.
    pub prefix: String,
    /// The secret.
    pub secret: SecretString,
}

/// The headers of `plugin`. One whose value cannot be had is a problem, and the plugin works
/// without it.
pub(super) async fn of_plugin(
    plugin: &Plugin,
    secrets: Secrets<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<SecretHeader> {
    let mut headers = Vec::new();
    for secret in &plugin.secrets {
        match secrets.read(&secret.source).await {
            Ok(value) => headers.push(SecretHeader {
                host: secret.host.clone(),
                header: secret.header.clone(),
                prefix: secret.prefix.clone(),
                secret: value,
            }),
            Err(error) => {
                let problem = Problem::new(format!("secret `{}` cannot be had: {error}", secret.name.value));
                let problem = problem.at(secret.name.span, "this secret");
                problems.push(error.hint().into_iter().fold(problem, Problem::hint));
            }
        }
    }
    headers
}
