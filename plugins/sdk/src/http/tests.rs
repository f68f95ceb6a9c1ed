use std::cell::RefCell;
use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::redirect::follow_with;
use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn ok(text: &str) -> Response {
    Response::for_tests(url(text), 200, &[], "")
}

fn moved(from: &str, status: u16, location: &str) -> Response {
    Response::for_tests(url(from), status, &[("Location", location)], "")
}

/// Sends `request` to a server that redirects once with `status`; says what the second request was.
fn second(request: Request, status: u16, location: &str) -> Request {
    let seen = RefCell::new(Vec::new());
    let answer = |request: &Request| {
        seen.borrow_mut().push(request.clone());
        let here = request.url().as_str();
        Ok(if seen.borrow().len() == 1 { moved(here, status, location) } else { ok(here) })
    };
    let response = follow_with(request, 5, answer).unwrap();
    assert_eq!(response.redirects(), 1);
    seen.into_inner().pop().unwrap()
}

fn get(text: &str) -> Request {
    Request::get(text).unwrap()
}

/// FU02: what is no request at all is refused before anything is sent.
#[test]
fn only_http_without_a_user() {
    let refused = |text: &str, why: &str| {
        let error = parse_url(text).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, why));
    };
    let scheme = |name| format!("the scheme `{name}` is not supported; only `http` and `https` are");
    for name in ["file", "ftp", "gopher", "data", "javascript", "ws"] {
        refused(&format!("{name}://x/"), &scheme(name));
    }
    refused("file:///etc/passwd", &scheme("file"));
    let user = "a URL with a user name or password in it is refused; remove what stands before `@`";
    refused("https://me@example.com/", user);
    refused("https://:secret@example.com/", user);
    refused("example.com/a", "`example.com/a` has no scheme; write `https://example.com/a`");
    refused("//example.com", "`//example.com` has no scheme; write `https://example.com`");
    refused("http://", "`http://` is not a URL: empty host");
    refused("http://[::1", "`http://[::1` is not a URL: invalid IPv6 address");
    refused(&format!("http://x/{}", "a".repeat(8192)), "a URL may have 8192 characters");
    assert_eq!(parse_url(" http://0x7f.1/ ").unwrap().host_str(), Some("127.0.0.1"));
}

#[test]
fn redirects_are_resolved_against_where_they_stand() {
    for (location, expected) in [
        ("/b", "https://example.com/b"),
        ("b?c=1", "https://example.com/a/b?c=1"),
        ("//other.example/x", "https://other.example/x"),
        ("http://other.example:81/", "http://other.example:81/"),
        ("?q", "https://example.com/a/start?q"),
    ] {
        let second = second(get("https://example.com/a/start"), 302, location);
        assert_eq!(second.url().as_str(), expected);
    }
    let second = second(get("https://example.com/a#part"), 301, "/b");
    assert_eq!(second.url().as_str(), "https://example.com/b#part");
}

/// FU02, FU03: a redirect is checked like the URL that a model wrote.
#[test]
fn redirects_to_anything_but_http_are_refused() {
    for (location, why) in [
        (
            "file:///etc/passwd",
            "redirected to `file:///etc/passwd`: the scheme `file` is not supported; only `http` and `https` are",
        ),
        (
            "https://me@x/",
            "redirected to `https://me@x/`: a URL with a user name or password in it is refused; remove what stands before `@`",
        ),
        ("http://[", "redirected to `http://[`, which is not a URL: invalid IPv6 address"),
    ] {
        let answer = |request: &Request| Ok(moved(request.url().as_str(), 302, location));
        let error = follow_with(get("https://example.com/"), 5, answer).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
}

/// FU03: the hop that failed is named.
#[test]
fn the_error_of_a_hop_names_it() {
    let answer = |request: &Request| match request.url().path() {
        "/" => Ok(moved("https://example.com/", 302, "http://169.254.169.254/latest")),
        _ => Err(Error::new(ErrorKind::Denied, "access was denied")),
    };
    let error = follow_with(get("https://example.com/"), 5, answer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(error.to_string(), "redirected to `http://169.254.169.254/latest`: access was denied");
}

/// FU03: the number of hops is bounded, and all have one deadline.
#[test]
fn redirects_end() {
    let deadlines = RefCell::new(Vec::new());
    let answer = |request: &Request| {
        deadlines.borrow_mut().push(request.deadline());
        Ok(moved("https://example.com/", 302, "/again"))
    };
    let error = follow_with(get("https://example.com/"), 10, answer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redirects);
    assert_eq!(
        error.to_string(),
        "more than 10 redirects; the next one leads to `https://example.com/again`"
    );
    let deadlines = deadlines.into_inner();
    assert_eq!(deadlines.len(), 11);
    assert!(deadlines.iter().all(|deadline| *deadline == deadlines[0]));
}

#[test]
fn other_answers_are_not_followed() {
    for (status, location) in [(200, Some("/b")), (300, Some("/b")), (304, Some("/b")), (302, None)] {
        let answer = |request: &Request| {
            let headers: Vec<_> = location.map(|location| ("location", location)).into_iter().collect();
            Ok(Response::for_tests(request.url().clone(), status, &headers, "body"))
        };
        let response = follow_with(get("https://example.com/"), 5, answer).unwrap();
        assert_eq!((response.status(), response.redirects()), (status, 0));
    }
}

#[test]
fn a_method_changes_as_browsers_change_it() {
    for (method, status, expected) in [
        ("GET", 301, "GET"),
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("PUT", 302, "PUT"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
    ] {
        let request = Request::new(method, url("https://example.com/"))
            .with_header("Content-Type", "text/plain")
            .with_header("X-Own", "1")
            .with_body("body");
        let second = second(request, status, "/b");
        assert_eq!(second.method, expected, "{method} {status}");
        let keeps_body = method == expected && method != "GET" && method != "HEAD";
        if keeps_body {
            assert_eq!((second.body.as_slice(), second.headers.len()), (&b"body"[..], 2));
        } else if method != expected {
            assert_eq!((second.body.as_slice(), second.headers.len()), (&b""[..], 1));
        }
    }
}

#[test]
fn who_asks_is_told_to_one_host_alone() {
    let request = || get("https://example.com/").with_header("Authorization", "x").with_header("accept", "y");
    assert_eq!(second(request(), 302, "/b").headers.len(), 2);
    for elsewhere in ["https://other.example/", "http://example.com/", "https://example.com:444/"] {
        let names: Vec<_> =
            second(request(), 302, elsewhere).headers.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["accept"], "{elsewhere}");
    }
}

fn packed(encoding: &str, body: Vec<u8>) -> Response {
    Response::for_tests(url("https://example.com/"), 200, &[("Content-Encoding", encoding)], body)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn packed_bodies_are_unpacked() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(b"text").unwrap();
    for response in [
        packed("gzip", gzip(b"text")),
        packed("X-GZip", gzip(b"text")),
        packed("deflate", zlib.finish().unwrap()),
        packed("identity", b"text".to_vec()),
    ] {
        let read = response.read(100);
        assert_eq!((read.bytes.as_slice(), read.cut, read.broken), (&b"text"[..], false, None));
    }
    let broken = packed("br", vec![1]).read(100).broken.unwrap();
    assert_eq!(broken.to_string(), "the answer is packed as `br`, which nobody asked for");
    let mut half = gzip(b"text");
    half.truncate(half.len() - 9);
    let broken = packed("gzip", half).read(100).broken.unwrap();
    assert!(broken.to_string().starts_with("the answer cannot be unpacked: "), "{broken}");
}

/// FU04: a body has a bound, packed or not.
#[test]
fn a_body_is_read_up_to_a_bound() {
    let bomb = gzip(&vec![b'0'; 50 << 20]);
    assert!(bomb.len() < 100_000);
    let read = packed("gzip", bomb).read(1 << 20);
    assert_eq!((read.bytes.len(), read.cut), (1 << 20, true));
    let exact = packed("identity", vec![b'x'; 10]).read(10);
    assert_eq!((exact.bytes.len(), exact.cut), (10, false));
    let over = packed("identity", vec![b'x'; 11]).read(10);
    assert_eq!((over.bytes.len(), over.cut), (10, true));
}

#[test]
fn headers_are_found_in_any_case() {
    let response =
        Response::for_tests(url("https://example.com/"), 200, &[("X-Own", "1"), ("x-own", "2")], "");
    assert_eq!(response.header("x-OWN").as_deref(), Some("1"));
    assert_eq!(response.header("x-other"), None);
}
