//! JSON with comments and trailing commas, as editors write it, to a tree with places.

use jsonc_parser::ast::Value as Json;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::tree::{Member, Node, SyntaxError, Value};

/// Comments and commas at the end are read, since some clients write them. Everything else is strict.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The tree of `text`; `None` where there is nothing but blanks and comments.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| SyntaxError { at: error.range().start, message: error.kind().to_string() })?;
    Ok(parsed.value.as_ref().map(node))
}

/// The parser bounds the depth.
fn node(json: &Json<'_>) -> Node {
    let value = match json {
        Json::Object(object) => {
            let member = |property: &jsonc_parser::ast::ObjectProp<'_>| Member {
                key: property.name.as_str().to_owned(),
                start: property.range.start,
                node: node(&property.value),
            };
            Value::Table(object.properties.iter().map(member).collect())
        }
        Json::Array(array) => Value::List(array.elements.iter().map(node).collect()),
        Json::StringLit(text) => Value::Text(text.value.to_string()),
        Json::BooleanLit(flag) => Value::Flag(flag.value),
        Json::NumberLit(number) => Value::Other(number.value.to_owned()),
        Json::NullKeyword(_) => Value::Other(String::new()),
    };
    let range = json.range();
    Node { range: range.start..range.end, value }
}
