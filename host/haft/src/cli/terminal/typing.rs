//! Reads lines that the user enters while an agent works. The terminal stays in line mode and edits the line
//! itself, and Ctrl-C remains an interrupt. Answers to questions are read elsewhere.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::Screen;

/// The terminal of this process.
const TTY: &str = "/dev/tty";

/// Maximum bytes of one read: the maximum length of a terminal's line.
const MAX_LINE: usize = 4 << 10;

/// Maximum number of waiting lines: more than a user enters before they are received.
const MAX_LINES: usize = 64;

/// Interval between checks whether a question is answered. Other code reads the answer.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Reads lines from the terminal on a separate thread, until it is ended.
pub(in crate::cli) struct Typing {
    lines: Receiver<String>,
    /// Ends the thread when it is dropped.
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

impl Typing {
    /// Begins to read. Returns `None` without a terminal. Ignores lines that are entered during a question on
    /// `screen`.
    pub(in crate::cli) fn begin(screen: &Arc<Screen>) -> Option<Self> {
        let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
        let tty = File::options().read(true).custom_flags(flags).open(TTY).ok()?;
        let (gone, stop) = io::pipe().ok()?;
        let (sender, lines) = channel(MAX_LINES);
        let screen = screen.clone();
        let thread = tokio::task::spawn_blocking(move || {
            if let Err(error) = read(&tty, &gone, &screen, &sender) {
                tracing::debug!("input during the task is not read: {error}");
            }
        });
        Some(Self { lines, stop, thread })
    }

    /// Returns the next line, or waits without end if there is none.
    pub(in crate::cli) async fn line(&mut self) -> String {
        match self.lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }

    /// Stops reading, and returns the lines that were not received.
    pub(in crate::cli) async fn end(mut self) -> Vec<String> {
        drop(self.stop);
        // The thread cannot panic.
        let _ = self.thread.await;
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }
}

fn read(mut tty: &File, gone: &PipeReader, screen: &Screen, lines: &Sender<String>) -> io::Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), [0; MAX_LINE]);
    loop {
        let mut waiting = [PollFd::new(gone, PollFlags::IN), PollFd::new(tty, PollFlags::IN)];
        let is_asking = screen.is_asking();
        let (watched, time) = if is_asking { (1, Some(&LOOK)) } else { (2, None) };
        match poll(waiting.get_mut(..watched).unwrap_or_default(), time) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [gone, typed] = waiting.map(|one| !one.revents().is_empty());
        if gone {
            return Ok(());
        }
        // A question may have begun meanwhile.
        if !typed || screen.is_asking() {
            continue;
        }
        match tty.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let rest = bytes.split_off(end + 1);
            let line = std::mem::replace(&mut bytes, rest);
            // Lines beyond the queue are dropped.
            let _ = lines.try_send(String::from_utf8_lossy(&line).trim().to_owned());
        }
    }
}
