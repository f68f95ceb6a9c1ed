mod kept;

use std::io::{BufRead, BufReader};
use std::path::Path;

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::host::{Conversation, Failure, Model, Summary, Turn};
use haft_agent::Outcome;
use haft_agent::provider::{Message as Said, Prompt};

/// A host whose conversations panic when used.
struct Odd;

struct Panics;

#[async_trait]
impl Host for Odd {
    fn keeps(&self) -> bool {
        false
    }

    fn knows(&self, _: &str) -> bool {
        false
    }

    async fn begin(&self, opening: Opening) -> Result<Box<dyn Conversation>, Failure> {
        let is_known = opening.folder == Path::new("/here");
        if is_known { Ok(Box::new(Panics)) } else { Err(Failure("not here".into())) }
    }

    async fn resume(&self, _: &str, _: Opening) -> Result<Box<dyn Conversation>, Failure> {
        Err(Failure("nothing is kept".into()))
    }

    async fn list(&self, _: Option<PathBuf>) -> Result<Vec<Summary>, Failure> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}

#[async_trait]
impl Conversation for Panics {
    fn id(&self) -> String {
        "one".into()
    }

    fn messages(&self) -> &[Said] {
        &[]
    }

    fn workspace(&self) -> Option<&Path> {
        None
    }

    fn models(&self) -> (Vec<Model>, String) {
        (Vec::new(), String::new())
    }

    async fn use_model(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn window(&mut self) -> (usize, Option<u32>) {
        (0, None)
    }

    async fn prompt(&mut self, _: Prompt, _: Turn) -> Result<Outcome, Failure> {
        panic!("for the test")
    }

    async fn close(self: Box<Self>) {}
}

/// Returns the responses to requests that are written together. The input stays open until each is answered,
/// because its end cancels running requests.
async fn answers(requests: &[Value]) -> Vec<Value> {
    let (input, mut to) = io::pipe().unwrap();
    let (from, output) = io::pipe().unwrap();
    let served =
        tokio::spawn(serve(Arc::new(Odd), Redactor::default(), input, output, CancellationToken::new()));
    for line in requests {
        writeln!(to, "{line}").unwrap();
    }
    let count = requests.len();
    let read = tokio::task::spawn_blocking(move || {
        let all = BufReader::new(from).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        all.filter(|message: &Value| message["id"].is_number()).take(count).collect()
    });
    let all = read.await.unwrap();
    drop(to);
    served.await.unwrap().unwrap();
    all
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Every request is answered, also after a panic; unsupported methods are rejected.
#[tokio::test]
async fn every_request_is_answered() {
    let opening = |folder: &str| json!({ "cwd": folder, "mcpServers": [] });
    let said = json!({ "sessionId": "one", "prompt": [{ "type": "text", "text": "hi" }] });
    let first = [
        request(1, "initialize", &json!({ "protocolVersion": 1 })),
        request(2, "session/new", &opening("/here")),
    ];
    let more = [
        request(3, "session/new", &opening("/elsewhere")),
        request(4, "session/list", &json!({})),
        request(5, "session/prompt", &said),
    ];
    let all = answers(&[first.as_slice(), &more].concat()).await;
    let of =
        |id: i64| all.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}: {all:#?}"));
    assert_eq!(of(1)["result"]["agentCapabilities"]["loadSession"], false);
    assert_eq!(of(2)["result"]["sessionId"], "one");
    assert_eq!(of(3)["error"]["message"], "not here");
    assert_eq!(of(4)["error"]["code"], -32601);
    // The request may come before or after the session exists.
    assert!([json!(-32603), json!(-32002)].contains(&of(5)["error"]["code"]), "{}", of(5));
}

#[test]
fn what_an_editor_asks_for_has_bounds() {
    let server =
        |args: usize| json!({ "name": "s", "command": "/bin/s", "args": vec!["a"; args], "env": [] });
    let open = |folder: &str, servers: Vec<Value>| {
        opening(folder.into(), serde_json::from_value(json!(servers)).unwrap())
    };
    let taken = open("/here", vec![server(1)]).unwrap();
    assert_eq!(taken.servers[0].command, ["/bin/s", "a"]);
    assert!(open("here", Vec::new()).is_err());
    assert!(open("/here", vec![server(0); MAX_SERVERS + 1]).is_err());
    assert!(open("/here", vec![server(MAX_WORDS)]).is_err());
    let far = json!({ "type": "http", "name": "far", "url": "https://example.org", "headers": [] });
    assert_eq!(open("/here", vec![far]).unwrap().servers, []);
}
