//! Agents as tools: a program calls another program, and a program calls a part of itself; functions implement the
//! models.

mod bounds;
mod calls;
mod chains;
mod kept;
mod served;

use std::fs;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::sessions::{Model, Says};

/// A program and a second program, which is its agent `reviewer`; each has its own model.
struct Team {
    home: Home,
    /// The model of the program.
    lead: Model,
    /// The model of the agent.
    worker: Model,
}

/// Settings of both programs: only the tools `bash`, `read`, `write` and `edit`.
const COMMON: &str = "[builtins]\nfetch = false\nsearch = false\ntime = false\n";

impl Team {
    /// `more` is appended to the program's file, `of_agent` to its `[[agents]]` entry, and `inside` to the agent's
    /// file.
    fn new(lead: Model, worker: Model, [more, of_agent, inside]: [&str; 3]) -> Self {
        let home = Home::new();
        let provider = |model: &Model, key: &str| {
            format!(
                "[provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\napi_key = {{ env = \"{key}\" }}\n\
                 prices.\"scripted-1\" = {{ input = 1000, output = 2000 }}\n",
                model.base_url()
            )
        };
        let program = |name: &str| format!("[program]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
        let agent = format!(
            "[[agents]]\nname = \"reviewer\"\ndescription = \"Reviews.\"\nprogram = \"reviewer\"\n{of_agent}\n"
        );
        fs::create_dir(home.work().join("reviewer")).unwrap();
        let (own, sandbox) = (provider(&lead, "LEAD_KEY"), "[sandbox]\nworkspace = \".\"\n");
        let common = |text: &str| if text.contains("[builtins]") { "" } else { COMMON };
        let outer = common(more);
        home.write("program.toml", &format!("{}{sandbox}{outer}{own}{more}\n{agent}", program("lead")));
        let own = provider(&worker, "WORKER_KEY");
        let inside = if inside.contains("[sandbox]") {
            inside.to_owned()
        } else {
            format!("[sandbox]\nworkspace = \"..\"\n{inside}")
        };
        let common = common(&inside);
        home.write("reviewer/program.toml", &format!("{}{common}{own}{inside}\n", program("worker")));
        Self { home, lead, worker }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.home.command(arguments);
        command.env("LEAD_KEY", LEAD_KEY).env("WORKER_KEY", WORKER_KEY);
        command
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    /// Runs a task and returns its events; the last event contains the outcome.
    fn run(&self, arguments: &[&str]) -> Vec<Value> {
        let answer = self.haft(&[&["run", "--json"], arguments].concat());
        self.lead.assert_content();
        self.worker.assert_content();
        let events: Vec<Value> =
            answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(events.last().is_some_and(|event| event["event"] == "ended"), "{}", answer.stderr);
        events
    }

    /// The journal's records of completed calls.
    fn journal(&self) -> Vec<Value> {
        let answer = self.haft(&["log", "--json"]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names and contents of all files in haft's state directory.
    fn kept(&self) -> String {
        let (mut text, mut folders) = (String::new(), vec![self.home.state()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    text.push_str(&entry.path().display().to_string());
                    text.push('\n');
                    text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
                }
            }
        }
        text
    }
}

const LEAD_KEY: &str = "sk-of-the-lead-0815";
const WORKER_KEY: &str = "sk-of-the-worker-4711";

/// A lead that delegates its task to `agent` and repeats the agent's answer.
fn delegates(agent: &'static str) -> Model {
    Model::start(move |messages| match crate::sessions::answers(messages).as_slice() {
        [] => Says::call(agent, json!({ "task": "Do it.", "context": crate::sessions::asked(messages) })),
        [.., (_, _, answer)] => Says::text(format!("it says: {answer}")),
    })
}

/// A worker that runs `command` and repeats its output.
fn runs(command: &str) -> Model {
    let command = command.to_owned();
    Model::start(move |messages| match crate::sessions::answers(messages).as_slice() {
        [] => Says::call("bash", json!({ "command": command })),
        [.., (_, _, answer)] => Says::text(format!("found {answer}")),
    })
}

fn ended(events: &[Value]) -> &Value {
    events.last().unwrap()
}
