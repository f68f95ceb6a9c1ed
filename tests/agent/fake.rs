//! An OpenAI endpoint on loopback that gives scripted answers and rejects every request that the real API would
//! reject. Implements the necessary part of HTTP/1.1, strictly.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::chat_format;
use crate::providers::recorded::record;

/// The answer to one request.
pub(crate) enum Answer {
    /// This status, these additional headers and this body.
    Http(u16, &'static [(&'static str, &'static str)], Vec<u8>),
    /// Half of a body, and then a closed connection.
    Cut,
    /// A body of four times the maximum length, without a declared length.
    Endless,
    /// No answer, and a closed connection.
    Hangup,
    /// No answer; the token is cancelled when the request arrives.
    Never(CancellationToken),
}

/// A success with `body`.
pub(crate) fn json(body: &Value) -> Answer {
    Answer::Http(200, &[], body.to_string().into_bytes())
}

/// A completion with `message`.
pub(crate) fn completion(message: &Value, finish: &str) -> Answer {
    json(&json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake-model-1",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    }))
}

/// A completion with the text `text`.
pub(crate) fn says(text: &str) -> Answer {
    completion(&json!({ "role": "assistant", "content": text, "refusal": null, "annotations": [] }), "stop")
}

/// A completion with calls: id, tool and arguments as sent.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Answer {
    let calls: Vec<_> = calls
        .iter()
        .map(|(id, tool, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments } })
        })
        .collect();
    completion(&json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Answer>>,
    /// The body and the headers of each request for a completion.
    requests: Mutex<Vec<(Value, BTreeMap<String, String>)>>,
    violations: Mutex<Vec<String>>,
}

/// The endpoint; stopped when dropped.
pub(crate) struct Fake {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { script: Mutex::new(script.into_iter().collect()), ..State::default() });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, state, task }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of the requests for a completion so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().unwrap().iter().map(|(body, _)| body.clone()).collect()
    }

    /// A header of the last request for a completion.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.state.requests.lock().unwrap().last()?.1.get(name).cloned()
    }

    /// Asserts that every request was valid and that the whole script was used.
    pub(crate) fn assert_done(&self) {
        assert_eq!(*self.state.violations.lock().unwrap(), Vec::<String>::new());
        assert_eq!(self.state.script.lock().unwrap().len(), 0, "answers that nobody asked for");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let mut stream = BufReader::new(stream);
    while let Some((line, headers, body)) = read_request(&mut stream).await {
        let answer = match take(&state, &line, headers, &body) {
            Ok(answer) => answer,
            Err(violation) => {
                state.violations.lock().unwrap().push(violation.clone());
                let error = json!({ "error": { "message": violation, "type": "invalid_request_error" } });
                Answer::Http(400, &[], error.to_string().into_bytes())
            }
        };
        if write_answer(&mut stream, answer).await.is_none() {
            return;
        }
    }
}

/// Request line, headers (names in lower case) and body; `None` at the end of the connection.
pub(crate) async fn read_request(
    stream: &mut BufReader<TcpStream>,
) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let header = header.strip_suffix("\r\n")?;
        let Some((name, value)) = header.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((line.trim_end().to_owned(), headers, body))
}

fn take(state: &State, line: &str, headers: BTreeMap<String, String>, body: &[u8]) -> Result<Answer, String> {
    let next = || state.script.lock().unwrap().pop_front().ok_or("the script is over".to_owned());
    if !headers.contains_key("host") || headers.contains_key("transfer-encoding") {
        return Err("no `host`, or a body without a length".into());
    }
    match line {
        "GET /v1/models HTTP/1.1" => next(),
        "POST /v1/chat/completions HTTP/1.1" => {
            if headers.get("content-type").is_none_or(|kind| kind != "application/json") {
                return Err("`content-type` is not `application/json`".into());
            }
            let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
            record("openai-chat", line, &headers, &body);
            chat_format::check(&body)?;
            state.requests.lock().unwrap().push((body, headers));
            next()
        }
        other => Err(format!("no such endpoint: {other}")),
    }
}

/// `None` if the connection cannot be used again.
async fn write_answer(stream: &mut BufReader<TcpStream>, answer: Answer) -> Option<()> {
    match answer {
        Answer::Http(status, headers, body) => {
            let headers: String =
                headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            stream.write_all(head.as_bytes()).await.ok()?;
            stream.write_all(&body).await.ok()
        }
        Answer::Cut => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\": [").await.ok()?;
            None
        }
        Answer::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.ok()?;
            loop {
                stream.write_all(&[b' '; 1 << 14]).await.ok()?;
            }
        }
        Answer::Hangup => None,
        Answer::Never(token) => {
            token.cancel();
            // Waits until the client gives up.
            stream.read_u8().await.ok().and(None)
        }
    }
}
