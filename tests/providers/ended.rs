//! How a task ends that a provider does not let go on: with what it has come to, and what to type.

use serde_json::{Value, json};

use super::routing::home;
use super::server::{Answer, Said, Server};
use super::{KEY, VENDORS};
use crate::cli::Home;

/// A turn with a call, and then a request that the vendor refuses for good.
async fn broken() -> Server {
    let call = Said { text: "I look.", calls: vec![("call_1", "time", json!({}))], ..Said::default() };
    let refused = || Answer::Status(400, vec![], "no more of this");
    Server::start(VENDORS[0], [Answer::Turn(call), refused(), refused()]).await
}

/// What `haft run` with `arguments` answers, with its session kept.
async fn kept(home: &Home, arguments: &[&str]) -> std::process::Output {
    let mut command = home.command(&[&["run"], arguments].concat());
    command.env("TEST_KEY", KEY);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// G07: `--json` ends with session, usage and cost, whatever the provider says.
#[tokio::test]
async fn g07_an_error_of_the_provider_is_an_end_with_all_that_is_known() {
    let server = broken().await;
    let home = home(&server, "[provider.prices.m]\ninput = 1\noutput = 1\n[agent]\ntools = [\"time\"]\n");
    let answer = kept(&home, &["--json", "what time is it?"]).await;
    assert_eq!(answer.status.code(), Some(5), "{}", String::from_utf8_lossy(&answer.stderr));
    let stdout = String::from_utf8(answer.stdout).unwrap();
    let ended: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let of = |key: &str| &ended[key];
    assert_eq!((of("event"), of("end"), of("turns")), (&json!("ended"), &json!("failed"), &json!(1)));
    assert_eq!((of("input_tokens"), of("output_tokens")), (&json!(10), &json!(5)));
    assert!(of("cost_usd").is_number(), "{ended}");
    assert!(of("shortfall").as_str().unwrap().contains("400 Bad Request: no more of this"), "{ended}");
    let session = of("session").as_str().unwrap();
    assert_eq!(of("resume"), &json!(format!("haft run --resume {session}")));
    // A person reads the same.
    let again = kept(&home, &["--resume"]).await;
    let stderr = String::from_utf8(again.stderr).unwrap();
    assert_eq!((again.status.code(), again.stdout.len()), (Some(5), 0), "{stderr}");
    assert!(stderr.contains("error: openai at "), "{stderr}");
    assert!(stderr.contains(&format!("hint: `haft run --resume {session}` goes on with it")), "{stderr}");
}
