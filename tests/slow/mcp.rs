//! MCP servers that are restarted repeatedly, that end by themselves or hang, and a user who answers late.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use haft::mcp::client::Host;
use haft::tool::{ElicitationQuestion, Elicitor, Reply};
use serde_json::json;

use crate::mcp::Fixture;

/// MC09: the pauses between starts of a server that cannot start grow.
#[tokio::test]
#[ignore = "by night: it measures time"]
async fn a_server_that_cannot_start_is_left_alone_for_longer_and_longer() {
    let mut all = Vec::new();
    for _ in 0..3 {
        let fixture = Fixture::new(&json!({ "start": "crash" }));
        let mut took = Vec::new();
        // After the first two the pauses are 250, 500, 1000 and 2000 ms.
        for _ in 0..6 {
            let begun = Instant::now();
            fixture.error("echo", json!({})).await;
            took.push(begun.elapsed());
        }
        if took[5] > took[0] * 3 && took[5] > took[3] {
            return;
        }
        all.push(took);
    }
    panic!("{all:?}");
}

/// MC10: closing a server that ends by itself takes less time than closing one that ignores the request.
#[tokio::test]
#[ignore = "by night: it measures time"]
async fn a_server_that_ends_by_itself_is_closed_at_once() {
    let mut best = [Duration::MAX; 2];
    for _ in 0..3 {
        for (end, best) in ["", "ignore"].into_iter().zip(&mut best) {
            let fixture = Fixture::new(&json!({ "end": end }));
            fixture.text("echo", json!({})).await;
            let begun = Instant::now();
            fixture.server.close().await;
            *best = begun.elapsed().min(*best);
        }
    }
    assert!(best[0] * 2 < best[1], "{best:?}");
}

/// The time limit of a request; the user takes twice as long.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug)]
struct Thinker;

#[async_trait]
impl Elicitor for Thinker {
    async fn ask(&self, _: &ElicitationQuestion) -> Reply {
        tokio::time::sleep(LIMIT * 2).await;
        Reply::Accept(Some(json!({ "name": "Ada" })))
    }
}

/// MC05: the time limit of a request does not include the user's time for an answer.
#[tokio::test]
#[ignore = "by night: it measures time"]
async fn a_person_who_thinks_for_long_is_waited_for() {
    let fixture = Fixture::with(&json!({}), LIMIT, |host| Host { elicitor: Some(Arc::new(Thinker)), ..host });
    let text = fixture.text("elicit", json!({})).await;
    assert_eq!(text, r#"{"action":"accept","content":{"name":"Ada"}}"#);
}
