//! Requests of load balancers, orchestrators and Prometheus: liveness, readiness and metrics, also during a
//! shutdown.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::Stage;
use super::http::{Site, reply};
use crate::common::HANG;
use crate::common::wait::{ended, until};

/// The status and the body of the answer to a request, which is sent byte for byte.
fn ask(site: &Site, request: &str) -> (u16, String) {
    let mut stream = site.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let reply = reply(stream);
    (reply.status, reply.body)
}

/// The status of `/readyz`; `None` if haft does not listen.
fn ready(site: &Site) -> Option<u16> {
    let mut stream = TcpStream::connect(site.address()).ok()?;
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

fn signal(site: &Site, signal: Signal) {
    kill_process(Pid::from_raw(site.child.id().cast_signed()).unwrap(), signal).unwrap();
}

/// C30: haft answers health requests for any host and HTTP version, and refuses other paths for foreign hosts (N1).
#[test]
fn health_is_told_by_any_name_and_nothing_else() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    until("haft is ready", || ready(&site) == Some(200));
    let foreign = "Host: haft-replicas\r\n";
    let rebound = "Host: evil.test:8080\r\nOrigin: http://evil.test:8080\r\n";
    let two = "Host: a\r\nHost: b\r\n";
    for (request, head, status) in [
        ("GET /readyz HTTP/1.0", "", 200),
        ("GET /healthz HTTP/1.0", "", 200),
        ("HEAD /readyz HTTP/1.0", "", 200),
        ("OPTIONS /readyz HTTP/1.0", "", 405),
        ("POST /healthz HTTP/1.0", "", 405),
        ("GET /healthz HTTP/1.1", foreign, 200),
        ("GET /readyz HTTP/1.1", foreign, 200),
        ("GET /readyz HTTP/1.1", rebound, 200),
        ("GET /readyz HTTP/1.1", two, 200),
        ("GET /mcp HTTP/1.0", "", 400),
        ("GET /mcp HTTP/1.1", foreign, 403),
        ("POST /mcp HTTP/1.1", rebound, 403),
        ("GET / HTTP/1.1", rebound, 403),
        ("GET /readyz/x HTTP/1.1", foreign, 403),
        ("GET //readyz HTTP/1.1", foreign, 403),
        ("GET /.well-known/oauth-protected-resource HTTP/1.1", foreign, 403),
    ] {
        let (found, body) = ask(&site, &format!("{request}\r\n{head}Connection: close\r\n\r\n"));
        assert_eq!(found, status, "{request} {head}: {body}");
        assert!(status != 200 || body.is_empty() || body == "ok\n" || body == "ready\n", "{body}");
    }
}

/// C31: after SIGTERM haft is not ready, but accepts calls until a balancer has noticed (N7).
#[test]
fn calls_are_taken_until_balancers_have_noticed() {
    let stage = Stage::new("[serve]\ndrain = \"600s\"\n");
    let site = Site::open(&stage);
    until("haft is ready", || ready(&site) == Some(200));
    signal(&site, Signal::TERM);
    until("it is not ready any more", || ready(&site) == Some(503));
    for _ in 0..3 {
        assert_eq!(site.modern(&[], "tools/list", json!({})).status, 200, "a call is taken");
        assert_eq!(ready(&site), Some(503));
    }
}

/// C31: haft ends at once if no balancer has asked, or if a person ends it.
#[test]
fn where_nobody_would_notice_haft_ends_at_once() {
    for (is_asked, how) in [(false, Signal::TERM), (true, Signal::INT), (false, Signal::INT)] {
        let stage = Stage::new("[serve]\ndrain = \"600s\"\n");
        let mut site = Site::open(&stage);
        if is_asked {
            until("haft is ready", || ready(&site) == Some(200));
        }
        signal(&site, how);
        assert!(ended(&mut site.child).success(), "{is_asked} {how:?}");
    }
}

/// C31: after the time of `drain` haft accepts no connection, and ends.
#[test]
fn haft_ends_after_the_time_that_program_toml_says() {
    let stage = Stage::new("[serve]\ndrain = \"100ms\"\n");
    let mut site = Site::open(&stage);
    until("haft is ready", || ready(&site) == Some(200));
    signal(&site, Signal::TERM);
    assert!(ended(&mut site.child).success());
    assert_eq!(ready(&site), None);
}

/// C32: Prometheus gets the metrics at the address of `--metrics`; browser pages do not, under any host name.
#[test]
fn metrics_are_told_where_they_are_asked_for() {
    let stage = Stage::new("");
    let site = Site::start(&stage, &["--token-env", "HAFT_TEST_TOKEN", "--metrics", "127.0.0.1:0"]);
    let told = site.said.split("metrics for Prometheus at http://").nth(1).expect("where metrics are");
    let address: SocketAddr = told.split('/').next().unwrap().parse().unwrap();
    let call = site.modern(&[], "tools/call", json!({"name": "guest__echo", "arguments": {"text": "x"}}));
    assert_eq!(call.status, 200, "{call:?}");
    let scrape = |path: &str, head: &str| scrape(address, path, head);
    let told = scrape("/metrics", "");
    let own = "mcp_server_operation_duration_seconds_count{";
    let line = told.lines().find(|line| line.starts_with(own) && line.contains("guest__echo"));
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{told}");
    assert!(!told.contains("\"x\""), "no argument is told: {told}");
    // A page whose host name was rebound to this address sends neither header.
    assert!(scrape_as(address, "evil.test:9464", "/metrics", "").contains(" 403 "));
    assert!(scrape("/metrics", "Sec-Fetch-Site: same-origin\r\n").contains(" 403 "));
    assert!(scrape("/metrics", "Origin: http://evil.test\r\n").contains(" 403 "));
    assert!(scrape("/mcp", "").contains(" 404 "));
    let (status, _) = ask(&site, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(status, 401, "and metrics are not here");
}

fn scrape(address: SocketAddr, path: &str, head: &str) -> String {
    scrape_as(address, &address.to_string(), path, head)
}

fn scrape_as(address: SocketAddr, host: &str, path: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{head}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
