//! The proxy of this process: that of the first loaded program whose `[network]` names one.

use std::path::Path;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;

use haft_core::net;
use haft_core::upstream::Upstream;
use haft_manifest::{Manifest, Secrets};

/// Uses the proxy of a program, unless this process has one.
///
/// # Errors
/// The proxy's login or certificate authorities cannot be read.
pub(super) async fn choose(manifest: &Manifest, home: &Path, secrets: &Secrets<'_>) -> anyhow::Result<()> {
    let network = &manifest.network;
    let Some(proxy) = network.proxy.clone().filter(|_| Upstream::chosen().is_none()) else { return Ok(()) };
    let login = match &network.login {
        Some(source) => Some(secrets.read(source).await.context("`login` of `[network]` is not available")?),
        None => None,
    };
    if login.as_ref().is_some_and(|login| !login.expose_secret().contains(':')) {
        anyhow::bail!("`login` of `[network]` is not `user:password`");
    }
    let authorities = network.ca.as_ref().map(|file| {
        let path = manifest.resolve(&file.value, home);
        certificates(&path)
    });
    let authorities = authorities.transpose()?.unwrap_or_default();
    Upstream { proxy, login, authorities, direct: network.no_proxy.clone() }.choose();
    Ok(())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let pem = std::fs::read(path).with_context(|| format!("cannot read `ca` of `[network]`, `{shown}`"))?;
    anyhow::ensure!(net::has_certificates(&pem), "`ca` of `[network]`, `{shown}`, has no certificate in PEM");
    Ok(pem)
}
