//! A conversation that exceeds its room: the fast model summarises the omitted part, once.

use std::sync::Mutex;

use haft::agent::{Begun, Sessions};
use haft::event::{Event, Events};
use haft::provider::{Ask, Failure, Message, Stop, Turn, Usage};
use haft::provider::{Reply, RequestedCall};
use haft::secret::Redactor;

use super::*;

/// The number of bytes of each answer.
const ANSWER: usize = 900;
/// The approximate token limit of the sent conversation, which is about six turns.
const BUDGET: u32 = 1500;

/// A provider whose main model makes a number of calls, and whose fast model gives a summary; it records the requests
/// of both.
#[derive(Default)]
struct Two {
    turns: usize,
    /// The answer of the fast model; `None` if its vendor refuses.
    summary: Option<&'static str>,
    asked: Mutex<Vec<(String, Vec<Message>)>>,
}

impl Two {
    fn new(turns: usize, summary: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self { turns, summary, ..Self::default() })
    }

    /// The requests to the model with this name.
    fn of(&self, model: &str) -> Vec<Vec<Message>> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(name, _)| name == model).map(|(_, messages)| messages.clone()).collect()
    }
}

fn turn(text: &str, calls: Vec<RequestedCall>) -> Turn {
    let usage = Usage { input: 100, output: 1, ..Usage::default() };
    let reply = Reply { text: text.into(), calls, ..Reply::default() };
    Turn { reply, stop: Stop::Done, usage, wasted: Usage::default(), model: "m".into() }
}

#[async_trait]
impl Provider for Two {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn model(&self) -> &'static str {
        "strong"
    }

    fn model_fast(&self) -> &'static str {
        "fast"
    }

    async fn turn(&self, ask: &Ask<'_>, _: &Events) -> Result<Turn, ProviderError> {
        self.asked.lock().unwrap().push((ask.model.to_owned(), ask.messages.to_vec()));
        if ask.model == "fast" {
            assert!(ask.tools.is_empty());
            let failure = Failure::refused(400, "no");
            let (provider, endpoint, wasted) = ("openai", "http://x".into(), Box::default());
            let error = || ProviderError { provider, endpoint, attempts: 1, failure, wasted };
            return self.summary.map(|text| turn(text, Vec::new())).ok_or_else(error);
        }
        let made = self.of("strong").len();
        if made.is_multiple_of(self.turns + 1) {
            return Ok(turn("done", Vec::new()));
        }
        let arguments = json!({ "text": format!("{made} {}", "x".repeat(ANSWER)) });
        let call = ToolCall { id: format!("call_{made}"), tool: "echo".into(), arguments };
        Ok(turn("", vec![RequestedCall { call, problem: None }]))
    }

    async fn check(&self) -> Result<(), ProviderError> {
        Ok(())
    }
}

/// A session, and its events about summaries and omissions.
fn events() -> (Session, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = told.clone();
    let events = Events::to(move |event| match event {
        Event::Summarised { model, .. } => sink.lock().unwrap().push(format!("summed up by {model}")),
        Event::Trimmed { .. } => sink.lock().unwrap().push("trimmed".into()),
        _ => {}
    });
    (Session { events, ..Session::default() }, told)
}

fn small(summarise: Option<bool>) -> AgentSettings {
    AgentSettings { history_budget: Some(BUDGET), summarise, max_turns: 100, ..AgentSettings::default() }
}

fn first(messages: &[Message]) -> &str {
    match &messages[0] {
        Message::User(said) => &said.text,
        Message::Turn(_) => panic!("{messages:?}"),
    }
}

#[tokio::test]
async fn what_outgrows_the_room_is_summed_up_and_the_task_stays() {
    let provider = Two::new(12, Some("The key is 4711."));
    let agent = Agent::new(provider.clone(), toolbox(&[ECHO]).0, small(None));
    let (session, told) = events();
    let outcome = agent.run(&mut History::default(), "find the key", &session).await.unwrap();
    assert_eq!(outcome.text, "done");
    let (strong, fast) = (provider.of("strong"), provider.of("fast"));
    assert_eq!((strong.len(), outcome.turns), (13, 13), "none of the requests for a summary is a turn");
    assert!((1..5).contains(&fast.len()), "{}", fast.len());
    assert_eq!(outcome.usage.input, 100 * (13 + fast.len() as u64), "they are paid for");
    assert_eq!(*told.lock().unwrap(), vec!["summed up by fast"; fast.len()]);
    assert!(first(&fast[0]).contains("Person: find the key") && first(&fast[0]).contains("Call of echo: "));
    let last = first(strong.last().unwrap());
    assert!(last.contains("The key is 4711.") && last.ends_with("find the key"), "{last}");
    // Until the next cut each request starts with the earlier request.
    for pair in strong.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let is_cut = after.len() < before.len();
        assert!(is_cut || after[..before.len()] == before[..]);
    }
}

#[tokio::test]
async fn without_a_fast_model_the_oldest_is_left_out() {
    for (summary, summarise, asked) in
        [(None, None, true), (Some("x"), Some(false), false), (Some(" "), None, true)]
    {
        let provider = Two::new(12, summary);
        let agent = Agent::new(provider.clone(), toolbox(&[ECHO]).0, small(summarise));
        let (session, told) = events();
        let outcome = agent.run(&mut History::default(), "find the key", &session).await.unwrap();
        assert_eq!(outcome.text, "done");
        assert!(
            told.lock().unwrap().iter().all(|event| event == "trimmed") && !told.lock().unwrap().is_empty()
        );
        assert_eq!(!provider.of("fast").is_empty(), asked);
        let last = provider.of("strong").pop().unwrap();
        assert!(first(&last).contains("left out here") && first(&last).ends_with("find the key"));
    }
}

/// A resumed session uses its saved summary and makes no request for another.
#[tokio::test]
async fn a_resumed_session_goes_on_with_the_same_summary() {
    let folder = tempfile::tempdir().unwrap();
    let (sessions, redactor) = (Sessions::new(folder.path()), Redactor::default());
    let begun = Begun::new(None, None, Some(folder.path()));
    let log = sessions.begin(begun.clone(), "find the key", &redactor).unwrap();
    let provider = Two::new(9, Some("The key is 4711."));
    let agent = Agent::new(provider.clone(), toolbox(&[ECHO]).0, small(None));
    let outcome = agent.go_on(&mut History::logged(log, "find the key"), &Session::default()).await.unwrap();
    let paid = provider.of("fast").len();
    assert!(paid > 0 && outcome.end == haft::agent::End::Final);
    let before = provider.of("strong").pop().unwrap();
    let (log, restored) = sessions.resume(&sessions.last(&begun).unwrap(), &redactor).unwrap();
    assert_eq!(restored.usage, outcome.usage);
    assert_eq!(restored.summary.as_ref().map(|summary| summary.model.as_str()), Some("fast"));
    let mut history = History::restored(restored, Some(log)).unwrap();
    // This model answers at once.
    let quick = Two::new(0, Some("another"));
    let agent = Agent::new(quick.clone(), toolbox(&[ECHO]).0, small(None));
    agent.run(&mut history, "and now?", &Session::default()).await.unwrap();
    assert_eq!(quick.of("fast").len(), 0);
    let after = quick.of("strong").pop().unwrap();
    assert_eq!(after[..before.len()], before[..], "what a provider has cached still holds");
}
