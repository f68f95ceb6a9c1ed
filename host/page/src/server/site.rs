//! Routes requests: checks a request, and answers it from the journal, the sessions, the catalogue or the desk.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::DropGuard;

use super::gate;
use super::keys::{Keys, OPEN};
use super::reply::{self, Reply};
use crate::desk::{Answer, Desk, Presence, Shown};
use crate::history::{self, Filter};
use crate::live::Live;
use crate::sessions::{self, Listing};
use crate::{Catalogue, overview, statistics};
use haft_agent::Sessions;

/// The maximum number of event streams: a tab has one.
const MAX_STREAMS: usize = 32;

/// The maximum size of an answer to a question in bytes.
const MAX_BODY: usize = 4 << 10;

/// Time limit for the body of a request.
const BODY: Duration = Duration::from_secs(10);

/// The maximum number of hours of statistics: a week.
const MAX_HOURS: u8 = 24 * 7;

/// The sources of the page.
#[derive(Clone, Debug)]
pub struct Places {
    /// The directory of the journal.
    pub journal: PathBuf,
    /// The saved sessions.
    pub sessions: Sessions,
    /// The directory of waiting calls.
    pub desk: Desk,
}

pub(super) struct Site {
    hosts: Vec<String>,
    pub(super) keys: Keys,
    places: Places,
    catalogue: Arc<dyn Catalogue>,
    listing: Arc<Listing>,
    live: Live,
    presence: Presence,
    streams: Arc<Semaphore>,
}

/// A person's answer to a question.
#[derive(Deserialize)]
struct Said {
    id: String,
    digest: String,
    answer: Answer,
}

impl Site {
    pub(super) fn new(
        address: SocketAddr,
        places: Places,
        catalogue: Arc<dyn Catalogue>,
    ) -> io::Result<Self> {
        places.desk.create()?;
        let presence = Presence::new(places.desk.clone());
        let (listing, live) = (Arc::default(), Live::new(places.journal.clone()));
        let (keys, streams) = (Keys::new(address), Arc::new(Semaphore::new(MAX_STREAMS)));
        Ok(Self { hosts: hosts(address), keys, places, catalogue, listing, live, presence, streams })
    }

    /// Starts the reading thread, until the returned value is dropped.
    pub(super) fn watch(&self) -> Option<DropGuard> {
        let started = self.live.start(&self.places.desk);
        started.inspect_err(|error| tracing::warn!(%error, "the dashboard receives no events")).ok()
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        let answered = self.check_and_answer(request).await;
        answered.unwrap_or_else(|(status, why)| reply::refused(status, &why))
    }

    async fn check_and_answer(&self, request: Request<Incoming>) -> Result<Reply, (StatusCode, String)> {
        let path = request.uri().path().to_owned();
        let key = path.strip_prefix(OPEN);
        if let Some((status, why)) =
            gate::refusal(request.method(), request.headers(), &self.hosts, key.is_some())
        {
            return Err((status, why.into()));
        }
        if let Some(key) = key.filter(|_| *request.method() == Method::GET) {
            return self.enter(key);
        }
        if !self.keys.knows(request.headers()) {
            let why = "the dashboard opens with a link that works once, in one browser; `haft dashboard` \
                prints another link";
            return Err((StatusCode::FORBIDDEN, why.into()));
        }
        if *request.method() == Method::POST {
            return if path == "/api/answer" { self.decide(request).await } else { Err(nothing()) };
        }
        if let Some(asset) = reply::ASSETS.iter().find(|asset| asset.path == path) {
            return Ok(reply::asset(asset));
        }
        let query = request.uri().query().unwrap_or_default().as_bytes();
        self.data(&path, &url::form_urlencoded::parse(query).into_owned().collect()).await
    }

    fn enter(&self, key: &str) -> Result<Reply, (StatusCode, String)> {
        match self.keys.redeem(key).map_err(failed)? {
            Some(cookie) => Ok(reply::entered(&cookie)),
            None => Err((
                StatusCode::FORBIDDEN,
                "this link was used or has expired; `haft dashboard` prints another".into(),
            )),
        }
    }

    async fn data(&self, path: &str, query: &HashMap<String, String>) -> Result<Reply, (StatusCode, String)> {
        let (journal, sessions) = (self.places.journal.clone(), self.places.sessions.clone());
        let text = |name: &str| query.get(name).cloned().unwrap_or_default();
        match path {
            "/events" => self.events(),
            "/api/overview" => read(move || overview::overview(&journal)).await,
            "/api/calls" => {
                let [tool, caller, said, outcome] = ["tool", "caller", "text", "outcome"].map(text);
                let filter = Filter { tool, caller, text: said, outcome };
                read(move || history::calls(&journal, &filter)).await
            }
            "/api/call" => {
                let id = text("id");
                found(read_value(move || history::call(&journal, &id)).await?)
            }
            "/api/tools" => {
                let hours = text("hours").parse().unwrap_or(24_u8).clamp(1, MAX_HOURS);
                let figures = read_value(move || statistics::figures(&journal, hours)).await?;
                Ok(reply::json(&json!({ "figures": figures, "offered": self.catalogue.offered().await })))
            }
            "/api/sessions" => {
                let listing = self.listing.clone();
                read(move || listing.all(&sessions)).await
            }
            "/api/session" => {
                let id = text("id");
                found(read_value(move || sessions::one(&sessions, &id)).await?)
            }
            _ => Err(nothing()),
        }
    }

    fn events(&self) -> Result<Reply, (StatusCode, String)> {
        let full = |_| (StatusCode::SERVICE_UNAVAILABLE, "too many dashboards are open".into());
        let room = self.streams.clone().try_acquire_owned().map_err(full)?;
        let shown = self.presence.enter().map_err(failed)?;
        let events = Events::of(&self.live, shown, room).map_err(failed)?.boxed();
        Ok(reply::with(StatusCode::OK, "text/event-stream", events))
    }

    async fn decide(&self, request: Request<Incoming>) -> Result<Reply, (StatusCode, String)> {
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = tokio::time::timeout(BODY, body).await.ok().and_then(Result::ok);
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let wrong = |_| (StatusCode::BAD_REQUEST, "expected `id`, `digest` and `answer`".into());
        let said: Said = serde_json::from_slice(&body).map_err(wrong)?;
        let desk = self.places.desk.clone();
        let is_given = read_value(move || desk.give(&said.id, &said.digest, said.answer)).await?;
        if is_given {
            return Ok(reply::json(&json!({ "answered": true })));
        }
        let why = "this call no longer waits, was answered, or differs from the one shown";
        Err((StatusCode::CONFLICT, why.into()))
    }
}

fn hosts(address: SocketAddr) -> Vec<String> {
    let is_usual = address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) || address.ip().is_ipv6();
    let name = is_usual.then(|| format!("localhost:{}", address.port()));
    std::iter::once(address.to_string()).chain(name).collect()
}

/// Reads on a thread that may block on the disk.
async fn read_value<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, (StatusCode, String)> {
    let done = tokio::task::spawn_blocking(read).await.map_err(failed)?;
    done.map_err(failed)
}

async fn read<T: Serialize + Send + 'static, E: std::fmt::Display + Send + 'static>(
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Reply, (StatusCode, String)> {
    Ok(reply::json(&read_value(read).await?))
}

fn found(value: Option<serde_json::Value>) -> Result<Reply, (StatusCode, String)> {
    value.map(|value| reply::json(&value)).ok_or_else(nothing)
}

fn nothing() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "not found".into())
}

fn failed(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

// The stream of live updates to one browser, as server-sent events.

/// The maximum number of events queued for a browser; while it is full, updates are dropped.
const WAITING: usize = 4;

/// Maximum time for which a browser may read nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The interval of messages that detect a lost browser.
const BEAT: Duration = Duration::from_secs(15);

/// The body of the response. While it exists, a browser shows the page.
pub(super) struct Events {
    receiver: mpsc::Receiver<Bytes>,
    _shown: Shown,
    _room: OwnedSemaphorePermit,
}

impl Events {
    /// Returns the events from now on.
    pub(super) fn of(live: &Live, shown: Shown, room: OwnedSemaphorePermit) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(tell(live.rows()?, live.questions(), sender));
        Ok(Self { receiver, _shown: shown, _room: room })
    }
}

/// Sends events until the browser disconnects or does not read.
async fn tell(
    mut rows: broadcast::Receiver<Bytes>,
    mut questions: watch::Receiver<Bytes>,
    sender: mpsc::Sender<Bytes>,
) {
    // Questions that wait already are sent first.
    questions.mark_changed();
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            changed = questions.changed() => {
                if changed.is_err() {
                    return;
                }
                event("waiting", &questions.borrow_and_update())
            }
            batch = rows.recv() => match batch {
                Ok(batch) => event("rows", &batch),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(BEAT) => Bytes::from_static(b": still here\n\n"),
        };
        let sent = tokio::time::timeout(PATIENCE, sender.send(next)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Returns one event. The JSON has one line, without line ends.
fn event(name: &str, data: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(name.len() + data.len() + 16);
    for part in [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"] {
        text.put_slice(part);
    }
    text.freeze()
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }
}
