use std::io::{Cursor, Write};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::*;

/// Where a test sees what was written.
#[derive(Clone)]
struct Written(mpsc::Sender<Vec<u8>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Written {}

/// Everything that is received of `input`, and what is answered meanwhile.
async fn heard(input: impl Into<Vec<u8>>) -> (Vec<Value>, Vec<Value>) {
    let (sender, receiver) = mpsc::channel();
    let ended = CancellationToken::new();
    let stop = CancellationToken::new();
    let mut lines =
        Lines::new(Cursor::new(input.into()), Written(sender), Weak::new(), (&ended, stop)).unwrap();
    let mut heard = Vec::new();
    while let Some(message) = lines.receive().await {
        heard.push(serde_json::to_value(message).unwrap());
    }
    assert!(ended.is_cancelled(), "the end of the input is told");
    lines.close().await.unwrap();
    drop(lines);
    let written: Vec<u8> = receiver.iter().flatten().collect();
    let answers = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    (heard, answers.map(|line| serde_json::from_slice(line).unwrap()).collect())
}

fn request(id: impl Into<Value>, method: &str, params: impl Into<Value>) -> String {
    let params: Value = params.into();
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string() + "\n"
}

fn initialize(id: i64) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}
    });
    request(id, "initialize", params)
}

fn methods(received: &[Value]) -> Vec<&str> {
    received.iter().map(|message| message["method"].as_str().unwrap()).collect()
}

/// What is no message is answered if it can be, and never ends the conversation.
#[tokio::test]
async fn nonsense_does_not_end_the_conversation() {
    let nonsense = [
        "",
        "hello",
        "{",
        "{}",
        "[]",
        "[1]",
        "42",
        "null",
        "\"x\"",
        "\u{feff}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":1}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}",
        "{\"jsonrpc\":\"1.0\",\"id\":8,\"method\":\"ping\"}",
    ];
    let (received, answers) = heard(nonsense.join("\n") + "\n\r\n" + &request(9, "ping", json!({}))).await;
    assert_eq!(received.last().unwrap()["id"], 9);
    // What its method does not take is for whoever knows the method to refuse.
    assert!(received.iter().any(|message| message["id"] == 7), "{received:?}");
    assert!(answers.iter().any(|answer| answer["id"] == 8), "{answers:?}");
    assert!(answers.iter().all(|answer| answer["error"]["code"].is_i64()), "{answers:?}");
    assert!(answers.len() < nonsense.len(), "not even JSON is not answered: {answers:?}");
}

/// A message that is too long is refused without being held, and the next one is read.
#[tokio::test]
async fn a_long_line_is_refused() {
    let long = vec![b'x'; 17 << 20];
    for end in ["\n", ""] {
        let input = [long.as_slice(), end.as_bytes(), request(1, "ping", json!({})).as_bytes()].concat();
        let (received, answers) = heard(input).await;
        assert_eq!(received.len(), usize::from(end == "\n"));
        assert_eq!(answers[0]["error"]["message"], "a message longer than 16 MiB");
    }
}

/// What does not end with a newline is a message all the same, and so is each of a batch.
#[tokio::test]
async fn batches_and_careless_ends_are_read() {
    let (one, two) = (initialize(1), request(2, "ping", json!({})));
    let input = format!("[{},{}]\n{}", one.trim(), two.trim(), request(3, "ping", json!({})).trim());
    assert_eq!(methods(&heard(input).await.0), ["initialize", "ping", "ping"]);
}

/// Clients that look what there is first, and take that back, before they begin in earnest.
#[tokio::test]
async fn what_means_nothing_yet_is_passed_over() {
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let notification = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n"
    };
    let early = [
        notification("notifications/initialized", json!({})),
        request("probe", "server/discover", meta),
        notification("notifications/cancelled", json!({"requestId": "probe", "reason": "answered"})),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}).to_string() + "\n",
        initialize(1),
        notification("notifications/cancelled", json!({"requestId": "probe"})),
    ];
    let received = heard(early.concat()).await.0;
    assert_eq!(methods(&received), ["server/discover", "initialize", "notifications/cancelled"]);
}

/// A client that asks more than it waits for is told so; what it takes back counts no more.
#[tokio::test]
async fn requests_under_way_are_bounded() {
    let many: String =
        (0..MAX_UNDER_WAY).map(|id| request(i64::try_from(id).unwrap(), "ping", json!({}))).collect();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    let input = [initialize(-1), many, format!("{cancel}\n"), request(1000, "ping", json!({}))].concat();
    let (received, answers) = heard(input).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["id"], i64::try_from(MAX_UNDER_WAY).unwrap() - 1);
    assert_eq!(answers[0]["error"]["code"], -32_000);
    assert_eq!(received.last().unwrap()["id"], 1000);
}
