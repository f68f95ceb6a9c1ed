//! haft as a library: the example that embeds it does what it says.

use serde_json::json;

use crate::agent::fake::{Fake, calls, says};

#[expect(dead_code, unreachable_pub, reason = "the example's own `main` reads the command line")]
#[path = "../host/haft/examples/embed.rs"]
mod embed;

/// PL03: an agent with a tool of the embedding program's own, two calls at once, and a session on the disk.
#[tokio::test]
async fn pl03_an_embedded_agent_does_a_task_with_a_tool_of_its_own() {
    let both =
        calls(&[("a", "temperature", r#"{"city":"Oslo"}"#), ("b", "temperature", r#"{"city":"Atlantis"}"#)]);
    let fake = Fake::start([both, says("It is -4 degrees in Oslo.")]).await;
    let place = tempfile::tempdir().unwrap();
    let outcome = embed::embed(&fake.base_url(), "m", "How warm is it?", place.path()).await.unwrap();
    assert_eq!(outcome.text, "It is -4 degrees in Oslo.");
    let answers: Vec<_> = fake.requests()[1]["messages"].as_array().unwrap()[3..].to_vec();
    assert_eq!(
        (&answers[0]["content"], &answers[1]["content"]),
        (&json!("-4"), &json!("Tool error: no thermometer there"))
    );
    let saved = haft::agent::Sessions::new(place.path()).all().unwrap();
    assert_eq!(saved[0].restored().unwrap().turns, 2);
    fake.assert_done();
}
