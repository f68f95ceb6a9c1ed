//! One session that moves through all vendors and back: pictures, thinking, concurrent calls. Each vendor gets its
//! own turns unmodified, and the turns of the others in its own format.

use std::sync::Arc;

use async_trait::async_trait;
use haft::agent::{Agent, AgentSettings, Begun, End, History, SessionError, Sessions};
use haft::call::{Attachment, ToolCall, ToolDef, ToolResult};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::provider::{Message, Prompt};
use haft::secret::Redactor;
use haft::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::json;

use super::server::{Answer, Said, Server, Vendor};
use super::{VENDORS, provider, settings, tasks};
use crate::common::wait::eventually_some;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nof a tool";
/// The start of the tool's picture in base64.
const SEEN: &str = "iVBORw0KGgpvZiBhIHRvb2w";
const ASKED: &[u8] = b"\x89PNG\r\n\x1a\nof a person";

/// A tool that answers with files.
struct Camera(ToolDef);

#[async_trait]
impl Tool for Camera {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, _: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        let named = |name: &str, media_type: &str, data: &[u8]| Attachment {
            name: Some(name.to_owned()),
            ..Attachment::new(media_type, data.to_vec())
        };
        let attachments = vec![
            named("shot.png", "image/png", PNG),
            named("paper.pdf", "application/pdf", b"%PDF-1.7 of a tool"),
            named("table.csv", "text/csv", b"a,b\n1,2\n"),
            named("sound.opus", "audio/opus", b"of a tool"),
        ];
        let text: Vec<_> = attachments.iter().map(Attachment::mention).collect();
        Ok(ToolResult { attachments, ..ToolResult::success(text.join("\n")) })
    }
}

fn toolbox() -> Toolbox {
    let mut toolbox = tasks::toolbox();
    let parameters = json!({ "type": "object", "properties": {} });
    let def = ToolDef {
        name: "camera".into(),
        description: "Takes pictures.".into(),
        parameters,
        ..ToolDef::default()
    };
    toolbox.insert(Arc::new(Camera(def)), Grant::none(), Limits::default(), "the test").unwrap();
    toolbox
}

/// The turns of a visited vendor: a thought and two concurrent calls, then an answer.
fn visit(number: usize) -> [Answer; 2] {
    // No vendor gives an id twice in a conversation, and some refuse a repeated id.
    let id = |call: usize| -> &'static str { format!("call_{number}_{call}").leak() };
    let calls = vec![(id(1), "camera", json!({})), (id(2), "shout", json!({ "text": "hey" }))];
    let first = Said { thought: "let me see", text: "I look.", calls };
    [Answer::Turn(first), Answer::Turn(Said { thought: "hm", text: "A picture.", ..Said::default() })]
}

/// The session, resumed from its file. A child of another test holds the open file until the child runs its program.
async fn resumed(sessions: &Sessions, history: History) -> History {
    let saved = sessions.find(history.log().unwrap().id()).unwrap();
    drop(history);
    let resume = async || match sessions.resume(&saved, &Redactor::default()) {
        Ok((log, restored)) => Some(History::restored(restored, Some(log)).unwrap()),
        Err(SessionError::InUse(_)) => None,
        Err(error) => panic!("{error}"),
    };
    eventually_some("the session is free", resume).await
}

/// Goes through the vendors from `first` on, and back to it.
async fn journey(first: usize, stream: bool) {
    let place = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(place.path());
    let count = VENDORS.len();
    let way: Vec<usize> = (0..count).chain((0..count - 1).rev()).map(|step| (first + step) % count).collect();
    let mut servers = Vec::new();
    for (index, vendor) in VENDORS.iter().enumerate() {
        let visits = way.iter().filter(|place| **place == index).count();
        servers
            .push(Server::moved(*vendor, (0..visits).flat_map(|visits| visit(index * 100 + visits))).await);
    }
    let prompt = || {
        let attachments = vec![
            Attachment { name: Some("asked.png".into()), ..Attachment::new("image/png", ASKED.to_vec()) },
            Attachment {
                name: Some("notes.md".into()),
                ..Attachment::new("text/markdown", b"# Notes".to_vec())
            },
        ];
        Prompt { text: "What is there?".into(), attachments }
    };
    let log = sessions.begin(Begun::new(None, None, None), prompt(), &Redactor::default()).unwrap();
    let mut history = History::logged(log, prompt());
    for (step, place) in way.iter().enumerate() {
        let server = &servers[*place];
        let agent = Agent::new(provider(settings(server, stream)), toolbox(), AgentSettings::default());
        if step > 0 {
            history = resumed(&sessions, history).await;
            history.push_prompt(prompt()).unwrap();
        }
        let outcome = agent.go_on(&mut history, &Session::default()).await.unwrap();
        let name = server.vendor().name();
        assert_eq!(
            (outcome.end, outcome.text.as_str()),
            (End::Final, "A picture."),
            "{name}: {:?}",
            outcome.failure
        );
        assert_shown(server.vendor(), &server.bodies().last().unwrap().to_string(), step + 1);
    }
    for server in &servers {
        server.assert_done();
    }
    let turns = history.messages().iter().filter(|message| matches!(message, Message::Turn(_))).count();
    assert_eq!(turns, way.len() * 2);
}

/// The vendor of `body` gets the files of `visits` visits.
fn assert_shown(vendor: &dyn Vendor, body: &str, visits: usize) {
    let seen = |what: &str| body.matches(what).count();
    let name = vendor.name();
    assert_eq!(seen(SEEN), visits, "{name}: the tool's pictures");
    assert_eq!(seen("iVBORw0KGgpvZiBhIHBlcnNvbg"), visits, "{name}: the person's pictures");
    assert_eq!(seen("<file name=\\\"table.csv\\\">\\na,b\\n1,2\\n</file>"), visits, "{name}: texts of tools");
    assert_eq!(
        seen("<file name=\\\"notes.md\\\">\\n# Notes\\n</file>"),
        visits,
        "{name}: texts of the person"
    );
    assert_eq!(
        seen("[not shown: sound.opus: audio/opus, 9 bytes: the model's API does not accept `audio/opus`]"),
        visits
    );
    // Documents go to the vendors that read them; a compatible server does not.
    let is_compatible = name == "openai" && vendor.format().is_none();
    let reads = !is_compatible && name != "ollama";
    assert_eq!(seen("JVBERi0xLjcgb2YgYSB0b29s"), if reads { visits } else { 0 }, "{name}: documents");
    assert_eq!(seen("[not shown: paper.pdf"), if reads { 0 } else { visits }, "{name}: no documents");
}

/// G09: a session moves across all six formats and back without a refused request, from any vendor.
#[tokio::test]
async fn a_session_moves_across_all_formats_and_back() {
    for first in 0..VENDORS.len() {
        journey(first, first % 2 == 0).await;
    }
}
