//! The admission of browsers, and refused requests.

use std::io::Read;

use flate2::Compression;
use flate2::read::GzEncoder;

use super::browser::{Browser, TOKEN};
use crate::serve::Stage;
use crate::serve::http::Site;

/// All files of the dashboard.
const FILES: &[&str] = &[
    "/",
    "/page.css",
    "/page.js",
    "/text.js",
    "/detail.js",
    "/waiting.js",
    "/live.js",
    "/tools.js",
    "/overview.js",
    "/sessions.js",
    "/markdown.js",
    "/marked.js",
    "/icon.svg",
    "/uplot.css",
    "/uplot.js",
];

const DATA: &[&str] = &[
    "/api/overview",
    "/api/calls",
    "/api/call?id=0",
    "/api/tools",
    "/api/sessions",
    "/api/session?id=0",
    "/events",
];

/// The link admits one browser once; without the browser's cookie haft serves nothing.
#[test]
fn a_link_lets_in_one_browser_once() {
    let stage = Stage::new("");
    let mut browser = Browser::start(&stage, &["dashboard"]);
    let strangers = |browser: &Browser, cookie: &str| {
        for path in FILES.iter().chain(DATA) {
            let reply = browser.send("GET", path, &[("cookie", cookie)], "");
            assert_eq!(reply.status, 403, "{path}: {reply:?}");
            assert!(
                reply.body.contains(
                    "the dashboard opens with a link that works once, in one browser; \
                `haft dashboard` prints another link"
                ),
                "{path}: {reply:?}"
            );
            assert!(!reply.body.contains('<'), "{path}: {reply:?}");
        }
    };
    strangers(&browser, "");
    assert_eq!(browser.send("GET", "/open/", &[], "").status, 403);
    assert_eq!(browser.send("GET", "/open/0123456789abcdefghijkl", &[], "").status, 403);
    browser.enter();
    let again = browser.send("GET", &browser.link, &[("cookie", "")], "");
    assert_eq!((again.status, again.header("set-cookie")), (403, None), "a second browser: {again:?}");
    let replayed = browser.get(&browser.link);
    assert_eq!(replayed.status, 403, "the first one again: {replayed:?}");
    strangers(&browser, "haft-page=1");
    strangers(&browser, &format!("{}x", browser.cookie));
    for path in FILES {
        assert_eq!(browser.get(path).status, 200, "{path}");
    }
}

/// Every answer forbids the browser to load foreign content and to interpret texts as HTML.
#[test]
fn every_answer_binds_the_browser() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    for path in FILES.iter().chain(&DATA[..5]).chain(&["/nothing", "/open/x"]) {
        let reply = browser.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{path}: {policy}");
        for part in [
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{path}: {policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
}

/// haft refuses requests of another page, for another host name or from another local port, also with the cookie that
/// the browser sends.
#[test]
fn other_pages_are_refused() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let port = browser.host.rsplit(':').next().unwrap();
    for host in [
        "evil.test",
        &format!("evil.test:{port}"),
        &format!("localhost:{port}"),
        &format!("127.0.0.1:{port}"),
    ] {
        let reply = browser.send("GET", "/api/calls", &[("host", host)], "");
        assert_eq!(reply.status, 403, "rebinding, {host}: {reply:?}");
    }
    for origin in ["https://evil.test", "null", &format!("http://localhost:{port}"), "http://127.0.0.1:3000"]
    {
        for (method, path) in [("GET", "/api/calls"), ("GET", "/events"), ("POST", "/api/answer")] {
            let reply = browser.send(method, path, &[("origin", origin)], "");
            assert_eq!(reply.status, 403, "{origin} {path}: {reply:?}");
        }
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(browser.send("GET", "/", &[("sec-fetch-site", site)], "").status, 403, "{site}");
    }
    // A form of another page cannot send JSON.
    for (name, value) in [("origin", ""), ("content-type", "text/plain"), ("content-type", "")] {
        assert_eq!(
            browser.send("POST", "/api/answer", &[(name, value)], "{}").status,
            403,
            "{name} `{value}`"
        );
    }
    assert_eq!(browser.send("POST", "/api/answer", &[], "{}").status, 400);
    assert_eq!(browser.send("POST", "/api/answer", &[], &"x".repeat(5000)).status, 400);
    assert_eq!(browser.send("POST", "/api/calls", &[], "{}").status, 404);
    assert_eq!(browser.send("DELETE", "/api/calls", &[], "").status, 405);
}

/// The token of a `haft serve` client does not open the dashboard, and the dashboard's cookie is not a token.
#[test]
fn a_client_s_token_is_none_of_the_page_s() {
    let stage = Stage::new("");
    let arguments = ["serve", "--page", "--http", "127.0.0.1:0", "--token-env", "HAFT_TEST_TOKEN"];
    let mut browser = Browser::start(&stage, &arguments);
    let bearer = format!("Bearer {TOKEN}");
    for path in ["/", "/api/calls", "/events", "/mcp"] {
        let reply = browser.send("GET", path, &[("authorization", &bearer)], "");
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
    }
    let reply = browser.send("POST", "/api/answer", &[("authorization", &bearer)], "{}");
    assert_eq!(reply.status, 403, "{reply:?}");
    browser.enter();
    assert_eq!(browser.get("/").status, 200);
    assert_eq!(browser.get("/mcp").status, 404);
    let site = Site::open(&stage);
    let reply = site.send("POST", &[("authorization", ""), ("cookie", &browser.cookie)], b"{}");
    assert_eq!(reply.status, 401, "{reply:?}");
}

/// The dashboard listens on loopback addresses alone.
#[test]
fn only_this_machine_is_listened_to() {
    let stage = Stage::new("");
    let output = stage.command(&["dashboard", "--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is reachable from other machines"), "{said}");
    let browser = Browser::start(&stage, &["dashboard", "--listen", "127.0.0.1:0"]);
    assert!(browser.host.starts_with("127.0.0.1:"), "{}", browser.host);
    let name = format!("localhost:{}", browser.host.rsplit(':').next().unwrap());
    assert!(browser.send("GET", "/", &[("host", &name)], "").body.contains("a link that works once"));
    #[cfg(target_os = "linux")]
    {
        let host = Browser::start(&stage, &["dashboard"]).host.clone();
        assert!(host.starts_with("127.") && !host.starts_with("127.0.0.1:"), "{host}");
    }
}

/// The dashboard is at most 60 KiB compressed, and loads nothing from other servers.
#[test]
fn the_page_is_small_and_whole() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let mut size = 0;
    for path in FILES {
        let body = browser.get(path).body;
        let mut small = Vec::new();
        GzEncoder::new(body.as_bytes(), Compression::best()).read_to_end(&mut small).unwrap();
        size += small.len();
        // Namespaces, names of projects and a prefix in code: the browser loads none of them.
        let named = [
            "http://www.w3.org/2000/svg",
            "https://github.com/leeoniya/uPlot",
            "https://github.com/markedjs/marked",
            "\"http://\"+",
        ];
        let own = named.iter().fold(body, |body, name| body.replace(name, ""));
        for foreign in ["http:", "https:", "@import", "innerHTML", "document.write", "eval("] {
            assert!(!own.contains(foreign), "{path} has `{foreign}`");
        }
    }
    assert!(size <= 60 << 10, "{size} bytes");
}
