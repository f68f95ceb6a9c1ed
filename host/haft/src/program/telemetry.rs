//! The telemetry of this process: that of the first loaded program that configures it. Off unless program.toml or
//! the environment names a destination.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_core::report::Problem;
use haft_core::trace::Trace;
use haft_telemetry::{Scrapes, Settings, Telemetry};

use super::loaded::Loaded;

static STARTED: OnceLock<Telemetry> = OnceLock::new();

/// Whether metrics are served.
static IS_SCRAPED: AtomicBool = AtomicBool::new(false);

/// Serves metrics to Prometheus at `address`; port 0 stands for any port. Returns the address. Has to be called
/// before a program is loaded.
pub async fn answer_at(address: SocketAddr) -> io::Result<SocketAddr> {
    let scrapes = Scrapes::bind(address).await?;
    let address = scrapes.address();
    IS_SCRAPED.store(true, Ordering::Relaxed);
    tokio::spawn(scrapes.serve(|| STARTED.get().cloned()));
    Ok(address)
}

/// Returns the recorder of the program's calls, and a problem if telemetry cannot be sent. Calls run
/// nevertheless.
pub(super) async fn of(loaded: &Loaded) -> (Trace, Option<Problem>) {
    if let Some(started) = STARTED.get() {
        return (started.trace(), None);
    }
    match start(loaded).await {
        Ok(None) => (Trace::default(), None),
        Ok(Some(telemetry)) => (STARTED.get_or_init(|| telemetry).trace(), None),
        Err(why) => {
            let span = loaded.manifest.telemetry.iter().map(|table| table.endpoint.span);
            let problem = span.fold(Problem::new(why).warning(), |it, span| it.at(span, "to be sent here"));
            (Trace::default(), Some(problem))
        }
    }
}

/// Sends the remaining data, within a few seconds.
pub async fn close() {
    if let Some(telemetry) = STARTED.get() {
        telemetry.clone().close().await;
    }
}

async fn start(loaded: &Loaded) -> Result<Option<Telemetry>, String> {
    let table = loaded.manifest.telemetry.as_ref();
    let mut settings = Settings {
        endpoint: table.map(|table| table.endpoint.value.clone()),
        service_name: table.and_then(|table| table.service_name.clone()),
        headers: Vec::new(),
        is_scraped: IS_SCRAPED.load(Ordering::Relaxed),
    };
    if !settings.is_on() {
        return Ok(None);
    }
    for (name, value) in table.map(|table| table.headers.as_slice()).unwrap_or_default() {
        let value = loaded.secrets().value(value).await;
        let value = value.map_err(|error| format!("a header of `[telemetry]` is not available: {error}"))?;
        settings.headers.push((name.clone(), value));
    }
    Telemetry::start(&settings).map(Some).map_err(|error| error.to_string())
}
