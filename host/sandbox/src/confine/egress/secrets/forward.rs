//! Judges the requests of one connection, and sends the permitted ones with their secrets.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::Connection;
use super::answer::AnswerBody;
use super::outside::Route;
use super::request::{self, WithoutTrailers, swap};
use super::{Held, Shared, answer, sigv4, upgrade};
use crate::confine::refusal::Refusal;
use haft_core::grant::Destination;
use haft_core::net::{chain, excerpt};
use haft_core::sync::Lock;

/// Time limit for the head of an answer: programs that wait for events ask again by then.
const ANSWER: Duration = Duration::from_mins(10);
/// Characters of a request in a refusal.
const MAX_SHOWN: usize = 200;

pub(super) struct Forward {
    pub(super) shared: Arc<Shared>,
    /// The host to which the connection was permitted; `None` if its name is not granted.
    pub(super) destination: Option<Destination>,
    pub(super) route: Arc<Route>,
    pub(super) is_h2: bool,
    pub(super) upgraded: Lock<JoinSet<()>>,
}

impl Forward {
    /// Waits for the end of a connection that was upgraded.
    pub(super) async fn upgraded(&self) {
        let upgraded = std::mem::take(&mut *self.upgraded.lock());
        upgraded.join_all().await;
    }

    /// Returns the answer to a request: the host's, or haft's own if it was not sent.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        match self.forward(request).await {
            Ok(answer) => answer::redacted(answer, &self.shared.redactor),
            Err((status, text)) => answer::own(status, &text),
        }
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, (StatusCode, String)> {
        let destination = self.permitted(&request)?;
        let held = self.held(&request, destination)?;
        let asks_upgrade = upgrade::is_asked(&request);
        let inside = asks_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        let invalid = |error: String| (StatusCode::BAD_REQUEST, error);
        let mut used = swap(&mut parts, &held).map_err(|error| invalid(error.to_string()))?;
        request::direct(&mut parts, destination).map_err(|error| invalid(error.to_string()))?;
        if asks_upgrade {
            upgrade::ask(&mut parts.headers);
        }
        used.extend(signed(&mut parts, &held)?);
        for name in used {
            let (host, secret) = (Some(destination.name().to_owned()), Some(name.to_owned()));
            let (others, address) = (Vec::new(), self.route.dial.address);
            let used = Connection { name: host, others, address, count: 1, secret, bytes: None };
            self.shared.records.connections.add(&used);
        }
        let request = Request::from_parts(parts, WithoutTrailers(body));
        let sent = timeout(ANSWER, self.route.client(self.is_h2).request(request)).await;
        let unreachable = |why: &str| format!("`{destination}` cannot be reached: {why}");
        let answer = sent.map_err(|_| (StatusCode::GATEWAY_TIMEOUT, unreachable("it does not answer")))?;
        let mut answer = answer.map_err(|error| (StatusCode::BAD_GATEWAY, unreachable(&chain(&error))))?;
        self.route.dial.answered();
        if answer.headers().get_all(TRANSFER_ENCODING).iter().any(is_compressed) {
            return Err((
                StatusCode::BAD_GATEWAY,
                unreachable("its answer is compressed for the connection"),
            ));
        }
        request::remove_hop_headers(answer.headers_mut());
        if let Some(inside) = inside.filter(|_| answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
            upgrade::ask(answer.headers_mut());
            let (outside, redactor) = (hyper::upgrade::on(&mut answer), self.shared.redactor.clone());
            self.upgraded.lock().spawn(upgrade::pass_on(inside, outside, redactor));
        }
        Ok(answer)
    }

    /// Returns the destination of the connection, if the request names it.
    fn permitted(&self, request: &Request<Incoming>) -> Result<&Destination, (StatusCode, String)> {
        let misdirected = |text: String| (StatusCode::MISDIRECTED_REQUEST, text);
        let Some(destination) = &self.destination else {
            return Err(misdirected(
                "this connection is for a host that is not granted at this address".into(),
            ));
        };
        let host = request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default());
        let authority = request.uri().authority().map(Authority::as_str);
        let is_other =
            |named: &str| Destination::new(destination.scheme().name(), named).as_ref() != Some(destination);
        let named = [host, authority].into_iter().flatten();
        if request.headers().get_all(HOST).iter().count() > 1
            || named.clone().any(is_other)
            || named.count() == 0
        {
            return Err(misdirected(format!(
                "this connection is for `{destination}`, the request for another host"
            )));
        }
        if matches!(*request.method(), Method::CONNECT | Method::TRACE)
            || !request.uri().path().starts_with('/')
        {
            let text = format!("{} requests are not passed on to hosts of secrets", request.method());
            return Err((StatusCode::METHOD_NOT_ALLOWED, text));
        }
        Ok(destination)
    }

    fn held(
        &self,
        request: &Request<Incoming>,
        to: &Destination,
    ) -> Result<Vec<&Held>, (StatusCode, String)> {
        let of_host = self.shared.held.iter().filter(|held| held.secret.is_for(to));
        let path = request.uri().path();
        let is_override = request::names_another(request);
        let (allowed, refused): (Vec<&Held>, Vec<&Held>) = of_host.partition(|Held { secret, .. }| {
            secret.allow.is_empty() || (!is_override && secret.allows(request.method().as_str(), to, path))
        });
        let Some(first) = refused.first().filter(|_| allowed.is_empty()) else { return Ok(allowed) };
        let request = excerpt(&format!("{} {to}{path}", request.method()), MAX_SHOWN);
        let request = self.shared.redactor.redact_owned(request);
        let refusal = Refusal::Request { secret: first.secret.name.clone(), request };
        let text = format!("refused to {refusal}: {}", refusal.allowing().unwrap_or_default());
        self.shared.records.refuse(refusal);
        Err((StatusCode::FORBIDDEN, text))
    }
}

/// Signs a request again that is signed with a placeholder. Returns the name of the secret.
fn signed<'h>(parts: &mut Parts, held: &[&'h Held]) -> Result<Option<&'h str>, (StatusCode, String)> {
    let is_signer =
        |held: &&&Held| held.access_key.as_ref().is_some_and(|id| sigv4::is_by(&parts.headers, id));
    let Some(Held { secret, .. }) = held.iter().find(is_signer) else { return Ok(None) };
    let Some(key) = &secret.access_key else { return Ok(None) };
    let name = secret.name.as_str();
    let unsignable = |error| {
        (StatusCode::NOT_IMPLEMENTED, format!("cannot sign the request with the secret `{name}`: {error}"))
    };
    sigv4::sign(parts, key, &secret.value).map_err(unsignable)?;
    Ok(Some(name))
}

fn is_compressed(encoding: &HeaderValue) -> bool {
    !encoding.as_bytes().eq_ignore_ascii_case(b"chunked")
}
