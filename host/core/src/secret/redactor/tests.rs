use proptest::prelude::*;

use super::*;

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::default();
    redactor.add(&secrets.iter().map(|text| SecretString::from(*text)).collect::<Vec<_>>());
    redactor
}

const KEY: &str = "sk-ant-api03-QmFzZTY0IGlzIG5vdCBlbmNyeXB0aW9u";

#[test]
fn cl04_a_secret_is_left_out_of_any_text() {
    let redactor = redactor(&[KEY, "hunter2-hunter2"]);
    assert_eq!(redactor.redact(&format!("key={KEY}, again {KEY}{KEY}.")), "key=***, again ***.");
    assert_eq!(redactor.redact("password: hunter2-hunter2!"), "password: ***!");
    assert!(matches!(redactor.redact("nothing to see"), Cow::Borrowed(_)));
    assert!(!format!("{redactor:?}").contains("hunter2"));
}

/// CL04: a part of a secret is redacted too.
#[test]
fn cl04_a_secret_that_was_cut_is_left_out() {
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

/// A text that repeats the beginning of a secret costs no more than another.
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
    /// A secret is redacted whatever surrounds it.
    #[test]
    fn no_text_shows_a_secret(secret in "[a-cöß\\n\"]{8,40}", before in "[a-cöß]{0,20}", after in "[a-cöß]{0,20}") {
        prop_assume!(secret.trim().len() >= MIN_SECRET);
        let redactor = redactor(&[&secret]);
        let text = format!("{before}{secret}{after}");
        let clean = redactor.redact(&text);
        prop_assert!(!clean.contains(secret.trim()), "{text:?} -> {clean:?}");
    }
}
