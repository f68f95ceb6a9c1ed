//! Names that every vendor accepts. Refuses nothing: whatever a plugin or a server calls its
//! tool, a usable name comes out, the same one on every run.

use sha2::{Digest, Sha256};

/// The longest name that OpenAI, Anthropic and Gemini all accept.
const MAX_NAME: usize = 64;

/// Hexadecimal digits that tell shortened names apart: 32 bits, for the few dozen names of a program.
const HASH_DIGITS: usize = 8;

/// Joins `parts` with `__` into a name that matches `^[a-zA-Z0-9_-]{1,64}$`.
///
/// A name that had to be changed (too long, or with characters that vendors refuse) ends in a
/// hash of what it was, so that two tools never become one.
pub fn exposed_name(parts: &[&str]) -> String {
    let full = parts.join("__");
    let clean: String = full.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if clean == full && (1..=MAX_NAME).contains(&clean.len()) {
        return clean;
    }
    let kept: String = clean.chars().take(MAX_NAME - HASH_DIGITS - 1).collect();
    format!("{kept}_{}", hash(&full))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    hex.take(HASH_DIGITS).filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usable_names_stay_as_they_are() {
        assert_eq!(exposed_name(&["read"]), "read");
        assert_eq!(exposed_name(&["mcp", "git", "log"]), "mcp__git__log");
    }

    #[test]
    fn changed_names_stay_apart() {
        let long = "x".repeat(80);
        assert_ne!(exposed_name(&[&long, "a"]), exposed_name(&[&long, "b"]));
        assert_ne!(exposed_name(&["a.b"]), exposed_name(&["a b"]));
    }

    proptest! {
        /// TE07: every exposed name is one that all vendors accept.
        #[test]
        fn te07_every_name_is_accepted_by_all_vendors(parts in prop::collection::vec(".{0,40}", 1..4)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let name = exposed_name(&parts);
            prop_assert!((1..=64).contains(&name.len()));
            prop_assert!(name.chars().all(is_allowed));
        }
    }
}
