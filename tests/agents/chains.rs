//! Agents that call agents: the limit of depth, and the refusal of circles.

use std::fs;

use serde_json::json;

use super::{Team, delegates, ended, runs};
use crate::cli::Home;
use crate::sessions::{Model, Says, answers};

fn entry(program: &str) -> String {
    format!("[[agents]]\nname = \"next\"\ndescription = \"The next.\"\nprogram = \"{program}\"\n")
}

/// Each verb that loads a program refuses a circle of agents, and the error shows the chain.
#[test]
fn programs_that_call_each_other_in_a_circle_are_not_loaded() {
    let home = Home::new();
    home.write("program.toml", &entry("b.toml"));
    home.write("b.toml", &entry("c.toml"));
    home.write("c.toml", &entry("./program.toml"));
    for verb in ["check", "tools"] {
        let answer = home.haft(&[verb]);
        let (root, c) = (home.work().join("program.toml"), home.work().join("c.toml"));
        let circle = format!("→ `{}` → `{}`", c.display(), root.display());
        assert!(answer.code != 0 && answer.stderr.contains("in a circle"), "{}", answer.stderr);
        assert!(answer.stderr.contains(&circle), "{}", answer.stderr);
    }
    home.write("program.toml", &entry("program.toml"));
    assert!(home.haft(&["check"]).stderr.contains("in a circle"));
}

/// Agents can call each other to a depth of four; a fifth level is refused.
#[test]
fn agents_call_each_other_four_deep() {
    let home = Home::new();
    for index in 0..4 {
        home.write(&format!("{index}.toml"), &entry(&format!("{}.toml", index + 1)));
    }
    home.write("4.toml", "");
    let check = home.haft(&["tools", "-p", "0.toml"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    home.write("4.toml", &entry("5.toml"));
    home.write("5.toml", "");
    let check = home.haft(&["check", "-p", "0.toml"]);
    assert!(check.code != 0 && check.stderr.contains("at most 4 deep"), "{}", check.stderr);
}

/// The usage of an agent's agent counts toward both callers, and its calls are in the journal below the agent's call.
#[test]
fn an_agent_of_an_agent_works() {
    let deep = "[[agents]]\nname = \"deep\"\ndescription = \"D.\"\nsystem_prompt = \"You are deep.\"\ntools = [\"bash\"]\n";
    let worker = Model::start(|messages| {
        let is_deep = messages[0]["content"] == "You are deep.";
        match (is_deep, answers(messages).as_slice()) {
            (true, []) => Says::call("bash", json!({ "command": "echo from the deep" })),
            (false, []) => Says::call("agent__deep", json!({ "task": "dive" })),
            (_, [.., (_, _, answer)]) => Says::text(answer.clone()),
        }
    });
    let team = Team::new(delegates("agent__reviewer"), worker, ["", "", deep]);
    let events = team.run(&["look"]);
    assert!(ended(&events)["text"].as_str().unwrap().contains("from the deep"), "{events:?}");
    assert_eq!(ended(&events)["agents"]["reviewer"]["turns"], 4);
    let journal = team.journal();
    let of = |tool: &str| journal.iter().find(|record| record["tool"] == tool).unwrap();
    let (outer, inner, bash) = (of("agent__reviewer"), of("agent__deep"), of("bash"));
    assert_eq!((&inner["parent"], &bash["parent"]), (&outer["id"], &inner["id"]));
    assert_eq!((&inner["agent"], &bash["agent"]), (&json!("reviewer"), &json!("reviewer/deep")));
}

/// An agent that cannot be used is omitted, and the program still works; haft loads nothing of an agent before its
/// call.
#[test]
fn an_agent_is_looked_at_when_it_is_called() {
    let plugin = "[[plugins]]\nname = \"gone\"\ncomponent = \"gone.wasm\"\n";
    let team = Team::new(Model::start(|_| Says::text("alone")), runs("true"), ["", "", plugin]);
    let answer = team.haft(&["run", "look"]);
    assert_eq!(
        (answer.stdout.as_str(), answer.stderr.contains("gone")),
        ("alone\n", false),
        "{}",
        answer.stderr
    );
    let check = team.haft(&["check"]);
    assert!(check.code != 0 && check.stderr.contains("agent `reviewer`: plugin `gone`"), "{}", check.stderr);
    fs::write(team.home.work().join("reviewer/program.toml"), "[provder]\n").unwrap();
    let answer = team.haft(&["run", "look"]);
    assert_eq!(answer.stdout, "alone\n");
    assert!(
        answer.stderr.contains("agent `reviewer` cannot be used: unknown key `provder`"),
        "{}",
        answer.stderr
    );
}
