//! Responses of a plugin's tests, instead of those of the destinations. The guest's rights are checked before, as
//! for every request.

use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response};
use wasmtime_wasi_http::{Error, Result, WasiBody};

use super::body::RequestBody;
use super::exchange::{Exchange, Sent};
use crate::denials::denied_access::Refusal;

/// Answers requests instead of their destinations: no request leaves this machine.
pub trait Responder: Send + Sync {
    /// Returns the response to a permitted request; `None` refuses the connection.
    fn respond(&self, request: OutgoingRequest) -> Option<CannedResponse>;
}

/// A complete request of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingRequest {
    /// The method, in capital letters.
    pub method: String,
    /// The complete URL.
    pub url: String,
    /// The headers in order, without those that haft injects.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; at most 64 MiB.
    pub body: Vec<u8>,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannedResponse {
    /// The status, 100 to 999.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Exchange {
    pub(super) async fn answered_by(
        self,
        responder: &dyn Responder,
        request: Request<WasiBody>,
    ) -> Result<Sent> {
        let (head, body) = request.map(RequestBody::new).into_parts();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let asked = OutgoingRequest {
            method: head.method.to_string(),
            url: head.uri.to_string(),
            headers: headers.collect(),
            body: body.collect().await?.to_bytes().to_vec(),
        };
        let Some(response) = responder.respond(asked) else {
            self.decisions.refuse(&self.what, "the test has no answer");
            self.decisions.hint(Refusal::Other(format!("{}: the test has no answer", self.what)));
            return Err(Error::HttpRequestDenied);
        };
        self.decisions.allow(format_args!("{} (answered here)", self.what));
        Ok((canned(response)?, Box::new(async { Ok(()) })))
    }
}

fn canned(canned: CannedResponse) -> Result<Response<WasiBody>> {
    let body = Full::new(canned.body.into()).map_err(|never| match never {});
    let mut response = Response::new(WasiBody::new(body));
    *response.status_mut() = canned.status.try_into().map_err(|_| Error::HttpProtocolError)?;
    for (name, value) in canned.headers {
        let name: HeaderName = name.parse().map_err(|_| Error::HttpProtocolError)?;
        let value = HeaderValue::from_str(&value).map_err(|_| Error::HttpProtocolError)?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}
