//! Standard input and output as the pipes of a protocol, and the signals that end what is served there. Nothing but the
//! protocol may be written to them.

use std::fs::File;
use std::os::fd::AsFd;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;

/// The standard streams without the buffers that are for text.
pub(super) fn streams() -> std::io::Result<(File, File)> {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok((input.into(), std::io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// Ends haft: gracefully at the first signal, at once at the second.
pub(super) async fn signals(stop: CancellationToken) -> Exit {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
    stop.cancel();
    tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
    Exit::Interrupted
}
