//! Events without data, which start a stream since 2025-11-25: older clients take each for an invalid message.

use std::io::{Read, Write};

use serde_json::json;

use super::Stage;
use super::http::Site;

/// C03: every answer and stream has an event without data only if the session's version knows them.
#[test]
fn only_those_who_know_them_get_events_without_data() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    for (version, primes) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let opened = site.initialize(version);
        assert_eq!(opened.answer()["result"]["protocolVersion"], version, "{opened:?}");
        assert_eq!(empty(&opened.body), 0, "{version}: {}", opened.body);
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        // 2025-06-18 and later have the header.
        let header = if version < "2025-06-18" { "" } else { version };
        let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", header)];
        site.post(&own, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        for params in [json!({"name": "guest__sleep", "arguments": {"ms": 20}}), json!({"name": "none"})] {
            let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
            let answer = site.post(&own, &call);
            assert_eq!(empty(&answer.body), usize::from(primes), "{version}: {}", answer.body);
            assert_eq!(answer.answer()["id"], 2);
        }
        let mut stream = site.connect();
        let head = site.head("GET", &[&own[..], &[("content-length", "")]].concat(), 0);
        stream.write_all(head.as_bytes()).unwrap();
        let (mut said, mut bytes) = (String::new(), [0; 4096]);
        while !said.contains("\r\n\r\n") || (primes && empty(&said) == 0) {
            let read = stream.read(&mut bytes).unwrap();
            said += &String::from_utf8_lossy(&bytes[..read]);
        }
        // The stream ends with its session.
        assert_eq!(site.send("DELETE", &own, b"").status, 204);
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(empty(&said), usize::from(primes), "{version}: {said}");
    }
}

/// The number of events without data.
fn empty(body: &str) -> usize {
    body.lines().filter(|line| line.strip_prefix("data:").is_some_and(|data| data.trim().is_empty())).count()
}
