//! Shows an agent's work: its text as it arrives, a line for every call, and a spinner while there is nothing to
//! read. Draws neither over a question nor without a terminal.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::markdown::Markdown;
use super::{DIM, ERROR, Style, Terminal, WARNING, first_lines, more_lines};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::report::{plain, shortened};
use haft_core::sync::Lock;
use haft_core::tool::in_a_line;

/// Maximum characters of a call's arguments on its line.
const MAX_ARGUMENTS: usize = 100;

/// Maximum characters of a call's arguments beside the spinner, which has one line.
const MAX_WAITING: usize = 50;

/// Maximum lines of an answer in the folded display.
const MAX_ANSWER: usize = 4;

/// Maximum characters of a line of an error.
const MAX_ERROR: usize = 400;

/// Maximum bytes of answers that are kept for a complete display: those of a few turns.
const MAX_KEPT: usize = 8 << 20;

const COLUMNS: usize = 120;

/// Spaces before the call of an agent that was called as a tool, for each level of agents.
const INDENT: usize = 2;

/// Interval of the animation.
const TICK: Duration = Duration::from_millis(120);

/// The amount of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Show {
    /// Everything, for a person. Text is streamed if standard output is a terminal.
    All,
    Quiet,
    /// Every event, for a program.
    Json,
}

/// The displayed part of answers of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Answers {
    Whole,
    /// The first lines, and the command that shows the others.
    Folded(&'static str),
}

#[derive(Debug)]
pub(in crate::cli) struct Screen {
    pub(super) terminal: Terminal,
    pub(in crate::cli) show: Show,
    answers: Answers,
    streams: AtomicBool,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    markdown: Markdown,
    /// Whether the last displayed text did not end its line.
    is_midline: bool,
    /// The spinner, while it turns.
    spinner: Option<ProgressBar>,
    /// Calls by their ids: their label, and whether their tools run.
    calls: HashMap<String, (String, bool)>,
    /// The calls of this task with their answers, which were displayed in part.
    answered: Vec<(String, ToolResult)>,
    /// Messages that wait for the answer to the displayed question. `None` without a question.
    held: Option<Vec<String>>,
}

impl Screen {
    pub(in crate::cli) fn new(terminal: Terminal, show: Show, answers: Answers) -> Arc<Self> {
        let streams = AtomicBool::new(show == Show::All && io::stdout().is_terminal());
        Arc::new(Self { terminal, show, answers, streams, state: Lock::default() })
    }

    /// Turns streaming off: the caller displays the complete text, or nothing.
    pub(in crate::cli) fn hold_words(&self) {
        self.streams.store(false, Ordering::Relaxed);
    }

    /// Returns whether the text was streamed, and must not be displayed again.
    pub(in crate::cli) fn has_shown(&self) -> bool {
        self.streams.load(Ordering::Relaxed)
    }

    /// Returns the receiver of an agent's events in the next task.
    pub(in crate::cli) fn events(self: &Arc<Self>) -> Events {
        let screen = self.clone();
        screen.state.lock().answered.clear();
        Events::to(move |event| screen.event(event))
    }

    pub(in crate::cli) fn rest(&self) {
        let mut state = self.state.lock();
        self.end_text(&mut state);
        state.still();
        state.calls.clear();
    }

    /// Displays the complete answers of tools in the last task.
    pub(in crate::cli) fn show_answers(&self) {
        let state = self.state.lock();
        if state.answered.is_empty() {
            self.terminal.message(format_args!("{DIM}no tool results since your last prompt{DIM:#}"));
        }
        for (line, result) in &state.answered {
            self.terminal.message(line);
            self.terminal.message(self.answer_lines(&result.content, result.is_error, Answers::Whole));
        }
    }

    /// Clears the screen for a question, until [`Self::answered`].
    pub(super) fn asking(&self) {
        let mut state = self.state.lock();
        self.end_text(&mut state);
        state.still();
        state.held.get_or_insert_default();
    }

    /// Returns whether a question is displayed.
    pub(super) fn is_asking(&self) -> bool {
        self.state.lock().held.is_some()
    }

    /// Ends the question, and prints the waiting messages.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        for line in state.held.take().unwrap_or_default() {
            self.terminal.message(line);
        }
        self.turn_for_calls(&mut state);
    }

    fn event(&self, event: &Event) {
        match self.show {
            // If the reader of a run has closed its end, haft detects that at the end of the run.
            Show::Json => drop(self.terminal.json_line(&event.json())),
            Show::Quiet => event.not_shown().iter().for_each(|reason| self.terminal.warning(&plain(reason))),
            Show::All => self.show_event(event, &mut self.state.lock()),
        }
    }

    fn show_event(&self, event: &Event, state: &mut State) {
        match event {
            Event::Said(piece) if self.has_shown() => self.show_piece(piece, state),
            Event::Retrying { reason, delay } => {
                self.end_text(state);
                let seconds = delay.as_secs_f64();
                self.print_line(state, format!("{DIM}{}; retrying in {seconds:.1} s{DIM:#}", plain(reason)));
            }
            Event::NotShown { reason } => {
                self.end_text(state);
                self.print_line(state, format!("{WARNING}warning:{WARNING:#} {}", plain(reason)));
            }
            Event::Trimmed { left_out } => {
                let text = "the conversation is too long: its first";
                self.print_line(state, format!("{DIM}{text} {left_out} messages are no longer sent{DIM:#}"));
            }
            Event::Summarised { messages, model } => {
                let text = "the conversation is too long:";
                let by = format!("`{}` summarised its first {messages} messages", plain(model));
                self.print_line(state, format!("{DIM}{text} {by}{DIM:#}"));
            }
            Event::Asked { model } => {
                self.end_text(state);
                state.turn(format!("asking {}", plain(model)));
            }
            Event::Started(call) => {
                self.end_text(state);
                state.still();
                state.calls.insert(call.id.clone(), (label(call, MAX_WAITING), false));
            }
            Event::Running { call } => {
                if let Some((_, runs)) = state.calls.get_mut(call) {
                    *runs = true;
                }
                self.turn_for_calls(state);
            }
            Event::Completed { call, result, duration } => {
                state.calls.remove(&call.id);
                self.show_answered(completed(call, result, *duration), result, "", state);
                self.turn_for_calls(state);
            }
            Event::Info { message, .. } => self.print_line(state, format!("{DIM}{}{DIM:#}", plain(message))),
            Event::Progress { message, .. } | Event::Partial { text: message, .. } => state.note(message),
            Event::Within { agent, event, .. } => self.show_within(agent, event, state),
            // Other events include text that cannot be streamed, which is printed at the end.
            _ => {}
        }
    }

    /// Displays the work of an agent that was called as a tool: its calls and its delays. Its text goes to its
    /// caller.
    fn show_within(&self, agent: &str, event: &Event, state: &mut State) {
        let name = plain(agent);
        match event {
            Event::Within { agent, event, .. } => self.show_within(&format!("{name}/{agent}"), event, state),
            Event::Completed { call, result, duration } => {
                let depth = agent.matches('/').count() + 1;
                let line = completed(call, result, *duration);
                let indent = " ".repeat(depth * INDENT);
                self.show_answered(format!("{indent}{DIM}{name}{DIM:#} {line}"), result, &indent, state);
            }
            Event::Retrying { reason, delay } => {
                let (reason, seconds) = (plain(reason), delay.as_secs_f64());
                self.print_line(state, format!("{DIM}{name}: {reason}; retrying in {seconds:.1} s{DIM:#}"));
            }
            Event::Info { message, .. } | Event::NotShown { reason: message } => {
                self.print_line(state, format!("{DIM}{name}: {}{DIM:#}", plain(message)));
            }
            _ => {}
        }
    }

    /// Displays a call and its answer, with `indent`.
    fn show_answered(&self, line: String, result: &ToolResult, indent: &str, state: &mut State) {
        let answer = self.answer_lines(&result.content, result.is_error, self.answers);
        let answer = answer.replace('\n', &format!("\n{indent}"));
        let shown = if answer.is_empty() { line.clone() } else { format!("{line}\n{indent}{answer}") };
        if matches!(self.answers, Answers::Folded(_)) && !result.content.trim().is_empty() {
            let answer = if result.is_error { ToolResult::error } else { ToolResult::success };
            state.keep(line, answer(result.content.clone()));
        }
        self.print_line(state, shown);
    }

    /// Returns the lines of a tool's answer. Lines of an error are longer, because they contain the remedy.
    fn answer_lines(&self, text: &str, is_error: bool, answers: Answers) -> String {
        let columns = self.terminal.message_columns().unwrap_or(COLUMNS).saturating_sub(INDENT + 1);
        let characters = if is_error { MAX_ERROR } else { columns };
        let (lines, more) = match answers {
            Answers::Whole => first_lines(text, usize::MAX, usize::MAX),
            Answers::Folded(_) => first_lines(text, MAX_ANSWER, characters),
        };
        let rest = match answers {
            Answers::Folded(how) if more > 0 => Some(format!("  {}", more_lines(more, how))),
            _ => None,
        };
        let lines = lines.iter().map(|line| format!("  {DIM}{line}{DIM:#}"));
        lines.chain(rest).collect::<Vec<_>>().join("\n")
    }

    fn show_piece(&self, piece: &str, state: &mut State) {
        state.still();
        let text = state.markdown.push(piece);
        if let Some(last) = text.chars().next_back() {
            state.is_midline = last != '\n';
            // If the reader has closed its end, haft detects that at the end of the run.
            drop(self.terminal.piece(&text));
        }
    }

    /// Ends the model's text, so that the next output begins a line.
    fn end_text(&self, state: &mut State) {
        let mut rest = state.markdown.finish();
        if state.is_midline || rest.chars().any(|c| !c.is_control()) {
            rest.push('\n');
        }
        state.is_midline = false;
        if !rest.is_empty() {
            drop(self.terminal.piece(&rest));
        }
    }

    fn print_line(&self, state: &mut State, line: String) {
        self.end_text(state);
        if let Some(held) = &mut state.held {
            held.push(line);
        } else if let Some(spinner) = &state.spinner {
            spinner.suspend(|| self.terminal.message(line));
        } else {
            self.terminal.message(line);
        }
    }

    /// Shows the spinner while calls run, unless a question is open.
    fn turn_for_calls(&self, state: &mut State) {
        let running: Vec<_> =
            state.calls.values().filter(|(_, runs)| *runs).map(|(label, _)| label).collect();
        let text = match running.as_slice() {
            [] => return state.still(),
            [one] => (*one).clone(),
            several => format!("{} calls", several.len()),
        };
        state.turn(text);
    }
}

impl State {
    fn turn(&mut self, what: String) {
        if self.held.is_some() || !io::stderr().is_terminal() {
            return;
        }
        let spinner = self.spinner.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is a constant, and valid; otherwise the plain spinner serves.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        spinner.set_message(what);
    }

    /// Keeps the answer of a call, and drops the oldest answers if there is no room.
    fn keep(&mut self, line: String, result: ToolResult) {
        self.answered.push((line, result));
        while self.answered.iter().map(|(_, result)| result.content.len()).sum::<usize>() > MAX_KEPT {
            self.answered.remove(0);
        }
    }

    /// Displays a message beside the spinner.
    fn note(&self, message: &str) {
        if let Some(spinner) = &self.spinner
            && !message.is_empty()
        {
            spinner.set_message(shortened(&plain(message), MAX_WAITING));
        }
    }

    fn still(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

fn completed(call: &ToolCall, result: &ToolResult, duration: Duration) -> String {
    let (mark, style) = if result.is_error { ("✗", ERROR) } else { ("✓", Style::new()) };
    format!("{style}{mark} {}{style:#} {DIM}({}){DIM:#}", label(call, MAX_ARGUMENTS), time(duration))
}

fn time(duration: Duration) -> String {
    match duration.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", duration.as_secs() / 60, duration.as_secs() % 60),
    }
}

fn label(call: &ToolCall, characters: usize) -> String {
    let line = format!("{} {}", call.tool, in_a_line(&call.arguments, characters));
    plain(&shortened(line.trim_end(), characters))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_one_line_whatever_a_model_writes() {
        let call = ToolCall {
            id: "1".into(),
            tool: "x\u{1b}[2J\n".into(),
            arguments: json!({ "a": "é".repeat(200) }),
        };
        let line = completed(&call, &ToolResult::error("no\u{7}\nmore"), Duration::from_millis(1500));
        let plain = super::super::style::written(&line, false);
        assert!(plain.starts_with("✗ x") && plain.ends_with(" (1.5 s)"), "{plain}");
        assert!(!plain.contains(['\n', '\u{1b}', '\u{7}']), "{plain:?}");
        assert!(plain.chars().count() < 220);
    }

    #[test]
    fn durations_are_short() {
        let all = [12, 1500, 61_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(all, ["12 ms", "1.5 s", "1 min 1 s"]);
    }

    /// The calls of an agent are displayed with its name, before the line of the call that it answers.
    #[test]
    fn the_calls_of_an_agent_are_told_with_its_name() {
        let screen = Screen::new(Terminal::new(false), Show::All, Answers::Folded("-v"));
        let mut state = State { held: Some(Vec::new()), ..State::default() };
        let call = ToolCall { id: "1".into(), tool: "read".into(), arguments: json!({}) };
        let result = ToolResult::success("1\n2\n3\n4\n5\n6\n");
        let mut event = Event::Completed { call, result, duration: Duration::ZERO };
        for agent in ["inner", "outer"] {
            event = Event::Within { agent: agent.into(), parent: "0".into(), event: Box::new(event) };
        }
        screen.show_event(&event, &mut state);
        let lines = state.held.unwrap();
        let plain = super::super::style::written(&lines[0], false);
        let answer =
            ["1", "2", "3", "4", "… 2 more lines (-v)"].map(|line| format!("\n      {line}")).concat();
        assert_eq!(plain, format!("    outer/inner ✓ read (0 ms){answer}"));
        assert_eq!(state.answered.len(), 1);
    }

    /// RS09: the spinner does not turn during a question, and messages wait for the answer.
    #[test]
    fn nothing_turns_before_a_question_is_answered() {
        let screen = Screen::new(Terminal::new(false), Show::All, Answers::Whole);
        let call = ToolCall { id: "1".into(), tool: "bash".into(), arguments: json!({}) };
        let mut state = State::default();
        screen.show_event(&Event::Started(call.clone()), &mut state);
        assert!(state.spinner.is_none(), "it was not approved yet");
        state.held = Some(Vec::new());
        screen.show_event(&Event::Running { call: "1".into() }, &mut state);
        let (result, duration) = (ToolResult::success(""), Duration::ZERO);
        screen.show_event(&Event::Completed { call, result, duration }, &mut state);
        assert!(state.spinner.is_none());
        assert_eq!(state.held.map(|lines| lines.len()), Some(1));
    }
}
