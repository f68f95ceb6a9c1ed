//! The embedded files of the page: one HTML page, its style and its code, uPlot, which draws the curves, and
//! marked, which parses Markdown.

/// A file.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// All files.
const ASSETS: &[Asset] = &[
    Asset { path: "/", media_type: HTML, bytes: include_bytes!("../assets/page.html") },
    Asset { path: "/page.css", media_type: CSS, bytes: include_bytes!("../assets/page.css") },
    Asset { path: "/detail.js", media_type: SCRIPT, bytes: include_bytes!("../assets/detail.js") },
    Asset { path: "/live.js", media_type: SCRIPT, bytes: include_bytes!("../assets/live.js") },
    Asset { path: "/markdown.js", media_type: SCRIPT, bytes: include_bytes!("../assets/markdown.js") },
    Asset { path: "/marked.js", media_type: SCRIPT, bytes: include_bytes!("../assets/marked.js") },
    Asset { path: "/overview.js", media_type: SCRIPT, bytes: include_bytes!("../assets/overview.js") },
    Asset { path: "/page.js", media_type: SCRIPT, bytes: include_bytes!("../assets/page.js") },
    Asset { path: "/sessions.js", media_type: SCRIPT, bytes: include_bytes!("../assets/sessions.js") },
    Asset { path: "/text.js", media_type: SCRIPT, bytes: include_bytes!("../assets/text.js") },
    Asset { path: "/tools.js", media_type: SCRIPT, bytes: include_bytes!("../assets/tools.js") },
    Asset { path: "/waiting.js", media_type: SCRIPT, bytes: include_bytes!("../assets/waiting.js") },
    Asset { path: "/icon.svg", media_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
    Asset { path: "/uplot.css", media_type: CSS, bytes: include_bytes!("../assets/uplot.css") },
    Asset { path: "/uplot.js", media_type: SCRIPT, bytes: include_bytes!("../assets/uplot.js") },
];

pub(crate) const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns the file at `path`.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
