//! The cost of a call in `haft serve --http`, compared to another server if one is named: 1, 64 and 1,000
//! concurrent clients, each with its session and connection, call again after each answer. Servers take turns, so
//! that a machine whose speed drifts changes all alike. Then the cost of idle sessions, and the waits of other
//! clients beside guests that spin. Prints a table; no time fails the benchmark.
//!
//! `cargo bench --bench http`. The environment names the other server, with `PORT` for its port on 127.0.0.1:
//! `HAFT_BENCH_HTTP_PEER='act run --mcp --http -l 127.0.0.1:PORT echo.wasm'`, with
//! `HAFT_BENCH_PEER_ECHO='{"name": "echo", "arguments": {"text": "hi"}}'` as the parameters of the call. An older
//! haft can be the other server too: it is started in the folder of the program
//! (`/old/haft serve --no-token --http 127.0.0.1:PORT`). `HAFT_BENCH_ECHO` is another call for haft, and
//! `HAFT_BENCH_SAME=echo.wasm` lets haft serve the component of the other server, as `same`. All servers run on the
//! processors of this process: `taskset` pins them together. `floor` is a server that only parses and answers, on
//! one thread: its time is that of the client, the kernel and the sockets.

#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "http/client.rs"]
mod client;
#[path = "floor.rs"]
mod floor;
#[path = "http/floor.rs"]
mod http_floor;
#[path = "http/load.rs"]
mod load;
#[path = "rounds.rs"]
mod rounds;
#[path = "http/server.rs"]
mod server;
#[path = "setting.rs"]
mod setting;
#[path = "http/spinning.rs"]
mod spinning;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::rounds::rounds;
use crate::server::{Command, Server};

/// Rounds; each measures every server once.
const ROUNDS: usize = 5;

/// Concurrent clients, and the calls that they make together in a round.
const LOADS: [(usize, usize); 3] = [(1, 2000), (64, 8000), (1000, 8000)];

/// Sessions that are opened and then idle.
const IDLE: usize = 1000;

/// Time after which the sessions count as idle.
const LEFT_ALONE: Duration = Duration::from_secs(100);

fn main() -> ExitCode {
    if let Some(code) = floor::entry(http_floor::serve) {
        return code;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    server::write_program(folder.path());
    let commands: Vec<Command> =
        [Some(Command::haft()), Command::peer(), Some(nothing())].into_iter().flatten().collect();
    let servers: Vec<Server> = commands.iter().map(|command| Server::start(command, folder.path())).collect();
    for (server, command) in servers.iter().zip(&commands) {
        settle(server, &command.echo);
    }
    for (clients, calls) in LOADS {
        measure(&servers, &commands, clients, calls);
    }
    drop(servers);
    idle(&Server::start(&commands[0], folder.path()));
    spinning::measure(&Server::start(&commands[0], folder.path()), folder.path());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    println!("load of the machine at the end: {} ({processors} processors)", load.trim());
    ExitCode::SUCCESS
}

/// The server that only answers.
fn nothing() -> Command {
    let call = json!({"name": "echo", "arguments": {"text": "hi"}});
    Command::new("floor", floor::command(&["PORT"]), call)
}

/// Calls for half a second, so that caches and pools are full.
fn settle(server: &Server, echo: &Value) {
    let (begun, mut client) = (Instant::now(), Client::open(server));
    while begun.elapsed() < Duration::from_millis(500) {
        client.request("tools/call", echo);
    }
}

fn measure(servers: &[Server], commands: &[Command], count: usize, calls: usize) {
    let (mut rates, mut costs, mut slowest) = <(Table, Table, Table)>::default();
    for table in [&mut rates, &mut costs, &mut slowest] {
        table.resize(servers.len(), Vec::new());
    }
    let mut wrong = vec![0; servers.len()];
    for _ in 0..rounds(ROUNDS) {
        for (index, (server, command)) in servers.iter().zip(commands).enumerate() {
            let clients: Vec<Client> = (0..count).map(|_| Client::open(server)).collect();
            let (begun, used) = (Instant::now(), server.processor_time());
            let done = load::run(clients, &command.echo, calls);
            let took = begun.elapsed().as_secs_f64();
            let used = server.processor_time().saturating_sub(used).as_secs_f64();
            rates[index].push(done.answered as f64 / took);
            costs[index].push(used * 1e6 / done.answered as f64);
            slowest[index].push(done.slowest.as_secs_f64() * 1e3);
            wrong[index] += done.wrong;
            if let Some(answer) = done.example {
                println!("  {} answered: {answer}", command.name);
            }
        }
    }
    println!("{count} clients; calls without an answer: {wrong:?}");
    row("  calls/s", commands, rates);
    row("  processor time a call, us", commands, costs);
    row("  longest wait for an answer, ms", commands, slowest);
}

/// The memory of sessions without connections.
fn idle(server: &Server) {
    settle(server, &json!({"name": "p0__hello", "arguments": {"name": "hi"}}));
    let before = server.resident();
    for _ in 0..IDLE {
        // The connection is closed; the session stays.
        drop(Client::open(server));
    }
    let each = |now: u64| now.saturating_sub(before) as f64 / 1024.0 / IDLE as f64;
    std::thread::sleep(Duration::from_secs(1));
    let opened = each(server.resident());
    if std::env::var_os("HAFT_BENCH_QUICK").is_none() {
        std::thread::sleep(LEFT_ALONE);
    }
    println!("a session, KiB: {opened:.1} right after it was opened, {:.1} idle", each(server.resident()));
}

/// Values by server.
type Table = Vec<Vec<f64>>;

fn row(what: &str, commands: &[Command], table: Table) {
    print!("{what:<34}");
    for (command, mut values) in commands.iter().zip(table) {
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values[(values.len() - 1) * part / 10];
        print!("  {} {:>9.1} ({:.1} to {:.1})", command.name, at(5), at(0), at(10));
    }
    println!();
}
