//! `wasi:http` for guests: requests to granted hosts, over connections that haft makes to checked addresses. haft
//! follows no redirect and uses no proxy: every hop is a separate request of the guest, checked like the first. No
//! connection is reused.

mod body;
pub(crate) mod client;
mod exchange;
pub(crate) mod injection;
mod mask;
pub(crate) mod responder;

use std::sync::Arc;

use hyper::{Method, Request, Uri};
use tokio::sync::Semaphore;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi_http::{
    Error, RequestOptions, Result, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
};

pub(crate) use self::client::Connector;
use self::exchange::{Exchange, Sent, Timeouts};
pub use self::injection::{Injection, InjectionError, Injections};
pub use self::responder::{CannedResponse, OutgoingRequest, Responder};
use crate::call::ActiveCall;
use crate::denials::denied_access::{NetworkDecisions, Refusal};
use crate::wasi::capability::{Capability, HasCapability, NewGuest};
use haft_core::grant::{Destination, Grant};
use haft_core::limit::Limits;
use haft_core::trace::TraceParent;

/// Maximum number of requests of one call. A tool makes a handful, a walk through the pages of an API some hundred;
/// more is a load on the server. Far below `MAX_RESOURCES`: wasmtime keeps the options of a request as long as the
/// guest lives.
const MAX_REQUESTS: usize = 500;

/// Maximum number of concurrent requests of one call, as many as a browser makes to three hosts. Further ones wait.
/// Each holds a connection.
const MAX_OPEN: usize = 16;

/// Refused methods: CONNECT requests a tunnel, the others a copy of the request, with the headers that haft added.
/// Browsers refuse these methods too.
const REFUSED_METHODS: &[&str] = &["CONNECT", "TRACE", "TRACK"];

/// Maximum number of characters of a method in a decision. The longest registered method has 17.
const MAX_METHOD: usize = 20;

pub(crate) struct Http {
    context: WasiHttpCtx,
    outgoing: Outgoing,
}

struct Outgoing {
    client: Arc<Connector>,
    grant: Arc<Grant>,
    injections: Injections,
    responder: Option<Arc<dyn Responder>>,
    decisions: NetworkDecisions,
    open: Arc<Semaphore>,
    requests: usize,
    trace: Option<TraceParent>,
}

impl Capability for Http {
    fn new(guest: &NewGuest<'_>) -> Self {
        let options = &guest.belongings.options;
        let outgoing = Outgoing {
            client: guest.connector.clone(),
            grant: guest.call.grant.clone(),
            injections: options.injections.clone(),
            responder: options.responder.clone(),
            decisions: guest.decisions.clone(),
            open: Arc::new(Semaphore::new(MAX_OPEN)),
            requests: 0,
            trace: None,
        };
        Self { context: WasiHttpCtx::new(), outgoing }
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        wasmtime_wasi_http::p3::add_to_linker(linker)
    }

    fn begin(&mut self, call: &ActiveCall) {
        self.outgoing.trace.clone_from(&call.trace);
    }

    fn renew(&mut self, _: &Limits) {
        self.outgoing.requests = 0;
    }
}

impl Http {
    pub(crate) fn context<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.outgoing, table, ctx: &mut self.context }
    }
}

impl Outgoing {
    /// Returns the exchange for a request.
    /// Errors: The destination is not granted or blocked, the method is refused, or the call has made too many requests.
    fn admit(&mut self, request: &Request<WasiBody>) -> Result<Exchange> {
        let method: String = request.method().as_str().chars().take(MAX_METHOD).collect();
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(self.refuse(&method, "too many requests", Error::ConnectionLimitReached));
        }
        let Some(destination) = destination(request.uri()) else {
            return Err(self.refuse(&method, "the host or port is invalid", Error::HttpRequestUriInvalid));
        };
        let what = format!("{method} {destination}");
        if is_refused(request.method()) {
            return Err(self.refuse(
                &what,
                "haft does not support such requests",
                Error::HttpRequestMethodInvalid,
            ));
        }
        if self.grant.blocks(&destination).is_some() {
            self.decisions.refuse(&what, "blocked");
            self.decisions.hint(Refusal::Blocked(destination));
            return Err(Error::HttpRequestDenied);
        }
        if !self.grant.may_ask(&destination) {
            self.decisions.refuse(&what, "not granted");
            self.decisions.hint(Refusal::Host(destination));
            return Err(Error::HttpRequestDenied);
        }
        Ok(Exchange {
            client: self.client.clone(),
            grant: self.grant.clone(),
            injections: self.injections.clone(),
            decisions: self.decisions.clone(),
            open: self.open.clone(),
            destination,
            what,
            trace: self.trace.clone(),
        })
    }

    fn refuse(&self, what: &str, why: &str, error: Error) -> Error {
        self.decisions.refuse(what, why);
        let why = format!("{what}: {why}; no key of program.toml allows it");
        self.decisions.hint(Refusal::Other(why));
        error
    }
}

fn destination(uri: &Uri) -> Option<Destination> {
    Destination::new(uri.scheme_str()?, uri.authority()?.as_str())
}

fn is_refused(method: &Method) -> bool {
    REFUSED_METHODS.iter().any(|refused| method.as_str().eq_ignore_ascii_case(refused))
}

impl WasiHttpHooks for Outgoing {
    /// `Exchange` sets it, from the destination that was checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<()>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent>> + Send> {
        let (exchange, responder) = (self.admit(&request), self.responder.clone());
        Box::new(async move {
            match responder {
                Some(responder) => exchange?.answered_by(&*responder, request).await,
                None => exchange?.run(request, Timeouts::from_options(options.as_ref())).await,
            }
        })
    }
}
