//! The configuration files that there are.

use std::collections::BTreeSet;
use std::path::Path;

use super::Setting;
use crate::cli::terminal::Hinted;
use haft_core::report::{nearest, plain};
use haft_import::{CLIENTS, Client, Config, ConfigError};

/// Configuration files.
pub(super) struct Found {
    /// Those that can be read.
    pub(super) configs: Vec<Config>,
    /// Why others cannot.
    pub(super) errors: Vec<ConfigError>,
    /// The clients that were looked for.
    clients: Vec<&'static Client>,
}

impl Found {
    /// Those of the client or file `source`, or of all clients. A file that cannot be read keeps none from being used.
    pub(super) fn of(source: Option<&str>, setting: &Setting) -> anyhow::Result<Self> {
        let mut found = Self { configs: Vec::new(), errors: Vec::new(), clients: Vec::new() };
        match source.map(|source| (source, Client::named(source))) {
            None => found.clients.extend(CLIENTS),
            Some((_, Some(client))) => found.clients.push(client),
            Some((path, None)) => {
                let path = file(path)?;
                found.configs.push(Config::of_file(path, &setting.machine)?);
            }
        }
        // A home that is the project, too, has each file once.
        let mut seen = BTreeSet::new();
        for client in found.clients.clone() {
            for place in client.places(&setting.machine) {
                let is_new = place.path.canonicalize().is_ok_and(|real| seen.insert(real));
                match Config::read(client, &place) {
                    Ok(Some(config)) if is_new && !config.servers.is_empty() => found.configs.push(config),
                    Ok(_) => {}
                    Err(error) => found.errors.push(error),
                }
            }
        }
        Ok(found)
    }

    /// That there is nothing, and where was looked.
    pub(super) fn nothing(&self, setting: &Setting) -> String {
        let places = self.clients.iter().flat_map(|client| client.places(&setting.machine));
        let places: Vec<_> = places.map(|place| setting.shown(&place.path)).collect();
        if places.is_empty() {
            return "no servers were found".to_owned();
        }
        format!("no servers were found in {}", places.join(", "))
    }
}

/// The file that is meant by a source that is no client.
fn file(source: &str) -> anyhow::Result<&Path> {
    let path = Path::new(source);
    if path.exists() {
        return Ok(path);
    }
    let names = CLIENTS.iter().map(|client| client.name);
    let near = nearest(source, names.clone()).map(|near| format!("; did you mean `{near}`?"));
    let message = format!("`{}` is neither a client nor a file{}", plain(source), near.unwrap_or_default());
    let names: Vec<_> = names.collect();
    Err(Hinted::new(message, format!("clients: {}", names.join(", "))).into())
}
