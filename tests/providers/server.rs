//! A vendor's endpoint on loopback: checks every request, records its own answers, and expects them to come back
//! unmodified. Implements the necessary part of HTTP/1.1.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use haft::provider::ApiFormat;
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::recorded::record;
use super::rules;
use crate::agent::fake::read_request;

/// A turn of the fake model.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) thought: &'static str,
    pub(super) text: &'static str,
    /// Id, tool, arguments.
    pub(super) calls: Vec<(&'static str, &'static str, Value)>,
}

/// A turn in the vendor's format.
pub(super) struct Written {
    pub(super) media_type: &'static str,
    /// The frames of a stream, or one whole body.
    pub(super) frames: Vec<String>,
    /// The message that must come back in every later request.
    pub(super) message: Value,
}

/// A request to the vendor.
pub(super) struct Request<'a> {
    /// Method, path and query.
    pub(super) target: &'a str,
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) body: &'a Value,
    /// The messages of the turns so far.
    pub(super) answers: &'a [Value],
    /// Whether other vendors had turns in between.
    pub(super) moved: bool,
}

/// A vendor's published format.
pub(super) trait Vendor: Sync {
    fn name(&self) -> &'static str;
    /// OpenAI's format, if it is not the usual one.
    fn format(&self) -> Option<ApiFormat> {
        None
    }
    /// The end of base URLs.
    fn base_path(&self) -> &'static str;
    /// The path of the list of models.
    fn models(&self) -> &'static str;
    /// Whether the answer is streamed, or the reason for status 400.
    fn check(&self, request: &Request<'_>) -> Result<bool, String>;
    fn write(&self, said: &Said, stream: bool) -> Written;
    /// The body of an error.
    fn error(&self, status: u16, message: &str) -> Value;
    /// A body of a success that reports an error or has no content.
    fn empty(&self) -> Value;
    /// The frame of a stream with an error.
    fn error_frame(&self, message: &str) -> String;
    /// The name and the value of the header with the key.
    fn key_header(&self, key: &str) -> (&'static str, String);
}

/// The answer to one request.
pub(super) enum Answer {
    Turn(Said),
    /// This status, these headers and the vendor's error.
    Status(u16, Vec<(&'static str, &'static str)>, &'static str),
    /// A success with this media type and this body.
    Body(&'static str, Vec<u8>),
    /// This number of frames of the turn; then the connection closes, with or without the end of the body.
    Cut(Said, usize, bool),
    /// This number of frames of the turn, then silence.
    Stall(Said, usize),
    /// One frame of the turn, then an error.
    ErrorAfter(Said, &'static str),
    /// No answer.
    Silence,
}

/// The part of the conversation that a fake knows before a request.
#[derive(Clone, Copy, Default, PartialEq)]
enum Conversation {
    /// The whole conversation.
    #[default]
    Whole,
    /// Nothing: every request starts a conversation.
    Apart,
    /// Its own turns: other vendors have the rest.
    Moved,
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Answer>>,
    bodies: Mutex<Vec<Value>>,
    targets: Mutex<Vec<String>>,
    answers: Mutex<Vec<Value>>,
    violations: Mutex<Vec<String>>,
    conversation: Conversation,
}

/// The endpoint; it ends when dropped.
pub(super) struct Server {
    vendor: &'static dyn Vendor,
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Server {
    /// An endpoint with one conversation.
    pub(super) async fn start(vendor: &'static dyn Vendor, script: impl IntoIterator<Item = Answer>) -> Self {
        Self::new(vendor, script, Conversation::Whole).await
    }

    /// An endpoint for which every request starts a conversation.
    pub(super) async fn apart(vendor: &'static dyn Vendor, script: impl IntoIterator<Item = Answer>) -> Self {
        Self::new(vendor, script, Conversation::Apart).await
    }

    /// An endpoint with a part of a conversation.
    pub(super) async fn moved(vendor: &'static dyn Vendor, script: impl IntoIterator<Item = Answer>) -> Self {
        Self::new(vendor, script, Conversation::Moved).await
    }

    async fn new(
        vendor: &'static dyn Vendor,
        script: impl IntoIterator<Item = Answer>,
        conversation: Conversation,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Mutex::new(script.into_iter().collect());
        let state = Arc::new(State { script, conversation, ..State::default() });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(vendor, BufReader::new(stream), shared.clone()));
            }
        });
        Self { vendor, address, state, task }
    }

    pub(super) fn vendor(&self) -> &'static dyn Vendor {
        self.vendor
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.vendor.base_path())
    }

    /// The bodies of the requests for turns.
    pub(super) fn bodies(&self) -> Vec<Value> {
        self.state.bodies.lock().unwrap().clone()
    }

    /// Method and path of each request for a turn.
    pub(super) fn targets(&self) -> Vec<String> {
        self.state.targets.lock().unwrap().clone()
    }

    /// Every request was correct, and every answer of the script was requested.
    pub(super) fn assert_done(&self) {
        assert_eq!(*self.state.violations.lock().unwrap(), Vec::<String>::new(), "{}", self.vendor.name());
        assert_eq!(self.state.script.lock().unwrap().len(), 0, "answers that nobody asked for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Stream = BufReader<TcpStream>;

async fn serve(vendor: &'static dyn Vendor, mut stream: Stream, state: Arc<State>) {
    while let Some((line, headers, body)) = read_request(&mut stream).await {
        let target = line.trim_end_matches(" HTTP/1.1").to_owned();
        let (name, value) = vendor.key_header(super::KEY);
        let done = if headers.get(name) != Some(&value) {
            let error =
                vendor.error(401, &format!("bad key {}", headers.get(name).map_or("", String::as_str)));
            whole(&mut stream, 401, &[], "application/json", error.to_string().as_bytes()).await
        } else if target == format!("GET {}", vendor.models()) {
            whole(&mut stream, 200, &[], "application/json", b"{}").await
        } else {
            turn(vendor, &mut stream, &state, &target, &headers, &body).await
        };
        if done.is_none() {
            return;
        }
    }
}

/// Answers a request for a turn; `None` if the connection cannot be used again.
async fn turn(
    vendor: &'static dyn Vendor,
    stream: &mut Stream,
    state: &State,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Option<()> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let answers = state.answers.lock().unwrap().clone();
    let format = match (vendor.name(), vendor.format()) {
        ("openai", None) => "openai-chat",
        ("openai", Some(_)) => "openai-responses",
        (name, _) => name,
    };
    record(format, target, headers, &body);
    let moved = state.conversation == Conversation::Moved;
    let checked = vendor.check(&Request { target, headers, body: &body, answers: &answers, moved });
    let checked = checked.and_then(|streams| {
        let found = rules::violations(format.trim_start_matches("openai-"), &body);
        if found.is_empty() { Ok(streams) } else { Err(found.join("; ")) }
    });
    let is_json = headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let checked = checked.and_then(|streams| if is_json { Ok(streams) } else { Err("not JSON".into()) });
    let answer = checked.and_then(|streams| {
        let next = state.script.lock().unwrap().pop_front();
        next.map(|answer| (streams, answer)).ok_or_else(|| "the script is over".to_owned())
    });
    let (streams, answer) = match answer {
        Ok(answer) => answer,
        Err(violation) => {
            state.violations.lock().unwrap().push(violation.clone());
            let error = vendor.error(400, &violation).to_string();
            return whole(stream, 400, &[], "application/json", error.as_bytes()).await;
        }
    };
    state.bodies.lock().unwrap().push(body);
    state.targets.lock().unwrap().push(target.to_owned());
    if let Answer::Turn(said) = &answer
        && state.conversation != Conversation::Apart
    {
        state.answers.lock().unwrap().push(vendor.write(said, streams).message);
    }
    respond(vendor, stream, answer, streams).await
}

async fn respond(vendor: &dyn Vendor, stream: &mut Stream, answer: Answer, streams: bool) -> Option<()> {
    match answer {
        Answer::Turn(said) => {
            let Written { media_type, frames, .. } = vendor.write(&said, streams);
            if !streams {
                return whole(stream, 200, &[], media_type, frames.concat().as_bytes()).await;
            }
            head(stream, media_type).await?;
            for frame in &frames {
                chunk(stream, frame.as_bytes()).await?;
            }
            chunk(stream, b"").await
        }
        Answer::Status(status, headers, message) => {
            let body = vendor.error(status, message).to_string();
            whole(stream, status, &headers, "application/json", body.as_bytes()).await
        }
        Answer::Body(media_type, body) => whole(stream, 200, &[], media_type, &body).await,
        Answer::Cut(said, count, ends) => {
            some(vendor, stream, &said, count).await?;
            if ends {
                chunk(stream, b"").await?;
            }
            None
        }
        Answer::Stall(said, count) => {
            some(vendor, stream, &said, count).await?;
            std::future::pending().await
        }
        Answer::ErrorAfter(said, message) => {
            some(vendor, stream, &said, 1).await?;
            chunk(stream, vendor.error_frame(message).as_bytes()).await?;
            chunk(stream, b"").await
        }
        Answer::Silence => std::future::pending().await,
    }
}

/// The head of a stream and its first frames.
async fn some(vendor: &dyn Vendor, stream: &mut Stream, said: &Said, count: usize) -> Option<()> {
    let Written { media_type, frames, .. } = vendor.write(said, true);
    head(stream, media_type).await?;
    for frame in frames.iter().take(count) {
        chunk(stream, frame.as_bytes()).await?;
    }
    Some(())
}

async fn whole(
    stream: &mut Stream,
    status: u16,
    headers: &[(&str, &str)],
    media_type: &str,
    body: &[u8],
) -> Option<()> {
    let headers: String = headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body).await.ok()?;
    stream.flush().await.ok()
}

async fn head(stream: &mut Stream, media_type: &str) -> Option<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()
}

async fn chunk(stream: &mut Stream, bytes: &[u8]) -> Option<()> {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await.ok()?;
    stream.write_all(bytes).await.ok()?;
    stream.write_all(b"\r\n").await.ok()?;
    stream.flush().await.ok()
}
