//! Headers that haft adds and a guest never sees: the server gets the value, the guest gets `*`.

use haft::plugin::Injection;
use serde_json::json;

use super::hosts;
use super::server::{Server, ok, with};
use crate::guest::Guest;

/// An example of a secret.
const SECRET: &str = "hunter2/hunter2+hunter2";

/// The mask for [`SECRET`], of equal length.
const STARS: &str = "***********************";

fn injection(host: &str) -> Injection {
    Injection::new(host.parse().unwrap(), "Authorization", "Bearer ", SECRET.to_owned().into()).unwrap()
}

/// Answers with the head of the request, in a header and in the body.
fn echo(head: &str) -> Vec<u8> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization"));
    with("200 OK", &format!("x-echo: {}\r\n", line.unwrap_or("none")), head)
}

async fn guest(server: &Server, others: &[&Server]) -> Guest {
    let urls: Vec<String> = [server].iter().chain(others).map(|server| server.url()).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    Guest::injecting(hosts(&urls), vec![injection(&server.url())]).await
}

/// CL04: the server gets the secret, and the guest gets a mask of equal length.
#[tokio::test]
async fn a_guest_uses_a_secret_and_never_sees_it() {
    let (server, other) = (Server::answering(echo), Server::answering(echo));
    let guest = guest(&server, &[&other]).await;
    let headers = json!({ "authorization": "Bearer mine", "accept-encoding": "gzip", "range": "bytes=0-5" });
    let answer = guest.says("http_get", json!({ "url": server.url(), "headers": headers })).await;
    let seen = server.seen().concat();
    assert!(seen.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{seen}");
    assert!(!seen.contains("mine") && !seen.contains("range") && !seen.contains("gzip"), "{seen}");
    assert!(seen.contains("accept-encoding: identity\r\n"), "{seen}");
    assert!(!answer.contains("hunter2"), "{answer}");
    assert_eq!(answer.matches(&format!("authorization: Bearer {STARS}")).count(), 2, "{answer}");
    // Another granted host gets the guest's own header alone.
    let answer = guest.says("http_get", json!({ "url": other.url(), "headers": headers })).await;
    assert!(answer.contains("authorization: Bearer mine"), "{answer}");
    assert!(!other.seen().concat().contains("hunter2"));
    assert!(!format!("{:?}", guest.received()).contains("hunter2"), "{:?}", guest.received());
}

/// CL04: haft masks a secret in pieces, in other encodings, and from another server.
#[tokio::test]
async fn a_secret_is_found_however_it_comes_back() {
    let drop_by_drop = Server::at("127.0.0.1:0", |head, stream| {
        let text =
            head.to_owned() + "{\"key\": \"hunter2\\/hunter2+hunter2\"} ?key=hunter2%2Fhunter2%2bhunter2";
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for piece in text.as_bytes().chunks(7) {
            let _ = stream.write_all(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            let _ = stream.flush();
        }
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    let elsewhere = Server::answering(|_| ok(&format!("I heard of {}", SECRET.to_uppercase())));
    let guest = guest(&drop_by_drop, &[&elsewhere]).await;
    let answer = guest.says("http_get", json!({ "url": drop_by_drop.url() })).await;
    assert!(answer.contains("\"key\"") && !answer.contains("hunter2"), "{answer}");
    let answer = guest.says("http_get", json!({ "url": elsewhere.url() })).await;
    assert!(answer.ends_with(&format!("I heard of {STARS}")), "{answer}");
}

/// CL04: haft refuses a compressed answer to a request with a secret, because it cannot mask it.
#[tokio::test]
async fn a_compressed_answer_to_a_secret_is_refused() {
    let server = Server::answering(|_| with("200 OK", "content-encoding: gzip\r\n", "\u{1f}not really"));
    let guest = guest(&server, &[]).await;
    let refused = guest.fails("http_get", json!({ "url": server.url() })).await;
    assert!(refused.contains("HttpResponseContentCoding(Some(\"gzip\"))"), "{refused}");
    assert!(
        refused.contains(
            "the answer is compressed although haft requested no compression; haft cannot \
        check it for secrets"
        ),
        "{refused}"
    );
}

/// A secret for a host does not grant the host.
#[tokio::test]
async fn a_secret_for_a_host_does_not_grant_it() {
    let server = Server::answering(echo);
    let guest = Guest::injecting(hosts(&[]), vec![injection(&server.url())]).await;
    let refused = guest.fails("http_get", json!({ "url": server.url() })).await;
    assert!(refused.contains("HttpRequestDenied"), "{refused}");
    assert!(server.seen().is_empty());
}
