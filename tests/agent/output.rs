//! Structured answers and budgets: the requests of the loop, the answers that it accepts, and its end.

use std::sync::Arc;

use haft::agent::{Agent, AgentSettings, Budget, End, History, Outcome};
use haft::provider::{Cost, Message, OutputSchema, Prices, ProviderSettings, Usage};
use haft::tool::{Session, Toolbox};
use serde_json::{Value, json};

use super::fake::{Answer, Fake, calls, says};
use super::{ECHO, provider, settings, toolbox};

fn schema() -> Arc<OutputSchema> {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false,
    });
    Arc::new(OutputSchema::new(&schema).unwrap())
}

fn typed() -> AgentSettings {
    AgentSettings { output: Some(schema()), ..AgentSettings::default() }
}

fn format(request: &Value) -> Option<&Value> {
    request.pointer("/response_format/json_schema/schema")
}

fn last_words(request: &Value) -> &str {
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

/// The loop asks again for an invalid answer, with the errors. The schema parameter is sent only in requests without
/// tools, because some servers would apply the schema to calls too.
#[tokio::test]
async fn an_answer_that_is_not_valid_is_asked_for_again_with_the_errors() {
    let fake = Fake::start([
        calls(&[("a", "echo", r#"{"text":"7"}"#)]),
        says("It is seven."),
        says(r#"{"n": "seven"}"#),
        says("```json\n{\"n\": 7}\n```"),
    ])
    .await;
    let agent = Agent::new(provider(settings(&fake)), toolbox(&[ECHO]).0, typed());
    let outcome = agent.run(&mut History::default(), "count", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.output, outcome.turns), (End::Final, Some(json!({ "n": 7 })), 4));
    let requests = fake.requests();
    for request in &requests {
        let told = request["messages"][0]["content"].as_str().unwrap();
        assert!(told.ends_with(&schema().written().to_string()), "{told}");
    }
    let beside = |index: usize| (format(&requests[index]).is_some(), requests[index].get("tools").is_some());
    assert_eq!([0, 1, 2, 3].map(beside), [(false, true), (false, true), (true, false), (true, false)]);
    assert!(last_words(&requests[2]).contains("it is not JSON"), "{}", last_words(&requests[2]));
    assert!(last_words(&requests[3]).contains("at `/n`: \"seven\" is not of type \"integer\""));
    fake.assert_done();
}

/// After four invalid answers the task ends as invalid; `go_on` asks again.
#[tokio::test]
async fn a_model_that_cannot_answer_so_is_not_asked_for_ever() {
    let wrong = || says(r#"{"n":1.5}"#);
    let fake = Fake::start([wrong(), wrong(), wrong(), wrong(), says(r#"{"n":1}"#)]).await;
    let agent = Agent::new(provider(settings(&fake)), Toolbox::default(), typed());
    let mut history = History::default();
    let outcome = agent.run(&mut history, "count", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.turns, outcome.output.clone()), (End::Invalid, 4, None));
    assert_eq!(outcome.text, r#"{"n":1.5}"#);
    let why = outcome.shortfall().unwrap();
    assert!(why.starts_with("the answer does not match the schema: at `/n`: 1.5"), "{why}");
    assert!(outcome.end.is_resumable() && history.is_unfinished());
    let outcome = agent.go_on(&mut history, &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.output), (End::Final, Some(json!({ "n": 1 }))));
    fake.assert_done();
}

/// If a server refuses the schema parameter, haft repeats the request without it and gives the schema only in the
/// prompt.
#[tokio::test]
async fn a_server_that_refuses_the_form_is_told_in_words() {
    let refusal = || Answer::Http(400, &[], br#"{"error":{"message":"unknown parameter"}}"#.to_vec());
    let fake = Fake::start([refusal(), says("no"), says(r#"{"n":2}"#)]).await;
    let agent = Agent::new(provider(settings(&fake)), Toolbox::default(), typed());
    let outcome = agent.run(&mut History::default(), "count", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.output), (End::Final, Some(json!({ "n": 2 }))));
    let formats: Vec<bool> = fake.requests().iter().map(|request| format(request).is_some()).collect();
    assert_eq!(formats, [true, false, false]);
    fake.assert_done();
    // If the second request is refused for another reason, the error has that reason.
    let fake =
        Fake::start([refusal(), Answer::Http(400, &[], br#"{"error":"no such model"}"#.to_vec())]).await;
    let agent = Agent::new(provider(settings(&fake)), Toolbox::default(), typed());
    let outcome = agent.run(&mut History::default(), "count", &Session::default()).await.unwrap();
    assert!(outcome.failure.unwrap().to_string().contains("no such model"));
    fake.assert_done();
}

/// An answer that reached the length limit is not valid, and the loop does not ask again.
#[tokio::test]
async fn an_answer_that_is_cut_off_is_none() {
    let message = json!({ "role": "assistant", "content": "{\"n\":" });
    let fake = Fake::start([super::fake::completion(&message, "length")]).await;
    let agent = Agent::new(provider(settings(&fake)), Toolbox::default(), typed());
    let outcome = agent.run(&mut History::default(), "count", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.output), (End::Length, None));
    fake.assert_done();
}

async fn spend(budget: Budget, settings: ProviderSettings, spent: Usage) -> (Outcome, History) {
    let settings_of_agent = AgentSettings { budget, ..AgentSettings::default() };
    let agent = Agent::new(provider(settings), toolbox(&[ECHO]).0, settings_of_agent).having_spent(spent);
    let mut history = History::default();
    let outcome = agent.run(&mut history, "echo", &Session::default()).await.unwrap();
    (outcome, history)
}

fn turn(id: &'static str) -> Answer {
    calls(&[(id, "echo", r#"{"text":"x"}"#)])
}

/// A task ends when its tokens are used up (15 for each turn of the fake), and can be continued.
#[tokio::test]
async fn a_task_ends_when_its_tokens_are_used_up_and_can_be_gone_on_with() {
    let fake = Fake::start([turn("a"), turn("b"), says("done")]).await;
    let budget = Budget { tokens: Some(30), cost: None };
    let (outcome, mut history) = spend(budget, settings(&fake), Usage::default()).await;
    assert_eq!((outcome.end, outcome.turns), (End::Budget, 2));
    assert_eq!(outcome.shortfall().unwrap(), "the task is not done: the budget is used up: 30 of 30 tokens");
    assert!(matches!(history.messages().last(), Some(Message::Turn(turn)) if turn.answered().count() == 1));
    assert!(outcome.end.is_resumable() && history.is_unfinished());
    // A continued run has the full budget.
    let settings_of_agent = AgentSettings { budget, ..AgentSettings::default() };
    let agent = Agent::new(provider(settings(&fake)), toolbox(&[ECHO]).0, settings_of_agent);
    let outcome = agent.go_on(&mut history, &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "done"));
    fake.assert_done();
}

#[tokio::test]
async fn a_task_ends_when_it_has_cost_what_it_may() {
    let fake = Fake::start([turn("a"), turn("b")]).await;
    let prices = Prices { input: 1000.0, output: 2000.0, cached: None, stored: None };
    let with_prices =
        ProviderSettings { prices: [("fake-model".to_owned(), prices)].into(), ..settings(&fake) };
    // Each turn costs $0.02.
    let budget = Budget { cost: Some(Cost::of_dollars(0.03)), tokens: None };
    let (outcome, _) = spend(budget, with_prices, Usage::default()).await;
    assert_eq!((outcome.end, outcome.turns), (End::Budget, 2));
    let why = outcome.shortfall().unwrap();
    assert!(why.ends_with("the budget is used up: $0.0400 of $0.0300"), "{why}");
    fake.assert_done();
    // Without a price the cost limit cannot apply; the run ends after the first turn with this reason.
    let fake = Fake::start([turn("a")]).await;
    let (outcome, _) = spend(budget, settings(&fake), Usage::default()).await;
    let why = outcome.shortfall().unwrap();
    assert!(why.contains("the price of `fake-model-1` is unknown"), "{why}");
    fake.assert_done();
}

/// Usage before the run counts toward the budget.
#[tokio::test]
async fn what_is_spent_elsewhere_counts() {
    let fake = Fake::start([turn("a")]).await;
    let spent = Usage { input: 80, output: 6, ..Usage::default() };
    let (outcome, _) = spend(Budget { tokens: Some(101), cost: None }, settings(&fake), spent).await;
    assert_eq!((outcome.end, outcome.turns, outcome.usage.total()), (End::Budget, 1, 101));
    fake.assert_done();
}
