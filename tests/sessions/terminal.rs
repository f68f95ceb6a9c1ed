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
    /// A terminal in which haft runs; `None` where there is no tmux, which is said.
    pub(super) fn start(place: &Place, name: &str, arguments: &[&str]) -> Option<Self> {
        let mut own = place.command(&[]);
        own.current_dir(place.home.work());
        Self::of_size(("120", "50"), &own, name, arguments)
    }

    /// One with so many columns and rows, in the place of the command `own`.
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
        // A key that comes when haft has ended already is not to end what shows how it did, and none takes away what is
        // written at that moment: with an interrupt the kernel throws away what nobody has read yet (termios(3), NOFLSH).
        let line = format!("stty noflsh; {line}; ended=$?; trap '' INT; echo ended with $ended; sleep 600");
        // Not by the user's own shell: dash ends by an interrupt that its child has answered with an exit code.
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

    /// What is on the screen, and what has left it at the top.
    pub(crate) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-J", "-S", "-500"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many rows have left the screen at the top.
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

    /// Waits for the prompt to be there for the `times`th time. Between two prompts the terminal is not in raw mode: a
    /// control key pressed there is the kernel's, and the editor never sees it.
    pub(super) fn prompts(&self, times: usize) {
        self.sees("\n> ", times);
    }

    /// Waits for an empty prompt at the end of what is to be seen.
    pub(super) fn waits_for_input(&self) {
        until("a prompt is the last line", || self.screen().trim_end().lines().last() == Some(">"));
    }

    /// Types each line at the next prompt, and waits until what comes of it is to be seen.
    pub(super) fn converse(&self, steps: &[(&str, &str)]) {
        for (number, (typed, seen)) in (1..).zip(steps) {
            self.prompts(number);
            self.enter(typed);
            self.sees(seen, 1);
        }
    }

    /// Waits until `text` is to be seen `times` times.
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
        // Where the test failed there may be none any more.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
