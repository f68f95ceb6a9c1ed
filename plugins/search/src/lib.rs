//! `web_search`: the results of a search engine's page. Requests only the configured endpoint; the found pages are
//! for `fetch_url`.

mod results;

use std::fmt::Write;
use std::time::Duration;

use haft_plugin::http::{self, ErrorKind, Request, Response, Url};
use haft_plugin::{Context, Error, Hints, Output, Tool};

use self::results::{Found, Hit};

/// The variable that says where to search: a URL that answers as `DuckDuckGo`'s page for browsers
/// without scripts does, and takes the query as `q`.
const ENDPOINT: &str = "SEARCH_URL";

/// Results that are shown.
const MAX_RESULTS: usize = 8;

/// For all of it.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Redirects, all to where the search itself may go.
const MAX_REDIRECTS: usize = 3;

/// Bytes of the page that are read: ten results have 30 thousand.
const MAX_PAGE: usize = 1 << 20;

/// Characters of a query: what the engine takes.
const MAX_QUERY: usize = 500;

/// Who asks. The engine turns away whoever does not say.
const AGENT: &str = concat!("Mozilla/5.0 (compatible; haft/", env!("CARGO_PKG_VERSION"), ")");

/// Searches the web. Answers with at most 8 results: title, URL and an excerpt; `fetch_url` reads
/// what they lead to.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct WebSearch {
    /// What to search for. `site:` and quotes work as in any search engine.
    query: String,
    /// Only what is not older than this.
    recency: Option<Recency>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Recency {
    Day,
    Week,
    Month,
    Year,
}

impl Tool for WebSearch {
    const NAME: &str = "web_search";
    const HINTS: Hints = Hints { read_only: true, open_world: true, ..Hints::NONE };

    fn call(self, _context: &Context) -> Result<Output, Error> {
        let endpoint = std::env::var(ENDPOINT).map_err(|_| {
            Error::failed(format!("nothing says where to search: the variable `{ENDPOINT}` is not set"))
        })?;
        let url = self.url(&endpoint)?;
        let request = Request::new("GET", url)
            .with_header("user-agent", AGENT)
            .with_header("accept", "text/html")
            .with_header("accept-encoding", "gzip")
            .within(TIMEOUT);
        let response = http::follow(request, MAX_REDIRECTS).map_err(|error| failed(&endpoint, &error))?;
        answer(&endpoint, response).map(Output::from)
    }
}

impl WebSearch {
    /// Where to look for the answer.
    fn url(&self, endpoint: &str) -> Result<Url, Error> {
        let query = self.query.trim();
        if query.is_empty() {
            return Err(Error::invalid("`query` is empty; say what to search for"));
        }
        if query.chars().nth(MAX_QUERY).is_some() {
            return Err(Error::invalid(format!("`query` may have {MAX_QUERY} characters")));
        }
        let mut url = http::parse_url(endpoint)
            .map_err(|error| Error::failed(format!("the endpoint of the search is wrong: {error}")))?;
        url.query_pairs_mut().append_pair("q", query);
        if let Some(recency) = self.recency {
            url.query_pairs_mut().append_pair("df", recency.code());
        }
        Ok(url)
    }
}

impl Recency {
    /// As the engine writes it.
    fn code(self) -> &'static str {
        match self {
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "m",
            Self::Year => "y",
        }
    }
}

fn failed(endpoint: &str, error: &http::Error) -> Error {
    let timeout = match error.kind() {
        ErrorKind::Timeout => format!("; it has {} s in all", TIMEOUT.as_secs()),
        _ => String::new(),
    };
    Error::failed(format!("cannot search at `{endpoint}`: {error}{timeout}"))
}

/// What to do where the engine does not want to be asked like this.
const OTHERWISE: &str = "try again later, or set `search_url` in `[builtins]` to another endpoint";

/// The answer to a call, from the answer to the request.
fn answer(endpoint: &str, response: Response) -> Result<String, Error> {
    let (status, url) = (response.status(), response.url().clone());
    let body = response.read(MAX_PAGE);
    if let Some(error) = &body.broken {
        return Err(failed(endpoint, error));
    }
    let found = results::of(&String::from_utf8_lossy(&body.bytes), &url);
    match found {
        // The wall comes with this status, or with 200.
        Found::Wall => Err(wall(endpoint)),
        Found::Hits(hits) if !hits.is_empty() => Ok(list(&hits)),
        _ if status == 202 => Err(wall(endpoint)),
        _ if !(200..300).contains(&status) => Err(Error::failed(format!(
            "cannot search at `{endpoint}`: it answered with HTTP {status}; {OTHERWISE}"
        ))),
        Found::Hits(_) | Found::Nothing => Ok("No results found.".into()),
        Found::Unknown => Err(Error::failed(format!(
            "the page of results at `{endpoint}` has another layout than haft knows; \
             set `search_url` in `[builtins]` to another endpoint, and report this"
        ))),
    }
}

fn wall(endpoint: &str) -> Error {
    Error::failed(format!(
        "the search at `{endpoint}` takes haft for a robot and asks for proof; {OTHERWISE}"
    ))
}

/// Three lines a result, numbered.
fn list(hits: &[Hit]) -> String {
    let mut list = String::new();
    for (number, hit) in (1..).zip(hits.iter().take(MAX_RESULTS)) {
        let Hit { title, url, snippet } = hit;
        // Writing to a string does not fail.
        let _ = write!(list, "{number}. {title}\n   {url}\n");
        if !snippet.is_empty() {
            let _ = writeln!(list, "   {snippet}");
        }
        list.push('\n');
    }
    list.trim_end().to_owned()
}

haft_plugin::export!(WebSearch);

#[cfg(test)]
mod tests;
