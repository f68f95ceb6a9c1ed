//! The cost of confinement: `bash -c true` through haft compared to an unconfined spawn, in turn, and again with a
//! host that holds a gigabyte. Prints a table; no time fails the benchmark.
//!
//! `cargo bench --bench confine`

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "rounds.rs"]
mod rounds;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use haft::backend::confine::{Confiner, Layers};
use haft::backend::process::{ExitReason, Output, ProcessSpec, run};
use haft::backend::start::ENVIRONMENT;
use haft::grant::{Grant, Root, SandboxMode};
use haft::lookup::{find_on_path, search_path};
use haft::manifest::ProcessLimits;
use haft::tool::Own;

use crate::rounds::rounds;

const ROUNDS: usize = 200;
const BALLAST: usize = 1 << 30;
const THREADS: usize = 32;
const HELPER: &str = env!("CARGO_BIN_EXE_haft-confine");
const ITSELF: &str = env!("CARGO_BIN_EXE_haft");

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let small = measure().await;
        let ballast = Ballast::new();
        let large = measure().await;
        drop(ballast);
        report(&small, &large);
    });
}

/// Memory that is resident, and threads that wait.
struct Ballast {
    memory: Vec<u8>,
    stop: std::sync::Arc<std::sync::Barrier>,
}

impl Ballast {
    fn new() -> Self {
        let stop = std::sync::Arc::new(std::sync::Barrier::new(THREADS + 1));
        for _ in 0..THREADS {
            let stop = stop.clone();
            std::thread::spawn(move || stop.wait());
        }
        let mut memory = vec![0_u8; BALLAST];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        Self { memory, stop }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        assert_eq!(std::hint::black_box(&self.memory).len(), BALLAST);
        self.stop.wait();
    }
}

/// The ways to start the command, and the duration of each run.
struct Ways {
    names: Vec<&'static str>,
    times: Vec<Vec<Duration>>,
}

async fn measure() -> Ways {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::resolve(Path::new("/"), directory.path()).unwrap();
    let grant = Grant::sandbox(SandboxMode::Sandbox, root, []);
    let cold = Confiner::with_helper(HELPER);
    let itself = Confiner::with_helper(ITSELF);
    let prepared = Confiner::with_helper(HELPER);
    let open = Confiner::exactly(HELPER, Layers::NONE);
    let open_prepared = Confiner::exactly(HELPER, Layers::NONE);
    let names = vec![
        "unconfined spawn",
        "watched, cold",
        "watched, prepared",
        "confined, cold",
        "the same by haft itself",
        "confined, prepared",
    ];
    let mut times = vec![Vec::new(); names.len()];
    for round in 0..rounds(ROUNDS) + 10 {
        let mut took = vec![plain(directory.path()).await];
        took.push(timed(&open, &grant).await);
        open_prepared.prepare(&grant).await.unwrap();
        took.push(timed(&open_prepared, &grant).await);
        took.push(timed(&cold, &grant).await);
        took.push(timed(&itself, &grant).await);
        prepared.prepare(&grant).await.unwrap();
        took.push(timed(&prepared, &grant).await);
        // The first rounds fill caches.
        if round >= 10 {
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    Ways { names, times }
}

const ARGUMENTS: [&str; 4] = ["--noprofile", "--norc", "-c", "true"];

/// Gives the system time to remove the remains of earlier runs.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

async fn plain(directory: &Path) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "what confinement is compared with")]
    let mut command = tokio::process::Command::new(find_on_path("bash").unwrap());
    command.args(ARGUMENTS).current_dir(directory).env_clear().stdin(Stdio::null());
    // The environment of a child of haft.
    let passed_on = ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    command.envs(passed_on).env("PATH", search_path()).env("TERM", "dumb").env("PWD", directory);
    settle().await;
    let started = Instant::now();
    let output = command.output().await.unwrap();
    assert!(output.status.success());
    started.elapsed()
}

async fn timed(confiner: &Confiner, grant: &Grant) -> Duration {
    let job = ProcessSpec {
        program: find_on_path("bash").unwrap(),
        arguments: ARGUMENTS.map(Into::into).to_vec(),
        environment: Vec::new(),
        input: Vec::new(),
        output: Output::Separate,
        limit: 1000,
        timeout: Duration::from_secs(10),
        limits: ProcessLimits::default(),
    };
    let own = Own::default();
    settle().await;
    let started = Instant::now();
    let finished = run(confiner, &job, "bench", &own.context(grant)).await.unwrap();
    let took = started.elapsed();
    assert!(matches!(finished.end, ExitReason::Exited(status) if status.success()));
    took
}

fn report(small: &Ways, large: &Ways) {
    println!("{:<26}{:>34}{:>34}", "", "small host", "host with 1 GiB and 32 threads");
    let columns = format!("{:>10}{:>10}{:>14}", "p50 ms", "p95 ms", "ratio");
    println!("{:<26}{columns}{columns}", "");
    for (index, name) in small.names.iter().enumerate() {
        print!("{name:<26}");
        for ways in [small, large] {
            let [p50, p95] = [50, 95].map(|percent| percentile(&ways.times[index], percent));
            print!("{p50:>10.2}{p95:>10.2}{:>14.2}", p50 / percentile(&ways.times[0], 50));
        }
        println!();
    }
}

/// Milliseconds.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[sorted.len() * percent / 100].as_secs_f64() * 1e3
}
