//! Describes WIT types for untyped languages, as far as a value can be checked at run time. The description is
//! JSON for the guard in the component.

use serde_json::{Value, json};
use wit_parser::{Resolve, Type, TypeDefKind};

/// Limit on the nesting of types; deeper types are not checked.
const MAX_DEPTH: usize = 16;

/// Returns the shape of a type; `null` for a type that is not checked.
pub(super) fn of(resolve: &Resolve, ty: &Type) -> Value {
    at_depth(resolve, ty, MAX_DEPTH)
}

fn at_depth(resolve: &Resolve, ty: &Type, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    let shape = |ty: &Type| at_depth(resolve, ty, depth);
    let optional = |ty: &Option<Type>| ty.as_ref().map_or(Value::Null, shape);
    let id = match ty {
        Type::Bool => return json!("boolean"),
        Type::String | Type::Char => return json!("string"),
        Type::ErrorContext => return Value::Null,
        Type::Id(id) => *id,
        _ => return json!("number"),
    };
    let Some(def) = resolve.types.get(id) else { return Value::Null };
    match &def.kind {
        TypeDefKind::Type(ty) => shape(ty),
        TypeDefKind::List(Type::U8) => Value::Null,
        TypeDefKind::List(ty) => json!({ "list": shape(ty) }),
        TypeDefKind::Option(ty) => json!({ "option": shape(ty) }),
        TypeDefKind::Tuple(tuple) => json!({ "tuple": tuple.types.iter().map(shape).collect::<Vec<_>>() }),
        TypeDefKind::Record(record) => {
            let field = |field: &wit_parser::Field| json!([camel(&field.name), shape(&field.ty)]);
            json!({ "record": record.fields.iter().map(field).collect::<Vec<_>>() })
        }
        TypeDefKind::Enum(choice) => {
            json!({ "enum": choice.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>() })
        }
        TypeDefKind::Result(result) => json!({ "result": [optional(&result.ok), optional(&result.err)] }),
        _ => Value::Null,
    }
}

/// Converts a WIT name to camel case: `top-words` becomes `topWords`.
pub(super) fn camel(name: &str) -> String {
    let mut words = name.split('-').map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    words.fold(first, |text, word| {
        let mut letters = word.chars();
        let start = letters.next().map(|letter| letter.to_ascii_uppercase());
        text.chars().chain(start).chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_that_of_the_values() {
        let mut resolve = Resolve::default();
        let text = "package local:p;
            interface i {
                enum kind { big-one, small }
                record entry { first-word: string, times: u64, kind: kind, more: option<tuple<f32, list<u8>>> }
                f: func() -> result<list<entry>, string>;
            }";
        resolve.push_str("world.wit", text).unwrap();
        let function = resolve.interfaces.iter().next().unwrap().1.functions.values().next().unwrap();
        let entry = json!({ "record": [
            ["firstWord", "string"],
            ["times", "number"],
            ["kind", { "enum": ["big-one", "small"] }],
            ["more", { "option": { "tuple": ["number", null] } }],
        ]});
        assert_eq!(
            of(&resolve, &function.result.unwrap()),
            json!({ "result": [{ "list": entry }, "string"] })
        );
    }

    #[test]
    fn names_are_in_camel_case() {
        for (name, expected) in [("top-words", "topWords"), ("text", "text"), ("get-HTTP-2d", "getHttp2d")] {
            assert_eq!(camel(name), expected);
        }
    }
}
