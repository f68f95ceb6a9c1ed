//! Telemetry of gates and workers: one call over all of its processes is one trace, and the numbers of places and
//! of used places are metrics for autoscalers.

use serde_json::json;

use super::lives::server;
use super::setup::Setup;
use super::world::World;
use crate::common::wait::{until, until_some};
use crate::serve::eras::modern;
use crate::serve::peer::Peer;
use crate::telemetry::receiver::{Receiver, Told};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

fn variables<'a>(receiver: &'a Receiver, service: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url),
        ("OTEL_SERVICE_NAME", service),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ]
}

/// A gate as a process that reports to `receiver`.
fn gate(world: &World, receiver: &Receiver) -> Peer {
    let mut command = world.command(&["serve"]);
    command.envs(variables(receiver, "gate"));
    Peer::of(command)
}

fn call(gate: &mut Peer, tool: &str, arguments: &serde_json::Value, id: u32) {
    let mut call = modern("tools/call", id, json!({ "name": tool, "arguments": arguments }));
    call["params"]["_meta"]["traceparent"] = json!(format!("00-{TRACE}-{CLIENT}-01"));
    gate.send(&call);
}

/// N18: the spans of client, gate, worker and the worker's MCP server are one trace.
#[test]
fn a_call_over_machines_is_one_trace() {
    let (receiver, folder) = (Receiver::start(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let own = variables(&receiver, "child").map(|(name, value)| format!("{name} = {value:?}")).join(", ");
    let more = server(folder.path()).replace("env = { ", &format!("env = {{ {own}, "));
    let Some(world) = World::with(Setup::Guide, &more) else { return };
    let _worker = world.worker_in("eu-1", &["--label", "eu"], &variables(&receiver, "worker"), |_| ());
    // Only workers know the server's tools; a call before their report gets the error of an unknown tool.
    let _gate = until_some("a gate has the server's tool", || {
        let mut gate = gate(&world, &receiver);
        call(&mut gate, "mcp__inner__guest__echo", &json!({ "text": "far" }), 1);
        (gate.answer(1)["result"]["isError"] == false).then_some(gate)
    });
    let chain = until_some("a trace has all four of them", || {
        Some(chain(receiver.spans(0))).filter(|chain| chain.iter().any(|span| span.service == "child"))
    });
    let told: Vec<_> =
        chain.iter().map(|span| (span.service.as_str(), span.name.as_str(), span.kind)).collect();
    assert_eq!(
        told,
        [
            ("gate", "tools/call mcp__inner__guest__echo", 2),
            ("worker", "execute_tool mcp__inner__guest__echo", 1),
            ("worker", "tools/call guest__echo", 3),
            ("child", "tools/call guest__echo", 2),
        ]
    );
}

/// The longest chain of spans from the client's span on, each a child of the one before.
fn chain(spans: Vec<Told>) -> Vec<Told> {
    let mut spans: Vec<Told> = spans.into_iter().filter(|span| span.trace == TRACE).collect();
    let mut longest = Vec::new();
    while let Some(root) = spans.iter().position(|span| span.parent == CLIENT) {
        let mut chain = vec![spans.remove(root)];
        while let Some(next) = spans.iter().position(|span| span.parent == chain[chain.len() - 1].id) {
            chain.push(spans.remove(next));
        }
        if chain.len() > longest.len() {
            longest = chain;
        }
    }
    longest
}

/// N18: a worker reports its places and the used ones, a gate the number of running calls.
#[test]
fn places_and_calls_are_counted() {
    let receiver = Receiver::start();
    let Some(world) = World::start() else { return };
    let arguments = ["--label", "eu", "--places", "3"];
    let _worker = world.worker_in("eu-1", &arguments, &variables(&receiver, "worker"), |_| ());
    let mut gate = gate(&world, &receiver);
    let gauges = || {
        [
            ("worker", "haft.worker.place.limit"),
            ("worker", "haft.worker.place.usage"),
            ("gate", "haft.gate.call.active"),
        ]
        .map(|(service, name)| receiver.gauge(service, name))
    };
    until("all is told", || gauges() == [Some(3), Some(0), Some(0)]);
    for id in 0..5 {
        call(&mut gate, "program__far__slow", &json!({ "mark": id.to_string() }), id);
    }
    until("calls are counted", || gauges() == [Some(3), Some(3), Some(5)]);
}
