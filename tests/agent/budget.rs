//! An agent with more tools than its prompt has room for: the request contains a few tools and two that reach the
//! others.

use haft::agent::{Agent, AgentSettings, History};
use haft::call::ToolResult;
use haft::event::{Event, Events};
use haft::tool::Session;
use serde_json::{Value, json};

use super::fake::{Fake, calls, says};
use super::{Act, BROKEN, ECHO, answers, provider, run, settings, toolbox};

/// Closes the issue in `text`.
const CLOSE: (&str, Act) = ("jira__close_issue", |arguments| {
    Ok(ToolResult::success(format!("closed {}", arguments["text"].as_str().unwrap_or("nothing"))))
});

/// The number of tokens for `echo` and the two tools that reach the others.
const BUDGET: u32 = 350;

fn sent(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool.pointer("/function/name").unwrap().as_str().unwrap()).collect()
}

/// PR14, PR15: the model finds an omitted tool with `find_tools` and runs it with `program`; the tools in the
/// requests do not change.
#[tokio::test]
async fn a_tool_that_is_not_sent_is_found_and_run() {
    let fake = Fake::start([
        calls(&[("a", "find_tools", r#"{"query":"close an issue"}"#)]),
        calls(&[("b", "program", r#"{"name":"jira__close_issue","args":{"text":"7"}}"#)]),
        says("done"),
    ])
    .await;
    let many: Vec<String> = (0..50).map(|number| format!("other__tool{number}")).collect();
    let mut tools = vec![ECHO];
    tools.extend(many.iter().map(|name| (name.as_str(), ECHO.1)));
    tools.push(CLOSE);
    let (toolbox, log) = toolbox(&tools);
    let started = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = started.clone();
    let events = Events::to(move |event| {
        if let Event::Started(call) = event {
            sink.lock().unwrap().push(call.tool.clone());
        }
    });
    let agent = Agent::new(provider(settings(&fake)), toolbox.within(BUDGET), AgentSettings::default());
    let session = Session { events, ..Session::default() };
    agent.run(&mut History::default(), "close it", &session).await.unwrap();
    let requests = fake.requests();
    let names = sent(&requests[0]);
    assert!(names.len() < 10 && names[0] == "echo", "{names:?}");
    assert_eq!(names[names.len() - 2..], ["find_tools", "program"]);
    assert!(requests.iter().all(|request| request["tools"] == requests[0]["tools"]));
    let found: Value = serde_json::from_str(&answers(&requests[1])[0].1).unwrap();
    assert_eq!(found["tools"][0]["name"], "jira__close_issue");
    assert_eq!(answers(&requests[2])[1], ("b".into(), "closed 7".into()));
    assert_eq!(*started.lock().unwrap(), ["find_tools", "jira__close_issue"]);
    assert_eq!(log.lock().unwrap()[0].arguments, json!({ "text": "7" }));
    fake.assert_done();
}

/// PL21: a failing call counts as identical, whether the model calls the tool directly or with `program`.
#[tokio::test]
async fn a_failing_call_is_the_same_through_program() {
    let through = r#"{"name":"broken","args":{}}"#;
    let turns =
        [("a", "broken", "{}"), ("b", "program", through), ("c", "broken", "{}"), ("d", "program", through)];
    let script = turns.iter().map(|turn| calls(&[*turn])).chain([says("sorry")]);
    let fake = Fake::start(script.collect::<Vec<_>>()).await;
    let (toolbox, log) = toolbox(&[BROKEN]);
    run(&super::agent(&fake, toolbox)).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 3, "the fourth was refused");
    let last = fake.requests().pop().unwrap();
    assert!(answers(&last)[3].1.contains("has failed 3 times already"), "{:?}", answers(&last));
    fake.assert_done();
}
