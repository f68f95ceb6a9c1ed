//! The built-in `fetch_url` against servers on loopback, which `[builtins] fetch_allow` permits. The tests of `http`
//! cover public and private addresses.

use serde_json::json;

use crate::http::server::{Server, ok, redirect, with};
use crate::web::Web;

/// haft whose `fetch_url` can reach these servers.
pub(crate) fn allowing(servers: &[&Server]) -> Web {
    let hosts: Vec<String> = servers.iter().map(|server| server.url()).collect();
    Web::new(&format!("fetch_allow = {hosts:?}"))
}

pub(crate) fn says(web: &Web, url: &str) -> String {
    web.says("fetch_url", &json!({ "url": url }))
}

pub(crate) fn fails(web: &Web, url: &str) -> String {
    web.fails("fetch_url", &json!({ "url": url }))
}

fn typed(content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Serves a page for each path.
fn site() -> Server {
    Server::answering(|head| match head.split(' ').nth(1).unwrap_or_default() {
        "/page" => typed(
            "text/html; charset=utf-8",
            "<title>T</title><script>x()</script><h1>Head</h1><p>Hello <b>wörld</b> <a href='/x'>link</a>"
                .as_bytes(),
        ),
        "/json" => typed("application/json", b"{\"a\": [1,  2]}"),
        "/long" => typed("text/plain", "0123456789".repeat(2000).as_bytes()),
        "/latin1" => typed("text/html; charset=iso-8859-1", b"<p>caf\xe9"),
        "/sjis" => typed("text/html", b"<meta charset=shift_jis><p>\x93\xfa\x96\x7b"),
        "/binary" => typed("application/octet-stream", &(0..=255).collect::<Vec<u8>>()),
        "/image" => typed("image/png", b"\x89PNG\r\n\x1a\n"),
        "/missing" => with("404 Not Found", "content-type: text/html\r\n", "<h1>Nothing here</h1>"),
        "/busy" => with("503 Service Unavailable", "content-type: text/plain\r\nretry-after: 1\r\n", "later"),
        "/empty" => with("204 No Content", "", ""),
        "/gzip" => gzip(),
        "/there" => redirect("/page"),
        "/loop" => redirect("/loop"),
        "/file" => redirect("file:///etc/passwd"),
        "/short" => {
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\nshort".to_vec()
        }
        "/headers" => ok(head),
        path if path.starts_with("/to/") => redirect(path.strip_prefix("/to/").unwrap_or_default()),
        _ => with("500 Internal Server Error", "", "no such page in this test"),
    })
}

/// `<p>zipped <b>text</b>`, compressed by gzip.
fn gzip() -> Vec<u8> {
    const PACKED: &[u8] = include_bytes!("fetch/page.gz");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        PACKED.len()
    );
    [head.as_bytes(), PACKED].concat()
}

/// FU01: `fetch_url` shows the status, type, redirect, title and text of each kind of answer.
#[test]
fn pages_and_files_are_shown() {
    let site = site();
    let web = allowing(&[&site]);
    let at = |path: &str| format!("{}{path}", site.url());
    let link = at("/x");
    for (path, expected) in [
        (
            "/page",
            format!(
                "HTTP 200 OK, text/html; charset=utf-8\nTitle: T\n\n# Head\n\nHello **wörld** [link]({link})"
            ),
        ),
        (
            "/there",
            format!(
                "HTTP 200 OK, text/html; charset=utf-8\nRedirected to: {}\nTitle: T\n\n# Head\n\nHello **wörld** [link]({link})",
                at("/page")
            ),
        ),
        ("/json", "HTTP 200 OK, application/json\n\n{\"a\": [1,  2]}".into()),
        ("/latin1", "HTTP 200 OK, text/html; charset=iso-8859-1\n\ncafé".into()),
        ("/sjis", "HTTP 200 OK, text/html\n\n日本".into()),
        ("/gzip", "HTTP 200 OK, text/html\n\nzipped **text**".into()),
        ("/missing", "HTTP 404 Not Found, text/html\n\n# Nothing here".into()),
        ("/busy", "HTTP 503 Service Unavailable, text/plain\n\nlater".into()),
        ("/empty", "HTTP 204 No Content, no content type\n\n(no text)".into()),
    ] {
        assert_eq!(says(&web, &at(path)), expected, "{path}");
    }
    let raw = web.says("fetch_url", &json!({ "url": at("/page"), "raw": true }));
    assert!(raw.contains("<script>x()</script><h1>Head</h1>"), "{raw}");
}

/// FU01: a result has 8000 characters by default; `offset` and `max_chars` select other parts.
#[test]
fn long_texts_are_read_in_pieces() {
    let site = site();
    let web = allowing(&[&site]);
    let url = format!("{}/long", site.url());
    let first = says(&web, &url);
    assert!(first.contains(&"0123456789".repeat(800)) && !first.contains(&"0123456789".repeat(801)));
    assert!(
        first.ends_with("9\n...[truncated] (20000 total chars, showing first 8000; to read on: offset 8000)"),
        "{first}"
    );
    let rest = web.says("fetch_url", &json!({ "url": url, "offset": 19995, "max_chars": 3 }));
    assert!(
        rest.ends_with(
            "\n\n567\n...[truncated] (20000 total chars, showing 3 from offset 19995; to read on: offset 19998)"
        ),
        "{rest}"
    );
    let past = web.fails("fetch_url", &json!({ "url": url, "offset": 20000 }));
    assert_eq!(past, "invalid arguments: `offset` 20000 is past the end: the text has 20000 characters");
    let most = web.fails("fetch_url", &json!({ "url": url, "max_chars": 50_001 }));
    assert!(most.starts_with("invalid arguments: at `/max_chars`: "), "{most}");
}

/// FU01: requests identify haft in the header `user-agent`.
#[test]
fn requests_say_who_asks() {
    let site = site();
    let headers = says(&allowing(&[&site]), &format!("{}/headers", site.url()));
    for line in
        ["GET /headers HTTP/1.1", "user-agent: Mozilla/5.0 (compatible; haft/", "accept-encoding: gzip"]
    {
        assert!(headers.contains(line), "{headers}");
    }
}

#[test]
fn what_is_no_text_is_refused_with_its_type_and_size() {
    let site = site();
    let web = allowing(&[&site]);
    for (path, why) in [
        ("/binary", "HTTP 200 OK, application/octet-stream, 256 bytes"),
        ("/image", "HTTP 200 OK, image/png, 8 bytes"),
    ] {
        let url = format!("{}{path}", site.url());
        assert_eq!(fails(&web, &url), format!("Tool error: `{url}` is no text: {why}"));
    }
}

/// FU02: haft refuses other schemes, URLs with users, and URLs without a scheme before it sends a request.
#[test]
fn other_schemes_and_users_are_refused() {
    let site = site();
    let web = allowing(&[&site]);
    let user = site.url().replace("http://", "http://me:secret@");
    for (url, why) in [
        ("file:///etc/passwd", "the scheme `file` is not supported; only `http` and `https` are"),
        ("ftp://127.0.0.1/", "the scheme `ftp` is not supported; only `http` and `https` are"),
        (user.as_str(), "a URL with a user name or password in it is refused; remove what stands before `@`"),
        ("example.com/x", "`example.com/x` has no scheme; write `https://example.com/x`"),
    ] {
        assert_eq!(fails(&web, url), format!("invalid arguments: {why}"));
    }
    assert!(site.seen().is_empty());
}

/// FU02: haft refuses private addresses in every spelling; the refusal names the line that allows the address.
#[test]
fn private_addresses_are_refused() {
    let site = site();
    let web = Web::new("");
    let port = site.port();
    for (host, address, why) in [
        ("127.0.0.1", "127.0.0.1", "loopback address"),
        ("2130706433", "127.0.0.1", "loopback address"),
        ("0x7f.1", "127.0.0.1", "loopback address"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "loopback address"),
        ("[::1]", "::1", "loopback address"),
        ("0.0.0.0", "0.0.0.0", "unspecified address"),
        ("10.0.0.1", "10.0.0.1", "private address"),
        ("192.168.1.1", "192.168.1.1", "private address"),
        ("100.64.0.1", "100.64.0.1", "address of a provider's internal network"),
        ("198.18.0.1", "198.18.0.1", "benchmarking address"),
        ("240.0.0.1", "240.0.0.1", "reserved address"),
        ("[fd00::1]", "fd00::1", "private address"),
        ("169.254.169.254", "169.254.169.254", "address of a cloud's metadata service"),
    ] {
        let url = format!("http://{host}:{port}/page");
        let refused = fails(&web, &url);
        let expected = format!(
            "Tool error: cannot fetch `{url}`: access was denied: the host has a private or reserved address\nhint: "
        );
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(refused.contains(&format!("resolves to {address}: {why}")), "{refused}");
    }
    let refused = fails(&web, &format!("http://127.0.0.1:{port}/page"));
    let line = format!("add `fetch_allow = [\"http://127.0.0.1:{port}\"]` to `[builtins]`");
    assert!(refused.ends_with(&line), "{refused}");
    let refused = fails(&web, &format!("http://localhost:{port}/page"));
    assert!(
        refused.contains(&format!("add `fetch_allow = [\"http://localhost:{port}\"]` to `[builtins]`")),
        "{refused}"
    );
    assert!(site.seen().is_empty());
}

/// FU02: a blocked host is refused by name, as a subdomain, and after a redirect; `fetch_block` overrides
/// `fetch_allow`.
#[test]
fn blocked_hosts_are_refused() {
    let site = site();
    let url = site.url();
    let web = Web::new(&format!("fetch_allow = [{url:?}]\nfetch_block = [\"blocked.test\"]"));
    for host in ["blocked.test", "BLOCKED.test", "a.b.blocked.test"] {
        let refused = fails(&web, &format!("https://{host}/"));
        let hint =
            format!("hint: `https://{}` is blocked by `fetch_block` in `[builtins]`", host.to_lowercase());
        assert!(refused.ends_with(&hint), "{refused}");
    }
    let refused = fails(&web, &format!("{url}/to/https://a.blocked.test/x"));
    assert!(refused.contains("redirected to `https://a.blocked.test/x`: access was denied"), "{refused}");
    assert!(says(&web, &format!("{url}/json")).contains("HTTP 200"));
    let web = Web::new(&format!("fetch_allow = [{url:?}]\nfetch_block = [\"127.0.0.1\"]"));
    assert!(fails(&web, &format!("{url}/json")).contains("is blocked"));
}

/// FU03: haft checks the target of every redirect as it checks the first address.
#[test]
fn redirects_lead_only_where_a_request_may_go() {
    let (site, other) = (site(), Server::saying("127.0.0.1:0", "forbidden"));
    let web = allowing(&[&site]);
    for to in [
        format!("{}/", other.url()),
        format!("http://127.0.0.1:{}/", other.port()),
        format!("http://0x7f.1:{}/", other.port()),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://[::ffff:169.254.169.254]/".into(),
        "http://10.0.0.1/".into(),
    ] {
        let refused = fails(&web, &format!("{}/to/{to}", site.url()));
        assert!(refused.contains("redirected to `http://"), "{refused}");
        assert!(
            refused.contains("access was denied: the host has a private or reserved address"),
            "{refused}"
        );
    }
    assert!(other.seen().is_empty());
    let refused = fails(&web, &format!("{}/file", site.url()));
    assert!(
        refused.contains("redirected to `file:///etc/passwd`: the scheme `file` is not supported"),
        "{refused}"
    );
    let both = allowing(&[&site, &other]);
    assert!(says(&both, &format!("{}/to/{}/", site.url(), other.url())).ends_with("forbidden"));
}

/// FU03: haft follows at most 10 redirects.
#[test]
fn redirects_end() {
    let site = site();
    let url = format!("{}/loop", site.url());
    let refused = fails(&allowing(&[&site]), &url);
    let expected =
        format!("Tool error: cannot fetch `{url}`: more than 10 redirects; the next one leads to `{url}`");
    assert_eq!(refused, expected);
    assert_eq!(site.seen().len(), 11);
}

/// FU04: `--allow host=…` also allows a host for `fetch_url`.
#[test]
fn the_command_line_allows_a_host() {
    let site = site();
    let allow = format!("host={}", site.url());
    let web = Web::new("").with(&["--allow", &allow]);
    assert!(says(&web, &format!("{}/json", site.url())).contains("HTTP 200"));
}

/// FU04: haft refuses a declared body of 1 GiB, and reads only the first 4 MiB of a body without a declared length.
#[test]
fn a_gigabyte_is_bounded() {
    let large = Server::at("127.0.0.1:0", |head, stream| {
        let kind = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
        let length = if kind == "declared" { "content-length: 1073741824\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/{kind}\r\n{length}\r\n");
        let _ = stream.write_all(head.as_bytes());
        let piece = "<p>x <b>y</b>\n".repeat(10_000);
        while stream.write_all(piece.as_bytes()).is_ok() {}
    });
    let web = allowing(&[&large]);
    let refused = fails(&web, &format!("{}/declared", large.url()));
    assert!(refused.contains(": the answer is too large: 1073741824 bytes"), "{refused}");
    let text = says(&web, &format!("{}/plain", large.url()));
    assert!(
        text.ends_with(
            "(4194304 total chars, showing first 8000; to read on: offset 8000)\n\
             (only the first 4194304 bytes of the body were read)"
        ),
        "{text}"
    );
    let page = says(&web, &format!("{}/html", large.url()));
    assert!(
        page.starts_with("HTTP 200 OK, text/html\n(the page is too large or too deeply nested"),
        "{page}"
    );
    assert!(page.contains("x **y**\n\nx **y**"), "{page}");
}

/// FU04: pages that would exhaust memory or stack give a result, never a trap.
#[test]
fn hostile_pages_are_survived() {
    const OPEN: &[&str] = &[
        "<div>",
        "<b>",
        "<a>",
        "<blockquote>",
        "<ul><li>",
        "<table><tr><td>",
        "<p>x",
        "<svg><g>",
        "<x-y z=1>",
    ];
    let hostile = Server::answering(|head| {
        if head.starts_with("GET /lines") {
            let page = format!("{}<pre>{}", "<ul><li><blockquote>".repeat(12), "x\n".repeat(1 << 20));
            return typed("text/html", page.as_bytes());
        }
        let number: usize =
            head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').parse().unwrap();
        let open = OPEN[number];
        typed("text/html", open.repeat((4 << 20) / open.len()).as_bytes())
    });
    let web = allowing(&[&hostile]);
    assert!(says(&web, &format!("{}/lines", hostile.url())).contains("\nx\nx\n"));
    for (number, open) in OPEN.iter().enumerate() {
        let text = says(&web, &format!("{}/{number}", hostile.url()));
        assert!(text.starts_with("HTTP 200 OK, text/html\n"), "{open}: {text}");
    }
}

/// FU04: a request to a silent server ends after 20 s.
#[test]
fn the_timeout_holds() {
    let silent = Server::at("127.0.0.1:0", |_, _| {});
    let refused = fails(&allowing(&[&silent]), &silent.url());
    assert!(refused.starts_with(&format!("Tool error: cannot fetch `{}`: ", silent.url())), "{refused}");
    assert!(refused.contains("too long") && refused.ends_with("; it has 20 s in all"), "{refused}");
}

/// If the connection breaks, the result has the received part of the body and a note; a refused connection is an
/// error.
#[test]
fn a_broken_connection_is_told() {
    let short = Server::at("127.0.0.1:0", |_, stream| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
        // A chunk that is shorter than its declared length, followed by an invalid chunk.
        let _ = stream.write_all(&[head.as_slice(), b"5\r\nshort\r\nnonsense\r\n"].concat());
    });
    let text = says(&allowing(&[&short]), &short.url());
    assert!(
        text.starts_with("HTTP 200 OK, text/plain\n\nshort\n(the rest of the body is missing: "),
        "{text}"
    );
    let nobody = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let url = format!("http://{nobody}/");
    let refused = fails(&Web::new(&format!("fetch_allow = [{:?}]", format!("http://{nobody}"))), &url);
    assert_eq!(refused, format!("Tool error: cannot fetch `{url}`: the host refused the connection"));
}

/// RG04: `fetch = false` removes the tool; with `fetch_confirm` it does not run if no person can approve the call.
#[test]
fn fetch_can_be_switched_off() {
    let call = ["call", "fetch_url", r#"{"url": "http://127.0.0.1:1/"}"#];
    let off = Web::new("fetch = false").haft(&call);
    assert!(off.contains("Unknown tool: fetch_url"), "{off}");
    let asking = Web::new("fetch_confirm = true").haft(&call);
    assert!(asking.contains("`fetch_url` did not run: it needs a person's approval"), "{asking}");
}
