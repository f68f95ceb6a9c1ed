//! The content of a pane, and keys for it. Refuses all panes except haft's own: others may belong to a person,
//! with more rights.

use super::Paned;
use crate::backend::script::quoted;
use crate::error::BackendError;
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;

/// Limit on the bytes of a screen with its history; the end is kept.
const MAX_SCREEN: usize = 4 << 20;

/// The parameters of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, as tmux has them")]
pub struct Snapshot {
    /// The pane in tmux's syntax; `None` for haft's pane.
    pub(crate) target: Option<String>,
    /// The first line: `-` is the start of the history, negative numbers count into it.
    pub start: Option<String>,
    /// The last line.
    pub end: Option<String>,
    /// Whether wrapped lines are joined.
    pub join: bool,
    /// Whether trailing spaces are kept.
    pub(crate) trailing: bool,
    /// Whether colours are kept, as escape sequences.
    pub(crate) escapes: bool,
    /// Whether unprintable characters are written as octal numbers.
    pub(crate) octal: bool,
    /// Whether the alternate screen is captured, which has no history.
    pub(crate) alternate: bool,
}

/// The content of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The text.
    pub text: String,
    /// Whether the alternate screen was requested and does not exist.
    pub(crate) fell_back: bool,
}

impl Snapshot {
    /// Returns the flags of `capture-pane` for a shell. Each line is `-` or a number.
    pub(crate) fn flags(&self) -> Result<String, BackendError> {
        let mut flags: Vec<String> = Vec::new();
        let switches = [(self.join, "-J"), (self.trailing, "-N"), (self.escapes, "-e"), (self.octal, "-C")];
        flags.extend(switches.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag.to_owned()));
        for (flag, name, value) in [("-S", "start", &self.start), ("-E", "end", &self.end)] {
            let Some(value) = value else { continue };
            if value != "-" && value.parse::<i32>().is_err() {
                let message = format!(
                    "`{name}` is `{}`; expected a line number or `-`",
                    haft_core::report::plain(value)
                );
                return Err(BackendError::Target(message));
            }
            flags.extend([flag.to_owned(), value.clone()]);
        }
        Ok(flags.join(" "))
    }
}

#[derive(Default)]
pub(super) struct End(pub(super) Lock<Vec<u8>>);

impl OutputSink for End {
    fn take(&self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Output {
            let mut kept = self.0.lock();
            kept.extend_from_slice(bytes);
            let surplus = kept.len().saturating_sub(MAX_SCREEN);
            kept.drain(..surplus);
        }
    }
}

impl Paned {
    /// Returns the pane's id of a status line, and whether the capture fell back to the main screen.
    pub(super) fn shown_pane(&self, status: &str) -> Result<(String, bool), BackendError> {
        let mut words = status.split(' ');
        match (words.next(), words.next()) {
            (Some("0"), Some(pane)) => Ok((pane.to_owned(), words.next().is_some())),
            _ => Err(self.explained(status)),
        }
    }
}

// Keys for tmux, and literal text. Refuses key names that tmux does not know, which it would type as letters.

/// The named keys; any single character is a key too.
const NAMED: &[&str] = &[
    "BSpace", "BTab", "DC", "Delete", "Down", "End", "Enter", "Escape", "Home", "IC", "Insert", "Left",
    "NPage", "PageDown", "PageUp", "PgDn", "PgUp", "PPage", "Right", "Space", "Tab", "Up",
];
const FUNCTIONS: std::ops::RangeInclusive<u8> = 1..=12;
/// Prefixes of a key.
const MODIFIERS: &[&str] = &["C-", "M-", "S-", "^"];

pub(super) fn is_key(name: &str) -> bool {
    let bare =
        MODIFIERS.iter().find_map(|modifier| name.strip_prefix(modifier).filter(|rest| !rest.is_empty()));
    if let Some(rest) = bare {
        return is_key(rest);
    }
    let mut characters = name.chars();
    let is_single = characters.next().is_some_and(|c| !c.is_control()) && characters.next().is_none();
    let function = name.strip_prefix('F').and_then(|number| number.parse().ok());
    is_single || NAMED.contains(&name) || function.is_some_and(|number| FUNCTIONS.contains(&number))
}

/// Quotes an argument of tmux for the shell; escapes a final `;`, which would end tmux's command.
pub(super) fn argument(text: &str) -> String {
    match text.strip_suffix(';') {
        Some(before) => quoted(&format!("{before}\\;")),
        None => quoted(text),
    }
}

/// Returns the tmux commands that type `literal`, then press `keys`, then Enter.
pub(super) fn arguments(pane: &str, literal: &str, keys: &[String], enter: bool) -> String {
    let mut commands = Vec::new();
    if !literal.is_empty() {
        commands.push(format!("send-keys -t {pane} -l -- {}", argument(literal)));
    }
    if !keys.is_empty() {
        let keys: Vec<_> = keys.iter().map(|key| argument(key)).collect();
        commands.push(format!("send-keys -t {pane} -- {}", keys.join(" ")));
    }
    if enter {
        commands.push(format!("send-keys -t {pane} Enter"));
    }
    commands.join(" \\; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TM02: each flag of the tool maps to the flag of tmux with its name.
    #[test]
    fn flags_are_those_of_tmux() {
        let flags = |snapshot: Snapshot| snapshot.flags().unwrap();
        assert_eq!(flags(Snapshot::default()), "");
        let all = Snapshot { join: true, trailing: true, escapes: true, octal: true, ..Snapshot::default() };
        assert_eq!(flags(all), "-J -N -e -C");
        let lines = Snapshot { start: Some("-".into()), end: Some("-3".into()), ..Snapshot::default() };
        assert_eq!(flags(lines), "-S - -E -3");
        let odd = Snapshot { start: Some("1; kill-server".into()), ..Snapshot::default() };
        assert!(odd.flags().unwrap_err().to_string().contains("expected a line number or `-`"));
    }

    /// TM06: text first, then keys, then Enter, in one step.
    #[test]
    fn text_then_keys_then_enter() {
        let keys = ["C-c".to_owned(), "Up".to_owned()];
        assert_eq!(
            arguments("%1", "yes", &keys, true),
            r"send-keys -t %1 -l -- 'yes' \; send-keys -t %1 -- 'C-c' 'Up' \; send-keys -t %1 Enter"
        );
        assert_eq!(arguments("%1", "", &[], true), "send-keys -t %1 Enter");
    }

    /// TM06: text with a special meaning for tmux or a shell is typed literally.
    #[test]
    fn a_semicolon_or_a_dash_is_typed_as_it_is() {
        assert_eq!(argument("a;"), r"'a\;'");
        assert_eq!(argument(r"a\;"), r"'a\\;'");
        assert_eq!(argument(";"), r"'\;'");
        assert_eq!(argument("-x"), "'-x'");
        assert_eq!(argument("a;b"), "'a;b'");
    }

    /// TM06: keys are recognised by tmux's names.
    #[test]
    fn keys_are_known_by_their_names() {
        for name in ["C-c", "C-z", "Enter", "Up", "F5", "M-x", "C-M-Left", "a", ";", "-", "ü", "^C", "S-Tab"]
        {
            assert!(is_key(name), "{name}");
        }
        for name in ["", "ctrl-c", "Return!", "C-", "F13", "enter", "ab", "\n"] {
            assert!(!is_key(name), "{name:?}");
        }
    }
}
