//! Tasks that a provider ends early: the message contains the partial result and the command that continues the
//! task.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::routing::home;
use super::server::{Answer, Said, Server};
use super::{KEY, VENDORS};
use crate::cli::Home;
use crate::common::wait::ended;

/// A vendor that answers with a call, and then refuses every request with 400.
async fn broken() -> Server {
    let call = Said { text: "I look.", calls: vec![("call_1", "time", json!({}))], ..Said::default() };
    let refused = || Answer::Status(400, vec![], "no more of this");
    Server::start(VENDORS[0], [Answer::Turn(call), refused(), refused()]).await
}

/// The output of `haft run` with `arguments` and a saved session.
async fn kept(home: &Home, arguments: &[&str]) -> std::process::Output {
    let mut command = home.command(&[&["run"], arguments].concat());
    command.env("TEST_KEY", KEY);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// G07: after a provider's error, `--json` ends with session, usage, cost and the command that resumes.
#[tokio::test]
async fn an_error_of_the_provider_is_an_end_with_all_that_is_known() {
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
    // Standard error has the same facts.
    let again = kept(&home, &["--resume"]).await;
    let stderr = String::from_utf8(again.stderr).unwrap();
    assert_eq!((again.status.code(), again.stdout.len()), (Some(5), 0), "{stderr}");
    assert!(stderr.contains("error: openai at "), "{stderr}");
    assert!(stderr.contains(&format!("hint: `haft run --resume {session}` resumes it")), "{stderr}");
}

/// G10: a run ends soon after the reader of its output is gone, also while the model is silent.
#[tokio::test]
async fn a_run_whose_reader_is_gone_ends() {
    let server = Server::start(VENDORS[0], [Answer::Silence]).await;
    let home = home(&server, "");
    let mut command = home.command(&["run", "--json", "hi"]);
    command.env("TEST_KEY", KEY).stdout(Stdio::piped()).stderr(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (line, ended(&mut child).code())
    });
    // The server stays silent.
    let (line, code) = ran.await.unwrap();
    assert!(line.contains("asked") && code.is_some_and(|code| code != 0), "{line}: {code:?}");
}

/// G10: haft reports the keys of `[provider]` that it does not send to another vendor; prices belong to the model.
#[tokio::test]
async fn what_another_provider_leaves_out_is_said() {
    let server = Server::start(VENDORS[1], [Answer::Turn(Said { text: "hi", ..Said::default() })]).await;
    let home = home(&server, "");
    let toml = "[provider]\nname = \"openai\"\nmodel = \"m\"\nextra_body = { seed = 1 }\nheaders = { x-a = \"b\" }\n\
                [provider.prices.m]\ninput = 1000000\noutput = 1000000\n";
    home.write("program.toml", toml);
    let base_url = server.base_url();
    let mut command = home.command(&[
        "run",
        "--json",
        "--provider",
        "anthropic",
        "--base-url",
        &base_url,
        "--model",
        "m",
        "hi",
    ]);
    command.env("ANTHROPIC_API_KEY", KEY);
    let answer = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
    let told = "`extra_body`, `headers` of `[provider]` belongs to `openai` and is not sent to `anthropic`";
    assert!(stderr.contains(told), "{stderr}");
    let ended: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert!(ended["cost_usd"].as_f64().is_some_and(|cost| cost > 10.0), "{ended}");
    assert!(!server.bodies().remove(0).to_string().contains("seed"));
}
