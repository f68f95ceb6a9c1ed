//! Standard input and output as the pipes of a protocol, which carry only its messages, and the signals that end
//! the server. Also reads standard input as the text of an argument `-`.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;

/// Returns the standard streams without their text buffers.
pub(super) fn streams() -> std::io::Result<(File, File)> {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok((input.into(), std::io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// Reads standard input, which contains `what`, up to `most` bytes. More is an error: a cut text would have another
/// meaning.
pub(super) fn input(what: &str, most: u64) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {what} from standard input"))?;
    if bytes.len() as u64 > most {
        anyhow::bail!("{what} on standard input: more than {} MiB", most >> 20);
    }
    String::from_utf8(bytes).with_context(|| format!("{what} on standard input: not UTF-8"))
}

/// Waits for signals that end haft: gracefully at the first, at once at the second. haft handles the signals from
/// this call on, before the returned future is polled.
pub(super) fn signals(stop: CancellationToken) -> impl Future<Output = Exit> {
    signals_in_haste(stop, CancellationToken::new())
}

/// Waits like [`signals`]. Also cancels `haste` if the first signal is an interrupt, because a user at the terminal
/// waits.
pub(super) fn signals_in_haste(
    stop: CancellationToken,
    haste: CancellationToken,
) -> impl Future<Output = Exit> {
    let listened = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = listened else {
            return std::future::pending().await;
        };
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => haste.cancel() }
        stop.cancel();
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
        Exit::Interrupted
    }
}
