use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rmcp::model::{ClientRequest, ServerResult};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::*;

/// Only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(5);

/// A transport, and the other ends of its pipes.
fn lines() -> (StdioTransport, Receiver, Sender) {
    let ((their_input, input), (output, their_output)) = (io::pipe().unwrap(), io::pipe().unwrap());
    let ours = StdioTransport::new(
        Sender::from_owned_fd(input.into()).unwrap(),
        Receiver::from_owned_fd(output.into()).unwrap(),
        Arc::default(),
    );
    let input = Receiver::from_owned_fd(their_input.into()).unwrap();
    (ours, input, Sender::from_owned_fd(their_output.into()).unwrap())
}

fn ping(id: i64) -> ClientJsonRpcMessage {
    let request: ClientRequest = serde_json::from_value(json!({ "method": "ping" })).unwrap();
    ClientJsonRpcMessage::request(request, RequestId::Number(id))
}

async fn next(lines: &mut StdioTransport) -> Option<String> {
    let message = timeout(HANG, lines.receive()).await.unwrap()?;
    Some(serde_json::to_string(&message).unwrap())
}

/// MC04: an invalid message is skipped, and an invalid answer fails its request.
#[tokio::test]
async fn noise_is_passed_over() {
    let (mut lines, _input, mut output) = lines();
    for id in 1..=5 {
        lines.send(ping(id)).await.unwrap();
    }
    let noise = "starting...\n{\"level\":\"info\"}\n42\n\"x\"\n\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n";
    output.write_all(noise.as_bytes()).await.unwrap();
    assert!(next(&mut lines).await.unwrap().contains("\"id\":1"));
    output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":\"E\"}}\n").await.unwrap();
    assert!(next(&mut lines).await.unwrap().contains("malformed"));
    output.write_all(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"3\",\"result\":{\"a\":1}}\n").await.unwrap();
    assert!(next(&mut lines).await.unwrap().contains("\"a\":1"));
    let batch =
        "[{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}]\n";
    output.write_all(batch.as_bytes()).await.unwrap();
    assert!(next(&mut lines).await.unwrap().contains("\"id\":4"));
    assert!(next(&mut lines).await.unwrap().contains("\"id\":5"));
    drop(output);
    assert_eq!(next(&mut lines).await, None);
}

/// C18: a server that never stops writing does not starve the task that handles its messages.
#[tokio::test]
async fn a_flood_leaves_others_a_turn() {
    const MESSAGES: usize = 8 * YIELD_AFTER;
    let (mut lines, _input, mut output) = lines();
    let message = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    // Less than a pipe holds, so that the write does not block.
    output.write_all(message.repeat(MESSAGES).as_bytes()).await.unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut had = Vec::new();
    for _ in 0..MESSAGES {
        next(&mut lines).await.unwrap();
        had.push(turns.load(Ordering::Relaxed));
    }
    other.abort();
    let waited = had.windows(YIELD_AFTER + 2).filter(|some| some.first() == some.last()).count();
    assert_eq!(waited, 0, "{had:?}");
}

/// MC07: a duplicate, late or unrequested answer is dropped.
#[tokio::test]
async fn late_answers_are_passed_over() {
    let (mut lines, _input, mut output) = lines();
    lines.send(ping(1)).await.unwrap();
    lines.send(ping(2)).await.unwrap();
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    lines.send(serde_json::from_value(cancel).unwrap()).await.unwrap();
    let late = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"late\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n";
    let good = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"good\":1}}\n";
    output.write_all(format!("{late}{good}{good}").as_bytes()).await.unwrap();
    drop(output);
    assert!(next(&mut lines).await.unwrap().contains("good"));
    assert_eq!(next(&mut lines).await, None);
}

/// MC12: a line without end is not stored, and the request that it answers fails.
#[tokio::test]
async fn a_line_too_long_fails_its_request_and_no_other() {
    let (mut lines, _input, mut output) = lines();
    lines.send(ping(1)).await.unwrap();
    lines.send(ping(2)).await.unwrap();
    lines.send(ping(3)).await.unwrap();
    let writing = tokio::spawn(async move {
        let long = vec![b'x'; MAX_LINE + 1000];
        output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"").await.unwrap();
        output.write_all(&long).await.unwrap();
        output.write_all(b"\"}}\n{\"result\":{\"a\":\"").await.unwrap();
        output.write_all(&long).await.unwrap();
        output.write_all(b"\"},\"jsonrpc\":\"2.0\",\"id\":2}\n").await.unwrap();
        output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n").await.unwrap();
        output
    });
    for id in 1..=2 {
        let text = next(&mut lines).await.unwrap();
        assert!(text.contains(&format!("\"id\":{id}")) && text.contains("the limit is 16 MiB"), "{text}");
    }
    assert!(next(&mut lines).await.unwrap().contains("\"id\":3"));
    drop(writing.await.unwrap());
}

/// MC07: the queue for a server that reads nothing is bounded, and senders get an error.
#[tokio::test]
async fn what_is_not_read_does_not_pile_up() {
    let (mut lines, mut input, _output) = lines();
    let mut refused = 0;
    let mut sent = Vec::new();
    for id in 0..2000 {
        sent.push(lines.send(ping(id)));
    }
    for sending in sent {
        let sent = pin!(sending).poll(&mut Context::from_waker(Waker::noop()));
        refused += usize::from(matches!(sent, Poll::Ready(Err(_))));
    }
    assert!(refused > 1000, "{refused}");
    lines.close().await.unwrap();
    let mut read = Vec::new();
    timeout(HANG, input.read_to_end(&mut read)).await.unwrap().unwrap();
    assert!(read.ends_with(b"}\n"));
}

#[test]
fn results_that_no_type_fits_are_kept_whole() {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete",
        "tools": [{ "name": "good", "inputSchema": { "type": "object" } }, { "name": "bad", "inputSchema": 7 }],
    } });
    let message: ServerJsonRpcMessage = serde_json::from_value(list.clone()).unwrap();
    let ServerJsonRpcMessage::Response(response) = &message else { panic!("{message:?}") };
    assert!(matches!(response.result, ServerResult::CustomResult(_)));
    assert_eq!(serde_json::to_value(&response.result).unwrap(), list["result"]);
}

/// MC01: an answer to the first attempt that arrives after the second attempt was sent does not count for the second.
#[tokio::test]
async fn what_was_asked_before_initialize_is_not_waited_for() {
    let (mut lines, _input, mut output) = lines();
    lines.send(ping(0)).await.unwrap();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "haft", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    lines.send(serde_json::from_value(initialize).unwrap()).await.unwrap();
    let late = "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"late\"}}\n";
    output.write_all(late.as_bytes()).await.unwrap();
    output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"good\":1}}\n").await.unwrap();
    assert!(next(&mut lines).await.unwrap().contains("good"));
}
