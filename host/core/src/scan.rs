//! Finds the top-level members of a JSON-RPC message, and some of its parameters, in one pass without storing them:
//! for messages that are too long, malformed or only forwarded, and for limits that are checked before parsing. The
//! parser, not this scan, validates JSON.

use std::io::{self, BufRead};

use memchr::memchr2;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The maximum number of values in a message. The parsing of a hundred thousand takes one or two tenths of a second
/// and about 50 MB; no tool's arguments have a hundredth of them.
pub const MAX_VALUES: usize = 100_000;

/// The maximum number of stored bytes of a top-level key or value: longer than any id or method.
const MAX_WORD: usize = 256;

/// The maximum depth of examined keys: those of the result of one message of a batch.
const MAX_DEPTH: usize = 3;

/// The state of a scan. The bytes of the message may arrive in pieces.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was found in the message")]
pub struct Scan {
    /// The number of objects and arrays that are not closed yet.
    pub depth: usize,
    lexer_state: LexerState,
    /// The first byte that is not white space: only an object has an id.
    first: Option<u8>,
    /// The approximate number of values, never too small.
    pub values: usize,
    /// The beginning of the current key or value, where it is within [`MAX_DEPTH`].
    word: Vec<u8>,
    field: Option<Field>,
    /// Whether the value of `params.name` is being read.
    is_name: bool,
    id: Option<Value>,
    method: Option<String>,
    name: Option<String>,
    /// Whether there is a parameter `cursor`, which a page after the first one of a list has.
    pub has_cursor: bool,
    /// Whether any parser may find a key `tools` among the members of the result, of one message or of a batch.
    pub has_tools: bool,
    /// Whether the message has a result or an error, and so is a response.
    pub is_answer: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum LexerState {
    #[default]
    Structure,
    String,
    /// After a backslash in a string.
    Escape,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Id,
    Method,
    Params,
}

impl Scan {
    /// Scans a complete message.
    pub fn from_message(message: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.feed(message);
        scan
    }

    /// Skips to the end of a line that begins with `beginning`, without storing it; returns the id of the request.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn id_of_long<T: DeserializeOwned>(
        input: &mut impl BufRead,
        beginning: Vec<u8>,
    ) -> io::Result<Option<T>> {
        let mut scan = Self::from_message(&beginning);
        let mut is_end = beginning.ends_with(b"\n");
        drop(beginning);
        while !is_end {
            let buffer = input.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            is_end = end.is_some() || buffer.is_empty();
            scan.feed(buffer.get(..used).unwrap_or_default());
            input.consume(used);
        }
        Ok(scan.id().filter(|_| !scan.is_answer))
    }

    /// Scans the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self.lexer_state {
                LexerState::Structure => self.structure(bytes),
                LexerState::String => self.string(bytes),
                LexerState::Escape => self.escape(bytes),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// Returns the id, if a valid one was read completely.
    pub fn id<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.id.clone()?).ok()
    }

    /// Returns the method, if it was read completely.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// Returns the parameter `name`, if it was read completely: the tool of a call.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether the message is an array.
    pub fn is_batch(&self) -> bool {
        self.first == Some(b'[')
    }

    fn escape(&mut self, bytes: &[u8]) -> usize {
        self.append(bytes.get(..1).unwrap_or_default());
        self.lexer_state = LexerState::String;
        1
    }

    /// Consumes the bytes up to the end of a string or to an escape.
    fn string(&mut self, bytes: &[u8]) -> usize {
        let end = memchr2(b'"', b'\\', bytes);
        let used = end.map_or(bytes.len(), |end| end + 1);
        self.append(bytes.get(..used).unwrap_or_default());
        self.lexer_state = match end.and_then(|end| bytes.get(end)) {
            Some(b'"') => LexerState::Structure,
            Some(_) => LexerState::Escape,
            None => LexerState::String,
        };
        used
    }

    /// Consumes the bytes up to the beginning of the next string.
    fn structure(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        for byte in bytes {
            used += 1;
            if !byte.is_ascii_whitespace() {
                self.first.get_or_insert(*byte);
            }
            match byte {
                b'"' => {
                    self.append(b"\"");
                    self.lexer_state = LexerState::String;
                    break;
                }
                b'{' | b'[' => self.open(),
                b'}' | b']' => self.close(),
                b',' => {
                    self.values += 1;
                    self.value_ends();
                }
                b':' => self.key_ends(),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                other => self.append(&[*other]),
            }
        }
        used
    }

    fn open(&mut self) {
        self.values += 1;
        self.depth += 1;
        // A nested value is no id.
        self.word.clear();
    }

    fn close(&mut self) {
        self.value_ends();
        self.depth = self.depth.saturating_sub(1);
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.depth <= MAX_DEPTH {
            let room = MAX_WORD.saturating_sub(self.word.len()).min(bytes.len());
            self.word.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
    }

    fn key_ends(&mut self) {
        match self.depth {
            1 if self.first == Some(b'{') => self.member_begins(),
            2 => {
                let is_parameter = matches!(self.field, Some(Field::Params));
                self.is_name = is_parameter && self.word == b"\"name\"";
                self.has_cursor |= is_parameter && self.word == b"\"cursor\"";
                self.has_tools |= self.is_tools();
            }
            MAX_DEPTH if self.is_batch() => self.has_tools |= self.is_tools(),
            _ => {}
        }
        self.word.clear();
    }

    fn member_begins(&mut self) {
        self.field = match self.word.as_slice() {
            b"\"id\"" => Some(Field::Id),
            b"\"method\"" => Some(Field::Method),
            b"\"params\"" => Some(Field::Params),
            _ => None,
        };
        self.is_answer |= matches!(self.word.as_slice(), b"\"result\"" | b"\"error\"");
    }

    /// Returns whether the current key may be read as `tools`; without quotes by lenient parsers.
    fn is_tools(&self) -> bool {
        let key = serde_json::from_slice(&self.word);
        is_read_as(&key.unwrap_or_else(|_| String::from_utf8_lossy(&self.word).into_owned()), "tools")
    }

    fn value_ends(&mut self) {
        if self.depth == 2 && std::mem::take(&mut self.is_name) && self.name.is_none() {
            self.name = serde_json::from_slice(&self.word).ok();
        }
        if self.depth == 1 {
            self.member_ends();
        }
        self.word.clear();
    }

    fn member_ends(&mut self) {
        match self.field.take() {
            Some(Field::Id) if self.id.is_none() => {
                self.id = serde_json::from_slice(&self.word).ok().filter(is_id);
            }
            Some(Field::Method) if self.method.is_none() => {
                self.method = serde_json::from_slice(&self.word).ok();
            }
            _ => {}
        }
    }
}

/// Returns whether some parser takes the key `text` for `key`, which is in small letters: those of Go and of .NET
/// ignore case, and Go takes U+017F for an s.
pub fn is_read_as(text: &str, key: &str) -> bool {
    let folded = text.chars().map(|c| if c == '\u{17f}' { 's' } else { c.to_ascii_lowercase() });
    folded.eq(key.chars())
}

/// Returns whether a value is a valid request id (JSON-RPC 2.0, section 4).
fn is_id(value: &Value) -> bool {
    value.is_string() || value.is_i64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// C06, C18: the id is found at any position, regardless of errors in the rest.
    #[test]
    fn the_id_is_found_at_the_top_level_alone() {
        let number = |number: i64| Some(json!(number));
        for (message, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, number(7)),
            (r#" { "params" : {"id":1,"a":[{"id":2}]} , "id" : "7" }"#, Some(json!("7"))),
            (r#"{"method":"\"id\":3","a":"\\","id":7}"#, number(7)),
            (r#"{"id":7,"a":"\ud800","b":1e400,"c":nonsense,"d":"cut"#, number(7)),
            (r#"{"id":7,"id":8}"#, number(7)),
            (r#"{"id":{"id":7}}"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"id":1e400}"#, None),
            (r#"{"id":12"#, None),
            (r#"[{"id":7}]"#, None),
            (r#"garbage{"id":7}"#, None),
            ("garbage", None),
        ] {
            assert_eq!(Scan::from_message(message.as_bytes()).id::<Value>(), id, "{message}");
            let mut pieces = Scan::default();
            message.bytes().for_each(|byte| pieces.feed(&[byte]));
            assert_eq!(pieces.id::<Value>(), id, "{message}, byte by byte");
        }
        assert_eq!(Scan::from_message(b"{\"a\":\"\xff\xfe\",\"id\":7}").id::<Value>(), number(7));
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(MAX_WORD));
        assert_eq!(
            (Scan::from_message(long.as_bytes()).id::<Value>(), Scan::from_message(long.as_bytes()).method()),
            (None, Some("m"))
        );
    }

    #[test]
    fn parameters_and_lists_of_tools_are_found_in_every_form() {
        let scan = |text: &str| {
            let mut scan = Scan::default();
            text.bytes().for_each(|byte| scan.feed(&[byte]));
            scan
        };
        let call = r#"{"method":"tools\/call","params":{"arguments":{"name":"x"},"a":[{"name":"y"}],"name":"a\u0062"},"id":"1"}"#;
        let call = scan(call);
        assert_eq!(
            (call.method(), call.name(), call.id()),
            (Some("tools/call"), Some("ab"), Some(json!("1")))
        );
        assert!(!call.has_cursor && !call.has_tools && call.depth == 0);
        assert_eq!(scan(r#"{"result":{"name":"x"},"params":{"name":{"name":"y"}}}"#).name(), None);
        assert_eq!(scan(r#"{"params":{"name":"read","arguments":{"cut":["#).name(), Some("read"));
        assert!(scan(r#"{"params":{"cursor":null}}"#).has_cursor);
        for list in [
            r#"{"result":{"tools":[]}}"#,
            r#"{"result":{"a":[{}],"t\u006fols":"#,
            r"{result:{Tools:[]}}",
            r#"[{"result":{"tool\u017f":[]}}]"#,
        ] {
            assert!(scan(list).has_tools, "{list}");
        }
        for other in [r#"{"tools":1}"#, r#"{"result":{"a":{"tools":[]}}}"#, r#"{"result":{"a":"tools"}}"#] {
            assert!(!scan(other).has_tools, "{other}");
        }
    }

    #[test]
    fn a_message_is_measured_before_it_is_parsed() {
        let scan = |text: &str| Scan::from_message(text.as_bytes());
        assert_eq!(scan(r#"{"a":[1,2,{"b":"x,y,[z"}]}"#).values, 5);
        assert!(scan("[{},{}]").is_batch() && !scan(r#"{"a":[1]}"#).is_batch());
        assert_eq!(scan(r#"{"params":{"method":"x"},"method":"tools/call"}"#).method(), Some("tools/call"));
        assert!(scan(r#"{"id":1,"result":{}}"#).is_answer && !scan(r#"{"params":{"result":1}}"#).is_answer);
    }
}
