//! Extracts the results of a results page. Supports the two layouts that `DuckDuckGo` has for browsers without
//! scripts; an empty list needs the page's own statement that there are no results.

use haft_html::Node;
use haft_plugin::http::Url;

/// What a page of results shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Results, advertisements not among them; none where there was nothing else.
    Hits(Vec<Hit>),
    /// The page says that there is nothing.
    Nothing,
    /// The page wants to know whether a person asks.
    Wall,
    /// None of these.
    Unknown,
}

/// One result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) snippet: String,
}

/// Classes of a result's title, which is the link; of its text; and of what is paid for: of the
/// page `html` and of the page `lite`.
const TITLE: [&str; 2] = ["result__a", "result-link"];
const SNIPPET: [&str; 2] = ["result__snippet", "result-snippet"];
const PAID: [&str; 2] = ["result--ad", "result-sponsored"];

/// Classes of what says that nothing was found.
const NOTHING: [&str; 3] = ["no-results", "result--no-result", "no-results-message"];

/// What only the page has that asks for proof: an id or a class each.
const WALL: [&str; 4] = ["anomaly-modal", "anomaly-modal__modal", "challenge-form", "anomaly-modal__title"];

/// Its script.
const WALL_SCRIPT: &str = "anomaly.js";

/// Reads a page that came from `page`.
pub(crate) fn of(html: &str, page: &Url) -> Found {
    let document = haft_html::parse(html);
    let nodes = || document.root().descendants();
    if nodes().any(|node| has_any(node, &TITLE)) {
        return Found::Hits(hits(nodes(), page));
    }
    if nodes().any(is_wall) {
        Found::Wall
    } else if nodes().any(|node| has_any(node, &NOTHING)) {
        Found::Nothing
    } else {
        Found::Unknown
    }
}

fn is_wall(node: Node<'_>) -> bool {
    let loads = |name| node.attribute(name).is_some_and(|url| url.contains(WALL_SCRIPT));
    has_any(node, &WALL)
        || node.attribute("id").is_some_and(|id| WALL.contains(&id))
        || loads("src")
        || loads("action")
}

/// A title begins a result, the next excerpt belongs to it.
fn hits<'a>(nodes: impl Iterator<Item = Node<'a>>, page: &Url) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut wants_snippet = false;
    for node in nodes {
        if has_any(node, &TITLE) {
            let hit = hit(node, page).filter(|hit| hits.iter().all(|other| other.url != hit.url));
            wants_snippet = hit.is_some();
            hits.extend(hit);
        } else if has_any(node, &SNIPPET)
            && std::mem::take(&mut wants_snippet)
            && let Some(hit) = hits.last_mut()
        {
            hit.snippet = node.text();
        }
    }
    hits
}

fn hit(node: Node<'_>, page: &Url) -> Option<Hit> {
    let is_paid = node.ancestors().any(|outer| has_any(outer, &PAID));
    let url = destination(node.attribute("href")?, page)?;
    let title = node.text();
    (!is_paid && !title.is_empty()).then(|| Hit { title, url, snippet: String::new() })
}

/// Where a link leads, past the engine's own redirect; `None` for an advertisement.
fn destination(href: &str, page: &Url) -> Option<String> {
    let url = page.join(href.trim()).ok()?;
    let target = url.query_pairs().find(|(name, _)| name == "uddg").map(|(_, value)| value.into_owned());
    let url = match target.filter(|_| url.path().starts_with("/l/")) {
        Some(target) => Url::parse(&target).ok()?,
        None => url,
    };
    let is_paid = url.path() == "/y.js" && url.host_str().is_some_and(is_engine);
    (matches!(url.scheme(), "http" | "https") && !is_paid).then(|| url.into())
}

fn is_engine(host: &str) -> bool {
    host == "duckduckgo.com" || host.ends_with(".duckduckgo.com")
}

fn has_any(node: Node<'_>, classes: &[&str]) -> bool {
    classes.iter().any(|class| node.has_class(class))
}
