//! Prompts the user at the terminal. Without a terminal there is no prompt and no answer.

use std::io::{self, BufRead, IsTerminal, Read};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;

use super::{HEAD, Terminal};

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
    pub(in crate::cli) fn lines(self) -> mpsc::Receiver<String> {
        let (send, lines) = mpsc::channel(1);
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
