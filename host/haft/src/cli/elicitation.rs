//! Prompts the user at the terminal for the answer to an MCP server's question. Never answers without the user: a
//! default counts only after the user has accepted it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::terminal::{HEAD, TTY, Terminal};
use haft_core::tool::{ElicitationMode, ElicitationQuestion, Elicitor, Reply, Schema};

/// Maximum bytes of an answer.
const MAX_ANSWER: u64 = 64 << 10;
/// Maximum number of times that a form is displayed after wrong answers.
const MAX_ATTEMPTS: usize = 3;

/// Returns the user at the terminal, if there is one.
pub(super) fn present() -> Option<Arc<dyn Elicitor>> {
    let is_there = io::stderr().is_terminal() && File::open(TTY).is_ok();
    is_there.then(|| Arc::new(AtTerminal::default()) as Arc<dyn Elicitor>)
}

#[derive(Debug, Default)]
struct AtTerminal {
    /// Held during a question: questions are asked one at a time.
    turn: tokio::sync::Mutex<()>,
}

#[async_trait]
impl Elicitor for AtTerminal {
    async fn ask(&self, question: &ElicitationQuestion) -> Reply {
        let _turn = self.turn.lock().await;
        let question = question.clone();
        let (answer, answered) = tokio::sync::oneshot::channel();
        // A detached thread: reading from a terminal cannot be cancelled, and must not delay the exit.
        std::thread::spawn(move || {
            let reply = Dialog::new().and_then(|mut dialog| dialog.hold(&question));
            // The receiver may be gone.
            let _ = answer.send(reply.unwrap_or(Reply::Cancel));
        });
        answered.await.unwrap_or(Reply::Cancel)
    }
}

struct Dialog {
    terminal: Terminal,
    lines: BufReader<File>,
}

impl Dialog {
    fn new() -> io::Result<Self> {
        Ok(Self { terminal: Terminal::new(false), lines: BufReader::new(File::open(TTY)?) })
    }

    fn hold(&mut self, question: &ElicitationQuestion) -> io::Result<Reply> {
        let server = &question.server;
        self.terminal.message(format_args!(
            "{HEAD}MCP server `{server}` asks:{HEAD:#} {}",
            on_a_line(&question.message)
        ));
        match &question.mode {
            ElicitationMode::Page(url) => {
                self.terminal.message(format_args!("  {}", on_a_line(url)));
                let asked = "Open this address in a browser if you trust the server. Done? [y/N] ";
                Ok(if self.agreed(asked)? { Reply::Accept(None) } else { Reply::Decline })
            }
            ElicitationMode::Form(schema) => {
                if !self.agreed("Your input is sent to the server. Answer? [y/N] ")? {
                    return Ok(Reply::Decline);
                }
                self.form(schema)
            }
        }
    }

    fn form(&mut self, schema: &Value) -> io::Result<Reply> {
        let fields = Field::all(schema);
        let check = Schema::compile(schema).ok();
        for _ in 0..MAX_ATTEMPTS {
            let mut answers = Map::new();
            for field in &fields {
                if let Some(value) = self.field(field)? {
                    answers.insert(field.name.clone(), value);
                }
            }
            let answers = Value::Object(answers);
            match check.as_ref().map(|schema| schema.check(&answers)) {
                Some(Err(error)) => {
                    self.terminal.message(format_args!("  {}", on_a_line(&error.to_string())));
                }
                _ => return Ok(Reply::Accept(Some(answers))),
            }
        }
        Ok(Reply::Cancel)
    }

    fn field(&mut self, field: &Field) -> io::Result<Option<Value>> {
        self.terminal.message(format_args!("  {}", on_a_line(&field.describe())));
        for _ in 0..MAX_ATTEMPTS {
            match field.read(self.line("  > ")?.trim()) {
                Ok(value) => return Ok(value),
                Err(why) => self.terminal.message(format_args!("  {}", on_a_line(&why))),
            }
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    fn agreed(&mut self, asked: &str) -> io::Result<bool> {
        Ok(matches!(self.line(asked)?.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Reads a line. The end of input is an error, so that it does not count as an answer.
    fn line(&mut self, prompt: &str) -> io::Result<String> {
        self.terminal.ask(prompt);
        let mut line = String::new();
        match (&mut self.lines).take(MAX_ANSWER).read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

fn on_a_line(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect()
}

// One question of a form: converts a JSON Schema property to a prompt, and the user's line to a value. Refuses a
// line that does not fit the property's type; the schema checks the rest.

/// Maximum number of fields of a form. Further fields are not asked.
const MAX_FIELDS: usize = 50;
/// Maximum number of displayed choices.
const MAX_CHOICES: usize = 50;

#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    /// The title and the description.
    text: String,
    kind: Kind,
    default: Option<Value>,
    is_required: bool,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Text,
    Number,
    Integer,
    Flag,
    /// The values of the choices, with their names.
    One(Vec<(Value, String)>),
    Many(Vec<(Value, String)>),
}

impl Field {
    /// Returns the fields of the form that `schema` describes.
    fn all(schema: &Value) -> Vec<Self> {
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().take(MAX_FIELDS);
        fields
            .map(|(name, property)| Self::new(name, property, required.iter().any(|own| own == name)))
            .collect()
    }

    fn new(name: &str, property: &Value, is_required: bool) -> Self {
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let called = text("title").filter(|title| *title != name).map(|title| format!(": {title}"));
        let means = text("description").map(|text| format!(" ({text})"));
        Self {
            name: name.to_owned(),
            text: [called, means].into_iter().flatten().collect(),
            kind: Kind::from_schema(property),
            default: property.get("default").filter(|default| !default.is_null()).cloned(),
            is_required,
        }
    }

    /// Returns the description of the field for the user.
    fn describe(&self) -> String {
        let default = match (&self.default, self.is_required) {
            (Some(default), _) => format!("; Enter for {}", value_text(default)),
            (None, false) => "; Enter for no value".to_owned(),
            (None, true) => String::new(),
        };
        format!("{}{}, {}{default}", self.name, self.text, self.kind.describe())
    }

    /// Converts the user's line. Returns `None` for an empty line without a default.
    fn read(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.is_required => Err("an answer is needed; Ctrl-D ends the form".to_owned()),
                None => Ok(None),
            };
        }
        self.kind.read(line).map(Some)
    }
}

impl Kind {
    fn from_schema(property: &Value) -> Self {
        match property.get("type").and_then(Value::as_str) {
            Some("boolean") => Self::Flag,
            Some("number") => Self::Number,
            Some("integer") => Self::Integer,
            Some("array") => Self::Many(choices(property.get("items").unwrap_or(&Value::Null))),
            _ => match choices(property) {
                choices if choices.is_empty() => Self::Text,
                choices => Self::One(choices),
            },
        }
    }

    fn describe(&self) -> String {
        let list = |choices: &[(Value, String)]| {
            let shown = choices.iter().enumerate().take(MAX_CHOICES);
            shown.map(|(at, (_, name))| format!("{} {name}", at + 1)).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Text => "text".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Integer => "a whole number".to_owned(),
            Self::Flag => "y or n".to_owned(),
            Self::One(choices) => format!("one of: {}", list(choices)),
            Self::Many(choices) => format!("any of, with commas: {}", list(choices)),
        }
    }

    fn read(&self, line: &str) -> Result<Value, String> {
        match self {
            Self::Text => Ok(line.into()),
            Self::Number => match line.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
                // The original spelling is kept: some servers distinguish 7 and 7.0.
                Some(number) => Ok(line.parse::<i64>().map_or(Value::Number(number), Value::from)),
                None => Err("expected a number".to_owned()),
            },
            Self::Integer => {
                line.parse::<i64>().map(Value::from).map_err(|_| "expected a whole number".into())
            }
            Self::Flag => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(true.into()),
                "n" | "no" | "false" => Ok(false.into()),
                _ => Err("expected `y` or `n`".to_owned()),
            },
            Self::One(choices) => chosen(choices, line),
            Self::Many(choices) => line.split(',').map(|word| chosen(choices, word.trim())).collect(),
        }
    }
}

/// Returns the choice with this number, value or name.
fn chosen(choices: &[(Value, String)], word: &str) -> Result<Value, String> {
    let named = choices.iter().find(|(value, name)| value == word || name.eq_ignore_ascii_case(word));
    let counted = word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let found = named.or(counted).map(|(value, _)| value.clone());
    found.ok_or_else(|| format!("`{word}` is not one of the choices"))
}

/// Returns the choices from `enum`, with names from `enumNames`, or from `oneOf` and `anyOf` with titles.
fn choices(property: &Value) -> Vec<(Value, String)> {
    let list = |key: &str| property.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let titles = list("enumNames");
        let name = |at: usize| titles.and_then(|own| own.get(at)).and_then(Value::as_str);
        let named = |(at, value): (usize, &Value)| {
            (value.clone(), name(at).map_or_else(|| value_text(value), str::to_owned))
        };
        return values.iter().enumerate().map(named).collect();
    }
    let titled = list("oneOf").or(list("anyOf")).into_iter().flatten();
    titled
        .filter_map(|choice| {
            let value = choice.get("const")?;
            let title = choice.get("title").and_then(Value::as_str);
            Some((value.clone(), title.map_or_else(|| value_text(value), str::to_owned)))
        })
        .collect()
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: &Value, is_required: bool) -> Field {
        Field::new("field", property, is_required)
    }

    /// MC05: an entered value gets the type of the schema, or is refused.
    #[test]
    fn what_is_entered_has_the_type_that_is_asked_for() {
        let read = |property: Value, line: &str| field(&property, true).read(line);
        assert_eq!(read(json!({ "type": "string" }), "7"), Ok(Some(json!("7"))));
        assert_eq!(read(json!({ "type": "integer" }), "7"), Ok(Some(json!(7))));
        assert_eq!(read(json!({ "type": "number" }), "7.5"), Ok(Some(json!(7.5))));
        assert_eq!(read(json!({ "type": "boolean" }), "Yes"), Ok(Some(json!(true))));
        assert!(read(json!({ "type": "integer" }), "7.5").is_err() && read(json!({}), "").is_err());
        let one = json!({ "type": "string", "enum": ["a", "b"], "enumNames": ["An A", "A B"] });
        for line in ["b", "2", "a b"] {
            assert_eq!(read(one.clone(), line), Ok(Some(json!("b"))), "{line}");
        }
        assert!(read(one, "3").is_err());
        let many = json!({ "type": "array", "items": { "anyOf": [{ "const": "x", "title": "An X" }, { "const": "y" }] } });
        assert_eq!(read(many.clone(), "an x, y"), Ok(Some(json!(["x", "y"]))));
        assert!(read(many, "x, z").is_err());
    }

    /// MC05: an empty line selects the default.
    #[test]
    fn a_default_is_taken_by_who_enters_nothing() {
        assert_eq!(field(&json!({ "type": "integer", "default": 30 }), true).read(""), Ok(Some(json!(30))));
        assert_eq!(field(&json!({ "type": "string" }), false).read(""), Ok(None));
        let described =
            field(&json!({ "type": "boolean", "title": "Sure?", "default": true }), true).describe();
        assert_eq!(described, "field: Sure?, y or n; Enter for true");
        let schema = json!({ "properties": { "b": {}, "a": {} }, "required": ["a"] });
        let names: Vec<_> =
            Field::all(&schema).into_iter().map(|field| (field.name, field.is_required)).collect();
        assert_eq!(names, [("b".to_owned(), false), ("a".to_owned(), true)]);
    }
}
