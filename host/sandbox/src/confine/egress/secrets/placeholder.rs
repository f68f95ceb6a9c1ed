//! Placeholders: random texts in the form that programs expect of a secret, without a piece of the secret.

use std::io;

use secrecy::{ExposeSecret, SecretString};

use haft_core::random;

/// The beginnings of well-known tokens that tell their kind, which programs check, and the length of such a token.
const KINDS: &[(&str, usize)] = &[
    ("github_pat_", 93),
    ("ghp_", 40),
    ("gho_", 40),
    ("ghu_", 40),
    ("ghs_", 40),
    ("glpat-", 26),
    ("npm_", 40),
    ("pypi-", 100),
    ("sk-ant-", 108),
    ("sk-", 51),
    ("xoxb-", 57),
    ("xoxp-", 57),
    ("hf_", 37),
    ("dckr_pat_", 36),
    ("cio", 35),
    ("AKIA", 20),
    ("ASIA", 20),
];
/// The length of a placeholder for any other secret, whatever the secret's own is.
const LENGTH: usize = 40;
/// Random bytes: twice what the longest placeholder needs, as some are left out.
const RANDOM: usize = 256;

const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEXADECIMAL: &[u8] = b"0123456789abcdef";

/// Returns a new placeholder for `secret`.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn new(secret: &SecretString) -> io::Result<String> {
    let secret = secret.expose_secret();
    let kind = KINDS.iter().find(|(start, _)| secret.starts_with(start));
    let (start, length) = kind.copied().unwrap_or(("", LENGTH));
    let is_hexadecimal = secret.len() >= LENGTH / 2 && secret.bytes().all(|byte| HEXADECIMAL.contains(&byte));
    let alphabet = match start {
        "AKIA" | "ASIA" => CAPITALS,
        "" if is_hexadecimal => HEXADECIMAL,
        _ => LETTERS,
    };
    // Bytes beyond the last multiple would make some characters more likely than others.
    let bytes = random::bytes::<RANDOM>()?.into_iter().map(usize::from);
    let fair = bytes.filter(|byte| *byte < RANDOM / alphabet.len() * alphabet.len());
    let characters =
        fair.filter_map(|byte| alphabet.get(byte % alphabet.len()).map(|byte| char::from(*byte)));
    Ok(start.chars().chain(characters.take(length - start.len())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_has_the_form_of_its_kind_and_no_piece_of_the_secret() {
        let secret = "zQ7zQ7zQ7zQ7zQ7zQ7zQ7";
        for (start, length) in KINDS {
            let made = new(&format!("{start}{secret}").into()).unwrap();
            assert!(made.starts_with(start) && made.len() == *length && !made.contains("zQ7zQ7"), "{made}");
        }
        for (secret, alphabet) in
            [("0123456789abcdef0123456789abcdef", HEXADECIMAL), ("hunter2-hunter2", LETTERS)]
        {
            let made = new(&secret.into()).unwrap();
            assert!(made.len() == LENGTH && made.bytes().all(|byte| alphabet.contains(&byte)), "{made}");
            assert_ne!(made, new(&secret.into()).unwrap());
        }
    }
}
