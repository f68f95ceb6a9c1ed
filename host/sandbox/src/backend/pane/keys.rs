//! Keys for tmux, and literal text. Refuses key names that tmux does not know, which it would type as letters.

use crate::backend::script::quoted;

/// The named keys; any single character is a key too.
const NAMED: &[&str] = &[
    "BSpace", "BTab", "DC", "Delete", "Down", "End", "Enter", "Escape", "Home", "IC", "Insert", "Left",
    "NPage", "PageDown", "PageUp", "PgDn", "PgUp", "PPage", "Right", "Space", "Tab", "Up",
];
/// The function keys.
const FUNCTIONS: std::ops::RangeInclusive<u8> = 1..=12;
/// Prefixes of a key.
const MODIFIERS: &[&str] = &["C-", "M-", "S-", "^"];

/// Reports whether tmux knows a key by this name.
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

    /// TM06: text first, then keys, then Enter, in one step.
    #[test]
    fn tm06_text_then_keys_then_enter() {
        let keys = ["C-c".to_owned(), "Up".to_owned()];
        assert_eq!(
            arguments("%1", "yes", &keys, true),
            r"send-keys -t %1 -l -- 'yes' \; send-keys -t %1 -- 'C-c' 'Up' \; send-keys -t %1 Enter"
        );
        assert_eq!(arguments("%1", "", &[], true), "send-keys -t %1 Enter");
    }

    /// TM06: text with a special meaning for tmux or a shell is typed literally.
    #[test]
    fn tm06_a_semicolon_or_a_dash_is_typed_as_it_is() {
        assert_eq!(argument("a;"), r"'a\;'");
        assert_eq!(argument(r"a\;"), r"'a\\;'");
        assert_eq!(argument(";"), r"'\;'");
        assert_eq!(argument("-x"), "'-x'");
        assert_eq!(argument("a;b"), "'a;b'");
    }

    #[test]
    fn tm06_keys_are_known_by_their_names() {
        for name in ["C-c", "C-z", "Enter", "Up", "F5", "M-x", "C-M-Left", "a", ";", "-", "ü", "^C", "S-Tab"]
        {
            assert!(is_key(name), "{name}");
        }
        for name in ["", "ctrl-c", "Return!", "C-", "F13", "enter", "ab", "\n"] {
            assert!(!is_key(name), "{name:?}");
        }
    }
}
