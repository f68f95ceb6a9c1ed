use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{Json, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, IncomingRequest, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam, Scheme,
};

#[derive(Clone)]
struct Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Terms {
    a: f64,
    b: f64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    to: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    url: String,
}

#[tool_router]
impl Server {
    #[tool(description = "Adds two numbers.", annotations(read_only_hint = true))]
    fn add(&self, Parameters(Terms { a, b }): Parameters<Terms>) -> Json<Sum> {
        Json(Sum { sum: (a + b) as i64 })
    }

    #[tool(description = "Counts, and tells how far it is.")]
    async fn count(
        &self,
        Parameters(Count { to }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> String {
        if let Some(token) = context.meta.get_progress_token() {
            for done in 1..=to {
                let progress = ProgressNotificationParam::new(token.clone(), done.into()).with_total(to.into());
                let _ = context.peer.notify_progress(progress).await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        format!("counted to {to}")
    }

    #[tool(description = "One variable.")]
    fn env(&self, Parameters(Name { name }): Parameters<Name>) -> String {
        std::env::var(name).unwrap_or_else(|_| "unset".into())
    }

    #[tool(description = "Gets a URL.")]
    fn get(&self, Parameters(Place { url }): Parameters<Place>) -> Result<String, String> {
        let url: http::Uri = url.parse().map_err(|error| format!("{error}"))?;
        let request = OutgoingRequest::new(Fields::new());
        request.set_scheme(Some(&Scheme::Http)).map_err(|()| "scheme")?;
        request.set_authority(url.authority().map(|own| own.as_str())).map_err(|()| "authority")?;
        request.set_path_with_query(Some(url.path())).map_err(|()| "path")?;
        let answered = outgoing_handler::handle(request, None).map_err(|error| error.to_string())?;
        answered.subscribe().block();
        let answer = answered.get().and_then(Result::ok).ok_or("no answer")?;
        Ok(answer.map_err(|error| error.to_string())?.status().to_string())
    }

    #[tool(description = "Fails.")]
    fn fail(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("it broke")])
    }
}

#[tool_handler]
impl ServerHandler for Server {}

struct Component;

wasip2::http::proxy::export!(Component);

impl wasip2::exports::http::incoming_handler::Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(answer(read(request), out));
    }
}

fn read(request: IncomingRequest) -> http::Request<Full<Bytes>> {
    let authority = request.authority().unwrap_or_default();
    let path = request.path_with_query().unwrap_or_default();
    let mut builder = http::Request::post(format!("http://{authority}{path}")).header("host", authority);
    for (name, value) in request.headers().entries() {
        builder = builder.header(name, value);
    }
    let body = request.consume().unwrap();
    let stream = body.stream().unwrap();
    let mut bytes = Vec::new();
    while let Ok(piece) = stream.blocking_read(65536) {
        bytes.extend(piece);
    }
    builder.body(Full::new(bytes.into())).unwrap()
}

async fn answer(request: http::Request<Full<Bytes>>, out: ResponseOutparam) {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    let service =
        StreamableHttpService::new(|| Ok(Server), Arc::new(NeverSessionManager::default()), config);
    let (head, mut body) = service.handle(request).await.into_parts();
    let headers: Vec<_> =
        head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let response = OutgoingResponse::new(Fields::from_list(&headers).unwrap());
    response.set_status_code(head.status.as_u16()).unwrap();
    let outgoing = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = outgoing.write().unwrap();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            for piece in data.chunks(4096) {
                stream.blocking_write_and_flush(piece).unwrap();
            }
        }
    }
    drop(stream);
    OutgoingBody::finish(outgoing, None).unwrap();
}
