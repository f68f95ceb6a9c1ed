use rmcp::model::{ElicitationCapability, NumberOrString, RequestId, ServerJsonRpcMessage};
use serde_json::json;

use super::*;
use crate::client::handler::ServerNews;
use crate::client::message::request_of;

/// A listener, and what it hears.
fn listener() -> (Listener, Arc<Lock<Vec<String>>>) {
    let heard = Arc::<Lock<Vec<String>>>::default();
    let sink = heard.clone();
    let events = Events::to(move |event| sink.lock().push(event.json().to_string()));
    let client = Client::default();
    (Listener { call: "c".into(), events, trace: None, client, person: None, meta: None }, heard)
}

fn token(number: i64) -> ProgressToken {
    ProgressToken(NumberOrString::Number(number))
}

/// A call of `listener`, and its request as rmcp hands it to a transport.
fn request(listener: &Listener, number: i64) -> (Arc<Ongoing>, ClientJsonRpcMessage) {
    let params = Map::from_iter([("name".to_owned(), json!("t"))]);
    let mut request = request_of("tools/call", &params).unwrap();
    let call = Ongoing::attach(&mut request, listener, "s");
    request.get_meta_mut().set_progress_token(token(number));
    (call, ClientJsonRpcMessage::request(request, RequestId::Number(number)))
}

fn notification(method: &str, params: &Value) -> ServerJsonRpcMessage {
    let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    serde_json::from_value(message).unwrap()
}

fn progress(number: i64, done: f64) -> ServerJsonRpcMessage {
    let params = json!({ "progressToken": number, "progress": done, "message": format!("at {done}") });
    notification("notifications/progress", &params)
}

fn logged(level: &str, text: &str) -> ServerJsonRpcMessage {
    notification("notifications/message", &json!({ "level": level, "data": text }))
}

/// MC04: a notification that arrives before the request counts as sent, and one that is read right before the answer,
/// reach the caller at once.
#[test]
fn what_is_told_between_the_request_and_its_answer_is_heard() {
    let (listener, heard) = listener();
    let news = ServerNews::default();
    let (call, message) = request(&listener, 7);
    news.calls.note(&message);
    news.note(&progress(7, 1.0));
    let again = progress(7, 2.0);
    for told in [again.clone(), again, progress(8, 3.0), logged("debug", "x"), logged("info", "y")] {
        news.note(&told);
    }
    drop(call);
    news.note(&progress(7, 4.0));
    news.note(&logged("info", "late"));
    let heard = heard.lock();
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].contains("at 1") && heard[1].contains("at 2") && heard[2].contains("s: y"), "{heard:?}");
}

/// MC04: calls whose requests are sent after their end do not accumulate.
#[test]
fn calls_that_are_over_are_forgotten() {
    let (listener, heard) = listener();
    let news = ServerNews::default();
    for number in 0..100 {
        let (call, message) = request(&listener, number);
        drop(call);
        news.calls.note(&message);
        news.note(&progress(number, 1.0));
    }
    let (_call, message) = request(&listener, 100);
    news.calls.note(&message);
    assert_eq!(news.calls.0.lock().len(), 1);
    news.note(&progress(100, 1.0));
    assert_eq!(heard.lock().len(), 1);
}

/// MC04: a log message is of the latest call that has no answer.
#[test]
fn a_log_message_is_of_the_latest_call() {
    let ((first, heard_first), (second, heard_second)) = (listener(), listener());
    let news = ServerNews::default();
    let (_first, message) = request(&first, 1);
    news.calls.note(&message);
    let (call, message) = request(&second, 2);
    news.calls.note(&message);
    news.note(&logged("warning", "both run"));
    drop(call);
    news.note(&logged("warning", "one runs"));
    assert!(heard_second.lock().iter().all(|event| event.contains("both run")));
    assert!(heard_first.lock().iter().all(|event| event.contains("one runs")));
    assert_eq!((heard_first.lock().len(), heard_second.lock().len()), (1, 1));
    let (other, heard_other) = listener();
    let (_other, message) = request(&Listener { client: Client::named("other"), ..other }, 3);
    news.calls.note(&message);
    news.note(&logged("warning", "of two clients"));
    assert_eq!((heard_first.lock().len(), heard_other.lock().len()), (1, 0));
}

/// MC04: a stateless server logs if somebody reads it, and knows whether somebody can be asked.
#[test]
fn a_stateless_server_knows_who_listens() {
    let (heard, _) = listener();
    let unheard = Listener { events: Events::none(), ..heard.clone() };
    let mut able = ClientCapabilities::default();
    able.elicitation = Some(ElicitationCapability::new());
    let meta = heard.stateless_meta(able.clone(), true);
    assert_eq!((meta.log_level(), meta.client_capabilities()), (Some(LoggingLevel::Info), None));
    let meta = unheard.stateless_meta(able, false);
    assert_eq!((meta.log_level(), meta.client_capabilities()), (None, Some(ClientCapabilities::default())));
}
