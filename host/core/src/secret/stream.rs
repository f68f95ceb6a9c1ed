//! Redacts a text that comes in pieces. Withholds the end of a piece that may be the beginning of a secret, so not
//! every piece is returned at once.

use super::redactor::Redactor;

/// Redacts a text that comes in pieces, including secrets that are split between them.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    /// The possible beginning of a secret; at most twice the length of the longest.
    held: String,
}

impl Stream {
    /// Redacts the secrets of `redactor`.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, held: String::new() }
    }

    /// Returns the text up to the possible beginning of an incomplete secret.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let known = self.redactor.known();
        let mut cut = known.beginning(&self.held);
        let mut secrets = known.secrets(self.held.as_bytes());
        // A secret across the cut is withheld completely.
        while let Some(last) = secrets.pop_if(|last| last.end > cut) {
            cut = cut.min(self.held.floor_char_boundary(last.start));
        }
        let rest = self.held.split_off(cut);
        known.without(&std::mem::replace(&mut self.held, rest), &secrets)
    }

    /// Returns the withheld text, at the end.
    pub fn finish(&mut self) -> String {
        self.redactor.redact_owned(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use secrecy::SecretString;

    use super::*;

    const SECRETS: [&str; 3] = ["sk-4711-abcdef-0815-xyz", "abcdefgh", "-----BEGIN KEY-----\nöäüöäü\n"];

    /// Made once: adding a secret takes longer than searching for it.
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
        let redactor = Redactor::default();
        redactor.add(&SECRETS.map(SecretString::from));
        redactor
    });

    fn stream() -> Stream {
        Stream::new(REDACTOR.clone())
    }

    /// CL04: a secret is redacted wherever the text is split.
    #[test]
    fn cl04_a_secret_is_left_out_wherever_it_is_cut() {
        let text = format!("a {} b {}{} c", SECRETS[0], SECRETS[1], SECRETS[2]);
        for first in 0..text.len() {
            for second in first..text.len() {
                let (first, second) = (text.floor_char_boundary(first), text.floor_char_boundary(second));
                let mut stream = stream();
                let mut out = stream.push(text.get(..first).unwrap());
                out += &stream.push(text.get(first..second).unwrap());
                out += &stream.push(text.get(second..).unwrap());
                out += &stream.finish();
                assert!(!SECRETS.iter().any(|secret| out.contains(secret.trim())), "{first} {second}: {out}");
                assert!(out.starts_with("a *** b ***") && out.ends_with(" c"), "{first} {second}: {out}");
            }
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_not_held_back() {
        let mut stream = stream();
        assert_eq!(stream.push("Password: "), "Password: ");
        assert_eq!(stream.push("building ... s"), "building ... ");
        assert_eq!(stream.push("o"), "so");
        assert_eq!(stream.finish(), "");
    }

    proptest! {
        /// Other texts are complete, and nothing is withheld for ever.
        #[test]
        fn other_texts_pass_unchanged(pieces in prop::collection::vec("[a-k0-9 -]{0,6}", 0..20)) {
            let whole = pieces.concat();
            prop_assume!(!whole.contains("abcdefgh") && !whole.contains("sk-4711-abc"));
            let mut stream = stream();
            let mut out: String = pieces.iter().map(|piece| stream.push(piece)).collect();
            out += &stream.finish();
            prop_assert_eq!(out, whole);
        }
    }
}
