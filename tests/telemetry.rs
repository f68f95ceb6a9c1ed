//! Traces and metrics, read back from a receiver of OTLP over HTTP with the types of the protocol's own crate: one
//! call over several processes is one trace, an agent's run reports its requests and its usage, and no prompt or
//! answer is in the data.

pub(crate) mod receiver;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use haft::agent::{Agent, AgentSettings, History};
use haft::provider;
use haft::telemetry::{Settings, Telemetry};
use haft::tool::Session;
use serde_json::{Value, json};

use self::receiver::{Receiver, Told};
use crate::agent::fake::{self, Fake};
use crate::agent::{ECHO, settings, toolbox};
use crate::common::hostile;
use crate::common::wait::until;
use crate::serve::Stage;
use crate::serve::eras::meta;
use crate::serve::http::{Reply, Site};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// Text that must not appear in the sent data.
const SECRET: &str = "what-was-said-4711";

/// A server for requests of plugins, and the heads of the requests it received.
fn site_for_guests() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = heads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            seen.lock().unwrap().push(String::from_utf8_lossy(&head[..read]).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    (address, heads)
}

/// A program whose MCP server is another haft with the OTLP endpoint `receiver`, and whose plugin can reach `site`.
fn stage(site: &str, receiver: &str) -> Stage {
    let stage = Stage::new("");
    let (haft, guest) = (env!("CARGO_BIN_EXE_haft"), hostile().display().to_string());
    std::fs::create_dir(stage.path("inner")).unwrap();
    let inner = stage.path("inner/program.toml");
    let plugin = format!(
        "[program]\nname = \"inner\"\nversion = \"1.0.0\"\n\n[[plugins]]\nname = \"guest\"\ncomponent = {guest:?}\n\
         tools = [\"http_get\"]\n[plugins.grant]\nhosts = [{site:?}]\n"
    );
    std::fs::write(&inner, plugin).unwrap();
    // Children cannot access haft's own folders.
    let own = stage.home().join("tmp/own");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver),
        ("OTEL_SERVICE_NAME", "inner"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("XDG_CACHE_HOME", own.to_str().unwrap()),
        ("XDG_STATE_HOME", own.to_str().unwrap()),
        // The test that starts it consents to its program.
        ("HAFT_TRUST", "1"),
    ];
    let environment: Vec<_> = variables.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    let environment = environment.join(", ");
    stage.program(&format!(
        "\n[[mcp_servers]]\nname = \"inner\"\ncommand = [{haft:?}, \"serve\", \"--program\", \"{}\"]\n\
         pinned = false\nenv = {{ {environment} }}\n",
        inner.display()
    ));
    stage
}

/// A call of protocol version 2026-07-28 with a parent span.
fn call(site: &Site, tool: &str, arguments: &Value) -> Reply {
    let mut meta = meta(&json!({}));
    meta["traceparent"] = json!(format!("00-{TRACE}-{CLIENT}-01"));
    meta["tracestate"] = json!("vendor=1");
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let own = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    site.post(&own, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

fn serve(stage: &Stage, variables: &[(&str, &str)]) -> Site {
    let mut command = stage.command(&["serve", "--http", "127.0.0.1:0", "--token-env", "HAFT_TEST_TOKEN"]);
    command.env("HAFT_TEST_TOKEN", "a-token-of-the-test-4711").envs(variables.iter().copied());
    // No request must use a proxy: the receiver is on this machine.
    command.envs(["http_proxy", "https_proxy", "all_proxy"].map(|proxy| (proxy, "http://127.0.0.1:1")));
    Site::begin(&mut command)
}

/// A client's call, haft's request to its MCP server, which is another haft, and that server's plugin request form
/// one trace.
#[test]
fn a_call_over_several_processes_is_one_trace() {
    let receiver = Receiver::start();
    let (site, heads) = site_for_guests();
    let stage = stage(&site, &receiver.url);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()),
        ("OTEL_SERVICE_NAME", "outer"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ];
    let haft = serve(&stage, &variables);
    let listed = || haft.modern(&[], "tools/list", json!({})).body.contains("mcp__inner__guest__http_get");
    until("the inner haft has tools", listed);
    let url = format!("{site}/{SECRET}");
    let answer = call(&haft, "mcp__inner__guest__http_get", &json!({"url": url})).answer();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let spans = receiver.spans(3);
    let find = |service: &str, kind: i32| -> &Told {
        spans
            .iter()
            .find(|span| span.service == service && span.kind == kind)
            .unwrap_or_else(|| panic!("{spans:#?}"))
    };
    let (served, asked, inner) = (find("outer", 2), find("outer", 3), find("inner", 2));
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!([&served.parent, &asked.parent, &inner.parent], [CLIENT, &served.id, &asked.id], "{spans:#?}");
    assert_eq!(served.name, "tools/call mcp__inner__guest__http_get");
    assert_eq!(asked.name, "tools/call guest__http_get");
    assert_eq!(served.attributes["mcp.method.name"], "tools/call");
    assert_eq!(served.attributes["gen_ai.tool.name"], "mcp__inner__guest__http_get");
    assert_eq!(served.attributes["network.protocol.name"], "http");
    assert_eq!(inner.attributes["network.transport"], "pipe");
    let head = heads.lock().unwrap().join("\n");
    assert!(head.contains(&format!("traceparent: 00-{TRACE}-{}-01", inner.id)), "{head}");
    assert!(head.contains("tracestate: vendor=1"), "{head}");
    receiver.metric("mcp.server.operation.duration");
    receiver.metric("mcp.client.operation.duration");
    receiver.holds_nothing_of(SECRET);
}

/// A command that prints its parent span.
const COMMAND: &str = r#"
[[tools]]
name = "part"
description = "Shows what it is a part of."
command = ["sh", "-c", "echo part of $TRACEPARENT and $TRACESTATE."]
"#;

/// The environment of a command contains the span of its call.
#[test]
fn a_command_knows_what_it_is_a_part_of() {
    let receiver = Receiver::start();
    let stage = Stage::new("");
    stage.program(COMMAND);
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let haft = serve(&stage, &variables);
    let answer = call(&haft, "program__stage__part", &json!({})).answer();
    let spans = receiver.spans(1);
    let wanted = format!("part of 00-{TRACE}-{}-01 and vendor=1.\n", spans[0].id);
    assert_eq!(answer["result"]["content"][0]["text"], json!(wanted), "{answer}");
}

/// Without an endpoint the environment of a command contains no span, even if haft's own environment does.
#[test]
fn without_an_endpoint_a_command_is_a_part_of_nothing() {
    let stage = Stage::new("");
    stage.program(COMMAND);
    let haft = serve(&stage, &[("TRACEPARENT", "00-of-haft-itself")]);
    let answer = call(&haft, "program__stage__part", &json!({})).answer();
    assert_eq!(answer["result"]["content"][0]["text"], "part of and .\n", "{answer}");
}

/// Without an endpoint haft passes on no span to a plugin's request.
#[test]
fn without_an_endpoint_nothing_is_told() {
    let (site, heads) = site_for_guests();
    let stage = Stage::new("");
    stage.program(&format!("[plugins.grant]\nhosts = [{site:?}]\n"));
    let haft = serve(&stage, &[]);
    let answer = call(&haft, "guest__http_get", &json!({"url": site})).answer();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(!heads.lock().unwrap().join("\n").contains("traceparent"));
}

/// An unreachable receiver neither delays calls nor makes them fail.
#[test]
fn a_receiver_that_is_away_changes_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::new(&format!("[telemetry]\nendpoint = \"http://{gone}\"\n"));
    let haft = serve(&stage, &[("OTEL_BSP_SCHEDULE_DELAY", "50")]);
    for _ in 0..20 {
        let answer = call(&haft, "guest__echo", &json!({"text": "x"})).answer();
        assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    }
}

/// An agent's run is one trace: the task, each turn with its token usage, and each tool call.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_an_agent_is_a_trace() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(&Settings { endpoint: Some(receiver.url.clone()), ..Settings::default() }).unwrap();
    let model = Fake::start([
        fake::calls(&[("c1", "echo", &format!("{{\"text\":\"{SECRET}\"}}"))]),
        fake::says(SECRET),
    ])
    .await;
    let (tools, _) = toolbox(&[ECHO]);
    let agent = Agent::new(provider::build(settings(&model)).unwrap(), tools, AgentSettings::default());
    let session = Session { trace: telemetry.trace(), ..Session::default() };
    let outcome = agent.run(&mut History::default(), SECRET, &session).await.unwrap();
    assert_eq!(outcome.text, SECRET);
    telemetry.close().await;
    let spans = receiver.spans(4);
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let run = named("invoke_agent")[0];
    assert_eq!((run.parent.as_str(), run.service.as_str()), ("", "haft"));
    let turns = named("chat fake-model");
    assert_eq!(turns.len(), 2, "{spans:#?}");
    for turn in &turns {
        assert_eq!((turn.kind, &turn.parent), (3, &run.id));
        assert_eq!(turn.attributes["gen_ai.operation.name"], "chat");
        assert_eq!(turn.attributes["gen_ai.provider.name"], "openai");
        assert_eq!(turn.attributes["gen_ai.response.model"], "fake-model-1");
        assert_eq!(turn.attributes["gen_ai.usage.input_tokens"], "10");
        assert_eq!(turn.attributes["gen_ai.usage.output_tokens"], "5");
    }
    let tool = named("execute_tool echo")[0];
    assert_eq!((&tool.parent, tool.attributes["gen_ai.tool.call.id"].as_str()), (&run.id, "c1"));
    receiver.metric("gen_ai.client.token.usage");
    receiver.metric("gen_ai.client.operation.duration");
    receiver.holds_nothing_of(SECRET);
}
