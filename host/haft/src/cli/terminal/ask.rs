//! Prompts the user at the terminal, and reads the lines that the user enters while an agent works. Without a terminal
//! there is no prompt and no answer.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, PipeReader, PipeWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::{HEAD, Screen, Terminal};

/// Maximum bytes of an answer. A longer answer is invalid.
const MAX_ANSWER: u64 = 1024;

/// Maximum bytes of a secret: the maximum length of a terminal's line.
const MAX_SECRET: u64 = 4 << 10;

impl Terminal {
    /// Returns whether a user reads the output and can answer.
    pub(in crate::cli) fn has_person(self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question. Only `y` and `yes` mean yes. Input from before the question is discarded.
    pub(in crate::cli) async fn confirm(self, question: &str) -> io::Result<bool> {
        Ok(self.answered(question).await?.unwrap_or_default())
    }

    /// Asks a question like [`confirm`](Self::confirm). Returns `None` at the end of the input.
    pub(in crate::cli) async fn answered(self, question: &str) -> io::Result<Option<bool>> {
        rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush)?;
        self.ask(&format!("{HEAD}{question}{HEAD:#} [y/N] "));
        let answer = read(MAX_ANSWER).await?;
        if answer.is_empty() {
            // The question's line has not ended yet.
            self.message("");
            return Ok(None);
        }
        Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Asks for a secret without echo. Returns it without surrounding white space.
    pub(in crate::cli) async fn secret(self, question: &str) -> io::Result<SecretString> {
        rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush)?;
        self.ask(&format!("{HEAD}{question}{HEAD:#} "));
        let hidden = Hidden::begin()?;
        let entered = SecretString::from(read(MAX_SECRET).await?);
        drop(hidden);
        // The terminal does not echo the entered newline either.
        self.message("");
        Ok(entered.expose_secret().trim().into())
    }
}

impl Terminal {
    /// Returns the lines that the user enters from now on, until the receiver is dropped.
    pub(in crate::cli) fn lines(self) -> Receiver<String> {
        let (send, lines) = channel(1);
        tokio::spawn(async move {
            while let Ok(line) = read(MAX_SECRET).await {
                if line.is_empty() || send.send(line).await.is_err() {
                    return;
                }
            }
        });
        lines
    }
}

/// Reads a line of at most `most` bytes.
async fn read(most: u64) -> io::Result<String> {
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        io::stdin().lock().take(most).read_line(&mut line).map(|_| line)
    });
    line.await.map_err(io::Error::other)?
}

/// Turns the terminal's echo off until this value is dropped.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!("the terminal stays without echo: {error}");
        }
    }
}

/// The terminal of this process, whatever its standard streams are.
pub(in crate::cli) const TTY: &str = "/dev/tty";

/// Maximum bytes of one read: the maximum length of a terminal's line.
const MAX_LINE: usize = 4 << 10;

/// Maximum number of waiting lines: more than a user enters before they are received.
const MAX_LINES: usize = 64;

/// Interval between checks whether a question was answered or withdrawn, which limits the delay after Ctrl-C.
pub(super) const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

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
            if let Err(error) = read_lines(&tty, &gone, &screen, &sender) {
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

fn read_lines(mut tty: &File, gone: &PipeReader, screen: &Screen, lines: &Sender<String>) -> io::Result<()> {
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
