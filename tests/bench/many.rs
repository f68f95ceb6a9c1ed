//! The cost of a program with 1,000 plugins compared to one with 10: listing its tools, one call in a new process,
//! and one call among many in a running process. Every plugin is a distinct component in the cache.
//!
//! Both programs run in turn, round by round; the result is the last column.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "rounds.rs"]
mod rounds;
#[path = "call/table.rs"]
mod table;
#[allow(dead_code, reason = "tests need more of it")]
#[path = "../tiny.rs"]
mod tiny;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use haft::call::ToolCall;
use haft::event::Events;
use haft::program::{Options, Program};
use serde_json::json;

use crate::table::Table;
use crate::tiny::Tiny;

/// Number of plugins of the two programs.
const COUNTS: [usize; 2] = [10, 1000];
const NAMES: [&str; 2] = ["10 plugins", "1,000 plugins"];

fn main() -> ExitCode {
    // haft started this process as a helper for confinement.
    if let Some(code) = haft::backend::entry() {
        return code;
    }
    match std::env::var_os("HAFT_BENCH_MANY") {
        // The benchmark started this process, with its own home and cache.
        Some(folder) => dispatch(Path::new(&folder)),
        None => measure(),
    }
    ExitCode::SUCCESS
}

fn measure() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = directory.path();
    for count in COUNTS {
        program(&folder.join(count.to_string()), count);
    }
    println!("compiling {} components, once", COUNTS[1]);
    for count in COUNTS {
        haft(folder, count, &["tools"]);
    }
    // haft reads files again that changed just now.
    std::thread::sleep(Duration::from_secs(3));
    for count in COUNTS {
        haft(folder, count, &["tools"]);
    }
    let listing = compare("`haft tools`, a process each", folder, &["tools"]);
    let more = (listing[1] - listing[0]) / 990.0;
    println!("{:.1} ms with 10, and {more:.1} us for each plugin more", listing[0] / 1e3);
    compare("`haft call` of one tool, a process each", folder, &["call", "p5__tiny"]);
    let own = std::env::current_exe().unwrap();
    assert!(
        at_home(&mut Command::new(own), folder).env("HAFT_BENCH_MANY", folder).status().unwrap().success()
    );
}

/// A child whose home and cache are below `folder`.
fn at_home<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    command
        .env("HOME", folder)
        .env("HAFT_TRUST", "1")
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("XDG_STATE_HOME", folder.join("state"))
}

/// A program of `count` plugins in `folder`; a custom section makes each component distinct.
fn program(folder: &Path, count: usize) {
    std::fs::create_dir(folder).unwrap();
    let description =
        "Does little, in as many words as an author would use to say what a tool does.".to_owned();
    let parameters = r#"{"type":"object","properties":{"path":{"type":"string","description":"Where"}}}"#;
    let tools = vec![("tiny".to_owned(), description, parameters.to_owned(), None)];
    let tiny = Tiny { tools, ..Tiny::default() }.bytes();
    let mut text = "[program]\nname = \"many\"\nversion = \"1.0.0\"\n".to_owned();
    for number in 0..count {
        let note = format!("\u{4}note{number:04}");
        let length = u8::try_from(note.len()).unwrap();
        let component = [&tiny[..], &[0, length], note.as_bytes()].concat();
        std::fs::write(folder.join(format!("p{number}.wasm")), component).unwrap();
        writeln!(text, "[[plugins]]\nname = \"p{number}\"\ncomponent = \"p{number}.wasm\"").unwrap();
    }
    std::fs::write(folder.join("program.toml"), text).unwrap();
}

fn haft(folder: &Path, count: usize, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.arg("--program").arg(file(folder, count)).args(arguments);
    let command = at_home(&mut command, folder).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

fn file(folder: &Path, count: usize) -> PathBuf {
    folder.join(count.to_string()).join("program.toml")
}

/// The medians of both programs, in microseconds.
fn compare(title: &'static str, folder: &Path, arguments: &[&str]) -> [f64; 2] {
    let mut table = Table::new(title);
    for (count, name) in COUNTS.into_iter().zip(NAMES) {
        table.row(name, move || haft(folder, count, arguments));
    }
    let rows = table.print();
    [rows[0].median, rows[1].median]
}

/// One call in a process that has loaded the whole program.
fn dispatch(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let loaded = COUNTS.map(|count| {
        let options = Options {
            trust: haft::program::Trust::Everything,
            program: Some(file(folder, count)),
            many_calls: true,
            ..Options::default()
        };
        runtime.block_on(Program::load(&options)).unwrap()
    });
    let mut table = Table::new("one call of one tool, the whole program loaded, journal and all");
    for (program, name) in loaded.iter().zip(NAMES) {
        let (runtime, session) = (&runtime, program.session("call", Events::none()));
        table.row(name, move || {
            let call = ToolCall { id: "1".into(), tool: "p5__tiny".into(), arguments: json!({}) };
            let result = runtime.block_on(program.toolbox.dispatch(call, &session));
            assert!(!result.is_error, "{}", result.content);
        });
    }
    table.print();
}
