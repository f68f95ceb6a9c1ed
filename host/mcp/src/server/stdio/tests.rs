use std::io::{Cursor, Write};
use std::sync::mpsc;

use rmcp::model::ServerJsonRpcMessage;
use serde_json::{Value, json};

use super::*;
use crate::server::{Publisher, ServerInfo, ToolSnapshot};
use haft_core::tool::{Session, Toolbox};

/// The output that a test sees.
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

/// A client that reads without a delay.
struct Ready(Written);

impl Write for Ready {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Ready {
    fn is_ready(&self) -> bool {
        true
    }
}

/// Only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(5);

impl Input for Cursor<Vec<u8>> {}

/// Returns the output for a client that sends `input` and closes its input.
async fn answers(input: impl Into<Vec<u8>>) -> Vec<Value> {
    let (sender, receiver) = mpsc::channel();
    let snapshot = ToolSnapshot::new(Toolbox::default(), Session::default(), ServerInfo::default(), true);
    let (_publisher, snapshots) = Publisher::new(snapshot);
    let serving = serve(snapshots, Cursor::new(input.into()), Written(sender), CancellationToken::new());
    tokio::time::timeout(HANG, serving).await.expect("serving ends with the input").unwrap();
    let written: Vec<u8> = receiver.try_iter().flatten().collect();
    let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
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

/// The ids of messages, in the order of their texts.
fn ids(messages: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = messages.iter().map(|message| message["id"].to_string()).collect();
    ids.sort();
    ids
}

/// An invalid message is answered if possible, and never ends the conversation.
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
    let answers = answers(nonsense.join("\n") + "\n\r\n" + &request(9, "ping", json!({}))).await;
    let (pongs, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["id"] == 9);
    assert_eq!(pongs, [&json!({"jsonrpc": "2.0", "id": 9, "result": {}})]);
    assert!([7, 8].iter().all(|id| refused.iter().any(|answer| answer["id"] == *id)), "{refused:?}");
    assert!(refused.iter().all(|answer| answer["error"]["code"].is_i64()), "{refused:?}");
    // The empty line, the lone byte order mark and the notification.
    assert_eq!(refused.len(), nonsense.len() - 3, "{refused:?}");
}

/// A message that is too long is refused without being stored, and the next message is read.
#[tokio::test]
async fn a_long_line_is_refused() {
    let long = vec![b'x'; 17 << 20];
    for end in ["\n", ""] {
        let input = [long.as_slice(), end.as_bytes(), request(1, "ping", json!({})).as_bytes()].concat();
        let answers = answers(input).await;
        assert!(answers[0].get("id").is_some_and(Value::is_null), "{answers:?}");
        assert_eq!(answers.len(), 1 + usize::from(end == "\n"));
        assert_eq!(answers[0]["error"]["message"], "a message longer than 16 MiB");
    }
}

/// A line without a newline is a message too, and so is each of a batch.
#[tokio::test]
async fn batches_and_careless_ends_are_read() {
    let (one, two) = (initialize(1), request(2, "ping", json!({})));
    let input = format!("[{},{}]\n{}", one.trim(), two.trim(), request(3, "ping", json!({})).trim());
    assert_eq!(ids(&answers(input).await), ["1", "2", "3"]);
}

/// Probing requests that are cancelled before the session is opened are ignored.
#[tokio::test]
async fn what_means_nothing_yet_is_passed_over() {
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let notification = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n"
    };
    let early = [
        notification("notifications/initialized", json!({})),
        request("probe", "server/discover", meta),
        notification("notifications/cancelled", json!({"requestId": "earlier", "reason": "answered"})),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}).to_string() + "\n",
        initialize(1),
    ];
    let answers = answers(early.concat()).await;
    assert_eq!(ids(&answers), ["\"probe\"", "1"]);
    assert!(answers.iter().any(|answer| answer["result"]["protocolVersion"] == "2025-11-25"), "{answers:?}");
}

/// The first request that names a revision determines the client's revision. Before it a `ping` is answered without a
/// session, and fields that later revisions omit are null.
#[tokio::test]
async fn a_client_speaks_as_its_first_request_says() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list = request(1, "tools/list", json!({"_meta": meta}));
    for (first, has_id, pong) in [(list, false, json!(-32602)), (initialize(1), true, Value::Null)] {
        let ping = |id: i64| request(id, "ping", json!({}));
        let answers = answers([ping(2), first, "x\n".into(), ping(3)].concat()).await;
        let answer = |id: i64| answers.iter().find(|answer| answer["id"] == id).unwrap();
        let refused = answers.iter().find(|answer| answer["error"]["code"] == -32700).unwrap();
        assert_eq!(
            (refused.get("id").is_some(), &answer(3)["error"]["code"]),
            (has_id, &pong),
            "{answers:?}"
        );
        assert!(answer(1)["result"].is_object() && answer(2)["result"].is_object(), "{answers:?}");
    }
}

/// Returns an answer of slightly more than `bytes` bytes.
fn answer(id: i64, bytes: usize) -> ServerJsonRpcMessage {
    let result = json!({"content": [{"type": "text", "text": "x".repeat(bytes)}]});
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap()
}

/// The numbers of the answers in a piece of output.
fn numbers(written: &[u8]) -> Vec<i64> {
    let lines = serde_json::Deserializer::from_slice(written).into_iter::<Value>();
    lines.map(|line| line.unwrap()["id"].as_i64().unwrap()).collect()
}

/// Answers are held back while as many calls are pending, precede all other output, and never block.
#[tokio::test]
async fn answers_are_written_together_and_in_order() {
    let (sender, written) = mpsc::channel();
    let writer = Writer::start(Ready(Written(sender)), Arc::default()).unwrap();
    let hold = |id, ahead, bytes| writer.hold_back(&answer(id, bytes), ahead).unwrap();
    let next = || written.recv_timeout(HANG).map(|written| numbers(&written)).unwrap();
    for (id, ahead) in [(1, 3), (2, 2), (3, 1)] {
        hold(id, ahead, 1);
    }
    assert_eq!(next(), [1, 2, 3], "no more are held than are ahead");
    hold(4, 0, 1);
    assert_eq!(next(), [4], "nothing is ahead");
    hold(5, 9, 1);
    writer.post(&answer(6, 1)).unwrap();
    assert_eq!(next(), [5, 6], "who posts does not hold back");
    hold(7, 9, 1);
    writer.flush_held();
    assert_eq!(next(), [7]);
    writer.flush_held();
    hold(8, 9, 3000);
    hold(9, 9, 3000);
    assert_eq!([next(), next()], [[8], [9]], "no more is held than is taken at once");
    hold(10, 9, 1);
    writer.post(&answer(11, 100_000)).unwrap();
    writer.close().await;
    assert_eq!([next(), next()], [[10], [11]]);
    assert!(written.try_recv().is_err(), "nothing is written twice, or empty");
}

/// A disconnected client.
struct BrokenOutput;

impl Write for BrokenOutput {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for BrokenOutput {
    fn is_ready(&self) -> bool {
        true
    }
}

/// A disconnected client is detected even if only held lines are to be written.
#[tokio::test]
async fn a_client_that_is_gone_is_noticed_by_what_is_held_back() {
    let hangup = Arc::<Hangup>::default();
    let writer = Writer::start(BrokenOutput, hangup.clone()).unwrap();
    writer.hold_back(&answer(1, 1), 2).unwrap();
    writer.flush_held();
    tokio::time::timeout(HANG, hangup.client_gone.cancelled()).await.unwrap();
}

/// The waiting thread writes the held lines for a client that does not read.
#[tokio::test]
async fn what_is_held_back_is_not_waited_for() {
    let (sender, written) = mpsc::channel();
    let writer = Writer::start(Written(sender), Arc::default()).unwrap();
    writer.hold_back(&answer(1, 1), 2).unwrap();
    writer.hold_back(&answer(2, 1), 2).unwrap();
    writer.flush_held();
    assert_eq!(numbers(&written.recv_timeout(HANG).unwrap()), [1, 2]);
    writer.hold_back(&answer(3, 1), 0).unwrap();
    assert_eq!(numbers(&written.recv_timeout(HANG).unwrap()), [3]);
    writer.hold_back(&answer(4, 1), 1).unwrap();
    writer.close().await;
    drop(writer);
    assert_eq!(numbers(&written.iter().flatten().collect::<Vec<u8>>()), [4], "whatever is held at the end");
}

/// S14: the end of the input is detected without reading the rest.
#[test]
fn a_hang_up_is_seen_behind_what_was_not_read() {
    let (ours, mut theirs) = io::pipe().unwrap();
    let ours = std::fs::File::from(std::os::fd::OwnedFd::from(ours));
    theirs.write_all(b"left").unwrap();
    assert!(!ours.has_hung_up());
    drop(theirs);
    assert!(ours.has_hung_up());
}

/// A client that reads nothing before a message allows it.
struct BlockedOutput(mpsc::Receiver<()>);

impl Write for BlockedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for BlockedOutput {}

/// S14: answers are never delayed. Notifications are dropped while too much is unwritten, and sent again later.
#[tokio::test]
async fn what_is_told_is_dropped_for_a_client_that_does_not_read() {
    let (open, shut) = mpsc::channel();
    let writer = Writer::start(BlockedOutput(shut), Arc::default()).unwrap();
    for id in 0..40 {
        writer.post(&answer(id, 1 << 20)).unwrap();
    }
    assert!(!writer.tell(&answer(99, 1), false) && !writer.tell(&answer(99, 1), true));
    drop(open);
    writer.wait_for_room(|| false);
    assert!(writer.tell(&answer(99, 1), false));
}
