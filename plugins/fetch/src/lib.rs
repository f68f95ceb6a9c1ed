//! `fetch_url`: the content of a URL, as text that a model can read. The host checks the destination of every
//! request, also of each redirect.

mod charset;
mod kind;
mod markdown;
mod page;
mod status;

use std::time::Duration;

use haft_plugin::http::{self, Bytes, ErrorKind, Request, Response};
use haft_plugin::{Context, Error, Hints, Output, Tool};

use self::kind::Kind;
use self::page::{Page, Window};

/// Characters of one answer, unless the call says otherwise.
const DEFAULT_CHARS: u32 = 8000;

/// Characters of one answer at most: those of `read`.
const MAX_CHARS: u32 = 50_000;

/// Bytes of a body that are read, unpacked: large pages have one or two million.
const MAX_BODY: usize = 4 << 20;

/// For all of it: redirects, waiting, and the reading of the body.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Redirects: browsers follow 20, honest sites need 2 or 3.
const MAX_REDIRECTS: usize = 10;

/// Who asks. Sites turn away whoever does not say.
const AGENT: &str = concat!("Mozilla/5.0 (compatible; haft/", env!("CARGO_PKG_VERSION"), ")");

/// What is welcome: what needs no conversion first.
const ACCEPT: &str = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/*;q=0.8, */*;q=0.5";

/// Fetches a web page or file by HTTP GET and answers with its status and its text. HTML becomes
/// Markdown: the main part of the page where it marks one. Shows at most 8000 characters; offset
/// reaches the rest.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct FetchUrl {
    /// The URL, beginning with https:// or http://.
    url: String,
    /// Show the body as it was sent, HTML included.
    #[serde(default)]
    raw: bool,
    /// Character to start at, counted from 0.
    #[serde(default)]
    offset: u64,
    /// How many characters to show, at most 50000.
    #[serde(default = "default_chars")]
    #[schemars(range(min = 1, max = 50_000))]
    max_chars: u32,
}

fn default_chars() -> u32 {
    DEFAULT_CHARS
}

impl Tool for FetchUrl {
    const NAME: &str = "fetch_url";
    const HINTS: Hints = Hints { open_world: true, ..Hints::READ_ONLY };

    fn call(self, _context: &Context) -> Result<Output, Error> {
        let request = Request::get(&self.url)
            .map_err(|error| Error::invalid(error.to_string()))?
            .with_header("user-agent", AGENT)
            .with_header("accept", ACCEPT)
            .with_header("accept-encoding", "gzip")
            .within(TIMEOUT);
        let response = http::follow(request, MAX_REDIRECTS).map_err(|error| self.failed(&error))?;
        self.answer(response).map(Output::from)
    }
}

impl FetchUrl {
    fn failed(&self, error: &http::Error) -> Error {
        let url = self.url.trim();
        let timeout = match error.kind() {
            ErrorKind::Timeout => format!("; it has {} s in all", TIMEOUT.as_secs()),
            _ => String::new(),
        };
        Error::failed(format!("cannot fetch `{url}`: {error}{timeout}"))
    }

    /// The answer to a call, from the answer to the request.
    fn answer(&self, response: Response) -> Result<String, Error> {
        let head = Head::of(&response);
        if let Some(length) = head.length.filter(|_| kind::is_never_text(head.content_type.as_deref())) {
            return Err(self.binary(&head, &format!("{length} bytes")));
        }
        let body = response.read(MAX_BODY);
        if let Some(error) = body.broken.as_ref().filter(|_| body.bytes.is_empty()) {
            return Err(self.failed(error));
        }
        let page = match kind::of(head.content_type.as_deref(), &body.bytes) {
            Kind::Binary => return Err(self.binary(&head, &size(&body))),
            Kind::Text => Page::of_text(charset::decode(&body.bytes, head.content_type.as_deref())),
            Kind::Html if self.raw => {
                Page::of_text(charset::decode(&body.bytes, head.content_type.as_deref()))
            }
            Kind::Html => {
                Page::of_html(charset::decode(&body.bytes, head.content_type.as_deref()), &head.url)
            }
        };
        let window = Window { offset: self.offset, most: self.max_chars.clamp(1, MAX_CHARS) };
        let shown = page.show(window)?;
        Ok(format!("{}{shown}{}", head.show(), remarks(&body)))
    }

    fn binary(&self, head: &Head, size: &str) -> Error {
        let kind = head.content_type.as_deref().unwrap_or("of unknown type");
        let (url, status) = (self.url.trim(), status::line(head.status));
        Error::failed(format!("`{url}` is no text: {status}, {kind}, {size}"))
    }
}

/// What is known of an answer before its body.
struct Head {
    status: u16,
    url: http::Url,
    redirects: usize,
    content_type: Option<String>,
    /// Bytes of the body as it is sent.
    length: Option<u64>,
}

/// Characters of a content type that are shown: what honest ones have.
const MAX_TYPE: usize = 100;

impl Head {
    fn of(response: &Response) -> Self {
        let printable = |value: &str| value.chars().filter(|c| !c.is_control()).take(MAX_TYPE).collect();
        Self {
            status: response.status(),
            url: response.url().clone(),
            redirects: response.redirects(),
            content_type: response.header("content-type").map(|value| printable(value.trim())),
            length: response.header("content-length").and_then(|length| length.trim().parse().ok()),
        }
    }

    /// The lines above the page.
    fn show(&self) -> String {
        let kind = self.content_type.as_deref().unwrap_or("no content type");
        let redirected = match self.redirects {
            0 => String::new(),
            _ => format!("Redirected to: {}\n", self.url),
        };
        format!("{}, {kind}\n{redirected}", status::line(self.status))
    }
}

fn size(body: &Bytes) -> String {
    if body.cut { format!("more than {MAX_BODY} bytes") } else { format!("{} bytes", body.bytes.len()) }
}

/// What a reader must know of a body that is not all there.
fn remarks(body: &Bytes) -> String {
    let cut = if body.cut {
        format!("\n(only the first {MAX_BODY} bytes of the body were read)")
    } else {
        String::new()
    };
    let broken = body.broken.as_ref().map(|error| format!("\n(the rest of the body is missing: {error})"));
    cut + &broken.unwrap_or_default()
}

haft_plugin::export!(FetchUrl);

#[cfg(test)]
mod tests;
