//! The choice of the model: on the wire, by the program and by the user.

use haft::agent::route;
use haft::manifest::Route;
use haft::provider::{Provider, ProviderSettings};
use haft::tool::Session;

use super::server::{Answer, Said, Server};
use super::{KEY, VENDORS, provider, settings};
use crate::cli::Home;

fn says(text: &'static str) -> Answer {
    Answer::Turn(Said { text, ..Said::default() })
}

/// MR04: haft asks the fast model for the choice, without tools; the answer decides.
#[tokio::test]
async fn the_fast_model_is_asked_without_tools() {
    for vendor in VENDORS {
        let server = Server::start(vendor, [says("simple")]).await;
        let two = ProviderSettings { model_fast: Some("fast-model".into()), ..settings(&server, true) };
        let routed = route(provider(two).as_ref(), Route::Auto, "say hello", &Session::default()).await;
        server.assert_done();
        assert_eq!((routed.model.as_str(), routed.usage.total()), ("fast-model", 15), "{}", vendor.name());
        let (body, target) = (server.bodies().remove(0), server.targets().remove(0));
        assert_eq!(body.get("tools"), None);
        assert!(body["model"] == "fast-model" || target.contains("/fast-model:"), "{target} {body}");
    }
}

/// MR02, MR04: haft asks no model if the choice is fixed; a failed choice takes the better model.
#[tokio::test]
async fn nothing_is_asked_where_there_is_one_model() {
    let vendor = VENDORS[0];
    let server = Server::apart(vendor, [says("complex"), Answer::Status(400, vec![], "no")]).await;
    let one = provider(settings(&server, false));
    assert_eq!((one.model(), one.model_fast()), ("fake-model", "fake-model"));
    let session = Session::default();
    let two = ProviderSettings { model_fast: Some("fast-model".into()), ..settings(&server, false) };
    let two = provider(two);
    let model = async |provider: &dyn Provider, how| route(provider, how, "task", &session).await.model;
    assert_eq!(model(one.as_ref(), Route::Auto).await, "fake-model");
    assert_eq!(model(two.as_ref(), Route::Fast).await, "fast-model");
    assert_eq!(model(two.as_ref(), Route::Complex).await, "fake-model");
    assert_eq!(server.bodies().len(), 0);
    assert_eq!(model(two.as_ref(), Route::Auto).await, "fake-model", "complex");
    assert_eq!(model(two.as_ref(), Route::Auto).await, "fake-model", "no answer");
    server.assert_done();
}

/// A home with a program that uses `server`.
pub(super) fn home(server: &Server, keys: &str) -> Home {
    let home = Home::new();
    let (name, url) = (server.vendor().name(), server.base_url());
    let format = server.vendor().format().map_or("", |_| "format = \"responses\"\n");
    let toml = format!(
        "[provider]\nname = \"{name}\"\nbase_url = \"{url}\"\nmodel = \"m\"\napi_key = {{ env = \"TEST_KEY\" }}\n{format}{keys}"
    );
    home.write("program.toml", &toml);
    home
}

/// The output of `haft run` with `arguments`.
async fn run(home: &Home, arguments: &[&str]) -> std::process::Output {
    let mut command = home.command(&[&["run"], arguments].concat());
    command.env("TEST_KEY", KEY).env("HAFT_JOURNAL", "off");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn model(server: &Server, request: usize) -> String {
    let (body, target) = (server.bodies().remove(request), server.targets().remove(request));
    let in_path = target.split("/models/").nth(1).and_then(|rest| rest.split(':').next()).map(str::to_owned);
    body["model"].as_str().map(str::to_owned).or(in_path).unwrap()
}

/// MR03: `--model` reaches the request of each vendor.
#[tokio::test]
async fn a_model_that_is_named_reaches_the_wire() {
    for vendor in VENDORS {
        let server = Server::start(vendor, [says("hello from afar")]).await;
        let home = home(&server, "model_fast = \"f\"\n");
        let answer = run(&home, &["--model", "other", "--tools", "time", "hi"]).await;
        let stderr = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(String::from_utf8_lossy(&answer.stdout).contains("hello from afar"), "{stderr}");
        assert_eq!((answer.status.code(), model(&server, 0)), (Some(0), "other".to_owned()), "{stderr}");
        server.assert_done();
    }
}

/// MR03, MR04: `--model fast`, `--model complex`, `--model auto` and `[agent] route` choose the program's models.
#[tokio::test]
async fn the_program_s_own_models_are_chosen_by_a_word() {
    let keys = "model_fast = \"f\"\n[provider.prices.f]\ninput = 1\noutput = 1\n[agent]\nroute = \"auto\"\ntools = []\n";
    let vendor = VENDORS[1];
    let script = [says("a"), says("b"), says("simple"), says("c"), says("complex"), says("d")];
    let server = Server::apart(vendor, script).await;
    let home = home(&server, keys);
    for arguments in
        [&["--model", "fast", "hi"][..], &["--model", "complex", "hi"], &["hi"], &["--model", "auto", "hi"]]
    {
        let answer = run(&home, arguments).await;
        assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    }
    let asked: Vec<_> = (0..6).map(|request| model(&server, request)).collect();
    assert_eq!(asked, ["f", "m", "f", "f", "f", "m"]);
    server.assert_done();
}

/// C08: `--tools` replaces `[agent] tools`.
#[tokio::test]
async fn tools_of_the_command_line_replace_those_of_the_program() {
    let vendor = VENDORS[0];
    let server = Server::apart(vendor, [says("a"), says("b")]).await;
    let home = home(&server, "[agent]\ntools = [\"read\"]\n");
    for arguments in [&["hi"][..], &["--tools", "time", "hi"]] {
        let answer = run(&home, arguments).await;
        assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    }
    let tools: Vec<String> = server.bodies().iter().map(|body| body["tools"].to_string()).collect();
    assert!(tools[0].contains("\"read\"") && !tools[0].contains("\"time\""), "{}", tools[0]);
    assert!(tools[1].contains("\"time\"") && !tools[1].contains("\"read\""), "{}", tools[1]);
    server.assert_done();
}

/// MR01: errors name a missing section and an unknown provider, and one vendor's key is never sent to another.
#[tokio::test]
async fn what_is_missing_is_named() {
    let home = Home::new();
    let missing = run(&home, &["hi"]).await;
    let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(stderr.contains("no model provider is configured"), "{stderr}");
    assert!(stderr.contains("hint: use `--provider`, or write `[provider]`"), "{stderr}");
    assert!(stderr.contains("`OPENAI_API_KEY` is set: `--provider openai` uses"), "{stderr}");
    let unknown = run(&home, &["--provider", "openia", "hi"]).await;
    let stderr = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        stderr.contains("unknown provider `openia`; expected one of: `openai`, `anthropic`, "),
        "{stderr}"
    );
    home.write(
        "program.toml",
        "[provider]\nname = \"openai\"\nmodel = \"m\"\napi_key = { env = \"TEST_KEY\" }\n",
    );
    let other = run(&home, &["--provider", "anthropic", "hi"]).await;
    let stderr = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(stderr.contains("anthropic at `https://api.anthropic.com/v1`: no API key is set"), "{stderr}");
}

/// PL01: a run reports its cost if prices are configured.
#[tokio::test]
async fn a_run_tells_what_it_cost() {
    let server = Server::start(VENDORS[1], [says("hello")]).await;
    let home = home(&server, "[provider.prices.m]\ninput = 1000000\noutput = 2000000.0\ncached = 500_000\n");
    let mut command = home.command(&["--json", "run", "--tools", "time", "hi"]);
    command.env("TEST_KEY", KEY);
    let answer = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let stdout = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(stdout.contains("18.0"), "6 + 4 / 2 + 5 * 2 dollars: {stdout}");
    server.assert_done();
}
