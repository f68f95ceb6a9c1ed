//! Programs with many plugins: the plugins that one call loads, and the tools that models are offered.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::cli::Home;
use crate::common::repository;

/// A program with `count` plugins of one tool each, every component in its own file.
fn program(home: &Home, count: usize, more: &str) {
    let hello = fs::read(repository().join("plugins/built/hello.wasm")).unwrap();
    let mut text = format!("[program]\nname = \"many\"\nversion = \"0.1.0\"\n{more}");
    for number in 0..count {
        // A custom section gives the component another digest.
        let note = format!("\u{4}note{number:04}");
        let length = u8::try_from(note.len()).unwrap();
        let component = [&hello[..], &[0, length], note.as_bytes()].concat();
        fs::write(home.work().join(format!("p{number}.wasm")), component).unwrap();
        writeln!(text, "[[plugins]]\nname = \"p{number}\"\ncomponent = \"p{number}.wasm\"").unwrap();
    }
    home.write("program.toml", &text);
}

fn listed(home: &Home, arguments: &[&str]) -> Vec<(String, u64)> {
    let answer = home.haft(&[arguments, &["--json"]].concat());
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    let tools: Vec<Value> = serde_json::from_str(&answer.stdout).unwrap();
    let tool = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool["tokens"].as_u64().unwrap());
    tools.iter().map(tool).collect()
}

/// PR14, PR15: `haft tools --agent` lists the tools that fit the budget, in order; all other tools remain callable.
#[test]
fn the_list_for_an_agent_fits_its_budget() {
    let home = Home::new();
    program(&home, 12, "[agent]\ntools = [\"time\", \"p*\"]\ntool_budget = 550\n");
    assert_eq!(listed(&home, &["tools"]).len(), 7 + 12, "without the agent's bounds");
    let report = listed(&home, &["tools", "--agent"]);
    let names: Vec<&str> = report.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..2], ["time", "p0__hello"]);
    assert_eq!(names[names.len() - 2..], ["find_tools", "program"]);
    assert!(names.len() < 13 && report.iter().map(|(_, tokens)| tokens).sum::<u64>() <= 560, "{report:?}");
    let table = home.haft(&["tools", "--agent"]).stdout;
    let left = 13 + 2 - names.len();
    assert!(table.contains(&format!("{left} more tools are found by `find_tools`")), "{table}");
    let call = r#"{"name": "p11__hello", "args": {"name": "you"}}"#;
    assert_eq!(home.haft(&["call", "program", call]).stdout, "hello you\n");
    assert_eq!(
        home.haft(&["call", "PROGRAM", "-a", "name=p3__hello", "-a", r#"args={"name": "x"}"#]).stdout,
        "hello x\n"
    );
}

/// PR15: `haft check` reports a budget that is too small for any tool.
#[test]
fn a_budget_for_nothing_is_told() {
    let home = Home::new();
    program(&home, 1, "[agent]\ntool_budget = 20\n");
    assert_eq!(listed(&home, &["tools", "--agent"]).len(), 2);
    let check = home.haft(&["check"]);
    assert_eq!(check.code, 3);
    assert!(
        check.stderr.contains("`tool_budget = 20` in `[agent]` is too small for any tool"),
        "{}",
        check.stderr
    );
    program(&home, 1, "[agent]\ntool_budget = 2000\n");
    assert_eq!(home.haft(&["check"]).code, 0);
}

/// A call loads only the plugin that has the tool, and the error for an unknown tool still suggests the nearest name.
#[test]
fn one_call_looks_at_one_plugin() {
    let home = Home::new();
    program(&home, 3, "");
    fs::write(home.work().join("p1.wasm"), "broken").unwrap();
    for (tool, said) in [("p2__hello", "hello x\n"), ("P2__Hello", "hello x\n")] {
        let answer = home.haft(&["call", tool, "-a", "name=x"]);
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), (said, ""), "{tool}");
    }
    assert_eq!(home.haft(&["call", "time"]).stderr, "");
    let unknown = home.haft(&["call", "p2__helo"]);
    assert!(
        unknown.stderr.contains("Unknown tool: p2__helo; did you mean `p2__hello`?"),
        "{}",
        unknown.stderr
    );
    let broken = home.haft(&["call", "p1__hello"]);
    assert!(broken.stderr.contains("plugin `p1` cannot be loaded"), "{}", broken.stderr);
    assert!(
        home.haft(&["call", "program", r#"{"name": "p0__hello", "args": {"name": "x"}}"#])
            .stdout
            .contains("hello")
    );
}
