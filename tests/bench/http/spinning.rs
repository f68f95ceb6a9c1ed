//! The waits of other clients while guests of many clients spin.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

/// Clients; each has one guest of the same plugin that spins.
const SPINNING: usize = 1000;

/// Clients in a quick run.
const QUICK: usize = 100;

/// Calls of each tool.
const CALLS: usize = 500;

/// Measures a tool without a directory and a tool that reads a file, both of other plugins.
pub(crate) fn measure(server: &Server, folder: &Path) {
    let quick = std::env::var_os("HAFT_BENCH_QUICK").is_some();
    let mut own = Client::open(server);
    let read = json!({"name": "read", "arguments": {"file_path": folder.join("program.toml")}});
    let tools = [("time", json!({"name": "time", "arguments": {}})), ("read", read)];
    for (_, call) in &tools {
        told(&mut own, call);
    }
    let spinning: Vec<Client> =
        (0..if quick { QUICK } else { SPINNING }).map(|_| spin(Client::open(server))).collect();
    std::thread::sleep(Duration::from_secs(1));
    for (name, call) in &tools {
        let mut waits: Vec<Duration> = (0..CALLS).map(|_| told(&mut own, call)).collect();
        waits.sort();
        let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!(
            "  {name} beside {} spinning guests of another plugin, ms: p50 {:.2}, p99 {:.1}, most {:.1}",
            spinning.len(),
            at(50),
            at(99),
            at(100)
        );
    }
    println!("  memory meanwhile: {} MiB", server.resident() >> 20);
}

fn spin(mut client: Client) -> Client {
    client.ask("tools/call", &json!({"name": "guest__spin", "arguments": {}}));
    client
}

/// The duration of a call, which must succeed.
fn told(client: &mut Client, call: &Value) -> Duration {
    let begun = Instant::now();
    let answer = client.request("tools/call", call);
    assert!(answer.contains("\"isError\":false") || !answer.contains("isError"), "{answer}");
    begun.elapsed()
}
