//! A tmux terminal, in which a user types and reads. Ends with all of its processes when dropped.

use std::process::Command;

use super::Place;
use crate::common::same_environment;
use crate::common::wait::{until, until_some};

pub(crate) struct Terminal {
    tmux: std::path::PathBuf,
    socket: String,
}

impl Terminal {
    /// A terminal with haft; `None` without tmux, with a message.
    pub(super) fn start(place: &Place, name: &str, arguments: &[&str]) -> Option<Self> {
        let mut own = place.command(&[]);
        own.current_dir(place.home.work());
        Self::of_size(("120", "50"), &own, name, arguments)
    }

    /// A terminal of this size, in the folder and environment of `own`.
    pub(crate) fn of_size(
        (columns, rows): (&str, &str),
        own: &Command,
        name: &str,
        arguments: &[&str],
    ) -> Option<Self> {
        let Some(tmux) = haft::lookup::find_on_path("tmux") else {
            eprintln!("SKIPPED: no terminal to talk at: tmux is not installed");
            return None;
        };
        let terminal = Self { tmux, socket: format!("haft-test-{name}-{}", std::process::id()) };
        let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let words = std::iter::once(env!("CARGO_BIN_EXE_haft")).chain(arguments.iter().copied());
        let line = words.map(quote).collect::<Vec<_>>().join(" ");
        let mut command = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows]);
        // A key after the end of haft must not end the line that shows the exit code, and must not discard output: at
        // an interrupt the kernel discards unread data (termios(3), NOFLSH).
        let line = format!("stty noflsh; {line}; ended=$?; trap '' INT; echo ended with $ended; sleep 600");
        // `bash`, not the user's shell: dash ends by an interrupt to which its child reacted with an exit code.
        command.args(["bash", "-c", &line]).current_dir(own.get_current_dir()?);
        same_environment(own, &mut command);
        command.env("LANG", "C.UTF-8");
        assert!(command.status().unwrap().success());
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tmux);
        command.args(["-L", &self.socket]).args(arguments);
        command
    }

    /// The screen, and the rows that scrolled off its top.
    pub(crate) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-J", "-S", "-500"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The number of rows that scrolled off the top.
    pub(crate) fn scrolled(&self) -> String {
        let output = self.tmux(&["display-message", "-p", "#{history_size}"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Types a line.
    pub(crate) fn enter(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", "--", text]).status().unwrap().success());
        self.key("Enter");
    }

    /// Presses a key.
    pub(super) fn key(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status().unwrap().success());
    }

    /// Waits for the prompt number `times`. Between two prompts the terminal is not in raw mode: a control key goes
    /// to the kernel and never to the editor.
    pub(super) fn prompts(&self, times: usize) {
        self.sees("\n> ", times);
    }

    /// Waits for an empty prompt in the last line.
    pub(super) fn waits_for_input(&self) {
        until("a prompt is the last line", || self.screen().trim_end().lines().last() == Some(">"));
    }

    /// Types each line at the next prompt, and waits for its effect on the screen.
    pub(super) fn converse(&self, steps: &[(&str, &str)]) {
        for (number, (typed, seen)) in (1..).zip(steps) {
            self.prompts(number);
            self.enter(typed);
            self.sees(seen, 1);
        }
    }

    /// Waits until the screen contains `text` `times` times.
    pub(crate) fn sees(&self, text: &str, times: usize) -> String {
        until_some(&format!("`{text}` is seen {times} times"), || {
            Some(self.screen()).filter(|screen| screen.matches(text).count() >= times)
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.screen());
        }
        // After a failure the server may be gone.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
