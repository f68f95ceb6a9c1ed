//! The requests of the streamable HTTP transport. Every response ends its request: a failure without a request id,
//! an HTML page, or an "accepted" without an answer ends it with the server's text.

mod stream;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::{Sse, SseStream};
use tokio_stream::Stream;

use self::stream::{bounded, messages};
use crate::client::ServerError;
use crate::client::calls::shortened;
use crate::client::handler::ServerNews;
use crate::client::message::{self, words};
use crate::client::oauth::Account;
use haft_core::json;
use haft_core::net::chain;
use haft_core::sync::Lock;

/// Maximum number of bytes of an answer, and of one event: the limit over standard streams.
const MAX_BODY: usize = 16 << 20;
/// Maximum number of bytes read of a failure.
const MAX_FAILURE: usize = 64 << 10;

const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A failure, reported unmodified.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::client) struct HttpFailure(pub(in crate::client) ServerError);

type Error = StreamableHttpError<HttpFailure>;
type Events = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;

/// Sends requests to one server.
#[derive(Clone)]
pub(in crate::client) struct HttpClient {
    pub(super) client: Client,
    /// What the server's messages report.
    pub(super) news: Arc<ServerNews>,
    /// The account whose tokens are sent if `Authorization` is not among the headers.
    pub(super) account: Option<Arc<Account>>,
    /// The id of the last event of the session's own stream, by which the stream is resumed.
    pub(super) last: Arc<Lock<Option<String>>>,
}

impl HttpClient {
    async fn token(&self) -> Result<Option<SecretString>, Error> {
        match &self.account {
            Some(account) => account.token().await.map_err(failed),
            None => Ok(None),
        }
    }

    async fn bearer(&self) -> Result<Option<String>, Error> {
        Ok(self.token().await?.map(|token| token.expose_secret().to_owned()))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.news.calls.note(&message);
        let send = async |token: Option<&SecretString>| {
            let mut request = self.client.post(&*uri).header(ACCEPT, [JSON, EVENTS].join(", "));
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            if let Some(session) = &session {
                request = request.header(SESSION, &**session);
            }
            if let Some(token) = token {
                request = request.bearer_auth(token.expose_secret());
            }
            request.json(&message).send().await.map_err(|error| unsent(&error))
        };
        let token = self.token().await?;
        let mut response = send(token.as_ref()).await?;
        let other = match (response.status(), &self.account) {
            (StatusCode::UNAUTHORIZED, Some(account)) => account.another(token).await.map_err(failed)?,
            // A person may have logged in with more scopes since.
            (StatusCode::FORBIDDEN, Some(account)) => account.newer(token.as_ref()).await.map_err(failed)?,
            _ => None,
        };
        // A refused request has had no effect.
        if let Some(other) = other {
            response = send(Some(&other)).await?;
        }
        let asked = Asked::of(&message);
        if response.status().is_success() {
            asked.answer(response, &self.news).await
        } else {
            asked.failure(response, session.is_some(), self.account.as_deref()).await
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        self.open(&uri, session.as_ref(), last_event.as_ref(), &headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let token = self.bearer().await?;
        self.client.delete_session(uri, session, token, headers).await.map_err(passed_on)
    }
}

struct Asked {
    /// The request that waits for an answer.
    id: Option<RequestId>,
    /// Whether the request asks for the supported protocol: servers that do not know the method answer in any way.
    is_discovery: bool,
}

impl Asked {
    fn of(message: &ClientJsonRpcMessage) -> Self {
        match message {
            ClientJsonRpcMessage::Request(request) => Self {
                id: Some(request.id.clone()),
                is_discovery: matches!(request.request, ClientRequest::DiscoverRequest(_)),
            },
            _ => Self { id: None, is_discovery: false },
        }
    }

    async fn answer(
        self,
        response: Response,
        news: &Arc<ServerNews>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let (status, kind) = (response.status(), kind(&response));
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if self.id.is_some() && kind.starts_with(EVENTS) {
            let bytes = Box::pin(bounded(response.bytes_stream()));
            let events = Box::pin(SseStream::from_bytes_stream(bytes));
            return Ok(StreamableHttpPostResponse::Sse(messages(events, self.id, news.clone()), session));
        }
        let Some(id) = self.id else { return Ok(StreamableHttpPostResponse::Accepted) };
        let body = body(response, MAX_BODY).await?;
        if status == StatusCode::ACCEPTED || body.trim_ascii().is_empty() {
            return Err(protocol(format!("it accepted the request ({status}) but sent no answer")));
        }
        if !kind.starts_with(JSON) {
            let kind = if kind.is_empty() { "no content type" } else { &kind };
            return Err(protocol(format!("it answered with {kind} instead of JSON: {}", words(&body))));
        }
        match answer_to(&id, &body, news) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(why) => Err(protocol(format!("{why}: {}", words(&body)))),
        }
    }

    async fn failure(
        self,
        mut response: Response,
        has_session: bool,
        account: Option<&Account>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        let at = response.url().clone();
        let challenge =
            response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_page = !kind(&response).starts_with(JSON);
        // The beginning of a body that is too long or incomplete contains the failure.
        let mut body = BytesMut::new();
        while body.len() < MAX_FAILURE
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        let said = words(&body);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(failed(unauthorized(status, &at, challenge.as_deref().unwrap_or(&said), account)));
        }
        if has_session && is_session_lost(status, &said) {
            return Err(StreamableHttpError::SessionExpired);
        }
        let error = error_in(&body).filter(|_| !is_page);
        match (self.id, error) {
            (Some(id), Some(error)) => {
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
            }
            (Some(id), None) if self.is_discovery && status.is_client_error() && !has_session => {
                let error = ErrorData::invalid_request(format!("it answered with {status}: {said}"), None);
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
            }
            _ if said.is_empty() => Err(protocol(format!("it answered with {status}"))),
            _ => Err(protocol(format!("it answered with {status}: {said}"))),
        }
    }
}

/// Returns the reason why the server refuses the request, from `challenge` or from its body: a missing or an
/// insufficient login (RFC 6750, section 3.1).
fn unauthorized(status: StatusCode, at: &Url, challenge: &str, account: Option<&Account>) -> ServerError {
    let said = shortened(format!("{}, {challenge}", status.as_u16()));
    let asked = WWWAuthenticateParams::parse(challenge, at);
    match account {
        Some(account) if asked.is_insufficient_scope() => account.refusal(said, asked.scope),
        Some(account) if status == StatusCode::UNAUTHORIZED => account.refusal(said, None),
        _ => ServerError::Unauthorized(said),
    }
}

/// Returns whether a server reports an unknown session, in which case it has not run the request. The
/// specification requires status 404; some servers report it as text.
fn is_session_lost(status: StatusCode, said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    status == StatusCode::NOT_FOUND
        || matches!(status, StatusCode::BAD_REQUEST | StatusCode::GONE | StatusCode::UNPROCESSABLE_ENTITY)
            && (said.contains("session") || said.contains("not initialized"))
}

/// Returns the error in a body, regardless of the request id in it: the body answers the sent request.
fn error_in(body: &[u8]) -> Option<ErrorData> {
    let error = json::read(body).ok()?.get("error")?.clone();
    let code =
        error.get("code").and_then(serde_json::Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message")?.as_str()?.to_owned();
    Some(ErrorData::new(ErrorCode(code?), message, error.get("data").cloned()))
}

/// Returns the message of `body` that answers the request `id`. A batch may report news before it.
fn answer_to(id: &RequestId, body: &[u8], news: &ServerNews) -> Result<ServerJsonRpcMessage, String> {
    let all = message::read(body).map_err(|_| "its answer is not a JSON-RPC 2.0 message".to_owned())?;
    let answers = all
        .into_iter()
        .inspect(|one| news.note(one))
        .filter(|one| matches!(one, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)));
    let mut answers: Vec<_> = answers.map(|answer| addressed(answer, Some(id))).collect();
    if answers.is_empty() {
        Err("it did not answer the request".to_owned())
    } else {
        Ok(answers.swap_remove(0))
    }
}

/// Addresses a message to its request: an error belongs to the request of the exchange, regardless of its id.
fn addressed(mut message: ServerJsonRpcMessage, id: Option<&RequestId>) -> ServerJsonRpcMessage {
    if let (ServerJsonRpcMessage::Error(error), Some(id)) = (&mut message, id) {
        error.id = Some(id.clone());
    }
    message
}

fn kind(response: &Response) -> String {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    shortened(kind.unwrap_or_default())
}

/// Reads at most `most` bytes of a body.
async fn body(mut response: Response, most: usize) -> Result<Bytes, Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unsent(&error))? {
        if body.len() + chunk.len() > most {
            return Err(protocol(format!("its answer has more than {} MiB", most >> 20)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn failed(error: ServerError) -> Error {
    StreamableHttpError::Client(HttpFailure(error))
}

fn protocol(why: String) -> Error {
    failed(ServerError::Protocol(shortened(why)))
}

/// Returns the error of a request that got no answer.
fn unsent(error: &reqwest::Error) -> Error {
    let text = shortened(chain(error));
    failed(if error.is_connect() || error.is_redirect() {
        ServerError::Unreachable(text)
    } else {
        ServerError::Lost(text)
    })
}

/// Converts an error of rmcp's own client.
fn passed_on(error: StreamableHttpError<reqwest::Error>) -> Error {
    match error {
        StreamableHttpError::Client(error) => match error.status() {
            Some(status) => protocol(format!("it answered with {status}")),
            None => unsent(&error),
        },
        StreamableHttpError::ServerDoesNotSupportSse => StreamableHttpError::ServerDoesNotSupportSse,
        StreamableHttpError::HttpStatus(status) => StreamableHttpError::HttpStatus(status),
        StreamableHttpError::SessionExpired => StreamableHttpError::SessionExpired,
        StreamableHttpError::AuthRequired(error) => StreamableHttpError::AuthRequired(error),
        StreamableHttpError::InsufficientScope(error) => StreamableHttpError::InsufficientScope(error),
        error => protocol(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_session_is_told_in_many_ways() {
        for (status, said, is_lost) in [
            (404, "", true),
            (400, "Bad Request: No valid session ID provided", true),
            (400, "Bad Request: Server not initialized", true),
            (400, "Invalid arguments", false),
            (410, "Session expired", true),
            (500, "session", false),
        ] {
            assert_eq!(
                is_session_lost(StatusCode::from_u16(status).unwrap(), said),
                is_lost,
                "{status} {said}"
            );
        }
    }
}
