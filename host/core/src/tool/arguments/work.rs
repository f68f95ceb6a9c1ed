//! Bounds the work of a schema check before the check: a schema of 2 KB can require 2^32 steps, or endless ones,
//! because a definition is checked again at every reference to it. Counts each schema once for each value, so that the
//! count itself is bounded. Checks no value.

use std::collections::HashMap;

use jsonschema::{Draft, Registry};
use referencing::Resolver;
use serde_json::Value;

use super::occurrences;

/// Maximum number of steps that a check may take: seconds. Arguments of common tools take a few hundred.
const MAX_STEPS: u64 = 30_000_000;

/// Maximum number of schemas that a check is within at one time, nested or referenced: each needs stack.
const MAX_DEPTH: usize = 256;

/// Pairs of a schema and a value that are counted: each takes memory.
const MAX_PAIRS: usize = 1 << 18;

/// Number of steps of a check that runs without another thread: they take less time than the start of one.
const FEW_STEPS: usize = 50_000;

/// Number of steps of a pattern, which may have to backtrack.
const PATTERN: usize = 200;

/// The base URI of the resolver: that of `jsonschema` for a schema without `$id`.
const BASE: &str = "json-schema:///";

/// Keywords whose checks depend on more than their nested schemas.
const REFERRING: [&str; 5] =
    ["$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];

pub(super) struct Work {
    draft: Draft,
    /// The number of values of the schema, including nested ones, and of its patterns' steps.
    size: usize,
    /// Resolves references; `None` if the schema has no references.
    registry: Option<Registry<'static>>,
}

/// The reason why a check is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    #[error("a definition of the schema refers to itself endlessly")]
    Endless,
    #[error("the schema goes through more than {MAX_DEPTH} definitions at once")]
    Deep,
    #[error("checking this takes more than {MAX_STEPS} steps")]
    Steps,
    #[error("a reference of the schema has no target")]
    Nowhere,
}

impl Work {
    pub(super) fn of(schema: &Value, patterns: usize) -> Result<Self, referencing::Error> {
        let draft = Draft::default().detect(schema);
        let is_referring = |key: &str, _: &Value| usize::from(REFERRING.contains(&key));
        let registry = (occurrences(schema, &is_referring) > 0).then(|| {
            let resource = draft.create_resource(schema.clone());
            Registry::new().draft(draft).add(BASE, resource)?.prepare()
        });
        Ok(Self { draft, size: size(schema) + patterns * PATTERN, registry: registry.transpose()? })
    }

    /// Returns whether a check of `value` takes less time than another thread would.
    pub(super) fn is_little(&self, value: &Value) -> bool {
        self.registry.is_none() && self.size.saturating_mul(size(value)) <= FEW_STEPS
    }

    /// Fails if checking `value` against `schema`, to which this belongs, takes too much work.
    pub(super) fn admits(&self, schema: &Value, value: &Value) -> Result<(), TooMuch> {
        if self.is_little(value) {
            return Ok(());
        }
        let empty;
        let registry = if let Some(registry) = &self.registry {
            registry
        } else {
            empty = Registry::new().prepare().map_err(|_| TooMuch::Nowhere)?;
            &empty
        };
        let base = jsonschema::uri::from_str(BASE).map_err(|_| TooMuch::Nowhere)?;
        let resolver = registry.resolver(base);
        let mut count = Count { draft: self.draft, counted: HashMap::new() };
        let steps = count.steps(At { schema, resolver: &resolver, depth: 0 }, value)?;
        if steps > MAX_STEPS { Err(TooMuch::Steps) } else { Ok(()) }
    }
}

pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(fields) => fields.values().map(size).sum::<usize>() + 1,
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// A schema and the path to it.
#[derive(Clone, Copy)]
struct At<'a, 's> {
    schema: &'a Value,
    resolver: &'a Resolver<'s>,
    depth: usize,
}

impl<'a> At<'a, '_> {
    fn within(self, schema: &'a Value) -> Self {
        Self { schema, depth: self.depth + 1, ..self }
    }
}

struct Count {
    draft: Draft,
    /// The steps by the places of a schema and a value in memory; `None` during their count. Values without parts share
    /// one place.
    counted: HashMap<(*const Value, *const Value), Option<u64>>,
}

impl Count {
    /// Returns the most steps that checking `value` takes.
    fn steps(&mut self, at: At<'_, '_>, value: &Value) -> Result<u64, TooMuch> {
        let Some(keywords) = at.schema.as_object() else { return Ok(1) };
        if at.depth > MAX_DEPTH {
            return Err(TooMuch::Deep);
        }
        let has_parts = value.is_array() || value.is_object();
        let pair = (std::ptr::from_ref(at.schema), if has_parts { value } else { std::ptr::null() });
        match self.counted.get(&pair) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err(TooMuch::Endless),
            None if self.counted.len() >= MAX_PAIRS => return Err(TooMuch::Steps),
            None => self.counted.insert(pair, None),
        };
        let resource = self.draft.create_resource_ref(at.schema);
        let resolver = at.resolver.in_subresource(resource).map_err(|_| TooMuch::Nowhere)?;
        let at = At { resolver: &resolver, ..at };
        // Unevaluated members are found by a second evaluation of everything.
        let again = keywords.keys().any(|keyword| keyword.starts_with("unevaluated"));
        let mut steps = 1_u64;
        for (keyword, operand) in keywords {
            let own = self.keyword(keyword, at.within(operand), value)?;
            steps = steps.saturating_add(own.saturating_mul(if again { 3 } else { 1 }));
        }
        if steps > MAX_STEPS {
            return Err(TooMuch::Steps);
        }
        self.counted.insert(pair, Some(steps));
        Ok(steps)
    }

    /// Returns the steps of one keyword, whose operand is at `at`.
    fn keyword(&mut self, keyword: &str, at: At<'_, '_>, value: &Value) -> Result<u64, TooMuch> {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(at, value),
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => self.all(at, &[value]),
            "dependentSchemas" | "dependencies" => self.each(at, &[value]),
            "properties" => self.properties(at, value),
            "patternProperties" => {
                Ok(self.each(at, &fields(value))?.saturating_add((PATTERN * fields(value).count()) as u64))
            }
            // A name has no names: a schema that refers to itself for names ends there.
            "propertyNames" if fields(value).next().is_none() => Ok(1),
            "propertyNames" => {
                Ok(self.all(at, &[&Value::Null])?.saturating_mul(fields(value).count() as u64))
            }
            "additionalProperties" | "unevaluatedProperties" => self.all(at, &fields(value)),
            "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => {
                self.all(at, &items(value))
            }
            "pattern" => Ok((PATTERN + value.as_str().map_or(0, str::len) / 8) as u64),
            _ => Ok(at.schema.as_array().map_or(1, Vec::len) as u64),
        }
    }

    fn reference(&mut self, at: At<'_, '_>, value: &Value) -> Result<u64, TooMuch> {
        let reference = at.schema.as_str().unwrap_or("#");
        let resolved = at.resolver.lookup(reference).map_err(|_| TooMuch::Nowhere)?;
        self.steps(At { schema: resolved.contents(), resolver: resolved.resolver(), ..at }, value)
    }

    fn properties(&mut self, at: At<'_, '_>, value: &Value) -> Result<u64, TooMuch> {
        let (Some(schemas), Some(own)) = (at.schema.as_object(), value.as_object()) else { return Ok(1) };
        let mut steps = schemas.len() as u64;
        for (schema, field) in schemas.iter().filter_map(|(name, schema)| Some((schema, own.get(name)?))) {
            steps = steps.saturating_add(self.steps(at.within(schema), field)?);
        }
        Ok(steps)
    }

    /// Returns the steps of a schema, or of a list of schemas, for every one of `values`.
    fn all<'v>(
        &mut self,
        at: At<'_, '_>,
        values: &(impl IntoIterator<Item = &'v Value> + Clone),
    ) -> Result<u64, TooMuch> {
        match at.schema.as_array() {
            Some(schemas) => self.sum(at, schemas.iter(), values),
            None => self.sum(at, std::iter::once(at.schema), values),
        }
    }

    /// Returns the steps of every schema of a map, for every one of `values`.
    fn each<'v>(
        &mut self,
        at: At<'_, '_>,
        values: &(impl IntoIterator<Item = &'v Value> + Clone),
    ) -> Result<u64, TooMuch> {
        self.sum(at, at.schema.as_object().into_iter().flat_map(serde_json::Map::values), values)
    }

    fn sum<'a, 'v>(
        &mut self,
        at: At<'a, '_>,
        schemas: impl Iterator<Item = &'a Value>,
        values: &(impl IntoIterator<Item = &'v Value> + Clone),
    ) -> Result<u64, TooMuch> {
        let mut steps = 0_u64;
        for schema in schemas {
            for value in values.clone() {
                steps = steps.saturating_add(self.steps(at.within(schema), value)?);
                if steps > MAX_STEPS {
                    return Err(TooMuch::Steps);
                }
            }
        }
        Ok(steps)
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_object().into_iter().flat_map(serde_json::Map::values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tool::Schema;

    use super::*;

    fn check(schema: &Value, value: &Value) -> Result<(), String> {
        let schema = Schema::compile(schema).map_err(|error| error.to_string())?;
        schema.check(value).map_err(|error| error.to_string())
    }

    fn object(x: &Value, definitions: &Value) -> Value {
        json!({ "type": "object", "properties": { "x": x }, "$defs": definitions })
    }

    /// Returns a definition of `levels` levels, each of which refers to the next one by `twice`.
    fn doubled(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
        let next = |level: usize| json!({ "$ref": format!("#/$defs/a{}", level + 1) });
        let mut all: serde_json::Map<String, Value> =
            (0..levels).map(|level| (format!("a{level}"), twice(next(level)))).collect();
        all.insert(format!("a{levels}"), json!({ "type": "string" }));
        object(&json!({ "$ref": "#/$defs/a0" }), &all.into())
    }

    /// X1: a schema of 2 KB that takes 2^32 steps is refused, in every way to refer twice.
    #[test]
    fn a_schema_that_doubles_is_not_followed() {
        let ways: [fn(Value) -> Value; 5] = [
            |next| json!({ "allOf": [next, next] }),
            |next| json!({ "anyOf": [{ "not": next }, next] }),
            |next| json!({ "if": next, "then": next, "else": next }),
            |next| json!({ "$ref": next["$ref"], "unevaluatedProperties": next }),
            |next| json!({ "dependentSchemas": { "a": next }, "oneOf": [next] }),
        ];
        for twice in ways {
            let said = check(&doubled(48, twice), &json!({ "x": { "a": 1, "b": "s" } })).unwrap_err();
            assert!(
                said.starts_with("the arguments cannot be checked: checking this takes more than"),
                "{said}"
            );
        }
        assert_eq!(check(&doubled(8, ways[0]), &json!({ "x": "s" })), Ok(()));
    }

    /// X1: anchors and ids do not hide the references.
    #[test]
    fn a_schema_that_doubles_by_anchors_and_ids_is_not_followed() {
        for (name, reference) in [("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", "http://a.example/")] {
            let mut all = serde_json::Map::new();
            for level in 0..40 {
                let own =
                    if name == "$id" { format!("http://a.example/a{level}") } else { format!("a{level}") };
                let next = json!({ "$ref": format!("{reference}a{}", level + 1) });
                all.insert(format!("d{level}"), json!({ name: own, "allOf": [next, next] }));
            }
            let own = if name == "$id" { "http://a.example/a40" } else { "a40" };
            all.insert("d40".into(), json!({ name: own }));
            let schema = object(&json!({ "$ref": format!("{reference}a0") }), &all.into());
            let said = check(&schema, &json!({ "x": 1 })).unwrap_err();
            assert!(said.contains("steps"), "{name}: {said}");
        }
    }

    /// X1: a schema with endless, too deep or too many references is refused.
    #[test]
    fn a_schema_without_an_end_is_not_followed() {
        for definition in [
            json!({ "$ref": "#/$defs/a" }),
            json!({ "allOf": [{ "$ref": "#/$defs/a" }] }),
            json!({ "not": { "$ref": "#/$defs/a" } }),
        ] {
            let schema = object(&json!({ "$ref": "#/$defs/a" }), &json!({ "a": definition }));
            let said = check(&schema, &json!({ "x": 1 })).unwrap_err();
            assert!(said.contains("endlessly"), "{said}");
        }
        let said = check(&doubled(4000, |next| next), &json!({ "x": 1 })).unwrap_err();
        assert!(said.contains("at once"), "{said}");
        let said = check(&doubled(100_000, |next| next), &json!({ "x": 1 })).unwrap_err();
        assert!(said.contains("more than 5000 references"), "{said}");
    }

    /// Recursive definitions are common, and doubling by a value's members is bounded by the value.
    #[test]
    fn recursive_definitions_are_followed_as_far_as_the_value_goes() {
        let json = json!({ "anyOf": [
            { "type": ["string", "number", "boolean", "null"] },
            { "type": "array", "items": { "$ref": "#/$defs/a" } },
            { "type": "object", "additionalProperties": { "$ref": "#/$defs/a" } },
        ] });
        let schema = object(&json!({ "$ref": "#/$defs/a" }), &json!({ "a": json }));
        let many: Vec<Value> = (0..200_000).map(Value::from).collect();
        let deep = (0..50).fold(json!("s"), |inner, _| json!({ "k": [inner] })["k"].clone());
        for value in [json!(1), json!({ "a": [1, { "b": null }] }), many.into(), deep] {
            assert_eq!(check(&schema, &json!({ "x": value })), Ok(()));
        }
        // A check of names is a check of the value that contains them.
        let named = json!({ "propertyNames": { "$ref": "#/$defs/a" } });
        let schema = object(&json!({ "$ref": "#/$defs/a" }), &json!({ "a": named }));
        assert_eq!(check(&schema, &json!({ "x": { "k": 1 } })), Ok(()));
        // Every level refers twice to the next one.
        let twice =
            json!({ "allOf": [{ "items": { "$ref": "#/$defs/a" } }, { "items": { "$ref": "#/$defs/a" } }] });
        let schema = object(&json!({ "$ref": "#/$defs/a" }), &json!({ "a": twice }));
        let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
        assert!(check(&schema, &json!({ "x": deep })).unwrap_err().contains("steps"));
    }

    #[test]
    fn patterns_are_bounded() {
        let properties: serde_json::Map<String, Value> =
            (0..301).map(|number| (format!("p{number}"), json!({ "pattern": "\\w{20}" }))).collect();
        let schema = json!({ "type": "object", "properties": properties });
        assert_eq!(
            check(&schema, &json!({})).unwrap_err(),
            "the parameters have more than 300 patterns, or more than 5000 references"
        );
        let schema = json!({ "type": "object", "properties": { "x": { "pattern": "^[\\w-]{1,255}$" } } });
        assert_eq!(check(&schema, &json!({ "x": "usual" })), Ok(()));
        // Backtracks without a bound.
        let schema = json!({ "type": "object", "properties": { "x": { "pattern": "^(?=(a+)+$)\\1b" } } });
        assert!(check(&schema, &json!({ "x": "a".repeat(10_000) })).is_err());
    }
}
