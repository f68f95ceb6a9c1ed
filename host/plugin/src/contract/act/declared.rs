//! The classes of actions for which an `act:tools` component declares that it may request consent (ACT-CONSENT,
//! section 3). A request for an undeclared class is refused, regardless of program.toml.

use ciborium::Value;
use serde::{Deserialize, Serialize};

use super::cbor;

/// Maximum number of classes of one component, and of constraints of one class.
const MAX_CLASSES: usize = 200;

/// Maximum size in bytes of a pattern, and of the compared text: the time of a comparison grows with both.
const MAX_PATTERN: usize = 500;

/// A class of actions, as its component declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeclaredClass {
    /// The name, such as `db:drop`.
    pub(crate) class: String,
    /// The component's own constraints. If there are any, one must match. A constraint matches if all of its
    /// patterns match, each for the subject that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<Vec<(String, String)>>,
}

impl DeclaredClass {
    /// Returns the classes in a component's table of capabilities. Omits names with a wildcard.
    pub(super) fn all(capabilities: &Value) -> Vec<Self> {
        let entries = capabilities.as_map().map(Vec::as_slice).unwrap_or_default();
        let named = entries.iter().filter_map(|(name, value)| Some((name.as_text()?, value)));
        let concrete =
            named.filter(|(name, _)| !name.is_empty() && name.len() <= MAX_PATTERN && !name.contains('*'));
        concrete.map(|(name, value)| Self::new(name, value)).take(MAX_CLASSES).collect()
    }

    fn new(class: &str, table: &Value) -> Self {
        let list = |word| cbor::field(table, word).and_then(Value::as_array);
        let constraints = list("allow").or_else(|| list("constraints"));
        let allow = constraints.into_iter().flatten().map(patterns).take(MAX_CLASSES).collect();
        Self { class: class.to_owned(), allow }
    }

    /// Returns whether an action with this `key` and these further arguments, in CBOR, was declared.
    pub(super) fn admits(&self, key: &str, arguments: &[u8]) -> bool {
        if self.allow.is_empty() {
            return true;
        }
        let arguments = cbor::read(arguments);
        let of = |name: &str| match name {
            // Never from the arguments: the displayed key is compared.
            "key" => Some(key),
            other => cbor::field(arguments.as_ref()?, other).and_then(Value::as_text),
        };
        let fits = |(name, pattern): &(String, String)| of(name).is_some_and(|text| is_match(pattern, text));
        self.allow.iter().any(|constraint| !constraint.is_empty() && constraint.iter().all(fits))
    }
}

/// Returns the patterns of a constraint; a value that is not text matches nothing.
fn patterns(constraint: &Value) -> Vec<(String, String)> {
    let entries = constraint.as_map().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_text().unwrap_or("\0").to_owned();
    let named = entries.iter().filter_map(|(name, value)| Some((name.as_text()?.to_owned(), text(value))));
    named.take(MAX_CLASSES).collect()
}

/// Returns whether `pattern` matches `text`; `*` matches any characters and `?` one.
fn is_match(pattern: &str, text: &str) -> bool {
    if pattern.len() > MAX_PATTERN || text.len() > MAX_PATTERN {
        return false;
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Which beginnings of the text the pattern so far fits.
    let mut fitting = vec![false; text.len() + 1];
    if let Some(first) = fitting.first_mut() {
        *first = true;
    }
    for part in pattern {
        let mut before = false;
        for (place, fits) in fitting.iter_mut().enumerate() {
            let own = place.checked_sub(1).and_then(|last| text.get(last));
            let was = *fits;
            *fits = match part {
                '*' => was || before,
                '?' => own.is_some() && before,
                other => own == Some(&other) && before,
            };
            // After a star any rest of the text matches.
            before = if part == '*' { *fits } else { was };
        }
    }
    fitting.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cbor_of(value: &serde_json::Value) -> Value {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).unwrap();
        ciborium::from_reader(bytes.as_slice()).unwrap()
    }

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("*", "", true),
            ("*", "anything", true),
            ("test_*", "test_one", true),
            ("test_*", "a_test_one", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("?", "ж", true),
            ("?", "", false),
            ("a", "ab", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(is_match(pattern, text), fits, "{pattern} {text}");
        }
        assert!(!is_match("*", &"x".repeat(501)));
    }

    #[test]
    fn a_class_is_bound_by_what_it_declares() {
        let classes = DeclaredClass::all(&cbor_of(&serde_json::json!({
            "db:read": {},
            "db:drop": { "allow": [{ "key": "test_*", "table": "e*" }] },
            "db:odd": { "allow": [{ "key": 7 }] },
            "db:*": {},
        })));
        let class = |name: &str| classes.iter().find(|class| class.class == name);
        assert!(class("db:*").is_none());
        assert!(class("db:read").unwrap().admits("anything", b""));
        let arguments = cbor::encode(&serde_json::json!({ "table": "events", "key": "test_x" }));
        let drop = class("db:drop").unwrap();
        assert!(drop.admits("test_a", &arguments) && !drop.admits("prod", &arguments));
        assert!(!drop.admits("test_a", b"") && !drop.admits("test_a", b"\xff"));
        assert!(!class("db:odd").unwrap().admits("7", b""));
    }
}
