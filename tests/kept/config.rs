//! `[plugins.config]`: literal values, secrets by name, and the schema of a component.

use std::fs;

use serde_json::json;

use super::{all_text, fails, home, keeper, program, says};
use crate::cli::Home;

/// A secret that no output of haft may contain.
const HIDDEN: &str = "hunter2-hunter2-hunter2";

/// The guest receives configured values as text, and `null` for a missing key.
#[test]
fn values_are_handed_over_as_text() {
    let home = home("[plugins.config]\nregion = \"eu\"\nretries = 3\nverbose = true\n\"a.b\" = \"\"");
    assert_eq!(says(&home, "configured", &json!({ "key": "region" })), "eu");
    assert_eq!(says(&home, "configured", &json!({ "key": "none" })), "null");
    let all = json!(["region=eu", "retries=3", "verbose=true", "a.b="]);
    assert_eq!(says(&home, "configured-all", &json!({})), all.to_string());
    let empty = super::home("config = {}");
    assert_eq!(says(&empty, "configured-all", &json!({})), "[]");
}

/// CL04: the guest receives the secret, and no output or file of haft contains it.
#[test]
fn secrets_are_named_and_never_shown() {
    let home =
        home("grant = { state = \"1MiB\" }\nconfig = { token = { env = \"KEPT_TOKEN\" }, region = \"eu\" }");
    let haft = |arguments: &[&str]| {
        let output = home.command(arguments).env("KEPT_TOKEN", HIDDEN).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(!text.contains("hunter2"), "{text}");
        text
    };
    assert!(haft(&["call", "keeper__configured-all", "{}"]).contains("token=***"));
    for verb in [
        &["list"][..],
        &["tools"],
        &["doctor"],
        &["--json", "list"],
        &["-v", "call", "keeper__configured-all", "{}"],
        &["call", "keeper__configured", "{\"key\": \"token\"}", "--trace"],
    ] {
        haft(verb);
    }
    assert!(!all_text(home.work().parent().unwrap()).contains("hunter2"));
    // haft reports an unavailable value, and the guest still has the other values.
    let without = home.call("keeper__configured-all", &json!({}));
    assert_eq!(without.stdout.trim(), "[\"region=eu\"]");
    assert!(
        without.stderr.contains("`token` of the configuration of `keeper` is not available"),
        "{}",
        without.stderr
    );
    let written = super::home("config = { api_token = \"hunter2\" }").haft(&["tools"]);
    assert!(
        written.code != 0 && written.stderr.contains("expected the place of a secret, not the secret"),
        "{}",
        written.stderr
    );
    assert!(!written.stderr.contains("hunter2"), "{}", written.stderr);
}

/// haft checks the configuration by the component's schema, and its errors contain no secret.
#[test]
fn a_configuration_is_checked_by_the_components_schema() {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["region"], "properties": {
        "region": { "type": "string", "enum": ["eu", "us"] }, "retries": { "type": "integer", "maximum": 9 },
        "token": { "type": "string", "pattern": "^key-" } } });
    let added = haft::author::pack::Added { config: Some(&schema.to_string()), ..Default::default() };
    let component = haft::author::pack::finish(&fs::read(keeper()).unwrap(), added).unwrap();
    let said = |config: &str| {
        let home = Home::new();
        fs::write(home.work().join("keeper.wasm"), &component).unwrap();
        home.write("program.toml", &program("keeper.wasm".as_ref(), config));
        let output = home.command(&["tools"]).env("KEPT_TOKEN", HIDDEN).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said("config = { region = \"eu\", retries = 3 }"), "");
    assert_eq!(said(""), "", "what is not configured is refused inside");
    for (config, expected) in [
        ("region = \"de\"", "at `/region`: \"de\" is not one of \"eu\", \"us\""),
        ("retries = 3", "`region` is required"),
        ("region = \"eu\", retries = 10", "at `/retries`: 10 is greater than the maximum of 9"),
        ("regio = \"eu\", region = \"eu\"", "unknown key `regio`: did you mean `region`?"),
        (
            "region = \"eu\", token = { env = \"KEPT_TOKEN\" }",
            "at `/token`: the value (a secret) does not match",
        ),
    ] {
        let told = said(&format!("config = {{ {config} }}"));
        let head = "the configuration of `keeper` does not match its schema: ";
        assert!(told.contains(&format!("{head}{expected}")) && !told.contains("hunter2"), "{told}");
    }
}

/// haft reports an error in the table with the expected form.
#[test]
fn mistakes_in_the_table_are_told() {
    for (config, expected) in [
        ("config = 3", "expected a table, found an integer"),
        ("config = { a = [1] }", "expected a string, a number, a boolean, or the place of a secret"),
        ("config = { \" \" = 1 }", "expected 1 to 256 bytes"),
        ("grant = { state = 10 }", "expected a size with a unit"),
        ("grant = { state = \"1KiB\" }", "expected a size from `64KiB` to `1GiB`"),
        ("settings = {}", "did you mean `config`?"),
    ] {
        let told = fails(&home(config), "keys", &json!({}));
        assert!(told.contains(expected), "{config}: {told}");
    }
}
