//! Finds the lists of tools in a line of a server, as any client would find them.
//!
//! A list reaches a client as a member `tools` of a result, whatever its id and whether it was requested: a server
//! may guess the id of a request that the client has sent and haft has not read yet, and clients take `1`, `1.0`
//! and `"1"` for one id. haft therefore looks for the key, not for the id.
//!
//! - [`may_list`]: a key is one token, and no parser finds a token across two lines. A line without the letters of
//!   `tools`, in any case and with any escape, brings no client a list, and is not parsed further.
//! - [`read`]: a line of JSON (RFC 8259) has one meaning, except for duplicate keys, keys that some parsers treat
//!   as equal (`Tools`), and carriage returns, at which some clients end a line. Invalid JSON may be valid to a
//!   lenient parser.

use std::fmt;
use std::ops::Range;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use haft_core::scan::{MAX_VALUES, Scan, is_read_as};

const TOOLS: &str = "tools";
/// Index of the letter `l` of `tools`. It is the rarest of these letters in texts.
const BEFORE: usize = 3;

/// A list of tools, or one page of a list, within a line.
pub(super) struct Listed {
    /// The tools, and the range of each in the line.
    pub(super) tools: Vec<Value>,
    places: Vec<Range<usize>>,
    /// The range of the array in the line, including its brackets.
    place: Range<usize>,
    /// Whether no further page follows.
    pub(super) is_last: bool,
}

/// Returns whether a line, or a part of it, contains a key that some parser reads as `tools`.
pub(super) fn may_list(line: &[u8]) -> bool {
    let is_l = |(at, byte): (usize, &u8)| matches!(byte, b'l' | b'L').then_some(at);
    let is_key = |at: usize| {
        let before = at.checked_sub(BEFORE).and_then(|start| line.get(start..at));
        let after = line.get(at + 1..).unwrap_or_default();
        before.is_some_and(|before| before.eq_ignore_ascii_case(b"too"))
            && (matches!(after, [b's' | b'S', ..]) || after.starts_with("\u{17f}".as_bytes()))
    };
    line.iter().enumerate().filter_map(is_l).any(is_key) || has_escaped_letter(line)
}

/// Returns whether a letter of `tools` is escaped. No encoder escapes these letters.
fn has_escaped_letter(line: &[u8]) -> bool {
    let is_letter = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let letter = digits.and_then(char::from_u32).map(|c| c.to_string());
        letter.is_some_and(|letter| TOOLS.chars().any(|c| is_read_as(&letter, &c.to_string())))
    };
    let escapes = line.windows(6).filter(|window| matches!(window, [b'\\', b'u' | b'U', ..]));
    escapes.filter_map(|window| window.get(2..)).any(is_letter)
}

/// Returns the lists in a line for which [`may_list`] is true. An answer to another request, whose id `is_other`,
/// contains no list.
///
/// # Errors
/// The reason why the line may have several meanings.
pub(super) fn read(line: &[u8], is_other: impl Fn(&Value) -> bool) -> Result<Vec<Listed>, &'static str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&b'\r') {
        return Err("a carriage return is within it");
    }
    let none = "it is not JSON";
    let text = std::str::from_utf8(line).map_err(|_| none)?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| none)?;
    let messages: Vec<&RawValue> = if whole.get().starts_with('[') {
        serde_json::from_str(whole.get()).map_err(|_| none)?
    } else {
        vec![whole]
    };
    let messages = messages.into_iter().filter(|message| message.get().starts_with('{'));
    messages.filter_map(|message| of_message(message, text, &is_other).transpose()).collect()
}

fn of_message(
    message: &RawValue,
    line: &str,
    is_other: impl Fn(&Value) -> bool,
) -> Result<Option<Listed>, &'static str> {
    let message = Members::of(message)?;
    let results = message.all("result").filter(|result| result.get().starts_with('{'));
    let results: Vec<Members<'_>> = results.map(Members::of).collect::<Result<_, _>>()?;
    if !results.iter().any(|result| result.all(TOOLS).next().is_some()) {
        return Ok(None);
    }
    let [result] = results.as_slice() else { return Err("it has two results") };
    message.only("result")?;
    let id: Value = serde_json::from_str(message.only("id")?.get()).map_err(|_| "its id cannot be read")?;
    if ["method", "error"].iter().any(|key| message.all(key).next().is_some()) {
        return Err("it is both a request and an answer");
    }
    if is_other(&id) {
        return Ok(None);
    }
    let tools = result.only(TOOLS)?;
    let elements: Vec<&RawValue> =
        serde_json::from_str(tools.get()).map_err(|_| "its `tools` is not a list")?;
    if Scan::from_message(tools.get().as_bytes()).values > MAX_VALUES {
        return Err("its `tools` have too many values");
    }
    // An unreadable entry, or one with a duplicate key, is not a tool with a name, and is removed alone.
    let read =
        |element: &&RawValue| serde_json::from_str(element.get()).map_or(Value::Null, |Unique(tool)| tool);
    let next = result.all("nextCursor").any(|next| !matches!(next.get(), "null" | "\"\""));
    Ok(Some(Listed {
        tools: elements.iter().map(read).collect(),
        places: elements.iter().map(|element| place(element, line)).collect(),
        place: place(tools, line),
        is_last: !next,
    }))
}

/// Returns the line without the tools of `lists` that are held back.
pub(super) fn without(line: &[u8], lists: &[(Listed, Vec<bool>)]) -> Vec<u8> {
    let (mut kept, mut at) = (Vec::with_capacity(line.len()), 0);
    let copy = |kept: &mut Vec<u8>, range: Range<usize>| {
        kept.extend_from_slice(line.get(range).unwrap_or_default());
    };
    for (listed, held) in lists.iter().filter(|(_, held)| held.contains(&true)) {
        copy(&mut kept, at..listed.place.start + 1);
        let left = listed.places.iter().zip(held).filter(|(_, held)| !**held);
        for (index, (place, _)) in left.enumerate() {
            kept.extend((index > 0).then_some(b','));
            copy(&mut kept, place.clone());
        }
        at = listed.place.end - 1;
    }
    copy(&mut kept, at..line.len());
    kept
}

fn place(part: &RawValue, line: &str) -> Range<usize> {
    let start = part.get().as_ptr().addr() - line.as_ptr().addr();
    start..start + part.get().len()
}

/// The members of an object, including duplicates.
struct Members<'l>(Vec<(String, &'l RawValue)>);

impl<'l> Members<'l> {
    fn of(object: &'l RawValue) -> Result<Self, &'static str> {
        serde_json::from_str(object.get()).map_err(|_| "a key of it cannot be read")
    }

    /// Returns the members whose key some parser reads as `key`.
    fn all(&self, key: &str) -> impl Iterator<Item = &'l RawValue> {
        self.0
            .iter()
            .filter(move |(own, _)| is_read_as(own, &key.to_ascii_lowercase()))
            .map(|(_, value)| *value)
    }

    /// Returns the member whose key every parser reads as `key`.
    fn only(&self, key: &str) -> Result<&'l RawValue, &'static str> {
        let mut all = self.0.iter().filter(|(own, _)| is_read_as(own, key));
        match (all.next(), all.next()) {
            (Some((own, value)), None) if own == key => Ok(value),
            _ => Err("it has a key twice, or a key in another spelling"),
        }
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// A value whose objects have no duplicate keys.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyUnique).map(Self)
    }
}

struct AnyUnique;

impl<'de> Visitor<'de> for AnyUnique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without keys that are there twice")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(value)) = list.next_element()? {
            all.push(value);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Unique(value))) = map.next_entry::<String, _>()? {
            if all.insert(key, value).is_some() {
                return Err(de::Error::custom("it has a key twice"));
            }
        }
        Ok(all.into())
    }
}
