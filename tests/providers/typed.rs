//! `haft run --schema`: standard output contains only JSON, and each vendor gets the schema in its own parameter.

use serde_json::{Value, json};

use super::routing::home;
use super::server::{Answer, Said, Server};
use super::{KEY, VENDORS};
use crate::cli::Home;

/// A model with structured output, and the place of the schema in its request.
const PLACES: [(&str, &str); 6] = [
    ("m", "/response_format/json_schema/schema"),
    ("claude-opus-5", "/output_config/format/schema"),
    ("gemini-3-pro", "/generationConfig/responseJsonSchema"),
    ("m", "/format"),
    ("openai/m", "/response_format/json_schema/schema"),
    ("m", "/text/format/schema"),
];

fn says(text: &'static str) -> Answer {
    Answer::Turn(Said { text, ..Said::default() })
}

fn schema() -> Value {
    json!({
        "type": "object", "properties": { "$n": { "type": "integer", "minimum": 1 } }, "required": ["$n"],
        "additionalProperties": false,
    })
}

async fn run(home: &Home, arguments: &[&str]) -> (i32, String, String) {
    let mut command = home.command(&[&["run"], arguments].concat());
    command.env("TEST_KEY", KEY);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const NO_TOOLS: &str = "[agent]\ntools = []\n";

/// Vendors refuse the name of the property; it comes back as in the schema.
#[tokio::test]
async fn a_run_answers_json_alone_with_every_vendor() {
    for (vendor, (model, place)) in VENDORS.into_iter().zip(PLACES) {
        let server = Server::start(vendor, [says("{ \"n\" :\n 4 }")]).await;
        let home = home(&server, NO_TOOLS);
        home.write("a.json", &schema().to_string());
        let (code, stdout, stderr) = run(&home, &["--model", model, "--schema", "a.json", "count"]).await;
        assert_eq!((code, stdout.as_str()), (0, "{\"$n\":4}\n"), "{}: {stderr}", vendor.name());
        let body = server.bodies().remove(0);
        let sent = body.pointer(place).unwrap_or_else(|| panic!("{}: {body}", vendor.name()));
        assert_eq!(sent["required"], json!(["n"]), "{}", vendor.name());
        server.assert_done();
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_had_is_a_failure_with_the_way_on() {
    let wrong = || says("{\"$n\":0}");
    let server =
        Server::start(VENDORS[0], [wrong(), wrong(), wrong(), wrong(), wrong(), says("{\"$n\":1}")]).await;
    let home = home(&server, NO_TOOLS);
    home.write("a b.json", &schema().to_string());
    let (code, stdout, stderr) = run(&home, &["--schema", "a b.json", "count"]).await;
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("the answer does not match the schema: at `/$n`: 0 is less than"), "{stderr}");
    let resume = stderr.split('`').find(|part| part.starts_with("haft run --resume")).unwrap();
    assert!(resume.ends_with(" --schema 'a b.json'"), "{resume}");
    let (code, stdout, _) = run(&home, &["--json", "--resume", "last", "--schema", "a b.json"]).await;
    let ended: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (code, &ended["output"], &ended["end"]),
        (0, &json!({ "$n": 1 }), &json!("final")),
        "{stdout}"
    );
    assert_eq!(ended["text"], "{\"$n\":1}");
    server.assert_done();
}

/// haft refuses an unusable schema before any request.
#[tokio::test]
async fn a_schema_that_cannot_be_used_is_an_error() {
    let server = Server::start(VENDORS[0], []).await;
    let home = home(&server, "");
    for (text, expected) in [
        ("{ \"type\": ", "`a.json` is not JSON: EOF while parsing a value at line 1"),
        (
            r#"{ "properties": { "n": { "type": "int" } } }"#,
            "`a.json` cannot be used: not a valid JSON Schema at `/properties/n/type`",
        ),
        (r#"{ "$ref": "other.json" }"#, "`a.json` cannot be used: not a valid JSON Schema"),
    ] {
        home.write("a.json", text);
        let (code, stdout, stderr) = run(&home, &["--schema", "a.json", "count"]).await;
        assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains("hint: "), "{stderr}");
    }
    let (code, _, stderr) = run(&home, &["--schema", "none.json", "count"]).await;
    assert!(code == 3 && stderr.contains("cannot read the schema of the answer `none.json`"), "{stderr}");
    server.assert_done();
}

/// `[agent] output` is a file or a table in program.toml; `haft check` reads it too.
#[tokio::test]
async fn a_program_says_what_its_answers_are() {
    let server = Server::apart(VENDORS[0], [says("[1]"), says("2")]).await;
    let home = home(&server, "[agent]\ntools = []\noutput = \"a.json\"\n");
    home.write("a.json", r#"{ "type": "array" }"#);
    let (code, stdout, stderr) = run(&home, &["count"]).await;
    assert_eq!((code, stdout.as_str()), (0, "[1]\n"), "{stderr}");
    home.write("b.json", r#"{ "type": "integer" }"#);
    let (code, stdout, stderr) = run(&home, &["--schema", "b.json", "count"]).await;
    assert_eq!((code, stdout.as_str()), (0, "2\n"), "{stderr}");
    server.assert_done();
    home.write("a.json", r#"{ "type": "list" }"#);
    let check = home.haft(&["check"]);
    assert!(check.code == 3 && check.stderr.contains("a.json` cannot be used"), "{}", check.stderr);
    assert!(check.stderr.contains("program.toml:"), "{}", check.stderr);
    home.write("program.toml", "[agent]\noutput = { type = \"object\", required = 3 }\n");
    let check = home.haft(&["check"]);
    assert!(check.code == 3 && check.stderr.contains("at `/required`"), "{}", check.stderr);
    home.write("program.toml", "[agent]\noutput = 3\n");
    assert!(
        home.haft(&["check"])
            .stderr
            .contains("expected the path of a JSON Schema, or a JSON Schema as a table")
    );
}

#[tokio::test]
async fn a_budget_ends_a_run_and_says_how_to_go_on() {
    let turn = || Answer::Turn(Said { calls: vec![("call_1", "time", json!({}))], ..Said::default() });
    let server = Server::start(VENDORS[0], [turn(), says("done")]).await;
    let home = home(
        &server,
        "[provider.prices.m]\ninput = 1000\noutput = 2000\n[agent]\ntools = [\"time\"]\nmax_cost = 0.01\n",
    );
    let (code, stdout, stderr) = run(&home, &["--json", "what time is it?"]).await;
    let ended: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!((code, &ended["end"], &ended["turns"]), (4, &json!("budget"), &json!(1)), "{stderr}");
    assert!(ended["shortfall"].as_str().unwrap().contains("$0.0200 of $0.0100"), "{ended}");
    assert!(ended["resume"].as_str().unwrap().starts_with("haft run --resume "), "{ended}");
    let (code, stdout, stderr) =
        run(&home, &["--resume", "last", "--max-cost", "1", "--max-tokens-total", "100"]).await;
    assert_eq!((code, stdout.as_str()), (0, "done\n"), "{stderr}");
    server.assert_done();
}

/// A limit in dollars without prices is an error.
#[tokio::test]
async fn a_limit_without_prices_is_an_error_that_says_what_to_write() {
    let server = Server::start(VENDORS[0], []).await;
    let home = home(&server, NO_TOOLS);
    let (code, _, stderr) = run(&home, &["--max-cost", "$0.5", "count"]).await;
    assert_eq!(code, 5, "{stderr}");
    assert!(stderr.contains("`max_cost` needs the price of `m`"), "{stderr}");
    assert!(stderr.contains("[provider.prices.\"m\"]"), "{stderr}");
    let (code, _, stderr) = run(&home, &["--max-cost", "much", "count"]).await;
    assert!(code == 2 && stderr.contains("expected an amount of US dollars"), "{stderr}");
    server.assert_done();
}
