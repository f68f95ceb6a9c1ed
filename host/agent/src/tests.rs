//! Tests of the loop with requests that fail: too long, refused, without a price. The provider is a function of the
//! request.

use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::provider::{Cost, Message, Reply};
use haft_core::call::{Attachment, ToolCall, ToolDef, ToolResult};
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, Tool, ToolError};

const MAIN: &str = "main";
const SMALL: &str = "small";

/// The usage of an unusable response.
const WASTED: Usage = Usage { input: 5, output: 1, cached: 0, stored: 0, cost: None };

/// A request: the model, the number of tools, and the number of files other than text.
type Asked = (String, usize, usize);

struct Scripted<F> {
    answer: F,
    asked: Mutex<Vec<Asked>>,
}

#[async_trait]
impl<F: Fn(usize, &Asked) -> Result<Turn, Failure> + Send + Sync> Provider for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &str {
        MAIN
    }

    fn model_fast(&self) -> &str {
        SMALL
    }

    fn formats_alone(&self, _model: &str) -> bool {
        true
    }

    fn tells_cost(&self, model: &str) -> bool {
        model == MAIN
    }

    async fn turn(&self, ask: &Ask<'_>, _events: &Events) -> Result<Turn, ProviderError> {
        let files = |message: &Message| match message {
            Message::User(said) => said.attachments.iter().filter(|file| file.text().is_none()).count(),
            Message::Turn(_) => 0,
        };
        let asked = (ask.model.to_owned(), ask.tools.len(), ask.messages.iter().map(files).sum());
        let number = self.asked.lock().unwrap().len();
        let turn = (self.answer)(number, &asked);
        self.asked.lock().unwrap().push(asked);
        let failed = |failure| {
            let came = matches!(failure, Failure::Empty(_) | Failure::Botched(_));
            let wasted = Box::new(if came { WASTED } else { Usage::default() });
            ProviderError { provider: "scripted", endpoint: String::new(), attempts: 1, failure, wasted }
        };
        turn.map_err(failed)
    }

    async fn check(&self) -> Result<(), ProviderError> {
        Ok(())
    }
}

fn scripted<F: Fn(usize, &Asked) -> Result<Turn, Failure> + Send + Sync>(answer: F) -> Arc<Scripted<F>> {
    Arc::new(Scripted { answer, asked: Mutex::default() })
}

fn says(text: &str, cost: Option<f64>) -> Turn {
    Turn {
        reply: Reply { text: text.into(), ..Reply::default() },
        stop: Stop::Done,
        usage: Usage { input: 7, cost: cost.map(Cost::of_dollars), ..Usage::default() },
        wasted: Usage::default(),
        model: MAIN.into(),
    }
}

/// A conversation that exceeds its budget.
fn long() -> History {
    let mut history = History::default();
    for _ in 0..6 {
        history.push_prompt("go on").unwrap();
        history.open(says(&"x".repeat(2000), None)).unwrap();
        history.close();
    }
    history
}

fn short_of_room(cost: Option<f64>) -> AgentSettings {
    let budget = Budget { cost: cost.map(Cost::of_dollars), tokens: None };
    AgentSettings { history_budget: Some(1000), budget, ..AgentSettings::default() }
}

/// A budget in dollars does not end a run because an optional summary has no price.
#[tokio::test]
async fn a_model_without_a_price_sums_up_nothing_that_may_cost_so_much() {
    for (most, models) in [(Some(1.0), vec![MAIN]), (None, vec![SMALL, MAIN])] {
        let provider = scripted(|_, asked| Ok(says("done", (asked.0 == MAIN).then_some(0.1))));
        let agent = Agent::new(provider.clone(), Toolbox::default(), short_of_room(most));
        let outcome = agent.run(&mut long(), "the next", &Session::default()).await.unwrap();
        assert_eq!(outcome.end, End::Final, "{outcome:?}");
        let asked = provider.asked.lock().unwrap();
        assert_eq!(asked.iter().map(|asked| asked.0.as_str()).collect::<Vec<_>>(), models);
    }
}

/// The usage of a summary counts even if the summary is unusable.
#[tokio::test]
async fn a_summary_that_cannot_be_used_counts_all_the_same() {
    let blank = |_: usize, asked: &Asked| Ok(says(if asked.0 == SMALL { " \n" } else { "done" }, None));
    let refused = |_: usize, asked: &Asked| {
        let stop = if asked.0 == SMALL { Stop::Refused } else { Stop::Done };
        Ok(Turn { stop, ..says("no", None) })
    };
    let providers: [Arc<dyn Provider>; 2] = [scripted(blank), scripted(refused)];
    for provider in providers {
        let agent = Agent::new(provider, Toolbox::default(), short_of_room(None));
        let outcome = agent.run(&mut long(), "the next", &Session::default()).await.unwrap();
        assert_eq!((outcome.end, outcome.usage.input, outcome.turns), (End::Final, 14, 1));
    }
    // A request without response has no uncounted tokens.
    let silent = scripted(|_, asked| match asked.0.as_str() {
        SMALL => Err(Failure::Blocked("no".into())),
        _ => Ok(says("done", None)),
    });
    let settings = AgentSettings { budget: Budget { tokens: Some(9), cost: None }, ..short_of_room(None) };
    let outcome = Agent::new(silent, Toolbox::default(), settings)
        .run(&mut long(), "the next", &Session::default())
        .await
        .unwrap();
    assert_eq!((outcome.end, outcome.usage.input), (End::Final, 7));
}

/// The usage of unusable responses counts.
#[tokio::test]
async fn answers_that_cannot_be_used_count_all_the_same() {
    async fn run(provider: Arc<dyn Provider>, settings: AgentSettings) -> Outcome {
        let agent = Agent::new(provider, Toolbox::default(), settings);
        agent.run(&mut long(), "the next", &Session::default()).await.unwrap()
    }
    let plain = || AgentSettings { summarise: Some(false), ..AgentSettings::default() };
    let empty = || Failure::Empty("nothing".into());
    let late = scripted(move |number, _| if number < 2 { Err(empty()) } else { Ok(says("done", None)) });
    let outcome = run(late.clone(), plain()).await;
    assert_eq!((outcome.end, outcome.turns), (End::Final, 1));
    assert_eq!((outcome.usage.input, outcome.usage.output), (5 + 5 + 7, 2));
    let again = scripted(|_, _| Ok(Turn { wasted: WASTED, ..says("done", None) }));
    assert_eq!(run(again, plain()).await.usage.input, 5 + 7, "what the provider asked for twice");
    let never = scripted(|_, _| Err(Failure::Botched("no call".into())));
    let outcome = run(never, plain()).await;
    assert_eq!((outcome.end, outcome.usage.total()), (End::Failed, 6));
    let never = scripted(|_, _| Err(Failure::Blocked("no".into())));
    assert_eq!(run(never, plain()).await.usage, Usage::default());
    // Unusable responses do not evade a budget.
    let never = scripted(move |_, _| Err(Failure::Empty("nothing".into())));
    let most = AgentSettings { budget: Budget { tokens: Some(6), cost: None }, ..plain() };
    let outcome = run(never.clone(), most).await;
    assert_eq!((outcome.end, never.asked.lock().unwrap().len()), (End::Budget, 1), "{outcome:?}");
    // Nor does an unusable summary.
    let botched = scripted(|_, asked| match asked.0.as_str() {
        SMALL => Err(Failure::Botched("no words".into())),
        _ => Ok(says("done", None)),
    });
    assert_eq!(run(botched, short_of_room(None)).await.usage.input, 5 + 7);
}

struct Idle(ToolDef);

#[async_trait]
impl Tool for Idle {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, _call: &ToolCall, _context: &Context<'_>) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::success(""))
    }
}

/// Some servers reject a conversation with calls in a request without tools.
#[tokio::test]
async fn an_answer_that_is_refused_without_tools_is_asked_for_with_them() {
    let provider = scripted(|number, asked| match (number, asked.1) {
        (_, 0) => Err(Failure::refused(400, "`tools` is required")),
        (0 | 2, _) => Ok(says("words", None)),
        _ => Ok(says("7", None)),
    });
    let mut toolbox = Toolbox::default();
    let parameters = json!({ "type": "object" });
    let idle = Idle(ToolDef { name: "idle".into(), parameters, ..ToolDef::default() });
    toolbox.insert(Arc::new(idle), Grant::none(), Limits::default(), "the test").unwrap();
    let schema = OutputSchema::new(&json!({ "type": "integer" })).unwrap();
    let settings = AgentSettings { output: Some(Arc::new(schema)), ..AgentSettings::default() };
    let agent = Agent::new(provider.clone(), toolbox, settings);
    let outcome = agent.run(&mut History::default(), "count", &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.output), (End::Final, Some(json!(7))));
    let tools: Vec<_> = provider.asked.lock().unwrap().iter().map(|asked| asked.1).collect();
    assert_eq!(tools, [1, 0, 1, 1], "it is remembered for the run");
}

fn too_long() -> Failure {
    Failure::TooLong("too long".into())
}

/// With a context window of any size, pictures cause neither a failure nor endless requests.
#[tokio::test]
async fn what_is_too_long_with_files_is_asked_without() {
    let attachments = vec![Attachment::new("image/png", vec![0]); 40];
    let said = || Prompt { text: "see".into(), attachments: attachments.clone() };
    let provider = scripted(|_, asked| if asked.2 > 0 { Err(too_long()) } else { Ok(says("done", None)) });
    let agent = Agent::new(provider, Toolbox::default(), AgentSettings::default());
    let outcome = agent.run(&mut History::default(), said(), &Session::default()).await.unwrap();
    assert_eq!(outcome.end, End::Final, "{outcome:?}");
    let provider = scripted(|_, _| Err(too_long()));
    let agent = Agent::new(provider.clone(), Toolbox::default(), AgentSettings::default());
    let outcome = agent.run(&mut History::default(), said(), &Session::default()).await.unwrap();
    assert_eq!(outcome.end, End::Failed);
    let asked = provider.asked.lock().unwrap();
    assert!(asked.len() <= 10 && asked.last().unwrap().2 == 0, "{asked:?}");
}
