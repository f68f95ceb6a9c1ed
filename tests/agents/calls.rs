//! One task for an agent and its answer: events, journal lines and usage.

use std::sync::{Condvar, Mutex};

use serde_json::json;

use super::{LEAD_KEY, Team, WORKER_KEY, delegates, ended, runs};
use crate::common::HANG;
use crate::common::wait::until;
use crate::sessions::{Model, Says, answers, asked};

/// An agent's calls are in the journal below the caller's call, its events have its name, and its usage counts toward
/// the run.
#[test]
fn an_agent_is_a_tool_whose_calls_and_cost_are_its_caller_s() {
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen by the agent"), ["", "", ""]);
    let events = team.run(&["look"]);
    let end = ended(&events);
    assert_eq!(end["end"], "final", "{end}");
    assert!(end["text"].as_str().unwrap().starts_with("it says: found seen by the agent"), "{end}");
    // Two turns of each model, with 10 input and 5 output tokens for each turn.
    assert_eq!(
        (&end["turns"], &end["input_tokens"], &end["output_tokens"]),
        (&json!(2), &json!(40), &json!(20))
    );
    assert_eq!(end["cost_usd"], 0.08, "{end}");
    let expected = json!({
        "reviewer": { "turns": 2, "input_tokens": 20, "output_tokens": 10, "cached_tokens": 0, "cost_usd": 0.04 },
    });
    assert_eq!(end["agents"], expected);
    let within: Vec<_> = events.iter().filter(|event| event["agent"] == "reviewer").collect();
    let kinds: Vec<_> = within.iter().map(|event| event["event"].as_str().unwrap()).collect();
    for kind in ["asked", "said", "started", "running", "stdout", "completed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(within.iter().all(|event| event["parent"] == "call-0-0"), "{within:?}");
    assert!(events.iter().any(|event| event["event"] == "progress" && event["message"] == "turn 1: bash"));
    let journal = team.journal();
    let of = |tool: &str| journal.iter().find(|record| record["tool"] == tool).unwrap();
    let (agent, bash) = (of("agent__reviewer"), of("bash"));
    assert_eq!((&bash["parent"], &bash["agent"]), (&agent["id"], &json!("reviewer")));
    assert_eq!((&bash["program"]["name"], &agent["parent"]), (&json!("worker"), &json!(null)));
    let shown = team.haft(&["log", agent["id"].as_str().unwrap()]);
    assert!(
        shown.stdout.contains(&format!("calls      {} bash ok", bash["id"].as_str().unwrap())),
        "{}",
        shown.stdout
    );
    let shown = team.haft(&["log", bash["id"].as_str().unwrap()]);
    assert!(shown.stdout.contains("agent      reviewer, for call"), "{}", shown.stdout);
    assert!(team.haft(&["log"]).stdout.contains("  reviewer/bash"));
}

/// An agent sees the task and the caller's addition, and nothing of the caller's conversation.
#[test]
fn an_agent_is_told_its_task_and_nothing_else() {
    let worker = Model::start(|messages| Says::text(format!("{} of {}", messages.len(), asked(messages))));
    let team = Team::new(delegates("agent__reviewer"), worker, ["", "", ""]);
    let events = team.run(&["look"]);
    assert_eq!(ended(&events)["text"], "it says: 2 of Do it.\n\nlook");
}

/// The records of a program contain no key of the other program, even if a model outputs it.
#[test]
fn neither_program_tells_the_other_s_secrets() {
    let worker = Model::start(|_| Says::text(format!("{LEAD_KEY} and {WORKER_KEY}")));
    let team = Team::new(delegates("agent__reviewer"), worker, ["", "", ""]);
    let answer = team.haft(&["run", "--json", "look"]);
    assert!(answer.stdout.contains("it says: *** and ***"), "{} {}", answer.stdout, answer.stderr);
    let kept = team.kept();
    assert!(kept.contains("sessions/") && kept.contains("journal/"), "{kept}");
    let all = [answer.stdout, answer.stderr, kept].concat();
    assert!(all.contains("*** and ***") && !all.contains("of-the-"), "{all}");
}

/// A failure of an agent is an answer to its caller, which continues.
#[test]
fn a_failure_of_an_agent_is_an_answer() {
    let busy = Model::start(|_| Says {
        text: "on my way".into(),
        ..Says::call("bash", json!({ "command": "true" }))
    });
    let team = Team::new(delegates("agent__reviewer"), busy, ["", "max_turns = 2", ""]);
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains("agent `reviewer` did not finish, after 2 turns: reached max turns"), "{text}");
    let id = text.split("haft session show ").nth(1).unwrap().split('`').next().unwrap();
    assert!(team.haft(&["session", "show", id]).stdout.contains("on my way"));
    let unread = Model::start(|_| Says::text("never"));
    let team = Team::new(delegates("agent__reviewer"), unread, ["", "", ""]);
    let file = team.home.work().join("reviewer/program.toml");
    let broken = std::fs::read_to_string(&file)
        .unwrap()
        .replace("[provider]", "[provider]\nmax_retries = 0")
        .replace(&team.worker.base_url(), "http://127.0.0.1:1/v1");
    std::fs::write(&file, broken).unwrap();
    let events = team.run(&["look"]);
    let text = ended(&events)["text"].as_str().unwrap();
    assert!(text.contains("did not finish, after 0 turns") && text.contains("127.0.0.1:1"), "{text}");
    let record = team.journal().into_iter().find(|record| record["tool"] == "agent__reviewer").unwrap();
    assert_eq!(record["outcome"], "error");
}

/// Read-only agents run concurrently, and an agent is read-only if all its tools are.
#[test]
fn parts_of_a_program_that_only_read_work_at_the_same_time() {
    static PRESENT: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
    let model = Model::start(|messages| {
        let system = messages[0]["content"].as_str().unwrap_or_default();
        if !system.starts_with("You look at") {
            return match answers(messages).as_slice() {
                [] => {
                    let look = |at: &str| ("agent__reader", json!({ "task": at }));
                    Says { calls: vec![look("one"), look("two")], ..Says::default() }
                }
                all => Says::text(
                    all.iter().map(|(_, _, answer)| answer.as_str()).collect::<Vec<_>>().join(", "),
                ),
            };
        }
        let mut present = PRESENT.0.lock().unwrap();
        *present += 1;
        PRESENT.1.notify_all();
        let both = PRESENT.1.wait_timeout_while(present, HANG, |present| *present < 2).unwrap();
        Says::text(format!("{} with {}", asked(messages), *both.0))
    });
    let reader = "[[agents]]\nname = \"reader\"\ndescription = \"Reads.\"\nsystem_prompt = \"You look at files.\"\ntools = [\"read\"]\n";
    let team = Team::new(model, runs("true"), [reader, "", ""]);
    assert_eq!(ended(&team.run(&["look"]))["text"], "one with 2, two with 2");
    assert_eq!(ended(&team.run(&["look"]))["agents"]["reader"]["turns"], 2);
    let tools = team.haft(&["tools", "--json"]).stdout;
    let tools: Vec<serde_json::Value> = serde_json::from_str(&tools).unwrap();
    let hints =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["hints"]["read-only"].clone();
    assert_eq!([hints("agent__reader"), hints("agent__reviewer")], [json!(true), json!(false)]);
}

/// A part of a program has only the tools that it names; it can name agents that are declared before it.
#[test]
fn a_part_of_a_program_has_the_tools_that_it_names() {
    let model = Model::start(|messages| {
        let system = messages[0]["content"].as_str().unwrap_or_default();
        match (system, answers(messages).len()) {
            ("You are the second.", 0) => Says::call("agent__first", json!({ "task": "try" })),
            ("You are the first.", 0) => Says::call("bash", json!({ "command": "echo no" })),
            (_, 0) => Says::call("agent__second", json!({ "task": "try" })),
            _ => Says::text(answers(messages)[0].2.clone()),
        }
    });
    let parts = "[[agents]]\nname = \"first\"\ndescription = \"A.\"\nsystem_prompt = \"You are the first.\"\ntools = [\"read\"]\n\
                 [[agents]]\nname = \"second\"\ndescription = \"B.\"\nsystem_prompt = \"You are the second.\"\ntools = [\"agent__first\"]\n";
    let team = Team::new(model, runs("true"), [parts, "", ""]);
    let events = team.run(&["look"]);
    assert!(ended(&events)["text"].as_str().unwrap().ends_with("Unknown tool: bash"), "{}", ended(&events));
    let deep: Vec<_> = events.iter().filter(|event| event["agent"] == "second/first").collect();
    assert!(deep.iter().any(|event| event["event"] == "said"), "{events:?}");
    assert_eq!(ended(&events)["agents"]["second"]["turns"], 4);
    assert!(ended(&events)["agents"]["first"].is_null());
    let journal = team.journal();
    let bash = journal.iter().find(|record| record["tool"] == "bash").unwrap();
    assert_eq!((&bash["agent"], &bash["outcome"]), (&json!("second/first"), &json!("unknown_tool")));
    team.home.write(
        "program.toml",
        &std::fs::read_to_string(team.home.work().join("program.toml"))
            .unwrap()
            .replace("\"agent__first\"", "\"agent__frist\""),
    );
    let check = team.haft(&["check"]);
    assert!(check.code != 0 && check.stderr.contains("did you mean `agent__first`?"), "{}", check.stderr);
}

/// An agent's answer conforms to the schema of its entry.
#[test]
fn an_agent_answers_in_the_form_that_its_entry_says() {
    let worker = Model::start(|_| Says::text("Here: {\"good\": true}"));
    let form = "output = { type = \"object\", properties = { good = { type = \"boolean\" } }, required = [\"good\"] }";
    let team = Team::new(delegates("agent__reviewer"), worker, ["", form, ""]);
    let events = team.run(&["look"]);
    let answer = events.iter().find(|event| event["event"] == "completed").unwrap();
    assert_eq!(answer["result"]["structured"], json!({ "good": true }), "{answer}");
}

/// U11: agents that a model calls in one turn run concurrently, even if they can write; in the test each waits for
/// the others.
#[test]
fn agents_that_are_called_at_once_work_at_once() {
    let lead = Model::start(|messages| match answers(messages).as_slice() {
        [] => Says {
            calls: ["one", "two", "three"].map(|task| ("agent__reviewer", json!({ "task": task }))).to_vec(),
            ..Says::default()
        },
        all => Says::text(all.iter().map(|(_, _, answer)| answer.as_str()).collect::<Vec<_>>().join(" ")),
    });
    let working = std::sync::atomic::AtomicUsize::new(0);
    let worker = Model::start(move |messages| {
        working.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        until("all three work", || working.load(std::sync::atomic::Ordering::SeqCst) == 3);
        Says::text(asked(messages).to_uppercase())
    });
    let team = Team::new(lead, worker, ["", "", ""]);
    let events = team.run(&["hand it out"]);
    let text = ended(&events)["text"].as_str().unwrap();
    assert_eq!(text, "ONE TWO THREE");
}
