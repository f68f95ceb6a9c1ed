//! The cost of a call that runs on a worker, compared to NATS itself: a process that only answers gets the same
//! bytes, in turn, so that a machine whose speed drifts changes both alike. Prints a table; no time fails the
//! benchmark.
//!
//! `HAFT_NATS_SERVER=nats-server cargo bench --bench nats`; `.ci/steps/nats CACHE bench` fetches the server. The
//! measured call only reads (`hello`, a fresh instance each); calls with a claim have a row of their own.

#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "rounds.rs"]
mod rounds;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::program::{Machines, Options, Program};
use haft::tool::Session;
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use crate::rounds::rounds;

/// Rounds; each measures every variant once.
const ROUNDS: usize = 40;

/// Calls one after the other in a round.
const SLICE: usize = 50;

/// Calls of a burst, and the number of concurrent ones.
const BURST: usize = 2000;
const AT_ONCE: usize = 64;

/// Calls of 20 ms, for each worker with one place.
const SLEEPS: usize = 100;

/// A child that ends with the benchmark.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> ExitCode {
    // haft started this process as a helper for confinement.
    if let Some(code) = haft::backend::entry() {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match std::env::var("HAFT_BENCH_ECHO_URL") {
        // The benchmark started this process.
        Ok(url) => runtime.block_on(echo(&url)),
        Err(_) => runtime.block_on(measure()),
    }
    ExitCode::SUCCESS
}

/// Answers each message with its own bytes.
async fn echo(url: &str) {
    let client = async_nats::connect(url).await.unwrap();
    let mut asked = client.subscribe("bench.echo").await.unwrap();
    while let Some(message) = asked.next().await {
        client.publish(message.reply.unwrap(), message.payload).await.unwrap();
    }
}

async fn measure() {
    let Some(server) = std::env::var_os("HAFT_NATS_SERVER") else {
        println!("SKIPPED: `HAFT_NATS_SERVER` does not say where a NATS server is");
        return;
    };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("nats://127.0.0.1:{port}");
    let _server = start_server(&server, port, directory.path());
    let own = std::env::current_exe().unwrap();
    let _echo = Process(Command::new(own).env("HAFT_BENCH_ECHO_URL", &url).spawn().unwrap());
    let fast = program(&directory.path().join("fast"), "bench", &url).await;
    let running = worker(&directory.path().join("fast"), &url, "one", 128);
    ready(&fast).await;
    let client = async_nats::connect(&url).await.unwrap();
    one_by_one(&client, &fast).await;
    at_once(&client, &fast).await;
    drop(running);
    scale(directory.path(), &url).await;
}

fn start_server(server: &std::ffi::OsStr, port: u16, folder: &Path) -> Process {
    let (port_text, store) = (port.to_string(), folder.join("store"));
    let mut command = Command::new(server);
    command.args(["-a", "127.0.0.1", "-p", &port_text, "-js", "-sd"]).arg(store);
    let child = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The program in `folder`, loaded as a gate.
async fn program(folder: &Path, name: &str, url: &str) -> Arc<Program> {
    std::fs::create_dir_all(folder.join("home")).unwrap();
    let (guest, hello) = ("tests/guests/built/hostile.wasm", "plugins/built/hello.wasm");
    let [guest, hello] = [guest, hello].map(|path| repository().join(path));
    let text = format!(
        "[program]\nname = \"{name}\"\nversion = \"1.0.0\"\n[sandbox]\nworkspace = \".\"\n\
         [[plugins]]\nname = \"guest\"\ncomponent = \"{}\"\ntools = [\"sleep\"]\non = [\"*\"]\n\
         [[plugins]]\nname = \"hello\"\ncomponent = \"{}\"\non = [\"*\"]\n\
         [[tools]]\nname = \"true\"\ndescription = \"Nothing.\"\ncommand = [\"true\"]\narguments = []\non = [\"*\"]\n",
        guest.display(),
        hello.display()
    );
    std::fs::write(folder.join("program.toml"), text).unwrap();
    let options = Options {
        trust: haft::program::Trust::Everything,
        program: Some(folder.join("program.toml")),
        no_journal: true,
        many_calls: true,
        machines: Machines::at(Some(url.parse().unwrap())),
        ..Options::default()
    };
    Arc::new(Program::load(&options).await.unwrap())
}

fn worker(folder: &Path, url: &str, name: &str, places: usize) -> Process {
    let places = places.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command
        .args(["worker", "--nats", url, "--name", name, "--places", &places])
        .current_dir(folder)
        .env("HOME", folder.join("home"))
        .env("HAFT_TRUST", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process(command.spawn().unwrap())
}

async fn call(program: &Program, tool: &str, arguments: Value) -> bool {
    let call = ToolCall { id: "bench".into(), tool: tool.into(), arguments };
    !program.toolbox.dispatch(call, &Session::default()).await.is_error
}

async fn ready(program: &Program) {
    let begun = Instant::now();
    while !reads(program).await {
        assert!(begun.elapsed() < Duration::from_mins(1), "no worker comes");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A call without effects, of the component that the benchmark `call` measures.
async fn reads(program: &Program) -> bool {
    call(program, "hello__hello", json!({ "name": "hi" })).await
}

/// As many bytes as a call of the gate.
fn payload() -> bytes::Bytes {
    vec![b'x'; 250].into()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Sequential calls: NATS alone, a call that only reads, and a call with a claim.
async fn one_by_one(client: &async_nats::Client, program: &Program) {
    let (mut floor, mut read, mut claimed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds(ROUNDS) {
        for _ in 0..SLICE {
            let begun = Instant::now();
            client.request("bench.echo", payload()).await.unwrap();
            floor.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        for _ in 0..SLICE {
            let begun = Instant::now();
            assert!(reads(program).await);
            read.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        let begun = Instant::now();
        assert!(call(program, "program__bench__true", json!({})).await);
        claimed.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let (floor, read, claimed) = (median(floor), median(read), median(claimed));
    println!("one at a time, median, us");
    println!("  NATS request/reply           {floor:8.0}");
    println!("  gate and worker, reading     {read:8.0}   {:.2} x", read / floor);
    println!("  gate and worker, a command   {claimed:8.0}   claimed, a process started");
}

/// Concurrent calls, per second.
async fn at_once(client: &async_nats::Client, program: &Arc<Program>) {
    let (mut floor, mut read) = (Vec::new(), Vec::new());
    for _ in 0..rounds(ROUNDS / 4) {
        let client = client.clone();
        floor.push(
            burst(move || {
                let client = client.clone();
                async move { drop(client.request("bench.echo", payload()).await.unwrap()) }
            })
            .await,
        );
        let program = program.clone();
        read.push(
            burst(move || {
                let program = program.clone();
                async move { assert!(reads(&program).await) }
            })
            .await,
        );
    }
    let (floor, read) = (median(floor), median(read));
    println!("{AT_ONCE} at a time, calls a second");
    println!("  NATS request/reply           {floor:8.0}");
    println!("  gate and worker, reading     {read:8.0}   {:.2} x", read / floor);
}

async fn burst<F: Future<Output = ()> + Send + 'static>(ask: impl Fn() -> F + Send + Clone + 'static) -> f64 {
    let begun = Instant::now();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let ask = ask.clone();
        asking.spawn(async move {
            for _ in 0..BURST / AT_ONCE {
                ask().await;
            }
        });
    }
    asking.join_all().await;
    BURST as f64 / begun.elapsed().as_secs_f64()
}

/// Workers with one place each, and a tool that waits.
async fn scale(folder: &Path, url: &str) {
    println!("a tool that waits 20 ms, workers with one place each, calls a second");
    let mut first = None;
    for count in [1, 2, 4] {
        // Each count has its own program, so that workers of the last one do not disturb.
        let place = folder.join(format!("scale-{count}"));
        let program = program(&place, &format!("bench-{count}"), url).await;
        let workers: Vec<_> = (0..count).map(|n| worker(&place, url, &format!("w{n}"), 1)).collect();
        ready(&program).await;
        while program.placement.gate().unwrap().health().await.unwrap().workers.len() < count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Every worker has compiled the component after these calls.
        sleeps(&program, 8 * count).await;
        let rate = sleeps(&program, SLEEPS * count).await;
        let factor = rate / *first.get_or_insert(rate);
        println!("  {count} workers                    {rate:8.1}   {factor:.2} x");
        drop(workers);
    }
}

async fn sleeps(program: &Arc<Program>, count: usize) -> f64 {
    let begun = Instant::now();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..count {
        let program = program.clone();
        asking.spawn(async move { assert!(call(&program, "guest__sleep", json!({ "ms": 20 })).await) });
    }
    asking.join_all().await;
    count as f64 / begun.elapsed().as_secs_f64()
}
