//! Descriptions in program.toml for the tools of a component without its own: `titles` and `[plugins.hints]`.

use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::hostile;

/// A program with the hostile guest, which can write in the workspace; `text` describes its tools.
fn home(text: &str) -> Home {
    let home = Home::new();
    let component = hostile().display().to_string();
    let plugin = format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n");
    let grant = "[plugins.grant]\nwrite = [\".\"]\n";
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{plugin}{text}{grant}"));
    home.write("file", "as it was");
    home
}

fn read(home: &Home) -> String {
    std::fs::read_to_string(home.work().join("file")).unwrap()
}

/// The tool's entry in `haft tools --json`.
fn tool(home: &Home, name: &str) -> Value {
    let listed = home.haft(&["tools", "--json"]);
    let tools: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    tools.into_iter().find(|tool| tool["name"] == name).unwrap()
}

/// WA01: a tool that program.toml marks as read-only cannot write; other tools of the plugin can.
#[test]
fn a_tool_is_held_to_what_the_program_says_of_it() {
    let write = ["call", "guest__write", "{\"path\": \"file\", \"text\": \"new\"}"];
    let held = home("[plugins.hints]\nread_only = [\"wri*\"]\n");
    let refused = held.haft(&write);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("the tool declares that it is read-only"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    assert_eq!(read(&held), "as it was");
    let free = home("[plugins.hints]\nread_only = [\"echo\"]\n");
    let written = free.haft(&write);
    assert_eq!((written.code, read(&free).as_str()), (0, "new"), "{}", written.stderr);
}

/// WA01: the list of tools has the titles and hints of program.toml.
#[test]
fn hints_and_titles_of_the_program_are_told() {
    let home = home(
        "titles = { write = \"Write a file\" }\n\
         [plugins.hints]\ndestructive = [\"write\"]\nidempotent = [\"w*e\"]\nopen_world = [\"fetch\"]\n",
    );
    let write = tool(&home, "guest__write");
    assert_eq!(write["title"], "Write a file");
    let hints = json!({ "read-only": false, "destructive": true, "idempotent": true, "open-world": false });
    assert_eq!(write["hints"], hints);
    let echo = tool(&home, "guest__echo");
    assert_eq!((&echo["title"], &echo["hints"]["destructive"]), (&Value::Null, &json!(false)));
}
