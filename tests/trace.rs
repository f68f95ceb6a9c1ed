//! `haft call --trace`: the host calls of a plugin.

use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::hostile;

/// A program with the hostile guest, which can read the folder `in`.
fn home() -> Home {
    let home = Home::new();
    let component = hostile().display().to_string();
    let plugin = format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n");
    home.write(
        "program.toml",
        &format!("[sandbox]\nworkspace = \".\"\n{plugin}[plugins.grant]\nread = [\"in\"]\n"),
    );
    std::fs::create_dir(home.work().join("in")).unwrap();
    home.write("in/file", "text");
    home
}

fn trace(home: &Home, tool: &str, arguments: &Value) -> Value {
    let answer = home.haft(&["call", tool, &arguments.to_string(), "--trace", "--json"]);
    serde_json::from_str::<Value>(&answer.stdout)
        .unwrap_or_else(|_| panic!("{}{}", answer.stdout, answer.stderr))
}

fn functions(trace: &Value) -> Vec<(&str, &str)> {
    let calls = trace["trace"]["calls"].as_array().unwrap();
    calls.iter().map(|call| (call["function"].as_str().unwrap(), call["result"].as_str().unwrap())).collect()
}

/// A trace has the host calls with their results, the duration and the peak memory.
#[test]
fn calls_of_the_host_are_shown() {
    let home = home();
    let read = trace(&home, "guest__open", &json!({ "path": "in/file" }));
    let opened = functions(&read).into_iter().find(|(function, _)| function.ends_with("open-at")).unwrap();
    assert!(opened.1.starts_with("Ok("), "{read}");
    assert_eq!(read["result"]["is_error"], false);
    assert!(read["trace"]["peak_memory"].as_u64().unwrap() > 1 << 16, "{read}");
    assert!(read["trace"]["took_ms"].as_f64().unwrap() > 0.0);
    let refused = trace(&home, "guest__open", &json!({ "path": "/etc/passwd" }));
    assert!(functions(&refused).iter().any(|(_, result)| result.starts_with("Err(")), "{refused}");
}

/// For a person the trace is on standard error, also without a journal; without `--trace` haft prints no trace.
#[test]
fn a_person_reads_the_trace_beside_the_answer() {
    let home = home();
    let arguments = ["call", "guest__http_get", "{\"url\": \"https://example.com/\"}"];
    let answer = home.haft(&[&arguments[..], &["--trace", "--no-journal"]].concat());
    assert!(answer.stderr.starts_with("trace "), "{}", answer.stderr);
    assert!(answer.stderr.contains("outgoing-handler handle"), "{}", answer.stderr);
    assert!(answer.stderr.contains("refused GET https://example.com: not granted"), "{}", answer.stderr);
    let plain = home.haft(&arguments);
    assert!(!plain.stderr.contains("calls of the host"), "{}", plain.stderr);
}
