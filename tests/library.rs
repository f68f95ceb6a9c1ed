//! haft as a library: the examples that embed it work as documented.

#![expect(clippy::disallowed_methods, reason = "one of these tests asks cargo")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use haft::agent::{AgentSettings, Budget, History};
use haft::call::{ToolCall, ToolResult};
use haft::event::Events;
use haft::package::{Consent, Decision, Proposal, Store};
use haft::program::{Options, Program};
use haft::provider::{OutputSchema, ProviderSettings};
use haft::tool::Session;
use haft::usage::Cost;
use haft::{Agent, Toolbox};
use serde_json::json;

use crate::agent::fake::{Fake, calls, says};

#[expect(dead_code, unreachable_pub, reason = "the example's own `main` reads the command line")]
#[path = "../host/agent/examples/agent.rs"]
mod agent;

#[expect(dead_code, unreachable_pub, reason = "the example's own `main` reads the command line")]
#[path = "../host/haft/examples/embed.rs"]
mod embed;

#[expect(dead_code, unreachable_pub, reason = "the example's own `main` reads the command line")]
#[path = "../host/haft/examples/install.rs"]
mod install;

#[expect(dead_code, unreachable_pub, reason = "the example's own `main` reads the command line")]
#[path = "../host/plugin/examples/plugin.rs"]
mod plugin;

/// The first example of docs/library.md.
async fn dispatched(options: Options, call: ToolCall) -> Result<ToolResult, Box<dyn Error>> {
    let program = Program::load(&options).await?;
    let result = program.toolbox.dispatch(call, &program.session("call", Events::none())).await;
    Ok(result)
}

/// The example of an answer with a schema in docs/library.md.
async fn names(settings: ProviderSettings, task: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let (provider, toolbox) = (haft::provider::build(settings)?, Toolbox::default());
    let (mut history, session) = (History::default(), Session::default());
    let schema = OutputSchema::new(&serde_json::json!({ "type": "array", "items": { "type": "string" } }))?;
    let budget = Budget { cost: Some(Cost::of_dollars(0.5)), tokens: None };
    let settings = AgentSettings { output: Some(Arc::new(schema)), budget, ..AgentSettings::default() };
    let outcome = Agent::new(provider, toolbox, settings).run(&mut history, task, &session).await?;
    let names: Vec<String> = serde_json::from_value(outcome.output.ok_or("no answer")?)?;
    Ok(names)
}

/// The lines of a text that are not blank, without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// PL03: each Rust example of docs/library.md is part of a program that is compiled and run here.
#[test]
fn the_page_shows_what_compiles() {
    let page = fs::read_to_string(crate::common::repository().join("docs/library.md")).unwrap();
    let programs = [include_str!("library.rs"), include_str!("../host/plugin/examples/plugin.rs")].map(lines);
    let pieces: Vec<_> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(pieces.len(), page.matches("```rust").count(), "a piece is not compiled");
    assert_eq!(pieces.len(), 3);
    for piece in pieces.into_iter().map(lines) {
        let stands_in = |program: &Vec<&str>| program.windows(piece.len()).any(|window| window == piece);
        assert!(programs.iter().any(stands_in), "{piece:#?}");
    }
}

/// PL03: an embedding program dispatches a call; the call of an unknown tool is an error that names the tool.
#[tokio::test]
async fn a_program_answers_a_call() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        folder: Some(place.path().to_owned()),
        no_journal: true,
        confiner: Some(crate::workspace::confiner()),
        ..Options::default()
    };
    let call = ToolCall { id: "1".into(), tool: "nothing".into(), arguments: json!({}) };
    let result = dispatched(options, call).await.unwrap();
    assert!(result.is_error && result.content.contains("nothing"), "{}", result.content);
}

/// PL03: the answer of an embedded agent conforms to the requested schema.
#[tokio::test]
async fn an_answer_has_the_form_that_was_asked_for() {
    let fake = Fake::start([says("[\"Ada\", \"Grace\"]")]).await;
    let settings =
        ProviderSettings { base_url: Some(fake.base_url()), ..ProviderSettings::new("openai", "m") };
    assert_eq!(names(settings, "Who?").await.unwrap(), ["Ada", "Grace"]);
    fake.assert_done();
}

/// PL03: a program that uses neither program.toml nor a model calls a component with its grant.
#[tokio::test]
async fn a_component_is_called_by_the_plugin_host_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("text"), "one two three").unwrap();
    let component = crate::common::repository().join("plugins/built/wordcount.wasm");
    let result =
        plugin::call(component, place.path(), "count", json!({ "path": place.path().join("text") })).await;
    let result = result.unwrap();
    assert!(!result.is_error && result.content.contains('3'), "{}", result.content);
    let outside = plugin::call(
        crate::common::repository().join("plugins/built/wordcount.wasm"),
        place.path(),
        "count",
        json!({ "path": Path::new("/etc/passwd") }),
    );
    assert!(outside.await.unwrap().is_error);
}

/// PL03: an embedded agent uses a tool of the embedding program, makes two calls at once, and saves its session.
#[tokio::test]
async fn an_embedded_agent_does_a_task_with_a_tool_of_its_own() {
    let both =
        calls(&[("a", "temperature", r#"{"city":"Oslo"}"#), ("b", "temperature", r#"{"city":"Atlantis"}"#)]);
    let fake = Fake::start([both, says("It is -4 degrees in Oslo.")]).await;
    let place = tempfile::tempdir().unwrap();
    let outcome = embed::embed(&fake.base_url(), "m", "How warm is it?", place.path()).await.unwrap();
    assert_eq!(outcome.text, "It is -4 degrees in Oslo.");
    let answers: Vec<_> = fake.requests()[1]["messages"].as_array().unwrap()[3..].to_vec();
    assert_eq!(
        (&answers[0]["content"], &answers[1]["content"]),
        (&json!("-4"), &json!("Tool error: no thermometer there"))
    );
    let saved = haft::agent::Sessions::new(place.path()).all().unwrap();
    assert_eq!(saved[0].restored().unwrap().turns, 2);
    fake.assert_done();
}

/// PL03: an agent needs only two crates, which do not depend on wasmtime.
#[tokio::test]
async fn an_agent_is_built_without_wasmtime() {
    let fake = Fake::start([calls(&[("a", "multiply", r#"{"a":12,"b":34}"#)]), says("408")]).await;
    let settings =
        ProviderSettings { base_url: Some(fake.base_url()), ..ProviderSettings::new("openai", "m") };
    let outcome = agent::answer(settings, "What is 12 times 34?").await.unwrap();
    assert_eq!(outcome.text, "408");
    let requests = fake.requests();
    assert_eq!(requests[1]["messages"].as_array().unwrap().last().unwrap()["content"], "408");
    fake.assert_done();
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-p", "haft-agent", "-e", "normal", "--prefix", "none"])
        .current_dir(crate::common::repository())
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("haft-core"), "{tree}");
    for absent in ["wasmtime", "rmcp", "haft-manifest", "toml", "linux-keyutils"] {
        assert!(!tree.lines().any(|line| line.starts_with(absent)), "{absent}: {tree}");
    }
}

/// PL03: if the embedding program declines consent, haft writes nothing; if it agrees, haft writes program.toml and
/// the lock file.
#[tokio::test]
async fn a_package_is_installed_with_the_consent_of_the_embedding_program() {
    struct No;
    #[async_trait::async_trait]
    impl Consent for No {
        async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision> {
            assert_eq!(proposal.candidate.offered.name.as_str(), "greetings");
            let names: Vec<_> = proposal.candidate.disclosure.items.iter().map(|item| &item.name).collect();
            assert_eq!(names, ["program__greetings__greet", "SKILL.md", "program.toml"]);
            assert_eq!(proposal.more.len(), 2, "{:?}", proposal.more);
            Ok(Decision::Decline)
        }
    }
    let place = tempfile::tempdir().unwrap();
    let (folder, program) = (place.path().join("greetings"), place.path().join("program.toml"));
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("program.toml"),
        "[program]\nname = \"greetings\"\nversion = \"1.0.0\"\n\n[[tools]]\nname = \"greet\"\n\
         description = \"Greets.\"\ncommand = [\"echo\", \"hello\"]\n",
    )
    .unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: greetings\n---\nGreet everybody.\n").unwrap();
    let store = || Some(Store::new(place.path().join("store")));

    assert!(install::install(&program, &folder, store(), &No).await.unwrap().is_none());
    assert!(!program.exists() && !program.with_extension("lock").exists());

    let consent = install::Ask { yes: true };
    let installed = install::install(&program, &folder, store(), &consent).await.unwrap().unwrap();
    assert_eq!(installed.tools, ["program__greetings__greet"]);
    let project = haft::package::Project::open(&program).unwrap();
    assert_eq!(project.entry("greetings").unwrap().source.to_string(), folder.to_str().unwrap());
    assert_eq!(project.lock.pins[0].kept, installed.pin.kept);
    store().unwrap().check(&installed.pin.kept, false).unwrap();
    let again = install::install(&program, &folder, store(), &consent).await.unwrap();
    assert!(again.is_none(), "it is there");
}
