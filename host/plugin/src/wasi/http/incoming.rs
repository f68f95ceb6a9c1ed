//! Passes requests to a guest that serves HTTP (`wasi:http/incoming-handler`), in process, without a listener or a
//! connection. The response is read in pieces while the guest writes it, and not buffered.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response};
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tokio::time::timeout;
use wasmtime::Store;
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::instance::state::GuestState;

/// The host name in requests. Servers refuse unknown names, and accept this one.
const AUTHORITY: &str = "localhost";

/// Time for which a guest may continue after its response is read: servers close a stream right after its last
/// event.
pub(super) const FINISH: Duration = Duration::from_secs(1);

/// A request to a guest.
pub(crate) struct Post {
    /// The path, from its first `/` on.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// The head of an answer.
pub(crate) struct Head(Parts);

/// Reads a response. [`ControlFlow::Break`]: the rest is not needed.
pub(crate) trait ReadAnswer: Send {
    fn head(&mut self, head: &Head) -> ControlFlow<()>;

    fn piece(&mut self, piece: &[u8]) -> ControlFlow<()>;

    /// Ends a response that was needed completely.
    fn end(&mut self);
}

/// The state of the guest after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterAnswer {
    /// The guest has returned, and may be called again.
    Returned,
    /// The guest was still running, or trapped, when its response was known: it cannot be used again.
    Spent,
}

/// The reasons why an exchange has no response, except a trap.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("it returned without a complete answer")]
    Incomplete,
    #[error("it answered with the error `{0}`")]
    Refused(String),
    #[error("its answer is incomplete: {0}")]
    Broken(wasmtime_wasi_http::Error),
}

impl NoAnswer {
    /// The guest answered with an error of WASI.
    pub(super) fn refused(code: impl Debug) -> Self {
        Self::Refused(format!("{code:?}"))
    }
}

impl Head {
    pub(crate) fn status(&self) -> u16 {
        self.0.status.as_u16()
    }

    /// Returns the status with its usual reason, such as `404 Not Found`.
    pub(crate) fn status_line(&self) -> String {
        self.0.status.to_string()
    }

    /// Returns a header, if present and readable.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.get(name)?.to_str().ok()
    }

    /// Returns the media type without its parameters, in lower case; empty if absent.
    pub(crate) fn media_type(&self) -> String {
        let text = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// Passes `post` to a guest, and its response to `reader`.
///
/// # Errors
/// The guest trapped or was stopped before its answer was known, or gave no answer.
pub(crate) async fn exchange(
    store: &mut Store<GuestState>,
    guest: &Proxy,
    post: Post,
    reader: &mut impl ReadAnswer,
) -> wasmtime::Result<AfterAnswer> {
    let (sender, receiver) = oneshot::channel();
    let mut http = store.data_mut().http();
    let request = http.new_incoming_request(Scheme::Http, post.into_request()?)?;
    let outparam = http.new_response_outparam(sender)?;
    let mut handling = pin!(guest.wasi_http_incoming_handler().call_handle(&mut *store, request, outparam));
    // The future waits only for the guest, which runs in this task.
    let mut reading = pin!(unconstrained(read(receiver, reader)));
    tokio::select! {
        biased;
        body = &mut reading => {
            let mut body = body?;
            let finished = tokio::select! {
                biased;
                finished = timeout(FINISH, &mut handling) => finished,
                // The reader is done; a guest that cannot write would trap.
                never = drain(&mut body) => match never {},
            };
            Ok(if matches!(finished, Ok(Ok(()))) { AfterAnswer::Returned } else { AfterAnswer::Spent })
        }
        returned = &mut handling => {
            // The complete output is available.
            match (poll_once(reading).await, returned) {
                (Some(Ok(_)), Ok(())) => Ok(AfterAnswer::Returned),
                (Some(Ok(_)), Err(_)) => Ok(AfterAnswer::Spent),
                (_, Err(trap)) => Err(trap),
                (Some(Err(error)), Ok(())) => Err(error),
                (None, Ok(())) => Err(NoAnswer::Incomplete.into()),
            }
        }
    }
}

/// Reads a response to its end, or as far as needed.
async fn read(
    receiver: oneshot::Receiver<Result<Response<HyperOutgoingBody>, ErrorCode>>,
    reader: &mut impl ReadAnswer,
) -> wasmtime::Result<HyperOutgoingBody> {
    let answer = receiver.await.map_err(|_| NoAnswer::Incomplete)?.map_err(NoAnswer::refused)?;
    read_answer(answer, reader).await
}

/// Reads a response that has begun.
pub(super) async fn read_answer<B>(answer: Response<B>, reader: &mut impl ReadAnswer) -> wasmtime::Result<B>
where
    B: Body<Data = Bytes, Error = wasmtime_wasi_http::Error> + Unpin,
{
    let (head, mut body) = answer.into_parts();
    if reader.head(&Head(head)).is_break() {
        return Ok(body);
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(NoAnswer::Broken)?;
        if frame.data_ref().is_some_and(|piece| reader.piece(piece).is_break()) {
            return Ok(body);
        }
    }
    reader.end();
    Ok(body)
}

async fn drain(body: &mut HyperOutgoingBody) -> std::convert::Infallible {
    while let Some(Ok(_)) = body.frame().await {}
    std::future::pending().await
}

async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Post {
    pub(super) fn into_request(
        self,
    ) -> wasmtime::Result<Request<impl Body<Data = Bytes, Error = wasmtime_wasi_http::Error>>> {
        let uri = format!("http://{AUTHORITY}{}", self.path);
        let mut request = Request::builder().method(Method::POST).uri(uri);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.header(CONTENT_LENGTH, self.body.len());
        let body = Full::new(Bytes::from(self.body)).map_err(|never| match never {});
        Ok(request.body(body)?)
    }
}
