//! Assembles the pieces of a streamed answer, for all formats. A call begins with a name. Null equals absent.
//! Indices and ids distinguish calls if possible: some servers give every call the index 0, give one id to all
//! calls of a turn, or change either between the pieces of one call.

use serde_json::{Map, Value, json};

use super::calls::arguments;

/// Keys with an identifying value: a repeated value does not extend it, and the first one counts.
const NAMES: &[&str] =
    &["id", "call_id", "type", "role", "index", "format", "name", "status", "thoughtSignature"];
/// The maximum number of calls, blocks or items of a turn: more than any model makes, and few enough for a linear
/// search.
pub(super) const MAX_ITEMS: usize = 1024;

/// The keys of a call in a format.
pub(super) struct Shape {
    /// Whether a value is a call, for lists that mix calls with other values.
    pub(super) is_call: fn(&Value) -> bool,
    pub(super) id: &'static str,
    /// The key of the object with name and arguments; `None`: they are in the call itself.
    pub(super) function: Option<&'static str>,
    pub(super) arguments: &'static str,
}

impl Shape {
    fn function<'v>(&self, call: &'v Map<String, Value>) -> Option<&'v Map<String, Value>> {
        self.function.map_or(Some(call), |key| call.get(key)?.as_object())
    }

    fn part<'v>(&self, call: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
        let inside = || self.function(call)?.get(key);
        call.get(key).or_else(inside).filter(|value| !value.is_null())
    }

    fn text<'v>(&self, call: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
        self.part(call, key)?.as_str().filter(|text| !text.is_empty())
    }

    /// Compares index and id of a call and a piece; `None`: neither matches.
    fn kinship(&self, call: &Map<String, Value>, piece: &Map<String, Value>) -> Option<Kinship> {
        let number = |call| self.part(call, "index").and_then(Value::as_u64);
        let by_number = number(call).zip(number(piece)).map(|(of_call, of_piece)| of_call == of_piece);
        let id = |call| self.text(call, self.id);
        let by_id = id(call).zip(id(piece)).map(|(of_call, of_piece)| of_call == of_piece);
        match (by_number, by_id) {
            (Some(true), Some(false)) | (Some(false), Some(true)) => Some(Kinship::Half),
            (Some(true), _) | (_, Some(true)) => Some(Kinship::Whole),
            _ => None,
        }
    }

    /// Returns whether `piece` begins a new call, despite its matching index or id.
    fn begins(&self, call: &Map<String, Value>, piece: &Map<String, Value>, kinship: Kinship) -> bool {
        let name = |call| self.text(call, "name");
        let (Some(call_name), Some(piece_name)) = (name(call), name(piece)) else { return false };
        let state = |call| Written::of(self.part(call, self.arguments));
        match kinship {
            // The piece is parsed first: the text of the call is long.
            Kinship::Whole if call_name == piece_name => match state(piece) {
                Written::Whole(sent) => matches!(state(call), Written::Whole(known) if known != sent),
                _ => false,
            },
            // A name may arrive in pieces.
            Kinship::Whole => !matches!(state(call), Written::Nothing),
            // A call does not end in the middle of its arguments.
            Kinship::Half => call_name != piece_name || !matches!(state(call), Written::Part),
        }
    }

    /// Returns the index in `all` of the call that `piece` continues; `None` if the piece begins a new call.
    pub(super) fn place(&self, all: &[Value], piece: &Map<String, Value>) -> Option<usize> {
        let calls = all.iter().enumerate().filter(|(_, value)| (self.is_call)(value));
        let calls: Vec<_> = calls.filter_map(|(place, value)| Some((place, value.as_object()?))).collect();
        let kin = |kind| calls.iter().rfind(|(_, call)| self.kinship(call, piece) == Some(kind));
        for kind in [Kinship::Whole, Kinship::Half] {
            if let Some((place, call)) = kin(kind) {
                return Some(*place).filter(|_| !self.begins(call, piece, kind));
            }
        }
        let (place, last) = calls.last()?;
        let is_named = self.text(piece, "name").is_some();
        let has_id = self.text(piece, self.id).is_some();
        let is_bare = matches!(Written::of(self.part(piece, self.arguments)), Written::Nothing);
        // A call with an id may begin before its name arrives.
        let begins = if is_named { self.text(last, "name").is_some() } else { has_id && is_bare };
        Some(*place).filter(|_| !begins)
    }

    /// Adds a piece to its call in `all`. Returns `false` if there are too many calls.
    pub(super) fn add(&self, all: &mut Vec<Value>, piece: Map<String, Value>) -> bool {
        let place = self.place(all, &piece).unwrap_or(all.len());
        if place >= MAX_ITEMS {
            return false;
        }
        if place >= all.len() {
            all.push(json!({}));
        }
        if let Some(Value::Object(call)) = all.get_mut(place) {
            self.join(call, piece);
        }
        true
    }

    pub(super) fn join(&self, call: &mut Map<String, Value>, piece: Map<String, Value>) {
        for (key, value) in piece {
            match value {
                Value::Object(value) if Some(key.as_str()) == self.function => {
                    let function = call.entry(key).or_insert(Value::Null);
                    if !function.is_object() {
                        *function = json!({});
                    }
                    function
                        .as_object_mut()
                        .into_iter()
                        .for_each(|function| self.join_function(function, &value));
                }
                value if self.function.is_none() => {
                    self.join_function(call, &Map::from_iter([(key, value)]));
                }
                value => join(call, key, value),
            }
        }
    }

    /// Merges a function. A name may arrive complete, in pieces, or again with every piece.
    fn join_function(&self, function: &mut Map<String, Value>, piece: &Map<String, Value>) {
        for (key, value) in piece {
            let known = function.get_mut(key).filter(|known| !known.is_null());
            match (known, value) {
                (Some(known), more) if key == self.arguments => join_arguments(known, more),
                (Some(Value::String(known)), Value::String(more)) if key == "name" && known != more => {
                    known.push_str(more);
                }
                (_, value) => join(function, key.clone(), value.clone()),
            }
        }
    }

    /// Returns whether the arguments of the call at `place` are complete.
    pub(super) fn is_whole(&self, all: &[Value], place: usize) -> bool {
        let call = all.get(place).and_then(Value::as_object);
        call.is_some_and(|call| matches!(Written::of(self.part(call, self.arguments)), Written::Whole(_)))
    }

    /// Removes calls with neither name nor arguments, and duplicates.
    pub(super) fn settle(&self, all: &mut Vec<Value>) {
        let mut seen = Vec::new();
        all.retain(|value| {
            let Some(call) = value.as_object().filter(|_| (self.is_call)(value)) else { return true };
            let Some(id) = self.text(call, self.id) else { return true };
            let arguments = self.part(call, self.arguments).map(|sent| arguments(sent).unwrap_or_default());
            let identity = (id.to_owned(), self.text(call, "name").map(str::to_owned), arguments);
            let is_new = !seen.contains(&identity);
            seen.push(identity);
            is_new
        });
        all.retain(|value| {
            let Some(call) = value.as_object().filter(|_| (self.is_call)(value)) else { return true };
            let is_bare = matches!(Written::of(self.part(call, self.arguments)), Written::Nothing);
            self.text(call, "name").is_some() || !is_bare
        });
    }
}

/// The match of a piece and a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinship {
    /// Every identifier that both have is equal.
    Whole,
    /// One identifier is equal, the other differs.
    Half,
}

/// The state of a call's arguments.
enum Written {
    /// No value, or an empty object, which some streams begin with.
    Nothing,
    Part,
    Whole(Value),
}

impl Written {
    fn of(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Nothing,
            Some(value) => match arguments(value) {
                Ok(Value::Object(all)) if all.is_empty() => Self::Nothing,
                Ok(all) => Self::Whole(all),
                Err(_) => Self::Part,
            },
        }
    }
}

/// Merges arguments: texts are appended, and an object is complete.
fn join_arguments(known: &mut Value, more: &Value) {
    match (&mut *known, more) {
        (_, Value::Null) => {}
        (Value::String(known), Value::String(more)) => known.push_str(more),
        (Value::Object(known), Value::Object(more)) => known.extend(more.clone()),
        (Value::Object(all), Value::String(text)) if !all.is_empty() => {
            *known = format!("{}{text}", Value::from(all.clone())).into();
        }
        (Value::String(text), Value::Object(all)) if all.is_empty() && !text.trim().is_empty() => {}
        _ => *known = more.clone(),
    }
}

/// Merges a value into the earlier one: texts and arrays are appended, others are replaced.
pub(super) fn join(object: &mut Map<String, Value>, key: String, value: Value) {
    let is_name = NAMES.contains(&key.as_str());
    match (object.get_mut(&key).filter(|known| !known.is_null()), value) {
        (Some(_), Value::Null) => {}
        (Some(Value::String(known)), Value::String(more)) if !is_name => known.push_str(&more),
        (Some(Value::Array(known)), Value::Array(more)) => join_items(known, more),
        (Some(Value::Object(known)), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| join(known, key, value));
        }
        // A text followed by parts: the text becomes a part.
        (Some(known @ Value::String(_)), Value::Array(more)) => {
            let mut parts = vec![json!({ "type": "text", "text": known.take() })];
            join_items(&mut parts, more);
            *known = parts.into();
        }
        (Some(Value::Array(known)), Value::String(more)) => {
            join_item(known, json!({ "type": "text", "text": more }));
        }
        (Some(Value::String(known)), _) if is_name && !known.is_empty() => {}
        (_, value) => drop(object.insert(key, value)),
    }
}

fn join_items(items: &mut Vec<Value>, more: Vec<Value>) {
    for item in more {
        join_item(items, item);
    }
}

/// Adds an item to an array: merges it into the last one if both have one index or both are text.
fn join_item(items: &mut Vec<Value>, item: Value) {
    match (items.last_mut(), item) {
        (Some(Value::Object(last)), Value::Object(item)) if goes_on(last, &item) => {
            item.into_iter().for_each(|(key, value)| join(last, key, value));
        }
        (_, item) => items.push(item),
    }
}

fn goes_on(last: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    let same = |key| item.get(key).is_some_and(|value| last.get(key) == Some(value));
    let is_plain = |part: &Map<String, Value>| part.get("type") == Some(&"text".into()) && part.len() == 2;
    (same("index") && (same("type") || !item.contains_key("type"))) || (is_plain(last) && is_plain(item))
}
