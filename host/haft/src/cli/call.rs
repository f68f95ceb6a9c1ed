//! `haft call`: calls one tool once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, CommandFactory as _};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::common::Common;
use super::terminal::{Hinted, Terminal, Trace, Tracer};
use super::{Cli, Exit, approvals, build, completions, grant, pipes};
use haft_core::call::{ToolCall, ToolDef};
use haft_core::tool::{Keep, Notes, Session, clip};
use haft_plugin_host::debug::Recorder;

/// Maximum bytes of arguments from standard input.
const MAX_INPUT: u64 = 64 << 20;

/// Maximum characters of arguments that an error repeats.
const MAX_SHOWN: usize = 2000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft call time
  haft call read '{\"file_path\": \"README.md\", \"limit\": 3}'
  haft call bash --arg command='git status'
  jq -n '{command: \"ls\"}' | haft call bash -")]
pub(super) struct Call {
    /// The tool's name
    #[arg(add = completions::tools())]
    tool: String,
    /// The arguments, a JSON object; `-` reads it from standard input
    #[arg(value_name = "JSON")]
    arguments: Option<String>,
    /// One argument; the value is text or JSON, depending on the tool's schema
    #[arg(short, long = "arg", value_name = "NAME=VALUE", value_parser = pair, add = completions::arguments())]
    args: Vec<(String, String)>,
    /// Show the plugin's host calls with times and refusals, and its memory use
    #[arg(long)]
    trace: bool,
    /// Write a flame graph of the plugin's time (SVG); `FILE.folded` has the stacks as text
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write the plugin's memory and stack to a file if it traps
    #[arg(long, value_name = "FILE")]
    coredump: Option<PathBuf>,
    #[arg(skip)]
    tracer: OnceLock<Tracer>,
}

impl Call {
    pub(super) async fn execute(mut self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        // The program is loaded first: the redactor then knows the secrets for an error about the arguments.
        let (recording, tool) =
            (Recording::new(self.profile.take(), self.coredump.take()), self.tool.clone());
        Box::pin(build::freshen(common, terminal, &tool)).await?;
        let program = common.program_for(terminal, &tool, recording.recorder.clone()).await?;
        let mut arguments = self.object()?;
        let def = program.toolbox.find(&self.tool).map(haft_core::tool::Entry::def);
        let is_unknown = def.is_none() && program.toolbox.withheld(&self.tool).is_none();
        for (name, text) in self.args {
            let value = value(def, &name, text);
            arguments.insert(name, value);
        }
        let call = ToolCall { id: "call".into(), tool: self.tool, arguments: Value::Object(arguments) };
        let approvals = approvals::of(terminal.person(), &program, "call", terminal)?;
        let notes = Notes::recording();
        let widening = grant::widening_at(terminal, &program);
        let session = Session {
            approvals,
            widening,
            notes: notes.clone(),
            ..program.session("call", terminal.messages())
        };
        let cancel = session.cancel.clone();
        // The handler is set before the call is in the journal: a process that sees the call there may interrupt it.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
        let tools = program.typed_tools();
        let begun = Instant::now();
        let mut answer = std::pin::pin!(tools.dispatch(call, &session));
        let (result, interrupted) = tokio::select! {
            result = &mut answer => (result, false),
            _ = interrupt.recv() => {
                cancel.cancel();
                (answer.await, true)
            }
        };
        program.close().await;
        recording.write(&tool, terminal)?;
        let trace = self.tracer.get().map(|tracer| Trace::new(tracer, &notes.notes(), begun.elapsed()));
        if let Some(trace) = trace.as_ref().filter(|_| !terminal.json) {
            terminal.message(trace.page());
        }
        for note in notes.notes().coerced {
            terminal.message(format!("note: {note}"));
        }
        match trace.filter(|_| terminal.json) {
            Some(trace) => terminal.json(&json!({ "result": result, "trace": trace.json() }))?,
            None => terminal.result(&result)?,
        }
        if is_unknown && !terminal.json && Cli::command().find_subcommand(&tool).is_some() {
            terminal.hint(&format!("`haft {tool}` is a command of its own"));
        }
        Ok(match (interrupted, result.is_error) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Tool,
            (false, false) => Exit::Success,
        })
    }

    /// Returns the tracer of the plugin's host calls, if they are to be shown.
    pub(super) fn tracer(&self) -> Option<Tracer> {
        self.trace.then(|| self.tracer.get_or_init(Tracer::default).clone())
    }

    fn object(&self) -> anyhow::Result<Map<String, Value>> {
        let text = match self.arguments.as_deref() {
            None => return Ok(Map::new()),
            Some("-") => pipes::input("the arguments", MAX_INPUT)?,
            Some(text) => text.to_owned(),
        };
        match haft_core::json::read(text.as_bytes()) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(self.not_an_object(&text)),
        }
    }

    fn not_an_object(&self, text: &str) -> anyhow::Error {
        let text = text.trim();
        let shown = clip(text, MAX_SHOWN, Keep::Head);
        let problem = format!("the arguments are not a JSON object such as `{{\"path\": \"x\"}}`: `{shown}`");
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
        match text.split_once('=') {
            Some((name, _)) if is_name(name) && text.len() <= MAX_SHOWN => {
                let pair = shell_words::quote(text);
                let hint = format!("pass a single argument as `haft call {} --arg {pair}`", self.tool);
                Hinted::new(problem, hint).into()
            }
            _ => anyhow::anyhow!(problem),
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Returns text if the schema expects text or has no type for the argument. Otherwise returns JSON, or text if it is
/// not JSON.
pub(super) fn value(def: Option<&ToolDef>, name: &str, text: String) -> Value {
    let schema = def.and_then(|def| def.parameters.get("properties")?.get(name)?.get("type"));
    let wants_text = match schema {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    };
    if wants_text { Value::String(text) } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

// Files about a call for the plugin's author: a profile, a core dump.

/// The requested files, and the recorder of their content.
struct Recording {
    profile: Option<PathBuf>,
    coredump: Option<PathBuf>,
    recorder: Option<Recorder>,
}

impl Recording {
    fn new(profile: Option<PathBuf>, coredump: Option<PathBuf>) -> Self {
        let is_wanted = profile.is_some() || coredump.is_some();
        let recorder = is_wanted.then(|| Recorder::new(profile.is_some(), coredump.is_some()));
        Self { profile, coredump, recorder }
    }

    /// Writes the recorded data about a call of `tool`, and prints the paths of the files.
    fn write(&self, tool: &str, terminal: Terminal) -> anyhow::Result<()> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        if let Some(path) = &self.profile {
            let stacks = recorder.profile();
            let times: u64 = stacks.iter().map(|(_, times)| times).sum();
            let is_text = path.extension().is_some_and(|extension| extension == "folded");
            let title = format!("{tool}: {times} samples, one per millisecond");
            let text = if is_text { folded(&stacks) } else { draw(&title, &stacks) };
            write(path, text.as_bytes())?;
            let shown = path.display();
            let seen = if times == 0 {
                "no plugin ran for a millisecond".to_owned()
            } else {
                format!("the plugin was sampled {times} times")
            };
            terminal.message(format_args!("wrote `{shown}`: {seen}"));
        }
        if let Some(path) = &self.coredump {
            match recorder.coredump() {
                Some(bytes) => {
                    write(path, &bytes)?;
                    terminal
                        .message(format_args!("wrote `{}`: the plugin's memory and stack", path.display()));
                }
                None => terminal.message("no core dump: no plugin trapped"),
            }
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

// A flame graph: the share of each function in the time of a call. The width of a box is the number of samples.

/// Sizes in pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TITLE: f64 = 30.0;

/// Minimum width of a box, and the width of a character of a name, in pixels.
const LEAST: f64 = 0.4;
const CHARACTER: f64 = 6.8;

#[derive(Default)]
struct Node {
    times: u64,
    called: BTreeMap<String, Node>,
}

/// Returns one line for each stack: its functions, separated by `;`, and the number of samples. Other programs draw
/// and compare this format.
fn folded(stacks: &[(Vec<String>, u64)]) -> String {
    stacks
        .iter()
        .map(|(stack, times)| format!("{} {times}\n", stack.join(";").replace(['\n', '\r'], " ")))
        .collect()
}

fn draw(title: &str, stacks: &[(Vec<String>, u64)]) -> String {
    let mut root = Node::default();
    for (stack, times) in stacks {
        root.times += times;
        let mut node = &mut root;
        for function in stack {
            node = node.called.entry(function.clone()).or_default();
            node.times += times;
        }
    }
    let depth = stacks.iter().map(|(stack, _)| stack.len()).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
    let height = TITLE + (depth + 1) as f64 * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let all = root.times;
    root.draw(&mut svg, ("all", all), (0.0, TITLE));
    svg.push_str("</svg>\n");
    svg
}

impl Node {
    #[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
    fn share(&self, all: u64) -> f64 {
        self.times as f64 / all.max(1) as f64
    }

    /// Draws the box of the function, and below it the boxes of the functions that it called.
    fn draw(&self, svg: &mut String, (name, all): (&str, u64), (x, y): (f64, f64)) {
        let share = self.share(all);
        let width = share * WIDTH;
        if width < LEAST {
            return;
        }
        let (told, shown) = (escaped(name), escaped(&fitting(name, width)));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            svg,
            "<g><title>{told}: {:.1} %, seen {} times</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{shown}</text></g>",
            share * 100.0,
            self.times,
            width - 0.2,
            ROW - 1.0,
            colour(name),
            x + 3.0,
            y + 12.0
        );
        let mut x = x;
        for (name, called) in &self.called {
            called.draw(svg, (name, all), (x, y + ROW));
            x += called.share(all) * WIDTH;
        }
    }
}

/// Returns as much of a name as fits into `width`, or an empty text if that is too short to be useful.
fn fitting(name: &str, width: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in characters")]
    let room = (width / CHARACTER) as usize;
    match name.chars().count() {
        count if count <= room => name.to_owned(),
        _ if room < 4 => String::new(),
        _ => name.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// Returns a warm colour that depends on the function's name.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("hsl({}, 80%, {}%)", 10 + hash % 45, 62 + hash / 64 % 14)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_function_was_seen() {
        let stack = |names: &[&str], times| (names.iter().map(|name| (*name).to_owned()).collect(), times);
        let stacks = [stack(&["main", "<parse>"], 3), stack(&["main"], 1)];
        assert_eq!(folded(&stacks), "main;<parse> 3\nmain 1\n");
        let svg = draw("a & b", &stacks);
        assert!(svg.contains("a &amp; b") && svg.contains("&lt;parse&gt;: 75.0 %, seen 3 times"), "{svg}");
        assert!(svg.contains("main: 100.0 %, seen 4 times") && svg.contains("width=\"899.80\""), "{svg}");
        assert_eq!(svg.matches("<g>").count(), 3);
    }
}
