//! Any JSON Schema and any arguments: the first line is the schema, the rest the arguments.

#![no_main]

use haft::tool::Schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(schema) = serde_json::from_str(schema) else { return };
    let Ok(arguments) = serde_json::from_str(arguments) else { return };
    let Ok(schema) = Schema::compile(&schema) else { return };
    if let Err(error) = schema.check(&arguments) {
        assert!(!error.to_string().is_empty());
    }
});
