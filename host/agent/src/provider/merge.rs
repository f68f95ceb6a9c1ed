//! Merges JSON objects. Replaces arrays as a whole: their items have no identity to merge by.

use serde_json::{Map, Value};

/// Merges `over` into `under`: objects key by key, other values by replacement. The recursion is as deep as the
/// values, whose depth is bounded by the parser.
pub(super) fn lay_over(under: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => lay_over(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_joined_and_everything_else_is_replaced() {
        let mut under = json!({ "a": { "b": 1, "c": [1] }, "d": 1 }).as_object().unwrap().clone();
        let over = json!({ "a": { "c": [2], "e": null }, "d": { "f": 1 } }).as_object().unwrap().clone();
        lay_over(&mut under, &over);
        assert_eq!(Value::from(under), json!({ "a": { "b": 1, "c": [2], "e": null }, "d": { "f": 1 } }));
    }
}
