//! The proxy of this process: that of the first loaded program whose `[network]` names one.

use std::path::Path;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;

use super::loaded::Loaded;
use super::options::Options;
use super::trust::{Known, Trust};
use haft_core::net;
use haft_core::upstream::Upstream;

/// Uses the proxy of the program, as far as the user agreed to it, without loading the program: for verbs that fetch.
///
/// # Errors
/// program.toml is invalid, or the proxy's login or certificate authorities cannot be read.
pub async fn use_network(options: &Options) -> anyhow::Result<()> {
    let trust = match &options.trust {
        Trust::Agreed => Trust::LeftOut(Known::default()),
        trust => trust.clone(),
    };
    Loaded::read(&Options { trust, ..options.clone() }).await.map(drop)
}

/// Uses the proxy of a program, unless this process has one.
pub(super) async fn choose(loaded: &Loaded) -> anyhow::Result<()> {
    let network = &loaded.manifest.network;
    let Some(proxy) = network.proxy.clone().filter(|_| Upstream::chosen().is_none()) else { return Ok(()) };
    let login = match &network.login {
        Some(source) => {
            Some(loaded.secrets().read(source).await.context("`login` of `[network]` is not available")?)
        }
        None => None,
    };
    if login.as_ref().is_some_and(|login| !login.expose_secret().contains(':')) {
        anyhow::bail!("`login` of `[network]` is not `user:password`");
    }
    let authorities = network.ca.as_ref().map(|file| {
        let path = loaded.manifest.resolve(&file.value, &loaded.dirs.home);
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
