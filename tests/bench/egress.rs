//! The cost of single hosts: a child that connects to a granted host of this machine compared to an unconfined child,
//! in turn. Small requests, 1 GiB, the start of a child, HTTPS with and without a secret, and the memory of haft with many open connections. Prints a
//! table; no time fails the benchmark.
//!
//! `cargo bench --bench egress`

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "rounds.rs"]
mod rounds;
#[path = "egress/tls.rs"]
mod tls;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use haft::backend::confine::Confiner;
use haft::backend::process::{ExitReason, Output, ProcessSpec, run};
use haft::grant::{Grant, Root, SandboxMode};
use haft::manifest::ProcessLimits;
use haft::tool::Own;

use crate::rounds::rounds;

const ROUNDS: usize = 15;
const STARTS: usize = 100;
const REQUESTS: usize = 1000;
const OPEN: usize = 1000;
const BYTES: u64 = 1 << 30;
const HELPER: &str = env!("CARGO_BIN_EXE_haft-confine");

/// The byte by which a client requests a small answer, [`BYTES`] bytes, or an open connection.
const SMALL: u8 = b's';
const LARGE: u8 = b'l';
const HELD: u8 = b'h';

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("client") {
        let mut word = || words.next().unwrap();
        return client(&word(), word().parse().unwrap());
    }
    if tls::has_run_with_authority() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

/// The work of a child; prints its duration in microseconds.
fn client(deed: &str, port: u16) {
    let reach = |kind: u8| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&[kind]).unwrap();
        stream
    };
    let read = |mut stream: TcpStream| std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    let started = Instant::now();
    match deed {
        "nothing" => {}
        "requests" => (0..REQUESTS).for_each(|_| assert_eq!(read(reach(SMALL)), 200)),
        "bytes" => assert_eq!(read(reach(LARGE)), BYTES),
        _ => {
            let all: Vec<_> = (0..OPEN).map(|_| reach(HELD)).collect();
            assert!(all.into_iter().all(|stream| read(stream) == 0));
        }
    }
    println!("{}", started.elapsed().as_micros());
}

/// Serves clients; returns the port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        let content = vec![0_u8; 1 << 18];
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut kind = [0];
            stream.read_exact(&mut kind).unwrap();
            match kind[0] {
                SMALL => stream.write_all(&content[..200]).unwrap(),
                LARGE => (0..BYTES / (1 << 18)).for_each(|_| stream.write_all(&content).unwrap()),
                _ => held.push(stream),
            }
            if held.len() == OPEN {
                println!(
                    "{OPEN} open connections: haft has {} KiB, its helpers {} KiB",
                    memory("self"),
                    helpers()
                );
                held.clear();
            }
        }
    });
    port
}

/// The resident memory of a process, in KiB.
fn memory(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The resident memory of this process's helpers, in KiB, with those that wait or watch.
fn helpers() -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let is_helper = |name: &String| {
        std::fs::read_to_string(format!("/proc/{name}/comm")).is_ok_and(|comm| comm.trim() == "haft-confine")
    };
    names.filter(is_helper).map(|name| memory(&name)).sum()
}

async fn measure() {
    let directory = tempfile::tempdir().unwrap();
    let port = server();
    let root = Root::resolve(Path::new("/"), directory.path()).unwrap();
    let open = Grant::sandbox(SandboxMode::Sandbox, root, []);
    let hosts =
        open.clone().with_network(false).with_child_host(format!("127.0.0.1:{port}").parse().unwrap());
    let [by_open, by_hosts] = [(); 2].map(|()| Confiner::with_helper(HELPER));
    println!(
        "{:<26}{:>12}{:>16}{:>16}{:>10}{:>10}",
        "p50 ms", "plain", "open network", "single hosts", "of plain", "of open"
    );
    for (deed, usual) in [("requests", ROUNDS), ("bytes", ROUNDS)] {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds(usual) {
            times[0].push(plain(own(deed, port)).await);
            times[1].push(confined(&by_open, &open, own(deed, port)).await.0);
            times[2].push(confined(&by_hosts, &hosts, own(deed, port)).await.0);
        }
        report(deed, times.map(median));
    }
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds(STARTS) {
        let started = Instant::now();
        plain(own("nothing", port)).await;
        times[0].push(started.elapsed());
        times[1].push(confined(&by_open, &open, own("nothing", port)).await.1);
        times[2].push(confined(&by_hosts, &hosts, own("nothing", port)).await.1);
    }
    report("start of a child", times.map(median));
    tls::measure(&by_hosts, &open.clone().with_network(false)).await;
    println!("no connection: haft has {} KiB", memory("self"));
    confined(&by_hosts, &hosts, own("held", port)).await;
}

/// Returns the words of this program as a client.
fn own(deed: &str, port: u16) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    [program, "client".to_owned(), deed.to_owned(), port.to_string()].into()
}

async fn plain(words: Vec<String>) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "what single hosts are compared with")]
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    took(&String::from_utf8(command.output().await.unwrap().stdout).unwrap())
}

/// Returns the duration that the child reports, and the duration of the whole run.
async fn confined(confiner: &Confiner, grant: &Grant, words: Vec<String>) -> (Duration, Duration) {
    let variables = ["PATH", "SSL_CERT_FILE"];
    let job = ProcessSpec {
        program: words[0].clone().into(),
        arguments: words[1..].iter().map(Into::into).collect(),
        environment: variables
            .iter()
            .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
            .collect(),
        input: Vec::new(),
        output: Output::Merged,
        limit: 1000,
        timeout: Duration::from_mins(5),
        limits: ProcessLimits::default(),
    };
    let own = Own::default();
    let started = Instant::now();
    let mut finished = run(confiner, &job, "bench", &own.context(grant)).await.unwrap();
    let all = started.elapsed();
    let said = finished.stdout.render(1000);
    assert!(matches!(finished.end, ExitReason::Exited(status) if status.success()), "{said}");
    (took(&said), all)
}

fn took(said: &str) -> Duration {
    Duration::from_micros(said.trim().parse().unwrap())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn report(deed: &str, [plain, open, hosts]: [f64; 3]) {
    println!("{deed:<26}{plain:>12.2}{open:>16.2}{hosts:>16.2}{:>10.2}{:>10.2}", hosts / plain, hosts / open);
}
