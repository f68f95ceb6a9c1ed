//! "One task" and sessions of docs/agents.md, with a model that answers as shown there.

use std::fs;

use serde_json::{Value, json};

use super::{Reader, shown_below};
use crate::attach::PNG;
use crate::sessions::{Model, Says};

pub(super) const LINES: &[&str] = &[
    "haft run 'Find out why the build is slow'",
    "haft run --resume",
    "haft run --resume last 'And now mend it'",
    "haft run --resume 3f9ac801 'What did you find?'",
    "haft run --schema answer.schema.json 'How many tests are there, and which is the slowest?'",
    "haft run --attach page.png --attach style.css 'Why is the title cut off?'",
    "haft acp --print-config zed",
    "haft acp --print-config jetbrains > acp.json",
    PLAN[0],
    PLAN[1],
    PLAN[2],
    UNDO,
];

/// A plan, the line that carries it out, and a conversation in plan mode.
const PLAN: [&str; 3] = [
    "haft run --plan 'Move the tests to pytest'",
    "haft run --resume last 'Carry out the plan.'",
    "haft chat --plan",
];

const UNDO: &str = "haft session undo";

/// A cargo that writes the file that README's task reads.
const CARGO: &str =
    "#!/bin/sh\nmkdir -p target/cargo-timings\necho slow >target/cargo-timings/cargo-timing.html\n";

/// The turns of README's task, and a fixed answer to every other task.
fn script(messages: &[Value]) -> Says {
    let is_first = messages.iter().any(|message| message["content"].to_string().contains("is slow"));
    match messages.iter().filter(|message| message["role"] == "assistant").count() {
        0 if is_first => Says::call("bash", json!({ "command": "cargo build --timings" })),
        1 => {
            let file = "target/cargo-timings/cargo-timing.html";
            Says::call("read", json!({ "file_path": file, "limit": 200 }))
        }
        _ => Says::text("Most of the time goes into …"),
    }
}

fn reader(model: &Model, more: &str) -> Reader {
    let reader = Reader::new().with("cargo", CARGO);
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n{more}\n\
         [provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\n",
        model.base_url()
    );
    reader.home.write("program.toml", &program);
    reader
}

/// The line without the duration of its call, which depends on the machine.
fn without_times(line: &str) -> String {
    match line.rsplit_once(" (") {
        Some((call, time)) if time.ends_with("s)") => format!("{call} (…)"),
        _ => line.to_owned(),
    }
}

/// docs/acp.md: `haft acp --print-config` prints the configuration of an editor.
#[test]
fn editors_are_told_of_haft() {
    let reader = Reader::new();
    let own = |text: &str| serde_json::from_str::<Value>(text).unwrap()["agent_servers"]["haft"].clone();
    assert_eq!(own(&reader.runs(LINES[6]).stdout)["args"], json!(["acp"]));
    assert_eq!(reader.runs(LINES[7]).stdout, "");
    let written = fs::read_to_string(reader.home.work().join("acp.json")).unwrap();
    assert!(own(&written)["command"].as_str().unwrap().starts_with('/'), "{written}");
}

#[test]
fn a_task_shows_what_the_readme_shows() {
    let model = Model::start(script);
    let answer = reader(&model, "").runs(LINES[0]);
    let said = format!("{}{}", answer.stderr, answer.stdout);
    let own: Vec<_> = said.lines().map(without_times).collect();
    for line in shown_below(LINES[0]) {
        assert!(own.contains(&without_times(&line)), "`{line}` is not in\n{said}");
    }
    assert_eq!(answer.stdout.trim_end(), shown_below(LINES[0]).last().unwrap());
    model.assert_content();
}

/// An answer with a schema is the line of JSON on the page.
#[test]
fn an_answer_of_a_form_is_what_the_page_shows() {
    let typed = |_: &[Value]| Says::text("```json\n{ \"count\": 41, \"slowest\": \"te14_limits\" }\n```");
    let model = Model::start(typed);
    let reader = reader(&model, "");
    let schema = json!({
        "type": "object", "properties": { "count": { "type": "integer" }, "slowest": { "type": "string" } },
        "required": ["count", "slowest"],
    });
    reader.home.write("answer.schema.json", &schema.to_string());
    let line = LINES.iter().find(|line| line.contains("--schema")).unwrap();
    assert_eq!(reader.runs(line).stdout.trim_end(), shown_below(line).join("\n"));
}

/// An attached picture and an attached text reach the model.
#[test]
fn files_are_shown_to_the_model() {
    let model = Model::start(|messages| {
        let all = messages.last().unwrap()["content"].to_string();
        let sees = all.contains("data:image/png;base64,") && all.contains("overflow: hidden");
        Says::text(if sees { "By `overflow: hidden`." } else { "I see nothing." })
    });
    let reader = reader(&model, "");
    fs::write(reader.home.work().join("page.png"), PNG).unwrap();
    reader.home.write("style.css", "h1 { overflow: hidden }");
    let line = LINES.iter().find(|line| line.contains("--attach")).unwrap();
    assert_eq!(reader.runs(line).stdout.trim_end(), "By `overflow: hidden`.");
}

/// A task that its limit of turns ended can be continued, and two more tasks follow it.
#[test]
fn sessions_go_on_as_the_readme_says() {
    let model = Model::start(script);
    let reader = reader(&model, "[agent]\nmax_turns = 2");
    let capped = reader.types(LINES[0], "");
    assert!(capped.code != 0 && capped.stderr.contains("haft run --resume"), "{}", capped.stderr);
    assert!(reader.runs(LINES[1]).stdout.contains("Most of the time goes into"));
    assert!(reader.runs(LINES[2]).stdout.contains("Most of the time goes into"));
    let listed = reader.runs("haft session list --json").stdout;
    let session: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let id = session["id"].as_str().unwrap().to_owned();
    let reader = reader.where_is("3f9ac801", id);
    assert!(reader.runs(LINES[3]).stdout.contains("Most of the time goes into"));
    assert_eq!(fs::read_dir(reader.home.state().join("sessions")).unwrap().count(), 1);
    model.assert_content();
}

/// U11: a plan changes nothing; the changes of its execution are undone as the page shows.
#[test]
fn a_plan_is_made_carried_out_and_undone() {
    let model = Model::start(|messages| match messages.last() {
        Some(last) if last["role"] == "tool" => Says::text("Tried."),
        _ => {
            let write = |file: &str| ("write", json!({ "file_path": file, "content": "x" }));
            let commit = ("bash", json!({ "command": "git commit -m wip" }));
            Says { calls: vec![write("plan.md"), write("list.md"), commit], ..Says::default() }
        }
    });
    let reader = reader(&model, "");
    let there = |file: &str| reader.home.work().join(file).exists();
    reader.runs(PLAN[0]);
    assert!(!there("plan.md") && !there("list.md"));
    reader.runs(PLAN[1]);
    assert!(there("plan.md") && there("list.md"));
    reader.home.write("list.md", "my own");
    reader.sees_what_is_shown(UNDO);
    assert!(!there("plan.md") && there("list.md"));
    let chat = reader.types(PLAN[2], "");
    assert!(chat.code == 5 && chat.stderr.contains("needs a terminal"), "{}", chat.stderr);
}
