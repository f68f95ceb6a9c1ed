//! Pins of a server's tools at the time of the user's agreement: a name and three digests for each tool. Compares
//! them with the server's current list, and describes each difference in one line. Reads and writes no file.

use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use haft_core::encoding::hex;
use haft_core::report::plain;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The keys of a tool that a model reads as text.
const TEXT: &[&str] = &["title", "description"];
/// The fields with the schemas of a tool.
const SCHEMAS: &[&str] = &["inputSchema", "outputSchema"];
/// The end of a skill's URI.
const SKILL: &str = "/SKILL.md";
/// The name under which a server's instructions to models are pinned. A tool of this name shares the pin.
pub(crate) const INSTRUCTIONS: &str = "(instructions)";
/// Characters of a hexadecimal SHA-256 digest.
const DIGITS: usize = 64;
/// The parts of a tool, in the order of their digests.
const PARTS: [Part; 3] = [Part::Text, Part::Schemas, Part::Annotations];

/// A part of a tool with a separate digest. Together the parts are the whole definition except the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The title and the description.
    Text,
    /// The schemas of its arguments and of its answer.
    Schemas,
    /// Everything else: annotations, icons, `_meta`, and keys of later versions of the protocol. A client may act on each of
    /// them.
    Annotations,
}

/// The tools of a server at one moment. Serialized as a map with one short text for each tool: the three digests.
///
/// The reader bounds a list; a tool takes 195 bytes and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolPins(BTreeMap<String, ToolPin>);

/// The digests of the [`Part`]s of one tool, each of canonical JSON: keys sorted, no white space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolPin([String; PARTS.len()]);

/// One difference between the agreed list and the server's current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A tool of this name was not agreed to.
    Added {
        /// The tool.
        tool: String,
    },
    /// The tool differs from the agreed one.
    Changed {
        /// The tool.
        tool: String,
        /// The changed parts.
        what: Vec<Part>,
    },
    /// A tool with a new name, and with the content of another tool that has changed or is missing.
    Renamed {
        /// The tool.
        tool: String,
        /// The name that this content had.
        from: String,
    },
    /// The tool is missing.
    Removed {
        /// The tool.
        tool: String,
    },
}

impl ToolPins {
    /// Returns the pins of `tools`, each as the server sent it in an answer to `tools/list`. What has no name is no
    /// tool.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut pins = Self::default();
        tools.into_iter().for_each(|tool| pins.add(tool));
        pins
    }

    /// Adds one more tool. Two tools with one name share one pin, so that a second tool is a change.
    pub fn add(&mut self, tool: &Value) {
        let Some(name) = tool.get("name").and_then(Value::as_str) else { return };
        let pin = ToolPin::of(tool);
        match self.0.entry(name.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(pin)),
            Entry::Occupied(mut entry) => entry.get_mut().join(&pin),
        }
    }

    /// Returns whether `pins` have each of these tools exactly so.
    pub fn is_part_of(&self, pins: &Self) -> bool {
        self.0.iter().all(|(name, pin)| pins.0.get(name) == Some(pin))
    }

    /// Returns whether a tool of this name is pinned.
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }

    /// Returns the names of all tools, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns what is pinned, for the user: the number of tools and of skills, and the instructions.
    pub fn summary(&self) -> String {
        let counted = |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (skills, others): (Vec<&str>, Vec<&str>) = self.names().partition(|name| name.ends_with(SKILL));
        let tools = others.iter().filter(|name| **name != INSTRUCTIONS).count();
        let tools = counted(tools, "tool");
        match (skills.len(), self.has(INSTRUCTIONS)) {
            (0, false) => tools,
            (0, true) => format!("{tools} and its instructions"),
            (skills, false) => format!("{tools} and {}", counted(skills, "skill")),
            (skills, true) => format!("{tools}, {} and its instructions", counted(skills, "skill")),
        }
    }

    /// Returns the differences of `now` from these pins, sorted by the names of the tools.
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut all: Vec<_> =
            now.0.iter().filter_map(|(tool, pin)| self.difference(tool, pin, now)).collect();
        let is_renamed = |tool: &str| {
            all.iter().any(|one| matches!(one, Difference::Renamed { from, .. } if from == tool))
        };
        let gone = self.names().filter(|tool| !now.has(tool) && !is_renamed(tool));
        let gone: Vec<_> = gone.map(|tool| Difference::Removed { tool: tool.to_owned() }).collect();
        all.extend(gone);
        all.sort_by(|one, other| one.tool().cmp(other.tool()));
        all
    }

    fn difference(&self, tool: &str, pin: &ToolPin, now: &Self) -> Option<Difference> {
        let tool = tool.to_owned();
        if let Some(agreed) = self.0.get(&tool) {
            let what = agreed.changed(pin);
            return (!what.is_empty()).then_some(Difference::Changed { tool, what });
        }
        let is_free = |(name, old): &(&String, &ToolPin)| *old == pin && now.0.get(*name) != Some(pin);
        Some(match self.0.iter().find(is_free) {
            Some((from, _)) => Difference::Renamed { tool, from: from.clone() },
            None => Difference::Added { tool },
        })
    }
}

impl ToolPin {
    fn of(tool: &Value) -> Self {
        Self(PARTS.map(|part| part.digest(tool)))
    }

    fn join(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = hex(&Sha256::digest(format!("{own}{other}")));
        }
    }

    fn changed(&self, now: &Self) -> Vec<Part> {
        let pairs = PARTS.into_iter().zip(self.0.iter().zip(&now.0));
        pairs.filter_map(|(part, (old, new))| (old != new).then_some(part)).collect()
    }
}

impl fmt::Display for ToolPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Serialize for ToolPin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ToolPin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_digest =
            |word: &&str| word.len() == DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digests: Vec<String> = text.split(' ').filter(is_digest).map(str::to_ascii_lowercase).collect();
        let expected =
            || serde::de::Error::custom("expected three SHA-256 digests of a tool, in hexadecimal");
        digests.try_into().map(Self).map_err(|_| expected())
    }
}

impl Part {
    /// Returns the part's name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "description",
            Self::Schemas => "schema",
            Self::Annotations => "annotations",
        }
    }

    fn has(self, key: &str) -> bool {
        match self {
            Self::Text => TEXT.contains(&key),
            Self::Schemas => SCHEMAS.contains(&key),
            Self::Annotations => key != "name" && !TEXT.contains(&key) && !SCHEMAS.contains(&key),
        }
    }

    /// Returns the digest of a part; a key without a value counts as absent.
    fn digest(self, tool: &Value) -> String {
        let keys = tool.as_object().into_iter().flatten();
        let own: BTreeMap<_, _> = keys.filter(|(key, value)| self.has(key) && !value.is_null()).collect();
        let mut text = String::new();
        write_sorted(own.into_iter(), &mut text);
        hex(&Sha256::digest(text))
    }
}

/// Writes `value` as canonical JSON. It was parsed, and so nests no deeper than `serde_json` reads.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => write_sorted(fields.iter().collect::<BTreeMap<_, _>>().into_iter(), text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write(item, text);
            }
            text.push(']');
        }
        value => text.push_str(&value.to_string()),
    }
}

fn write_sorted<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, text: &mut String) {
    text.push('{');
    for (index, (key, value)) in fields.enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

impl Difference {
    /// Returns the tool that the list has, or had.
    pub fn tool(&self) -> &str {
        let (Self::Added { tool }
        | Self::Changed { tool, .. }
        | Self::Renamed { tool, .. }
        | Self::Removed { tool }) = self;
        tool
    }

    /// Returns whether the tool is held back until the user has agreed to it: it exists, and differs from the
    /// agreed one.
    pub fn holds(&self) -> bool {
        !matches!(self, Self::Removed { .. })
    }
}

/// Writes one line without a full stop, with printable names of tools.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, is_skill) = (plain(self.tool()), self.tool().ends_with(SKILL));
        let kind = if is_skill { "skill" } else { "tool" };
        match self {
            Self::Added { .. } => write!(f, "{kind} `{tool}` is new"),
            Self::Changed { what, .. } => {
                let part =
                    |part: &Part| if is_skill && *part != Part::Text { "files" } else { part.as_str() };
                let what: Vec<_> = what.iter().map(part).collect();
                write!(f, "{kind} `{tool}` has changed: {}", what.join(", "))
            }
            Self::Renamed { from, .. } => {
                write!(f, "{kind} `{tool}` was renamed from `{}`", plain(from))
            }
            Self::Removed { .. } => write!(f, "{kind} `{tool}` was removed"),
        }
    }
}

/// Returns the reason why a tool of `server` is held back, with the user's remedy.
pub fn reason(server: &str, difference: &Difference) -> String {
    format!("MCP server `{server}`: {difference}; {}", way_out(server))
}

/// Returns the user's remedy for a tool of `server` that is held back.
pub fn way_out(server: &str) -> String {
    format!("`haft update {server}` shows the difference and asks")
}

#[cfg(test)]
mod tests;
