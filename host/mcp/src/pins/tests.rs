use serde_json::json;

use super::*;

fn tool(name: &str, description: &str) -> Value {
    json!({
        "name": name, "description": description,
        "inputSchema": { "type": "object", "properties": { "a": {}, "b": {} } },
        "annotations": { "readOnlyHint": true, "title": "A" },
    })
}

fn with(tool: &Value, key: &str, value: Value) -> Value {
    let mut tool = tool.clone();
    tool[key] = value;
    tool
}

fn told(before: &[Value], now: &[Value]) -> Vec<String> {
    let all = ToolPins::of(before).differences(&ToolPins::of(now));
    all.iter().map(|one| format!("{}{one}", if one.holds() { "held: " } else { "" })).collect()
}

#[test]
fn each_difference_is_told_apart_in_one_line() {
    let (read, list, moved) = (tool("read", "Reads"), tool("list", "Lists"), tool("move", "Moves"));
    let before = [read.clone(), list.clone(), moved.clone()];
    assert_eq!(told(&before, &before), [""; 0]);
    let now = [
        with(&read, "description", json!("IMPORTANT")),
        tool("drop", "Drops"),
        with(&moved, "name", json!("mv")),
    ];
    assert_eq!(
        told(&before, &now),
        [
            "held: tool `drop` is new",
            "tool `list` was removed",
            "held: tool `mv` was renamed from `move`",
            "held: tool `read` has changed: description",
        ]
    );
    // A tool that was absent for a while is unchanged.
    assert_eq!(told(&before, &[moved, list, read]), [""; 0]);
}

#[test]
fn a_tool_is_told_from_another_one_that_has_its_old_name() {
    let (before, taken) = (tool("read", "Reads"), tool("read", "Reads more"));
    let renamed = with(&before, "name", json!("read_file"));
    assert_eq!(
        told(std::slice::from_ref(&before), &[renamed.clone(), taken]),
        ["held: tool `read` has changed: description", "held: tool `read_file` was renamed from `read`"]
    );
    // The old tool stays, and the other one is new, regardless of its content.
    assert_eq!(
        told(std::slice::from_ref(&before), &[before.clone(), renamed]),
        ["held: tool `read_file` is new"]
    );
}

#[test]
fn each_part_has_its_digest() {
    let before = tool("read", "Reads");
    for (key, value, part) in [
        ("title", json!("Read"), "description"),
        ("inputSchema", json!({ "type": "object" }), "schema"),
        ("outputSchema", json!({ "type": "object" }), "schema"),
        ("annotations", json!({ "readOnlyHint": false, "title": "A" }), "annotations"),
        ("icons", json!([{ "src": "https://a.test/a.png" }]), "annotations"),
        ("_meta", json!({ "ui": { "resourceUri": "ui://a" } }), "annotations"),
        ("of a later version", json!(true), "annotations"),
    ] {
        let now = with(&before, key, value);
        assert_eq!(
            told(std::slice::from_ref(&before), &[now]),
            [format!("held: tool `read` has changed: {part}")],
            "{key}"
        );
    }
    assert_eq!(told(std::slice::from_ref(&before), &[with(&before, "title", Value::Null)]), [""; 0]);
}

#[test]
fn the_order_of_keys_is_no_change_and_that_of_lists_is_one() {
    let one: Value =
        serde_json::from_str(r#"{"name": "a", "inputSchema": {"a": {"x": 1, "y": 2}, "b": [1, 2]}}"#)
            .unwrap();
    let other: Value =
        serde_json::from_str(r#"{"inputSchema": {"b": [1, 2], "a": {"y": 2, "x": 1}}, "name": "a"}"#)
            .unwrap();
    assert_eq!(ToolPins::of([&one]), ToolPins::of([&other]));
    let other = with(&other, "inputSchema", json!({ "a": { "x": 1, "y": 2 }, "b": [2, 1] }));
    assert_ne!(ToolPins::of([&one]), ToolPins::of([&other]));
}

#[test]
fn what_is_listed_twice_or_without_a_name_is_no_way_around() {
    let own = tool("read", "Reads");
    assert_eq!(ToolPins::of([&json!({ "description": "no name" }), &json!(7)]), ToolPins::default());
    let twice = [own.clone(), with(&own, "description", json!("other"))];
    assert_eq!(
        told(std::slice::from_ref(&own), &twice),
        ["held: tool `read` has changed: description, schema, annotations"]
    );
    assert_eq!(told(&twice, &twice), [""; 0]);
}

#[test]
fn pins_are_read_as_they_are_written() {
    let pins = ToolPins::of([&tool("read", "Reads"), &tool("a \"b\"\n", "")]);
    let text = serde_json::to_string(&pins).unwrap();
    assert_eq!(serde_json::from_str::<ToolPins>(&text).unwrap(), pins);
    assert_eq!(pins.names().len(), text.matches("\":\"").count());
    for wrong in [r#"{"a": ""}"#, r#"{"a": "00 00 00"}"#, r#"{"a": 1}"#, "[]"] {
        assert!(serde_json::from_str::<ToolPins>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_summary_counts_tools_as_tools() {
    let [one, other, words, skill] =
        ["read", "list", INSTRUCTIONS, "skill://far/SKILL.md"].map(|name| tool(name, ""));
    for (pinned, summary) in [
        (vec![&one], "1 tool"),
        (vec![&one, &other, &words], "2 tools and its instructions"),
        (vec![&one, &skill], "1 tool and 1 skill"),
        (vec![&other, &one, &skill, &words], "2 tools, 1 skill and its instructions"),
    ] {
        assert_eq!(ToolPins::of(pinned).summary(), summary);
    }
}

#[test]
fn the_name_of_a_tool_steers_no_terminal() {
    assert_eq!(told(&[], &[json!({ "name": "a\u{1b}[2Jb\nc" })]).concat().lines().count(), 1);
}
