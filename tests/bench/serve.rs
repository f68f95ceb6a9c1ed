//! The cost of a call in `haft serve`, compared to another server if one is named: raw JSON-RPC to two child
//! processes, in turn, so that a machine whose speed drifts changes both alike. Prints a table; no time fails the
//! benchmark.
//!
//! `cargo bench --bench serve`. The environment names the other server:
//! `HAFT_BENCH_PEER='act run --mcp echo.wasm'`, with
//! `HAFT_BENCH_PEER_ECHO='{"name": "echo", "arguments": {"text": "hi"}}'` and `HAFT_BENCH_PEER_SLEEP` as the
//! parameters of the two calls. haft's echo is `hello`, the smallest built-in plugin: a fresh instance for every
//! call. `HAFT_BENCH_ECHO` is another call for haft, such as `{"name": "guest__echo", "arguments": {"text": "hi"}}`
//! of the tests' guest, which is four times as large; `HAFT_BENCH_SAME=echo.wasm` lets haft serve the component of
//! the other server too, as `same`. `floor` is a server that only parses and answers: its time is that of the
//! client, the kernel and the pipes.

#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "serve/child.rs"]
mod child;
#[path = "floor.rs"]
mod floor;
#[path = "rounds.rs"]
mod rounds;
#[path = "setting.rs"]
mod setting;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::Child;
use crate::rounds::rounds;
use crate::setting::setting;

/// Rounds; each measures every variant once.
const ROUNDS: usize = 40;

/// Sequential calls in a round.
const SLICE: usize = 25;

/// Calls of a burst, and the number of concurrent ones.
const BURST: usize = 400;
const AT_ONCE: usize = 8;

/// Starts of each server.
const STARTS: usize = 15;

/// Rounds with guests that never return.
const SPINS: usize = 5;

/// A server, and its calls.
struct Server {
    name: &'static str,
    command: Vec<String>,
    echo: Value,
    sleep: Value,
}

fn main() -> ExitCode {
    if let Some(code) = floor::entry(|_| floor::serve_streams()) {
        return code;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let own = haft(folder.path());
    let mut servers: Vec<Server> = std::iter::once(own).chain(peer()).collect();
    start(folder.path(), &servers);
    servers.push(nothing());
    calls(folder.path(), &servers);
    spinning(folder.path(), &servers[..1]);
    ExitCode::SUCCESS
}

/// haft with a program of ten plugins and an echo call.
fn haft(folder: &Path) -> Server {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = "[program]\nname = \"bench\"\nversion = \"1.0.0\"\n".to_owned();
    let guest = root.join("tests/guests/built/hostile.wasm");
    let mut plugin = |name: &str, component: &Path, more: &str| {
        let place = component.to_str().unwrap();
        write!(text, "\n[[plugins]]\nname = \"{name}\"\ncomponent = {place:?}\n{more}").unwrap();
    };
    let same = std::env::var_os("HAFT_BENCH_SAME").map(|path| std::fs::canonicalize(path).unwrap());
    if let Some(same) = &same {
        plugin("same", same, "");
    }
    plugin("guest", &guest, "tools = [\"echo\", \"sleep\", \"spin\"]\nlimits = { time = \"10m\" }\n");
    let built = ["hello", "wordcount", "time", "files", "search", "fetch", "hello", "wordcount", "time"];
    for (index, name) in built.iter().enumerate() {
        let component = root.join(format!("plugins/built/{name}.wasm"));
        plugin(&format!("p{index}"), &component, "");
    }
    std::fs::write(folder.join("program.toml"), text).unwrap();
    Server {
        name: "haft",
        command: vec![env!("CARGO_BIN_EXE_haft").into(), "serve".into()],
        echo: setting("HAFT_BENCH_ECHO")
            .unwrap_or_else(|| json!({"name": "p0__hello", "arguments": {"name": "hi"}})),
        sleep: json!({"name": "guest__sleep", "arguments": {"ms": 50}}),
    }
}

fn peer() -> Option<Server> {
    let command = std::env::var("HAFT_BENCH_PEER").ok()?;
    let command = command.split_whitespace().map(str::to_owned).collect();
    let call =
        |name: &str, tool: &str| setting(name).unwrap_or_else(|| json!({"name": tool, "arguments": {}}));
    let (echo, sleep) = (call("HAFT_BENCH_PEER_ECHO", "echo"), call("HAFT_BENCH_PEER_SLEEP", "sleep"));
    Some(Server { name: "peer", command, echo, sleep })
}

/// The server that only answers.
fn nothing() -> Server {
    let call = json!({"name": "echo", "arguments": {"text": "hi"}});
    Server { name: "floor", command: floor::command(&[]), echo: call.clone(), sleep: call }
}

/// The time from exec to the whole list of tools, with a warm cache.
fn start(folder: &Path, servers: &[Server]) {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    for round in 0..=rounds(STARTS) {
        for (server, times) in servers.iter().zip(&mut times) {
            let begun = Instant::now();
            let mut child = Child::start(&server.command, folder);
            child.open();
            let tools = child.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len();
            let took = begun.elapsed();
            if round == 0 {
                // The first start compiles.
                println!("{}: {tools} tools, first start {took:?}", server.name);
                child.settle(&server.echo);
            } else {
                times.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    row("list of tools from exec, ms", servers, times);
}

fn calls(folder: &Path, servers: &[Server]) {
    let mut children: Vec<Child> =
        servers.iter().map(|server| Child::start(&server.command, folder)).collect();
    for (child, server) in children.iter_mut().zip(servers) {
        child.open();
        // Every client lists the tools.
        child.request("tools/list", json!({}));
        child.settle(&server.echo);
    }
    let (mut pings, mut echoes, mut rates) = <(Table, Table, Table)>::default();
    for table in [&mut pings, &mut echoes, &mut rates] {
        table.resize(servers.len(), Vec::new());
    }
    // A sum, because the kernel counts in hundredths of a second.
    let mut costs: Table = vec![vec![0.0]; servers.len()];
    for _ in 0..rounds(ROUNDS) {
        for (index, (child, server)) in children.iter_mut().zip(servers).enumerate() {
            for _ in 0..SLICE {
                pings[index].push(micros(|| drop(child.request("ping", json!({})))));
                echoes[index].push(micros(|| drop(child.request("tools/call", server.echo.clone()))));
            }
            let used = child.processor_time();
            rates[index].push(BURST as f64 / seconds(|| child.burst(&server.echo, BURST, AT_ONCE)));
            costs[index][0] += child.processor_time().saturating_sub(used).as_secs_f64() * 1e6
                / (rounds(ROUNDS) * BURST) as f64;
        }
    }
    let above = |index: usize| -> Vec<f64> {
        echoes[index].iter().zip(&pings[index]).map(|(echo, ping)| echo - ping).collect()
    };
    row("echo above ping, us", servers, (0..servers.len()).map(above).collect());
    row("ping, us", servers, pings);
    row("echo, us", servers, echoes);
    row("echo, 8 at once, calls/s", servers, rates);
    row("… processor time a call, us", servers, costs);
    // All servers have made the same calls up to this point.
    row("peak memory, MiB", servers, peaks(&children));
    let asleep = |(child, server): (&mut Child, &Server)| {
        let sleep = |_| seconds(|| child.burst(&server.sleep, AT_ONCE, AT_ONCE)) * 1e3;
        (0..rounds(ROUNDS)).map(sleep).collect()
    };
    row("8 calls that sleep 50 ms, ms", servers, children.iter_mut().zip(servers).map(asleep).collect());
    row("peak memory after that, MiB", servers, peaks(&children));
    let ends = children.into_iter().map(|child| vec![child.hang_up().as_secs_f64() * 1e3]).collect();
    row("end after hanging up, ms", servers, ends);
}

/// The peak memory by server, in MiB.
fn peaks(children: &[Child]) -> Table {
    children.iter().map(|child| vec![child.peak() as f64 / f64::from(1 << 20)]).collect()
}

/// haft with [`AT_ONCE`] guests that never return: the waits of other calls, and the time until haft ends.
fn spinning(folder: &Path, own: &[Server]) {
    let spin = json!({"name": "guest__spin", "arguments": {}});
    let (mut pings, mut echoes, mut ends) = <(Vec<f64>, Vec<f64>, Vec<f64>)>::default();
    for _ in 0..SPINS {
        let mut child = Child::start(&own[0].command, folder);
        child.open();
        child.settle(&own[0].echo);
        for _ in 0..AT_ONCE {
            child.ask("tools/call", spin.clone());
        }
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..SLICE {
            pings.push(micros(|| drop(child.request("ping", json!({})))) / 1e3);
            echoes.push(micros(|| drop(child.request("tools/call", own[0].echo.clone()))) / 1e3);
        }
        ends.push(child.hang_up().as_secs_f64() * 1e3);
    }
    row("ping beside 8 spinning, ms", own, vec![pings]);
    row("echo beside 8 spinning, ms", own, vec![echoes]);
    row("end with 8 spinning, ms", own, vec![ends]);
}

/// Values by server.
type Table = Vec<Vec<f64>>;

fn micros(work: impl FnOnce()) -> f64 {
    seconds(work) * 1e6
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().max(Duration::from_nanos(1)).as_secs_f64()
}

fn row(what: &str, servers: &[Server], table: Table) {
    print!("{what:<32}");
    for (server, mut values) in servers.iter().zip(table) {
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values[(values.len() - 1) * part / 10];
        print!("  {} {:>9.1} ({:.1} to {:.1})", server.name, at(5), at(1), at(9));
    }
    println!();
}
