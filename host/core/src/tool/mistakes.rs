//! Describes errors in a call's arguments for the model that corrects them: place, value and expected value, each
//! error once and of bounded length.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::{Map, Value};

use crate::report::{nearest, shortened};

/// Maximum number of characters of a mistake's text, which quotes the value and thus possibly a complete file.
const MAX_MISTAKE: usize = 300;

/// Maximum number of listed choices; the schema has the others.
const MAX_CHOICES: usize = 60;

/// Maximum number of characters of the expected values: choices, or the forms of a value.
const MAX_FORMS: usize = 2000;

/// Maximum number of named unknown arguments: as many as a model can correct in one turn.
const MAX_UNKNOWN: usize = 8;

/// Forms within forms that are shown.
const MAX_DEPTH: usize = 4;

/// Describes mistakes against one schema.
pub(super) struct Mistakes<'s> {
    schema: &'s Value,
    /// The name of the complete value, for messages about its parts.
    part: &'static str,
}

impl<'s> Mistakes<'s> {
    pub(super) fn new(schema: &'s Value, part: &'static str) -> Self {
        Self { schema, part }
    }

    pub(super) fn describe(&self, error: &ValidationError<'_>) -> String {
        let message = match error.kind() {
            Kind::Required { property } => {
                format!("`{}` is required", property.as_str().unwrap_or_default())
            }
            Kind::Enum { options } => {
                let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
                format!("{} is not one of {}", quoted(error), choices(options, ", "))
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                match self.alternatives(error, context) {
                    Ok(message) => message,
                    // The message contains the place.
                    Err(message) => return message,
                }
            }
            Kind::AdditionalProperties { unexpected } if error.instance_path().as_str().is_empty() => {
                let unknown = unexpected.iter().take(MAX_UNKNOWN).map(|name| self.unknown(name));
                shortened(&unknown.collect::<Vec<_>>().join("; "), MAX_FORMS)
            }
            _ => shorten(&error.to_string()),
        };
        let place = error.instance_path().to_string();
        if place.is_empty() { message } else { format!("at `{place}`: {message}") }
    }

    /// Returns the names to use instead of an unknown argument.
    fn unknown(&self, name: &str) -> String {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let names = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let way_out = match nearest(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if names().next().is_none() => "it takes none".to_owned(),
            None => {
                format!("expected {}", names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        format!("unknown {} `{}`: {way_out}", self.part, shorten(name))
    }

    /// Returns the mistakes by the intended alternative, which fails neither by type nor by tag; as `Err`,
    /// because they contain their places. If the intention is unclear, returns the forms of the possible
    /// alternatives.
    fn alternatives(
        &self,
        error: &ValidationError<'_>,
        branches: &[Vec<ValidationError<'_>>],
    ) -> Result<String, String> {
        let distance = |branch: &Vec<ValidationError<'_>>| {
            branch.iter().map(|inner| misses(error, inner)).max().unwrap_or(2)
        };
        let nearest = branches.iter().map(distance).min();
        let is_meant = |(_, branch): &(usize, &Vec<ValidationError<'_>>)| Some(distance(branch)) == nearest;
        let meant: Vec<_> = branches.iter().enumerate().filter(is_meant).collect();
        let described = |branch: &Vec<ValidationError<'_>>| {
            branch.iter().map(|inner| self.describe(inner)).collect::<Vec<_>>().join("; ")
        };
        if let ([(_, only)], Some(0 | 1)) = (meant.as_slice(), nearest) {
            return Err(shortened(&described(only), MAX_FORMS));
        }
        // The path of a reference to another schema cannot be resolved here.
        let written = self.schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
        let mut forms: Vec<String> = Vec::new();
        for (index, branch) in meant {
            let schema = written.and_then(|all| all.get(index));
            let form = schema.map_or_else(|| described(branch), |schema| form(schema, 0));
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        Ok(format!("{} is not one of: {}", quoted(error), shortened(&forms.join("; "), MAX_FORMS)))
    }
}

/// Returns the strength of a mistake as evidence that its alternative was not intended.
fn misses(outer: &ValidationError<'_>, inner: &ValidationError<'_>) -> u8 {
    match inner.kind() {
        Kind::Type { .. } if inner.instance_path() == outer.instance_path() => 2,
        Kind::Enum { .. } | Kind::Constant { .. } => 1,
        _ => 0,
    }
}

/// Returns the value that is wrong.
fn quoted(error: &ValidationError<'_>) -> String {
    shorten(&error.instance().to_string())
}

/// Returns as many choices as fit, and the number of the others.
fn choices(options: &[Value], between: &str) -> String {
    let (mut text, mut described) = (String::new(), 0);
    for option in options.iter().take(MAX_CHOICES) {
        let option = option.to_string();
        if described > 0 && text.len() + option.len() > MAX_FORMS {
            break;
        }
        if described > 0 {
            text.push_str(between);
        }
        text.push_str(&shortened(&option, MAX_FORMS));
        described += 1;
    }
    match options.len() - described {
        0 => text,
        more => format!("{text} and {more} more (see the schema)"),
    }
}

/// Returns the form of a value that a schema accepts: `{"tag": "circle", "val": a number}`.
fn form(schema: &Value, depth: usize) -> String {
    let Some(object) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return "…".to_owned() };
    if let Some(only) = object.get("const") {
        return shorten(&only.to_string());
    }
    if let Some(options) = object.get("enum").and_then(Value::as_array) {
        return choices(options, " | ");
    }
    let any = ["anyOf", "oneOf"].iter().find_map(|key| object.get(*key)?.as_array());
    if let Some(any) = any {
        return any.iter().map(|schema| form(schema, depth + 1)).collect::<Vec<_>>().join(" or ");
    }
    match object.get("type") {
        Some(Value::String(name)) => typed(name, object, depth),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(|name| typed(name, object, depth)).collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn typed(name: &str, schema: &Map<String, Value>, depth: usize) -> String {
    match name {
        "object" => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return "{…}".to_owned();
            };
            let property =
                |(name, schema): (&String, &Value)| format!("\"{name}\": {}", form(schema, depth + 1));
            format!("{{{}}}", properties.iter().map(property).collect::<Vec<_>>().join(", "))
        }
        "array" => match schema.get("items") {
            Some(items) => format!("[{}, …]", form(items, depth + 1)),
            None => "[…]".to_owned(),
        },
        "integer" | "number" => {
            let article = if name == "integer" { "an integer" } else { "a number" };
            match (schema.get("minimum"), schema.get("maximum")) {
                (Some(least), Some(most)) => format!("{article} between {least} and {most}"),
                (Some(least), None) => format!("{article} of at least {least}"),
                (None, Some(most)) => format!("{article} of at most {most}"),
                (None, None) => article.to_owned(),
            }
        }
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns a text of a mistake's length.
pub(super) fn shorten(text: &str) -> String {
    shortened(text, MAX_MISTAKE)
}
