//! Texts that a careless parser would read in quadratic time: for four times the length, the time is about four
//! times as long.

use std::path::Path;
use std::time::{Duration, Instant};

use haft::manifest::{MAX_FILE, Manifest};
use haft::secret::Redactor;
use secrecy::SecretString;

/// Half way between what is proportional to the length and what is to its square.
const MOST: u32 = 9;

/// Asserts that `read` takes no more than proportionally longer for `bytes` than for a quarter of them.
fn assert_proportional(what: &str, bytes: usize, read: impl Fn(usize)) {
    let fastest = |bytes: usize| -> Duration {
        let took = |_| {
            let begun = Instant::now();
            read(bytes);
            begun.elapsed()
        };
        (0..3).map(took).min().unwrap()
    };
    let (part, whole) = (fastest(bytes / 4), fastest(bytes));
    assert!(whole < part * MOST, "{what}: {part:?} for a quarter, {whole:?} for all");
}

#[test]
#[ignore = "by night: it measures time"]
fn a_program_is_read_in_proportion() {
    let pieces = [
        "[[tools]]\n",
        "[[a]]\n",
        "]\n",
        "x\n",
        "a.b = 1\n",
        "://",
        "token=",
        "'''",
        "{",
        "[",
        "é",
        "\"\"\"token",
    ];
    let refused = |text: &str| drop(Manifest::parse(text, Path::new("p")).unwrap_err().to_string());
    for piece in pieces {
        assert_proportional(piece, MAX_FILE, |bytes| refused(&piece.repeat(bytes / piece.len())));
    }
    assert_proportional("a long key", MAX_FILE, |bytes| {
        let keys = "k".repeat(bytes / 2);
        refused(&format!("[provider.extra_body]\n{keys} = [{}]", "nan,".repeat(bytes / 10)));
    });
}

/// A text that repeats what a secret begins with costs no more than another.
#[test]
#[ignore = "by night: it measures time"]
fn secrets_are_looked_for_in_proportion() {
    // The secret is as long in proportion: each place of the text could begin it.
    assert_proportional("a text like a secret", 1 << 20, |bytes| {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from(format!("{}b", "a".repeat(bytes >> 9)))]);
        redactor.redact(&"a".repeat(bytes));
    });
}
