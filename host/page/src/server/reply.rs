//! The responses of the dashboard and its embedded files: one HTML page, its style and its code, uPlot, which
//! draws the curves, and marked, which parses Markdown. The common headers forbid the browser to load anything
//! from elsewhere, to interpret text as HTML, to cache anything, and to embed the page in another one.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

pub(super) type Reply = Response<BoxBody<Bytes, Infallible>>;

const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// The page after a link: it leads on by a request of this page, because a cookie of this kind is not sent with
/// a request that another page began.
const ENTERED: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>haft</title>\
    <meta http-equiv=\"refresh\" content=\"0;url=/\"><p><a href=\"/\">Open the page</a></p></html>\n";

pub(super) fn with(status: StatusCode, media_type: &'static str, body: BoxBody<Bytes, Infallible>) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    with(status, media_type, Full::new(body.into()).boxed())
}

pub(super) fn asset(asset: &'static Asset) -> Reply {
    whole(StatusCode::OK, asset.media_type, asset.bytes)
}

pub(super) fn entered(cookie: &str) -> Reply {
    let mut reply = whole(StatusCode::OK, HTML, ENTERED);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        reply.headers_mut().insert(hyper::header::SET_COOKIE, cookie);
    }
    reply
}

pub(super) fn json(value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(text) => whole(StatusCode::OK, "application/json", text),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns an error response of one line.
pub(super) fn refused(status: StatusCode, why: &str) -> Reply {
    tracing::info!(status = status.as_u16(), why, "request to the page refused");
    whole(status, "text/plain; charset=utf-8", format!("{why}\n"))
}

pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

pub(super) const ASSETS: &[Asset] = &[
    Asset { path: "/", media_type: HTML, bytes: include_bytes!("../../assets/page.html") },
    Asset { path: "/page.css", media_type: CSS, bytes: include_bytes!("../../assets/page.css") },
    Asset { path: "/detail.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/detail.js") },
    Asset { path: "/live.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/live.js") },
    Asset { path: "/markdown.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/markdown.js") },
    Asset { path: "/marked.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/marked.js") },
    Asset { path: "/overview.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/overview.js") },
    Asset { path: "/page.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/page.js") },
    Asset { path: "/sessions.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/sessions.js") },
    Asset { path: "/text.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/text.js") },
    Asset { path: "/tools.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/tools.js") },
    Asset { path: "/waiting.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/waiting.js") },
    Asset { path: "/icon.svg", media_type: "image/svg+xml", bytes: include_bytes!("../../assets/icon.svg") },
    Asset { path: "/uplot.css", media_type: CSS, bytes: include_bytes!("../../assets/uplot.css") },
    Asset { path: "/uplot.js", media_type: SCRIPT, bytes: include_bytes!("../../assets/uplot.js") },
];

pub(crate) const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
