//! The cost of telemetry for a call of `haft serve --http`: twice without telemetry, and with a receiver that
//! accepts all data. Each call is made to every server in turn, so that a machine whose speed drifts changes all
//! alike. Prints a table; no time fails the benchmark. `cargo bench --bench telemetry`.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "http/client.rs"]
#[allow(dead_code, reason = "other benchmarks use more of it")]
mod client;
#[path = "rounds.rs"]
mod rounds;
#[path = "http/server.rs"]
#[allow(dead_code, reason = "other benchmarks use more of it")]
mod server;
#[path = "setting.rs"]
mod setting;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::client::Client;
use crate::rounds::rounds;
use crate::server::{Command, Server};

/// Calls of each server.
const CALLS: usize = 4000;

/// Calls of each server before the measurement.
const WARM: usize = 300;

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    server::write_program(folder.path());
    let receiver = receiver();
    let off = Command::haft();
    let on = Command::haft().with("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver);
    let servers = [&off, &off, &on].map(|command| Server::start(command, folder.path()));
    let mut clients = servers.each_ref().map(Client::open);
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..WARM + rounds(CALLS) {
        for turn in 0..clients.len() {
            // A rotating order, because the first server finds the caches of the last one.
            let index = (turn + round) % clients.len();
            let begun = Instant::now();
            let answer = clients[index].request("tools/call", &off.echo);
            assert!(answer.contains("\"result\":{"), "{answer}");
            if round >= WARM {
                times[index].push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    for (name, times) in ["off", "off, again", "on"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!("{name:<12} p50 {:>8.1} us  p90 {:>8.1} us  p99 {:>8.1} us", at(50), at(90), at(99));
    }
    let median = |index: usize| times[index][times[index].len() / 2];
    println!(
        "again: {:+.1} %  on: {:+.1} %",
        (median(1) / median(0) - 1.0) * 100.0,
        (median(2) / median(0) - 1.0) * 100.0
    );
}

/// Starts a receiver that accepts all data; its URL.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || drop(take(stream.unwrap())));
        }
    });
    url
}

fn take(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&buffer[..read]);
        let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if received.len() >= end + 4 + length {
            received.drain(..end + 4 + length);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        }
    }
}
