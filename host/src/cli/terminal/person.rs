//! Asking the person at the terminal whether a call may run. The question goes to standard error, the answer comes from
//! the terminal itself, never from standard input: what is piped into haft answers nothing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::Terminal;
use crate::tool::{Approver, Decision, Question};

/// The terminal that this process belongs to, wherever its streams go.
const TTY: &str = "/dev/tty";

/// Bytes of an answer that are looked at.
const MAX_ANSWER: u64 = 1 << 10;

/// The person at the terminal, who is asked one question at a time.
pub(in crate::cli) struct Person {
    terminal: Terminal,
    turn: Mutex<()>,
    /// Whether a question was taken back before it was answered: whoever answers it now would
    /// answer another.
    waiting: std::sync::Arc<AtomicBool>,
}

impl Terminal {
    /// The person who reads what is said here.
    pub(in crate::cli) fn person(self) -> Person {
        Person { terminal: self, turn: Mutex::default(), waiting: std::sync::Arc::default() }
    }
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: &Question) -> Decision {
        let _turn = self.turn.lock().await;
        let tty = match tty() {
            Ok(tty) => tty,
            Err(why) => return Decision::Unasked(why),
        };
        if self.waiting.swap(true, Ordering::Relaxed) {
            return Decision::Unasked("an earlier question was not answered".into());
        }
        self.terminal.ask(&prompt(question));
        let waiting = self.waiting.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let answer = line(tty);
            waiting.store(false, Ordering::Relaxed);
            answer
        });
        match answered.await {
            Ok(Ok(answer)) => decision(&answer),
            Ok(Err(error)) => {
                Decision::Unasked(format!("the answer could not be read from `{TTY}`: {error}"))
            }
            Err(_) => Decision::Unasked("the answer could not be read".into()),
        }
    }
}

/// The terminal, if a person sees what is asked there.
fn tty() -> Result<File, String> {
    if !io::stderr().is_terminal() {
        return Err("standard error, where it would be asked for, is no terminal".into());
    }
    File::options()
        .read(true)
        .open(TTY)
        .map_err(|error| format!("there is no terminal to answer from: `{TTY}`: {error}"))
}

fn prompt(question: &Question) -> String {
    let what = question.what.replace('\n', "\n       ");
    format!("  {}: {what} [y/N] ", question.verb)
}

fn line(tty: File) -> io::Result<String> {
    let mut answer = String::new();
    BufReader::new(tty.take(MAX_ANSWER)).read_line(&mut answer)?;
    Ok(answer)
}

/// Only a clear yes is one.
fn decision(answer: &str) -> Decision {
    match answer.trim() {
        "y" | "Y" | "yes" | "Yes" | "YES" => Decision::Approved,
        _ => Decision::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rs06_only_a_yes_is_one() {
        for yes in ["y\n", "Y\n", " yes \r\n"] {
            assert_eq!(decision(yes), Decision::Approved, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yy\n", "yesterday\n", "да\n", "\u{1b}y\n"] {
            assert_eq!(decision(no), Decision::Denied, "{no:?}");
        }
    }

    #[test]
    fn rs06_a_script_is_shown_line_by_line() {
        let question = Question { tool: "bash".into(), verb: "Run", what: "cd x\nrm y".into() };
        assert_eq!(prompt(&question), "  Run: cd x\n       rm y [y/N] ");
    }
}
