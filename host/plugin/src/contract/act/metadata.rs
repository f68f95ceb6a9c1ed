//! The metadata of an `act:tools` component (ACT-SPEC, section 3.2) and the capabilities that it requests (section 7).
//! Requested capabilities are shown to the person who installs the component; they grant nothing.

use ciborium::Value;
use serde::{Deserialize, Serialize};

use super::cbor::{self, field};
use super::shapes::localized;

/// A component's metadata. All texts in it are untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActMetadata {
    /// The component's name.
    pub name: String,
    /// The component's version.
    pub version: String,
    /// The description, in the default language.
    pub description: Option<String>,
    /// The default language, as a BCP 47 tag.
    pub language: Option<String>,
    /// The requested capabilities.
    pub capabilities: Vec<Asked>,
    pub(crate) classes: Vec<DeclaredClass>,
}

/// A request of a component for a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `wasi:filesystem`: to read, or to read and write, paths that match a pattern.
    Files {
        /// A glob: `**`, `/data/**`.
        path: String,
        /// Whether writing is requested too.
        write: bool,
    },
    /// `wasi:http`: requests to a host.
    Host {
        /// A name, `*.example.com`, or `*`.
        host: String,
        /// The ports; empty for the default port of the scheme.
        ports: Vec<u16>,
    },
    /// A capability with parameters that haft does not know, or none.
    Other(String),
}

/// Maximum nesting depth of a description's values, which need five levels.
const MAX_DEPTH: usize = 16;

const MAX_ASKED: usize = 200;

/// Maximum number of characters of a text.
const MAX_TEXT: usize = 4000;

impl ActMetadata {
    /// Decodes the section `act:component`; the error follows "cannot be used: ".
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = ciborium::de::from_reader_with_recursion_limit(bytes, MAX_DEPTH)
            .map_err(|_| "not CBOR".to_owned())?;
        let std = field(&value, "std").ok_or("no table `std`")?;
        let text = |name: &str| field(std, name).and_then(Value::as_text).map(shortened);
        let language = text("default-language");
        Ok(Self {
            name: text("name").ok_or("no `std.name`")?,
            version: text("version").ok_or("no `std.version`")?,
            description: field(std, "description")
                .and_then(|value| localized(value, language.as_deref()))
                .map(shortened),
            capabilities: field(std, "capabilities").map(asked).unwrap_or_default(),
            classes: field(std, "capabilities").map(DeclaredClass::all).unwrap_or_default(),
            language,
        })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// Returns the entries of a table that have a text as their name.
fn named(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let entries = table.as_map().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter_map(|(name, value)| Some((name.as_text()?, value)))
}

/// Returns the constraints of a capability: by the specification's key, or the key that its own packer writes (0.14).
fn constraints(capability: &Value) -> Option<&Vec<Value>> {
    let list = |word| field(capability, word).and_then(Value::as_array);
    list("allow").or_else(|| list("constraints"))
}

fn asked(capabilities: &Value) -> Vec<Asked> {
    named(capabilities).flat_map(|(name, value)| capability(name, value)).take(MAX_ASKED).collect()
}

fn capability(name: &str, value: &Value) -> Vec<Asked> {
    match (name, constraints(value)) {
        ("wasi:filesystem", Some(allow)) => allow.iter().filter_map(files).take(MAX_ASKED).collect(),
        ("wasi:http", Some(allow)) => allow.iter().filter_map(host).take(MAX_ASKED).collect(),
        _ => vec![Asked::Other(shortened(name))],
    }
}

fn files(entry: &Value) -> Option<Asked> {
    let path = shortened(field(entry, "path")?.as_text()?);
    let write = field(entry, "mode").and_then(Value::as_text) == Some("rw");
    Some(Asked::Files { path, write })
}

fn host(entry: &Value) -> Option<Asked> {
    let host = shortened(field(entry, "host")?.as_text()?);
    let ports = field(entry, "ports").and_then(Value::as_array);
    let port = |value: &Value| u16::try_from(value.as_integer()?).ok();
    let ports =
        ports.map(|ports| ports.iter().filter_map(port).take(MAX_ASKED).collect()).unwrap_or_default();
    Some(Asked::Host { host, ports })
}

// The classes of actions for which a component declares that it may request consent (ACT-CONSENT, section 3). A request
// for an undeclared class is refused, regardless of program.toml.

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
        let concrete = named(capabilities)
            .filter(|(name, _)| !name.is_empty() && name.len() <= MAX_PATTERN && !name.contains('*'));
        concrete.map(|(name, value)| Self::new(name, value)).take(MAX_CLASSES).collect()
    }

    fn new(class: &str, table: &Value) -> Self {
        let allow = constraints(table).into_iter().flatten().map(patterns).take(MAX_CLASSES).collect();
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
            other => field(arguments.as_ref()?, other).and_then(Value::as_text),
        };
        let fits = |(name, pattern): &(String, String)| of(name).is_some_and(|text| is_match(pattern, text));
        self.allow.iter().any(|constraint| !constraint.is_empty() && constraint.iter().all(fits))
    }
}

fn patterns(constraint: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_text().unwrap_or("\0").to_owned();
    named(constraint).map(|(name, value)| (name.to_owned(), text(value))).take(MAX_CLASSES).collect()
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

    fn encoded(value: &serde_json::Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).unwrap();
        bytes
    }

    fn value_of(value: &serde_json::Value) -> Value {
        ciborium::from_reader(encoded(value).as_slice()).unwrap()
    }

    #[test]
    fn what_is_asked_for_goes_by_two_words() {
        let capabilities_under = |word: &str| {
            let capabilities = serde_json::json!({ "wasi:http": { word: [{ "host": "a.test" }] } });
            let std = serde_json::json!({ "name": "a", "version": "1", "capabilities": capabilities });
            ActMetadata::decode(&encoded(&serde_json::json!({ "std": std }))).unwrap().capabilities
        };
        assert_eq!(capabilities_under("allow"), [Asked::Host { host: "a.test".into(), ports: Vec::new() }]);
        assert_eq!(capabilities_under("constraints"), capabilities_under("allow"));
        assert_eq!(capabilities_under("other"), [Asked::Other("wasi:http".into())]);
    }

    #[test]
    fn a_description_says_what_is_asked_for() {
        let metadata = ActMetadata::decode(&encoded(&serde_json::json!({ "std": {
            "name": "weather", "version": "1.2.0", "default-language": "de",
            "description": { "en": "Weather", "de": "Wetter" },
            "capabilities": {
                "wasi:filesystem": { "allow": [{ "path": "/data/**", "mode": "ro" }, { "path": "**", "mode": "rw" }] },
                "wasi:http": { "allow": [{ "host": "*.example.com", "ports": [443, 70000] }] },
                "wasi:sockets": {},
            },
        }, "acme": 1 })));
        let metadata = metadata.unwrap();
        assert_eq!((metadata.name.as_str(), metadata.version.as_str()), ("weather", "1.2.0"));
        assert_eq!(metadata.description.as_deref(), Some("Weather"));
        let files = |path: &str, write| Asked::Files { path: path.into(), write };
        assert_eq!(
            metadata.capabilities,
            [
                files("/data/**", false),
                files("**", true),
                Asked::Host { host: "*.example.com".into(), ports: vec![443] },
                Asked::Other("wasi:sockets".into()),
            ]
        );
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for (value, problem) in [
            (serde_json::json!([]), "no table `std`"),
            (serde_json::json!({ "std": {} }), "no `std.name`"),
            (serde_json::json!({ "std": { "name": "x", "version": 1 } }), "no `std.version`"),
        ] {
            assert_eq!(ActMetadata::decode(&encoded(&value)).unwrap_err(), problem);
        }
        assert_eq!(ActMetadata::decode(b"\x9f").unwrap_err(), "not CBOR");
        // Endless arrays, and an array that declares 2^60 entries.
        assert_eq!(ActMetadata::decode(&[0x81; 10_000]).unwrap_err(), "not CBOR");
        assert_eq!(ActMetadata::decode(&[0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0]).unwrap_err(), "not CBOR");
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
        let classes = DeclaredClass::all(&value_of(&serde_json::json!({
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
