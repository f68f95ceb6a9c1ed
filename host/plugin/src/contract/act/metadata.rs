//! The metadata of an `act:tools` component (ACT-SPEC, section 3.2) and the capabilities that it requests (section 7).
//! Requested capabilities are shown to the person who installs the component; they grant nothing.

use ciborium::Value;

use super::cbor::field;
use super::declared::DeclaredClass;

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
    /// The classes of actions that it declares.
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
            description: field(std, "description").and_then(|value| in_language(value, language.as_deref())),
            capabilities: field(std, "capabilities").map(asked).unwrap_or_default(),
            classes: field(std, "capabilities").map(DeclaredClass::all).unwrap_or_default(),
            language,
        })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// Returns a localized text: plain, or a map from language to text.
fn in_language(value: &Value, language: Option<&str>) -> Option<String> {
    if let Some(text) = value.as_text() {
        return Some(shortened(text));
    }
    let texts: Vec<(&str, &str)> =
        value.as_map()?.iter().filter_map(|(tag, text)| Some((tag.as_text()?, text.as_text()?))).collect();
    crate::contract::act::shapes::choose_language(&texts, language).map(shortened)
}

fn asked(capabilities: &Value) -> Vec<Asked> {
    let entries = capabilities.as_map().map(Vec::as_slice).unwrap_or_default();
    let named = entries.iter().filter_map(|(name, value)| Some((name.as_text()?, value)));
    named.flat_map(|(name, value)| capability(name, value)).take(MAX_ASKED).collect()
}

fn capability(name: &str, value: &Value) -> Vec<Asked> {
    // The specification's key, and the key that its own packer writes (0.14).
    let list = |word| field(value, word).and_then(Value::as_array);
    let allow = list("allow").or_else(|| list("constraints"));
    match (name, allow) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cbor(value: &serde_json::Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_asked_for_goes_by_two_words() {
        let capabilities_under = |word: &str| {
            let capabilities = serde_json::json!({ "wasi:http": { word: [{ "host": "a.test" }] } });
            let std = serde_json::json!({ "name": "a", "version": "1", "capabilities": capabilities });
            ActMetadata::decode(&cbor(&serde_json::json!({ "std": std }))).unwrap().capabilities
        };
        assert_eq!(capabilities_under("allow"), [Asked::Host { host: "a.test".into(), ports: Vec::new() }]);
        assert_eq!(capabilities_under("constraints"), capabilities_under("allow"));
        assert_eq!(capabilities_under("other"), [Asked::Other("wasi:http".into())]);
    }

    #[test]
    fn a_description_says_what_is_asked_for() {
        let metadata = ActMetadata::decode(&cbor(&serde_json::json!({ "std": {
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
            assert_eq!(ActMetadata::decode(&cbor(&value)).unwrap_err(), problem);
        }
        assert_eq!(ActMetadata::decode(b"\x9f").unwrap_err(), "not CBOR");
        // Endless arrays, and an array that declares 2^60 entries.
        assert_eq!(ActMetadata::decode(&[0x81; 10_000]).unwrap_err(), "not CBOR");
        assert_eq!(ActMetadata::decode(&[0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0]).unwrap_err(), "not CBOR");
    }
}
