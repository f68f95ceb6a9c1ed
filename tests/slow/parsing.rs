//! Texts that a careless parser would read in quadratic time: for four times the length, the time is about four
//! times as long.

use std::path::Path;
use std::time::{Duration, Instant};

use haft::manifest::{MAX_FILE, Manifest};
use haft::secret::Redactor;
use secrecy::SecretString;

/// Limit on the ratio: between the ratio of linear time, 4, and of quadratic time, 16.
const MOST: u32 = 9;

/// Asserts that the time of `read` grows at most in proportion to the length.
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

/// A text that repeats the start of a secret takes no more than proportional time.
#[test]
#[ignore = "by night: it measures time"]
fn secrets_are_looked_for_in_proportion() {
    // The length of the secret grows with the text: the secret could start at each position.
    assert_proportional("a text like a secret", 1 << 20, |bytes| {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from(format!("{}b", "a".repeat(bytes >> 9)))]);
        redactor.redact(&"a".repeat(bytes));
    });
}
