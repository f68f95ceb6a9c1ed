//! A model that a function implements, behind OpenAI's chat completions, streamed or not. Each answer depends on the
//! received conversation alone, so that the model continues any session. Rejects a call without its answer and an
//! answer without its call.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::providers::recorded::record;

/// The model's next turn.
#[derive(Default)]
pub(crate) struct Says {
    pub(crate) text: String,
    /// The tools to call, with their arguments.
    pub(crate) calls: Vec<(&'static str, Value)>,
    /// The status of an error response; 0 for none.
    pub(crate) status: u16,
    /// A function that runs before the last word of a streamed text.
    pub(crate) before_last: Option<fn()>,
    /// The bytes of the response instead; the connection ends after them.
    pub(crate) raw: Option<String>,
}

impl Says {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn call(tool: &'static str, arguments: Value) -> Self {
        Self { calls: vec![(tool, arguments)], ..Self::default() }
    }
}

type Script = dyn Fn(&[Value]) -> Says + Send + Sync;

/// The endpoint. Its threads end with the process.
pub(crate) struct Model {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    script: Box<Script>,
    violations: Mutex<Vec<String>>,
}

impl Model {
    pub(crate) fn start(script: impl Fn(&[Value]) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { script: Box::new(script), violations: Mutex::default() });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { address, state }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every conversation was valid for the real API.
    pub(crate) fn assert_content(&self) {
        assert_eq!(*self.state.violations.lock().unwrap(), Vec::<String>::new());
    }
}

/// Answers a request; `None` at the end of the connection.
fn serve(mut stream: &TcpStream, state: &State) -> Option<()> {
    let body = request(stream)?;
    record("openai-chat", "POST /v1/chat/completions", &BTreeMap::new(), &body);
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    if let Err(violation) = check(&messages) {
        state.violations.lock().unwrap().push(format!("{violation}: {messages:#?}"));
        let error = json!({ "error": { "message": violation } }).to_string();
        let head = format!("HTTP/1.1 400 Bad\r\ncontent-length: {}\r\n\r\n{error}", error.len());
        return stream.write_all(head.as_bytes()).ok();
    }
    let turns = messages.iter().filter(|message| message["role"] == "assistant").count();
    let says = (state.script)(&messages);
    if let Some(raw) = &says.raw {
        return stream
            .write_all(raw.as_bytes())
            .and_then(|()| stream.shutdown(std::net::Shutdown::Both))
            .ok()
            .and(None);
    }
    if says.status != 0 {
        let head = format!("HTTP/1.1 {} No\r\ncontent-length: 0\r\n\r\n", says.status);
        return stream.write_all(head.as_bytes()).ok();
    }
    if body["stream"] == true { streamed(stream, &says, turns) } else { whole(stream, &says, turns) }
}

fn request(stream: &TcpStream) -> Option<Value> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The calls in the response's format; ids are unique in the conversation.
fn calls(says: &Says, turns: usize) -> Vec<Value> {
    let call = |(index, (tool, arguments)): (usize, &(&str, Value))| {
        json!({
            "index": index, "id": format!("call-{turns}-{index}"), "type": "function",
            "function": { "name": tool, "arguments": arguments.to_string() },
        })
    };
    says.calls.iter().enumerate().map(call).collect()
}

fn usage() -> Value {
    json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 })
}

fn finish(says: &Says) -> &'static str {
    if says.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn whole(mut stream: &TcpStream, says: &Says, turns: usize) -> Option<()> {
    let mut message = json!({ "role": "assistant", "content": says.text });
    if !says.calls.is_empty() {
        let calls = calls(says, turns).into_iter().map(|mut call| {
            call.as_object_mut().unwrap().remove("index");
            call
        });
        message["tool_calls"] = calls.collect();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(says) });
    let body = json!({ "id": "1", "model": "scripted-1", "choices": [choice], "usage": usage() }).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()
}

fn streamed(mut stream: &TcpStream, says: &Says, turns: usize) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    let mut send = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": "1", "model": "scripted-1", "choices": [choice] });
        stream.write_all(format!("data: {chunk}\n\n").as_bytes()).ok()
    };
    send(json!({ "role": "assistant", "content": "" }), None)?;
    let mut words = says.text.split_inclusive(' ').peekable();
    while let Some(word) = words.next() {
        if let (None, Some(before_last)) = (words.peek(), says.before_last) {
            before_last();
        }
        send(json!({ "content": word }), None)?;
    }
    for call in calls(says, turns) {
        send(json!({ "tool_calls": [call] }), None)?;
    }
    send(json!({}), Some(finish(says)))?;
    let last = json!({ "id": "1", "model": "scripted-1", "choices": [], "usage": usage() });
    stream.write_all(format!("data: {last}\n\ndata: [DONE]\n\n").as_bytes()).ok()?;
    // The connection is not used again.
    stream.shutdown(std::net::Shutdown::Write).ok().and(None)
}

/// Whether each call has its answer right after it, and roles alternate.
fn check(messages: &[Value]) -> Result<(), String> {
    let mut waiting: Vec<String> = Vec::new();
    let mut before = "";
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = waiting.iter().position(|call| call == id);
            waiting.remove(at.ok_or(format!("an answer to `{id}`, which was not called"))?);
        } else {
            if !waiting.is_empty() {
                return Err(format!("calls without an answer: {waiting:?}"));
            }
            if role == before {
                return Err(format!("`{role}` speaks twice in a row"));
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            waiting.push(call["id"].as_str().unwrap_or_default().to_owned());
        }
        before = role;
    }
    if before == "assistant" || !waiting.is_empty() { Err("nothing to say to that".into()) } else { Ok(()) }
}

/// The user's last message.
pub(crate) fn asked(messages: &[Value]) -> &str {
    let last = messages.iter().rev().find(|message| message["role"] == "user");
    last.and_then(|message| message["content"].as_str()).unwrap_or_default()
}

/// The calls with their answers, in order: tool, arguments, answer.
pub(crate) fn answers(messages: &[Value]) -> Vec<(String, Value, String)> {
    let mut answers = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for message in messages {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let is_answer = |answer: &&Value| answer["tool_call_id"] == call["id"];
            let answer = messages.iter().find(is_answer).map(|answer| text(&answer["content"]));
            let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or("{}"));
            answers.push((
                text(&call["function"]["name"]),
                arguments.unwrap_or_default(),
                answer.unwrap_or_default(),
            ));
        }
    }
    answers
}
