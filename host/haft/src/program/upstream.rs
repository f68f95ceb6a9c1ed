//! The proxy of this process: that of its first program. Another program with another `[network]` is not loaded: its
//! requests would go through a proxy, and trust authorities, to which the user agreed for the first one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::ExposeSecret as _;

use super::family::canonical;
use haft_core::net;
use haft_core::sync::Lock;
use haft_core::upstream::{ProxyUrl, Upstream};
use haft_manifest::{Manifest, Network, Secrets};

/// The first program of this process, and its `[network]`.
static FIRST: Lock<Option<(PathBuf, Network)>> = Lock::new(None);

/// Uses the proxy of the first program.
///
/// # Errors
/// The program has another `[network]` than the first one, or the proxy's login or certificate authorities cannot be
/// read.
pub(super) async fn choose(manifest: &Manifest, home: &Path, secrets: &Secrets<'_>) -> anyhow::Result<()> {
    let (path, network) = (canonical(&manifest.path), &manifest.network);
    if is_used(FIRST.lock().as_ref(), &path, network)? {
        return Ok(());
    }
    if let Some(proxy) = network.proxy.clone() {
        read(manifest, proxy, home, secrets).await?.choose();
    }
    *FIRST.lock() = Some((path, network.clone()));
    Ok(())
}

/// Returns whether the process has the network of the program at `path`. A program without a proxy may get one.
fn is_used(first: Option<&(PathBuf, Network)>, path: &Path, network: &Network) -> anyhow::Result<bool> {
    match first {
        None => Ok(false),
        Some((_, used)) if used == network => Ok(true),
        Some((own, used)) if own == path && used.proxy.is_none() => Ok(false),
        Some((own, _)) if own == path => {
            anyhow::bail!("`[network]` has changed: haft uses it from its next start")
        }
        Some((own, _)) => anyhow::bail!(
            "`[network]` differs from that of `{}`, which this process uses: start another haft for this program",
            own.display()
        ),
    }
}

async fn read(
    manifest: &Manifest,
    proxy: ProxyUrl,
    home: &Path,
    secrets: &Secrets<'_>,
) -> anyhow::Result<Upstream> {
    let network = &manifest.network;
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
    Ok(Upstream { proxy, login, authorities, direct: network.no_proxy.clone() })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let pem = std::fs::read(path).with_context(|| format!("cannot read `ca` of `[network]`, `{shown}`"))?;
    anyhow::ensure!(net::has_certificates(&pem), "`ca` of `[network]`, `{shown}`, has no certificate in PEM");
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs in one process, such as folders of an editor, each use their own proxy.
    #[test]
    fn a_program_does_not_use_the_proxy_of_another() {
        let network = |proxy: Option<&str>| Network {
            proxy: proxy.map(|proxy| proxy.parse().unwrap()),
            login: None,
            ca: None,
            no_proxy: Vec::new(),
        };
        let (none, one, other) =
            (network(None), network(Some("http://a.test")), network(Some("http://b.test")));
        let used = |first: &Network, path: &str, network: &Network| {
            is_used(Some(&(PathBuf::from("/a"), first.clone())), Path::new(path), network).ok()
        };
        assert_eq!(is_used(None, Path::new("/a"), &one).ok(), Some(false));
        assert_eq!((used(&one, "/a", &one), used(&one, "/b", &one)), (Some(true), Some(true)));
        assert_eq!((used(&none, "/b", &none), used(&none, "/a", &one)), (Some(true), Some(false)));
        assert_eq!((used(&one, "/a", &other), used(&one, "/a", &none)), (None, None));
        assert_eq!((used(&one, "/b", &none), used(&none, "/b", &one)), (None, None));
    }
}
