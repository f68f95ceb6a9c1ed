//! The network access of a guest: granted hosts at public or granted addresses, within limits of time and size.
//! Servers run on loopback; `namespace` has the tests that need public addresses.

mod namespace;
mod secrets;
pub(crate) mod server;

use haft::event::Event;
use haft::grant::{Grant, HostPattern};
use haft::limit::Limits;
use serde_json::json;

use self::server::{Server, ok, redirect, with};
use crate::common::HANG;
use crate::common::wait::{eventually, within};
use crate::guest::{Guest, briefly};

/// A grant of only these hosts.
fn hosts(hosts: &[&str]) -> Grant {
    hosts.iter().fold(Grant::none(), |grant, host| grant.with_host(host.parse().unwrap()))
}

/// The network decisions that the journal receives.
fn decisions(guest: &Guest) -> Vec<String> {
    let decision = |event| match event {
        Event::Decided { decision, .. } => Some(decision),
        _ => None,
    };
    guest.received().into_iter().filter_map(decision).collect()
}

/// WA02, WA05: a component that imports `wasi:http` runs without a grant, but every request is refused.
#[tokio::test]
async fn without_a_grant_no_request_is_made() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let guest = Guest::new(Grant::none()).await;
    let url = server.url();
    let refused = guest.fails("http_get", json!({ "url": format!("{url}/secret?path") })).await;
    assert_eq!(
        refused,
        format!(
            "Tool error: ErrorCode::HttpRequestDenied\n\
             hint: to allow the request, add `hosts = [\"{url}\"]` to `[plugins.grant]` of `guest`"
        )
    );
    assert_eq!(decisions(&guest), [format!("refused GET {url}: not granted")]);
    let refused = guest.fails("http_get", json!({ "url": "https://api.test:8443/" })).await;
    assert!(refused.contains("add `hosts = [\"https://api.test:8443\"]` to"), "{refused}");
    assert!(server.seen().is_empty());
}

/// FU04: a granted address answers; other addresses, names and spellings of it are refused.
#[tokio::test]
async fn a_granted_address_answers_and_no_other() {
    let granted = Server::saying("127.0.0.1:0", "hello");
    let other = Server::saying("127.0.0.1:0", "other");
    let guest = Guest::new(hosts(&[&granted.url()])).await;
    let answer =
        guest.says("http_get", json!({ "url": granted.url(), "headers": { "x-asks": "a guest" } })).await;
    assert_eq!(answer, "200\ncontent-length: 5\n\nhello");
    let seen = granted.seen().concat().to_ascii_lowercase();
    assert!(seen.starts_with("get / http/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("\r\nhost: {}\r\n", granted.address)), "{seen}");
    assert!(seen.contains("\r\nx-asks: a guest\r\n"), "{seen}");
    assert_eq!(decisions(&guest), [format!("allowed GET {} (127.0.0.1)", granted.url())]);
    let port = granted.port();
    for url in [
        other.url(),
        format!("http://127.0.0.2:{port}"),
        format!("http://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("http://[::1]:{port}"),
        format!("http://127.1:{port}"),
        format!("http://2130706433:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        "http://127.0.0.1".into(),
    ] {
        let refused = guest.fails("http_get", json!({ "url": url })).await;
        assert!(refused.starts_with("Tool error: ErrorCode::HttpRequestDenied\n"), "{url}: {refused}");
    }
    assert_eq!((granted.seen().len(), other.seen().len()), (1, 0));
}

/// FU04: a grant of `localhost` allows requests to the name `localhost`, but not to the address.
#[tokio::test]
async fn localhost_is_granted_by_its_name() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let (named, port) = (format!("http://localhost:{}", server.port()), server.port());
    let guest = Guest::new(hosts(&[&named])).await;
    assert!(guest.says("http_get", json!({ "url": named })).await.ends_with("\n\nhello"));
    let by_address = guest.fails("http_get", json!({ "url": server.url() })).await;
    assert!(by_address.contains("HttpRequestDenied"), "{by_address}");
    // The name is granted for requests, not for sockets.
    let socket = guest.fails("connect", json!({ "addr": format!("127.0.0.1:{port}") })).await;
    assert!(socket.contains("Permission denied"), "{socket}");
    assert_eq!(server.seen().len(), 1);
}

/// FU02: `*` grants every public host, but no address of this machine or of a private network.
#[tokio::test]
async fn every_public_host_is_not_this_machine() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let guest = Guest::new(Grant::none().with_host(HostPattern::any())).await;
    let port = server.port();
    for (host, why) in [
        ("127.0.0.1", "resolves to 127.0.0.1: loopback address"),
        ("localhost", ": loopback address"),
        ("127.1", "resolves to 127.0.0.1: loopback address"),
        ("2130706433", "resolves to 127.0.0.1: loopback address"),
        ("0x7f000001", "resolves to 127.0.0.1: loopback address"),
        ("0", "resolves to 0.0.0.0: unspecified address"),
        ("[::1]", "resolves to ::1: loopback address"),
        ("[::]", "resolves to ::: unspecified address"),
        ("[::ffff:127.0.0.1]", "resolves to ::ffff:127.0.0.1: loopback address"),
        ("[64:ff9b::7f00:1]", "resolves to 64:ff9b::7f00:1: loopback address"),
        ("[2002:7f00:1::]", "resolves to 2002:7f00:1::: tunnel address"),
        ("10.0.0.1", "resolves to 10.0.0.1: private address"),
        ("100.64.0.1", "resolves to 100.64.0.1: address of a provider's internal network"),
        ("169.254.169.254", "resolves to 169.254.169.254: address of a cloud's metadata service"),
        ("[fd00:ec2::254]", "resolves to fd00:ec2::254: address of a cloud's metadata service"),
    ] {
        let refused = guest.fails("http_get", json!({ "url": format!("http://{host}:{port}/") })).await;
        assert!(
            refused.starts_with("Tool error: ErrorCode::DestinationIpProhibited\nhint: "),
            "{host}: {refused}"
        );
        assert!(refused.contains(why), "{host}: {refused}");
    }
    assert!(server.seen().is_empty());
    // The proposed line allows the address; for a cloud's metadata service haft proposes no line.
    let url = server.url();
    let refused = guest.fails("http_get", json!({ "url": url })).await;
    let line = format!("; to allow that address, add `hosts = [\"{url}\"]` to `[plugins.grant]` of `guest`");
    assert!(refused.ends_with(&line), "{refused}");
    let refused = guest.fails("http_get", json!({ "url": "http://169.254.169.254/latest" })).await;
    assert!(!refused.contains("to allow"), "{refused}");
    let both = Guest::new(hosts(&["*", &url])).await;
    assert!(both.says("http_get", json!({ "url": url })).await.ends_with("hello"));
}

/// haft refuses ambiguous destinations, and methods and headers that a guest cannot set.
#[tokio::test]
async fn odd_destinations_and_methods_are_refused() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let (url, port) = (server.url(), server.port());
    let guest = Guest::new(hosts(&["*", &url])).await;
    for authority in [
        format!("user@127.0.0.1:{port}"),
        format!("api.test:80@127.0.0.1:{port}"),
        "127.0.0.1:".into(),
        "127.0.0.1:0".into(),
        "127.0.0.1:99999".into(),
        "api.test.".into(),
        "[v1.x]".into(),
    ] {
        let refused = guest.fails("http_get", json!({ "url": url, "authority": authority })).await;
        let known = refused.contains("HttpRequestUriInvalid") || refused.contains("the authority is none");
        assert!(known, "{authority}: {refused}");
    }
    for method in ["CONNECT", "connect", "TRACE", "Track"] {
        let refused = guest.fails("http_get", json!({ "url": url, "method": method })).await;
        assert!(refused.contains("HttpRequestMethodInvalid"), "{method}: {refused}");
    }
    for header in ["host", "connection", "transfer-encoding", "proxy-authorization", "upgrade"] {
        let refused = guest.fails("http_get", json!({ "url": url, "headers": { header: "x" } })).await;
        assert!(refused.contains("HeaderError::Forbidden"), "{header}: {refused}");
    }
    let other = guest.fails("http_get", json!({ "url": format!("ftp://127.0.0.1:{port}/") })).await;
    assert!(other.contains("HttpProtocolError"), "{other}");
    assert!(server.seen().is_empty());
}

/// FU03: haft does not follow redirects; the guest's next request is checked as its first.
#[tokio::test]
async fn a_redirect_is_a_new_request() {
    let inside = Server::saying("127.0.0.1:0", "inside");
    let target = inside.url();
    let first = Server::answering(move |_| redirect(&target));
    let guest = Guest::new(hosts(&[&first.url()])).await;
    let answer = guest.says("http_get", json!({ "url": first.url() })).await;
    assert!(answer.starts_with("302\n") && answer.contains(&inside.url()), "{answer}");
    let refused = guest.fails("http_get", json!({ "url": first.url(), "follow": true })).await;
    assert!(refused.contains("HttpRequestDenied") && refused.contains(&inside.url()), "{refused}");
    assert!(inside.seen().is_empty());
    let both = Guest::new(hosts(&[&first.url(), &inside.url()])).await;
    let answer = both.says("http_get", json!({ "url": first.url(), "follow": true })).await;
    assert!(answer.ends_with("inside"), "{answer}");
}

/// haft refuses an answer whose headers are too long, too many or endless.
#[tokio::test]
async fn the_head_of_an_answer_is_bounded() {
    let long = Server::answering(|_| with("200 OK", &format!("x-long: {}\r\n", "x".repeat(100_000)), ""));
    let many = Server::answering(|_| with("200 OK", &"x-many: 1\r\n".repeat(1000), ""));
    let endless = Server::at("127.0.0.1:0", |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-endless: 1\r\n").is_ok() {}
    });
    for server in [long, many, endless] {
        let guest = Guest::new(hosts(&[&server.url()])).await;
        let refused = guest.fails("http_get", json!({ "url": server.url() })).await;
        assert!(refused.contains("HttpResponseHeaderSectionSize"), "{refused}");
    }
}

/// FU04: the limit on an answer's body applies to declared and undeclared lengths.
#[tokio::test]
async fn the_body_of_an_answer_is_bounded() {
    let report = Server::answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".to_vec());
    let guest = Guest::new(hosts(&[&report.url()])).await;
    let refused = guest.fails("http_get", json!({ "url": report.url() })).await;
    assert!(refused.contains("HttpResponseBodySize(Some(1073741824))"), "{refused}");
    let endless = Server::at("127.0.0.1:0", |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 1 << 13]).is_ok() {}
    });
    let limits = Limits { time: HANG * 2, ..Limits::default() };
    let guest = Guest::within(hosts(&[&endless.url()]), limits).await;
    let refused = guest.fails("http_drain", json!({ "url": endless.url() })).await;
    assert!(refused.contains("exceeds limit: 268435456 bytes"), "{refused}");
    eventually("the connection is closed", || endless.gone() == 1).await;
}

/// The body of a request is limited to 64 MiB.
#[tokio::test]
async fn the_body_of_a_request_is_bounded() {
    let server = Server::at("127.0.0.1:0", |_, stream| {
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0 && !buffer[..read].ends_with(b"0\r\n\r\n")) {
        }
        let _ = stream.write_all(&ok("taken"));
    });
    let limits = Limits { time: HANG * 2, ..Limits::default() };
    let guest = Guest::within(hosts(&[&server.url()]), limits).await;
    let taken = guest.says("http_post", json!({ "url": server.url(), "bytes": 100_000 })).await;
    assert!(taken.ends_with("taken"), "{taken}");
    let refused = guest.fails("http_post", json!({ "url": server.url(), "bytes": 70 << 20 })).await;
    assert!(refused.contains("HttpRequestBodySize(Some(67108864))"), "{refused}");
}

/// FU04: a guest's own timeouts apply to the head and the body of an answer.
#[tokio::test]
async fn silence_has_an_end() {
    let silent = Server::at("127.0.0.1:0", |_, _| {});
    let stalling = Server::at("127.0.0.1:0", |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf ");
        let _ = stream.flush();
    });
    let broken = Server::answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf ".to_vec());
    for (server, expected) in [
        (&silent, "ErrorCode::HttpResponseTimeout"),
        (&stalling, "connection read timeout"),
        (&broken, "connection read timeout"),
    ] {
        // The guest's own timeout must end the request, not the time limit of the call.
        let limits = Limits { time: HANG * 2, ..Limits::default() };
        let guest = Guest::within(hosts(&[&server.url()]), limits).await;
        let asked = json!({ "url": server.url(), "wait_ms": 2000 });
        let refused = within("its wish is kept", guest.fails("http_get", asked)).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

/// The end of a call closes its connections.
#[tokio::test]
async fn a_call_that_ends_leaves_no_connection() {
    let server = Server::at("127.0.0.1:0", |_, _| {});
    let guest = Guest::new(hosts(&[&server.url()])).await;
    let cancelled = async {
        eventually("the server is asked", || server.seen().len() == 1).await;
        guest.session.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(guest.fails("http_get", json!({ "url": server.url() })), cancelled);
    assert!(ended.contains("cancelled"), "{ended}");
    eventually("the connection is closed", || server.gone() == 1).await;
    let guest = Guest::within(hosts(&[&server.url()]), briefly(300)).await;
    let ended = guest.fails("http_get", json!({ "url": server.url() })).await;
    assert!(ended.contains("timed out after 300ms"), "{ended}");
    eventually("no connection is left", || server.gone() == server.seen().len()).await;
}

/// A guest has at most 16 connections at a time and 500 requests in a call.
#[tokio::test]
async fn requests_are_counted() {
    let server = Server::at("127.0.0.1:0", |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf ");
    });
    let guest = Guest::new(hosts(&[&server.url()])).await;
    let held = guest.says("http_hold", json!({ "url": server.url(), "count": 20, "wait_ms": 5000 })).await;
    assert!(held.contains("\"200\": 16") && held.contains("ConnectionLimitReached"), "{held}");
    let last = guest.says("http_many", json!({ "url": "http://other.test/", "count": 501 })).await;
    assert!(last.contains("ConnectionLimitReached"), "{last}");
    let last = guest.says("http_many", json!({ "url": "http://other.test/", "count": 500 })).await;
    assert!(last.contains("HttpRequestDenied"), "{last}");
    let report = decisions(&guest);
    assert_eq!(report.last().unwrap(), "and 400 decisions more");
}
