use std::sync::LazyLock;

use proptest::prelude::*;
use secrecy::SecretString;

use super::*;

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::default();
    redactor.add(&secrets.iter().map(|text| SecretString::from(*text)).collect::<Vec<_>>());
    redactor
}

const KEY: &str = "sk-ant-api03-QmFzZTY0IGlzIG5vdCBlbmNyeXB0aW9u";

/// CL04: a secret is redacted in any text.
#[test]
fn a_secret_is_left_out_of_any_text() {
    let redactor = redactor(&[KEY, "hunter2-hunter2"]);
    assert_eq!(redactor.redact(&format!("key={KEY}, again {KEY}{KEY}.")), "key=***, again ***.");
    assert_eq!(redactor.redact("password: hunter2-hunter2!"), "password: ***!");
    assert!(matches!(redactor.redact("nothing to see"), Cow::Borrowed(_)));
    assert!(!format!("{redactor:?}").contains("hunter2"));
}

/// CL04: a part of a secret is redacted too.
#[test]
fn a_secret_that_was_cut_is_left_out() {
    let redactor = redactor(&[KEY]);
    for kept in EDGE..KEY.len() {
        let (start, end) = (KEY.get(..kept).unwrap(), KEY.get(KEY.len() - kept..).unwrap());
        assert_eq!(
            redactor.redact(&format!("{start}\n... (output truncated)")),
            "***\n... (output truncated)"
        );
        assert_eq!(redactor.redact(&format!("[truncated]\n{end} x")), "[truncated]\n*** x");
    }
    redactor.add([&SecretString::from("password-of-ada-4711")]);
    assert_eq!(redactor.redact("password: password-of-ad"), "password: ***");
    assert_eq!(redactor.redact("sk-ant-api03-... is how they look"), "sk-ant-api03-... is how they look");
}

#[test]
fn other_encodings_are_left_out() {
    use base64::Engine;
    let redactor = redactor(&["p\"ss wörd/4711"]);
    let header = base64::prelude::BASE64_STANDARD.encode("ada:p\"ss wörd/4711");
    for text in [
        serde_json::json!({ "a": "p\"ss wörd/4711" }).to_string(),
        "https://x.test/?q=p%22ss%20w%C3%B6rd%2F4711&r=1".to_owned(),
        format!("Authorization: Basic {header}"),
    ] {
        assert!(redactor.redact(&text).contains(REDACTED), "{text}");
    }
}

#[test]
fn short_values_are_words_and_stay() {
    let redactor = redactor(&["dev", "", "  true  "]);
    assert!(redactor.is_empty());
    assert_eq!(redactor.redact("a device"), "a device");
}

#[test]
fn clones_learn_from_each_other() {
    let one = Redactor::default();
    let other = one.clone();
    one.add([&SecretString::from(KEY)]);
    assert_eq!(other.redact(KEY), "***");
}

/// A text that repeats the beginning of a secret takes no longer than another text.
#[test]
fn repetition_is_cheap() {
    let secret = format!("{}b", "a".repeat(2000));
    let redactor = redactor(&[&secret]);
    let text = "a".repeat(1 << 20);
    assert_eq!(redactor.redact(&text).as_ref(), "***");
}

#[test]
fn bytes_are_treated_as_texts_are() {
    let redactor = redactor(&[KEY]);
    let bytes = [b"\xff\x00".as_slice(), KEY.as_bytes(), b"\xff"].concat();
    assert_eq!(redactor.redact_bytes(bytes), b"\xff\x00***\xff");
}

proptest! {
    /// A secret is redacted in any surrounding text.
    #[test]
    fn no_text_shows_a_secret(secret in "[a-cöß\\n\"]{8,40}", before in "[a-cöß]{0,20}", after in "[a-cöß]{0,20}") {
        prop_assume!(secret.trim().len() >= MIN_SECRET);
        let redactor = redactor(&[&secret]);
        let text = format!("{before}{secret}{after}");
        let clean = redactor.redact(&text);
        prop_assert!(!clean.contains(secret.trim()), "{text:?} -> {clean:?}");
    }
}

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

/// CL04: a secret is redacted for any split of the text.
#[test]
fn a_secret_is_left_out_wherever_it_is_cut() {
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

proptest! {
    /// Bytes that arrive in pieces are redacted as those that arrive at once, and what is not a secret is not copied.
    #[test]
    fn bytes_in_pieces_are_treated_as_whole_ones(
        before in "[a-c0-9 ]{0,20}", after in "[a-c0-9 ]{0,20}", size in 1_usize..40, keeps_length in any::<bool>(),
    ) {
        let secret = SECRETS[0];
        let whole = format!("{before}{secret}{after}").into_bytes();
        let mut stream = ByteStream::new(REDACTOR.clone(), keeps_length);
        let mut clean: Vec<u8> = Vec::new();
        for piece in whole.chunks(size) {
            clean.extend_from_slice(&stream.push(piece));
        }
        clean.extend(stream.finish());
        let stars = "*".repeat(if keeps_length { secret.len() } else { 3 });
        prop_assert_eq!(String::from_utf8(clean).unwrap(), format!("{before}{stars}{after}"));
    }
}

#[test]
fn bytes_without_a_secret_are_not_copied() {
    let mut stream = ByteStream::new(redactor(&[KEY]), true);
    let piece = [b'.'; 100];
    assert!(matches!(stream.push(&piece), Cow::Borrowed(unchanged) if unchanged == piece));
}

/// The beginning of a secret that is released is that of a word, or the rest of the secret is replaced.
#[test]
fn bytes_are_released_while_they_may_be_a_word() {
    let secret = SECRETS[0];
    for length in 1..secret.len() {
        for keeps_length in [true, false] {
            let (begun, rest) = secret.split_at(length);
            let [mut stream, mut other] = [(); 2].map(|()| ByteStream::new(REDACTOR.clone(), keeps_length));
            for stream in [&mut stream, &mut other] {
                assert_eq!(*stream.push(format!("a {begun}").as_bytes()), *b"a ");
                assert_eq!(stream.withholds_word(), length < MIN_EDGE, "{begun}");
                assert!(!stream.withholds_word() || stream.release() == begun.as_bytes(), "{begun}");
                assert!(!stream.withholds_word(), "{begun}");
            }
            if length < MIN_EDGE {
                let stars = "*".repeat(if keeps_length { rest.len() } else { 3 });
                let mut said: Vec<u8> =
                    rest.bytes().flat_map(|byte| stream.push(&[byte]).into_owned()).collect();
                said.extend(stream.finish());
                assert_eq!(said, stars.as_bytes(), "{begun}");
                assert_eq!(*other.push(b"! "), *b"! ");
            }
        }
    }
}
