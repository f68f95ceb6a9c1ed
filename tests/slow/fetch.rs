//! The time that `fetch_url` waits for a server.

use std::time::{Duration, Instant};

use crate::fetch::{allowing, fails, says};
use crate::http::server::Server;

/// FU04: `fetch_url` ends after 20 s, for a silent server and for one that sends slowly.
#[test]
#[ignore = "by night: it measures time"]
fn the_timeout_holds() {
    let slow = Server::at("127.0.0.1:0", |head, stream| {
        if head.starts_with("GET /drip") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    });
    let web = allowing(&[&slow]);
    let silent = || {
        let refused = fails(&web, &format!("{}/silent", slow.url()));
        assert!(refused.ends_with("; it has 20 s in all"), "{refused}");
    };
    let drip = || {
        let text = says(&web, &format!("{}/drip", slow.url()));
        assert!(text.starts_with("HTTP 200 OK, text/plain\n\nxxxx"), "{text}");
        assert!(text.contains("\n(the rest of the body is missing: it took too long"), "{text}");
    };
    let took = |ask: &dyn Fn()| {
        let started = Instant::now();
        ask();
        started.elapsed().as_secs()
    };
    for ask in [&silent as &dyn Fn(), &drip] {
        let best = (0..3).map(|_| took(ask)).min().unwrap();
        assert!((19..27).contains(&best), "{best} s");
    }
}
