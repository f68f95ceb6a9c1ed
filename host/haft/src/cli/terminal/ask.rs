//! Asks the user at the terminal. Without one, nothing is asked, and nothing is taken for an answer.

use std::io::{self, BufRead, IsTerminal, Read};

use super::{HEAD, Terminal};

/// Bytes of an answer; more is none.
const MAX_ANSWER: u64 = 1024;

impl Terminal {
    /// Whether a user reads the output and can answer.
    pub(in crate::cli) fn has_person(self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question; anything but `y` and `yes` is no, and what was typed before it stood there is no answer.
    pub(in crate::cli) async fn confirm(self, question: &str) -> io::Result<bool> {
        rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush)?;
        self.ask(&format!("{HEAD}{question}{HEAD:#} [y/N] "));
        let answer = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer).map(|_| answer)
        });
        let answer = answer.await.map_err(io::Error::other)??;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}
