//! The duration of a call of a component with a whole Python, compared to the floor: the same component with a
//! store and an instance for each call with bare wasmtime; and the duration of its first load. `HAFT_PYTHON` names
//! the component, built by `componentize-py` for haft's world; its first tool takes a `text`. Without this variable
//! nothing is measured, which the benchmark reports.
//!
//! `HAFT_JUDGE=1` ends with an error if a ratio exceeds the promised one.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[allow(dead_code, reason = "another benchmark needs the rest of it")]
#[path = "call/floor.rs"]
mod floor;
#[path = "rounds.rs"]
mod rounds;
#[path = "call/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::limit::Reuse;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginOptions, PluginTool, Source};
use haft::tool::{Session, Toolbox};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::table::Table;

/// Pause between two calls: a model takes longer.
const PAUSE: Duration = Duration::from_millis(30);

/// The promised limits: the ratio to the floor of a fresh instance, and of a reused one.
const PROMISED: [f64; 2] = [1.0 / 3.0, 1.0 / 5.0];

fn main() {
    let Some(component) = std::env::var_os("HAFT_PYTHON").map(PathBuf::from) else {
        println!("SKIPPED: `HAFT_PYTHON` names no component; `.ci/steps/python` builds one");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    first_load(&runtime, &component, directory.path());
    let ratios = calls(&runtime, &component, directory.path());
    let kept: Vec<bool> = ratios.iter().zip(PROMISED).map(|(ratio, most)| *ratio <= most).collect();
    println!(
        "\nfresh instance {:.3} of the floor, kept instance {:.3}; kept promises: {kept:?}",
        ratios[0], ratios[1]
    );
    let judged = std::env::var_os("HAFT_JUDGE").is_some();
    std::process::exit(i32::from(judged && kept.contains(&false)));
}

fn engine(cache: &Path, many: bool, events: Events) -> Engine {
    let cache = Some(cache.to_owned());
    Engine::new(&EngineOptions { cache, prewarm: many, pooling: many, events, ..EngineOptions::default() })
}

fn load(runtime: &Runtime, engine: &Engine, component: &Path) -> Plugin {
    let source = Source::File(component.to_owned());
    runtime.block_on(Plugin::load(engine, "python", source, &Limits::default())).unwrap()
}

/// The first load: haft reports the compilation, which uses every processor and happens once; then it loads.
fn first_load(runtime: &Runtime, component: &Path, cache: &Path) {
    println!("\nfrom the file to its list of tools");
    let events = Events::to(|event| match event {
        Event::Compiling { plugin, bytes } => println!("  told: compiling `{plugin}` ({bytes} bytes)"),
        Event::Compiled { plugin, duration } => println!("  told: compiled `{plugin}` in {duration:.1?}"),
        _ => {}
    });
    for time in ["first time", "second time"] {
        let (begun, spent) = (Instant::now(), processor_time());
        load(runtime, &engine(cache, false, events.clone()), component);
        let (elapsed, spent) = (begun.elapsed(), processor_time().saturating_sub(spent));
        println!("{time}: {elapsed:.3?}, {:.2} processors busy", spent.as_secs_f64() / elapsed.as_secs_f64());
    }
}

/// The processor time of this process so far, in steps of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name may contain any character: user and system time are fields 12 and 13 after it.
    let fields = stat.rsplit_once(')').unwrap().1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    Duration::from_millis(10) * ticks.map(|ticks| ticks.parse::<u32>().unwrap()).sum::<u32>()
}

fn toolbox(plugin: &Plugin) -> Toolbox {
    let mut toolbox = Toolbox::default();
    let tool = PluginTool::new(plugin, &plugin.tools()[0], "tool".into(), GrantPlace::Plugin);
    toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the benchmark").unwrap();
    toolbox
}

fn call(runtime: &Runtime, toolbox: &Toolbox, arguments: &Value) {
    let call = ToolCall { id: "1".into(), tool: "tool".into(), arguments: arguments.clone() };
    let result = runtime.block_on(toolbox.dispatch(call, &Session::default()));
    assert!(!result.is_error, "{}", result.content);
}

/// The ratios to the floor of a fresh instance and of a reused one.
fn calls(runtime: &Runtime, component: &Path, cache: &Path) -> [f64; 2] {
    let floor = floor::Floor::new(component);
    let fresh = load(runtime, &engine(cache, true, Events::none()), component);
    let once = load(runtime, &engine(cache, false, Events::none()), component);
    let name = fresh.tools()[0].name.clone();
    let reuse = Reuse { max_calls: Reuse::MAX_CALLS, ..Reuse::default() };
    let kept = toolbox(&fresh.with(PluginOptions { reuse: Some(reuse), ..PluginOptions::default() }));
    let (fresh, once) = (toolbox(&fresh), toolbox(&once));
    let arguments = json!({ "text": "one two three two one" });
    let mut table = Table::new("one call of a component with a Python inside, 30 ms after the one before");
    table.pause = PAUSE;
    table.row("floor: store, instantiate, call", || floor.call(&name, &arguments));
    table.row("haft, an instance made for the call", || call(runtime, &once, &arguments));
    table.row("haft, a fresh instance made ahead", || call(runtime, &fresh, &arguments));
    table.row("haft, reuse", || call(runtime, &kept, &arguments));
    let rows = table.print();
    [rows[2].ratio, rows[3].ratio]
}
