//! Reads a set of keys from a file or a URL. Bounded in size and time; follows no redirects, and uses plain HTTP
//! only for loopback addresses.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use reqwest::Url;

use super::super::KeySource;
use super::KeySet;
use haft_core::net::{chain, client, is_loopback};

/// The maximum size of a set of keys in bytes: ten times those of the largest issuers.
const MAX_SET: usize = 256 << 10;

/// The timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(8);

/// Reads the keys at `source`; error messages contain no secret.
pub(super) async fn keys(source: &KeySource) -> Result<KeySet, String> {
    let text = match source {
        KeySource::Url(url) => tokio::time::timeout(PATIENCE, at(url))
            .await
            .map_err(|_| format!("no answer within {PATIENCE:?}"))??,
        KeySource::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || read(&path)).await;
            read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
        }
    };
    KeySet::parse(&text)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_SET as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_SET { Err(std::io::Error::other(too_large())) } else { Ok(text) }
}

async fn at(url: &str) -> Result<Vec<u8>, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let is_here = url.host_str().is_some_and(is_loopback);
    if url.scheme() != "https" && !is_here {
        return Err("keys must be fetched over `https://`".to_owned());
    }
    let builder = client(url.scheme() == "https", is_here).map_err(|error| error.to_string())?;
    let client = builder.pool_max_idle_per_host(0).build().map_err(|error| chain(&error))?;
    let mut answer =
        client.get(url).header("accept", "application/json").send().await.map_err(|e| chain(&e))?;
    if !answer.status().is_success() {
        return Err(format!("it answered with {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| chain(&error))? {
        if text.len() + piece.len() > MAX_SET {
            return Err(too_large());
        }
        text.extend_from_slice(&piece);
    }
    Ok(text)
}

fn too_large() -> String {
    format!("it has more than {} KiB", MAX_SET >> 10)
}
