//! The tools of a server in one session: the tools of its first list are pinned. A new or changed tool is held back
//! until the user has seen the difference.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Start;
use super::command::Wrapping;
use super::question::{self, Said};
use super::record::{self, Copies, MAX_COPIES, MAX_TOOLS, name_of};
use crate::cli::terminal::Terminal;
use haft_core::call::ToolDef;
use haft_core::report::plain;
use haft_core::sync::Lock;
use haft_mcp::pins::{Difference, ToolPins};
use haft_package::disclosure::definition_lines;

/// Maximum bytes of a tool's name. The limit of MCP is 128.
const MAX_NAME: usize = 200;
/// Maximum number of names of one list, over all pages, that are compared as a whole.
const MAX_SEEN: usize = 4 * MAX_TOOLS;
/// Maximum number of messages of one session about the server.
const MAX_TOLD: usize = 1000;
/// Maximum number of stored request ids: more than a client has open.
const MAX_REQUESTS: usize = 1024;
/// Maximum bytes of a part of a tool in a form. Clients shorten longer parts, and the user agrees to the whole.
const MAX_SHOWN: usize = 2000;
/// Maximum bytes of a question to a client.
const MAX_QUESTION: usize = 64 << 10;

/// Compares the tools of one server with their pins.
pub(super) struct Tools {
    terminal: Terminal,
    command: Wrapping,
    record: PathBuf,
    may_change: bool,
    state: Lock<State>,
    told: Lock<HashSet<String>>,
}

#[derive(Default)]
struct State {
    pins: ToolPins,
    /// Whether the present list is the first list ever, and is pinned without a question.
    is_first: bool,
    /// The part of `pins` that this session has recorded.
    noted: ToolPins,
    /// The digests of the tools since the client's last request for a first page, by their names.
    seen: BTreeMap<String, String>,
    /// The pinned tools that have changed.
    changed: BTreeSet<String>,
    /// The definitions that are held back, as far as they are stored, and their bytes.
    held: BTreeMap<String, Value>,
    kept: usize,
    /// Ids of requests of other methods, the oldest first.
    others: VecDeque<Value>,
    /// Whether the client can show forms to the user.
    can_ask: bool,
    /// The id of haft's question, and the definitions in the question.
    question: Option<(String, Vec<Value>)>,
    has_asked: bool,
}

impl Tools {
    pub(super) fn new(start: &Start) -> Self {
        let pins = record::pins(&start.written);
        let is_first = record::has_no_tools(&start.written);
        let state = State { pins, is_first, ..State::default() };
        Self {
            terminal: start.terminal,
            command: start.command.clone(),
            record: record::place(&start.dirs, &start.command),
            may_change: start.written.tools_may_change,
            state: Lock::new(state),
            told: Lock::default(),
        }
    }

    /// Prints a message about the server, once.
    pub(super) fn tell(&self, what: &str) {
        let mut told = self.told.lock();
        if told.len() < MAX_TOLD && told.insert(what.to_owned()) {
            self.terminal.message(plain(&format!("haft: {}: {what}", self.command.name)));
        }
    }

    /// Records a request of another method than `tools/list`.
    pub(super) fn other_requested(&self, id: Value) {
        let mut state = self.state.lock();
        if state.others.len() == MAX_REQUESTS {
            state.others.pop_front();
        }
        state.others.push_back(id);
    }

    /// Records a request for a list, or for a page of a list.
    pub(super) fn list_requested(&self, id: Option<&Value>, is_first_page: bool) {
        let mut state = self.state.lock();
        state.others.retain(|other| Some(other) != id);
        if !is_first_page {
            return;
        }
        let is_first = state.is_first && state.seen.is_empty();
        state.is_first = is_first;
        state.seen = BTreeMap::new();
        if !state.held.is_empty() {
            // The user may have agreed to these tools meanwhile.
            match record::pinned(&self.record, &self.command) {
                Ok(pins) => state.pins = pins,
                Err(error) => self.tell(&format!("{error:#}")),
            }
            state.held.clear();
            state.kept = 0;
        }
    }

    /// Returns whether an answer with this id belongs to another request than `tools/list`. A client uses an id once
    /// (MCP, base protocol).
    pub(super) fn is_other(&self, id: &Value) -> bool {
        self.state.lock().others.contains(id)
    }

    pub(super) fn client_can_ask(&self) {
        self.state.lock().can_ask = true;
    }

    /// Returns whether calls are compared with the pins.
    pub(super) fn has_pins(&self) -> bool {
        !self.may_change && !self.state.lock().is_first
    }

    /// Returns the reason why a call of `tool` is refused, with the remedy.
    pub(super) fn refusal(&self, tool: &str) -> Option<String> {
        let state = self.state.lock();
        let is_pinned = state.pins.has(tool);
        if self.may_change || state.is_first || (is_pinned && !state.changed.contains(tool)) {
            return None;
        }
        let why = if is_pinned { "has changed" } else { "is not an approved tool" };
        let text = format!(
            "the tool `{tool}` of the MCP server `{}` {why} and is held back: run `{}` in a terminal to see \
             the difference and agree",
            self.command.name,
            self.way_out()
        );
        Some(plain(&text))
    }

    /// Returns the command that shows the tools that are held back, and asks for consent.
    fn way_out(&self) -> String {
        format!("haft wrap --tools {}", shell_words::quote(&self.command.name))
    }

    /// Compares a page of a list with the pins. Returns for each of its tools whether it is held back.
    pub(super) fn page(&self, tools: Vec<Value>, is_last: bool) -> Vec<bool> {
        let now = ToolPins::of(tools.iter().filter(|tool| is_usable(tool)));
        let mut state = self.state.lock();
        if state.is_first {
            self.pin_first(&mut state, &tools, is_last);
        }
        let mut differences = if self.may_change { Vec::new() } else { state.pins.differences(&now) };
        differences.retain(Difference::holds);
        let held: BTreeSet<&str> = differences.iter().map(Difference::tool).collect();
        for name in now.names() {
            state.changed.remove(name);
            if held.contains(name) && state.pins.has(name) {
                state.changed.insert(name.to_owned());
            }
        }
        let is_held: Vec<bool> = tools
            .iter()
            .map(|tool| !is_usable(tool) || name_of(tool).is_some_and(|name| held.contains(name)))
            .collect();
        for (name, digests) in record::digests(&now) {
            if state.seen.len() < MAX_SEEN || state.seen.contains_key(&name) {
                state.seen.insert(name, digests);
            }
        }
        let usable = tools.into_iter().zip(&is_held).filter(|(tool, is_held)| **is_held && is_usable(tool));
        usable.for_each(|(tool, _)| state.hold(tool));
        self.report(&state, &differences, is_last);
        is_held
    }

    /// Pins the tools of a first list. Pins that another session has recorded meanwhile take precedence.
    fn pin_first(&self, state: &mut State, tools: &[Value], is_last: bool) {
        let room = MAX_TOOLS.saturating_sub(state.pins.names().len());
        let is_new =
            |tool: &&Value| is_usable(tool) && name_of(tool).is_some_and(|name| !state.pins.has(name));
        let new: Vec<Value> = tools.iter().filter(is_new).take(room).cloned().collect();
        if !self.may_change {
            match record::pin_first(&self.record, &self.command, &state.noted, &new) {
                Ok((pins, false)) => {
                    (state.pins, state.is_first) = (pins, false);
                    return;
                }
                Ok((pins, true)) => state.noted = pins,
                Err(error) => self.tell(&format!("{error:#}")),
            }
            for tool in &new {
                state.pins.add(tool);
            }
        }
        let count = state.pins.names().len();
        if is_last && count > 0 {
            state.is_first = false;
            let way_out = self.way_out();
            self.tell(&format!("{count} tools of its first listing are pinned: {way_out} shows them"));
        }
    }

    /// Prints the changes. Renamed and removed tools are known after the last page.
    fn report(&self, state: &State, differences: &[Difference], is_last: bool) {
        if self.may_change {
            return;
        }
        let seen = || record::of_digests(&state.seen);
        let all = if is_last { state.pins.differences(&seen()) } else { differences.to_vec() };
        for one in all.iter().filter(|one| is_last || matches!(one, Difference::Changed { .. })) {
            let held =
                if one.holds() { format!(", and is held back: {}", self.way_out()) } else { String::new() };
            self.tell(&format!("{one}{held}"));
        }
        if is_last && record::copies(&self.record, Copies::Held) != state.held {
            let noted = record::keep_copies(&self.record, Copies::Held, &state.held);
            noted.unwrap_or_else(|error| self.tell(&format!("{error:#}")));
        }
    }

    /// Returns the question about the tools that are held back, once in a session and only if the client can show it.
    pub(super) fn question(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        if !state.can_ask || state.has_asked || state.held.is_empty() {
            return None;
        }
        let tools: Vec<Value> = state.held.values().cloned().collect();
        let agreed = record::copies(&self.record, Copies::Agreed);
        let sheet = sheet(&self.command.name, &state.pins, &agreed, &tools);
        let is_long = || tools.iter().chain(agreed.values()).any(has_long_part);
        if sheet.len() > MAX_QUESTION || is_long() {
            return None;
        }
        let (id, line) = question::new(&sheet).ok()?;
        state.has_asked = true;
        state.question = Some((id, tools));
        Some(line)
    }

    pub(super) fn is_asked(&self, id: &Value) -> bool {
        self.state.lock().question.as_ref().is_some_and(|(own, _)| id == own)
    }

    /// Handles the answer to haft's question. Returns whether more tools are offered now.
    pub(super) fn answered(&self, answer: &Value) -> bool {
        let mut state = self.state.lock();
        let Some((_, tools)) = state.question.take() else { return false };
        if !matches!(question::said(answer), Said::Yes) {
            return false;
        }
        match record::pin(&self.record, &self.command, &tools) {
            Ok(pins) => {
                state.pins = pins;
                true
            }
            Err(error) => {
                self.tell(&format!("{error:#}"));
                false
            }
        }
    }
}

impl State {
    fn hold(&mut self, tool: Value) {
        let size = tool.to_string().len();
        if self.kept + size <= MAX_COPIES && self.held.len() < MAX_TOOLS {
            self.kept += size;
            self.held.extend(name_of(&tool).map(str::to_owned).map(|name| (name, tool)));
        }
    }
}

/// Returns whether an element of a list is a tool whose name is usable in every client and in messages.
pub(super) fn is_usable(tool: &Value) -> bool {
    let is_printable = |name: &str| plain(name) == name;
    name_of(tool).is_some_and(|name| (1..=MAX_NAME).contains(&name.len()) && is_printable(name))
}

/// Returns the text that the user reads before agreeing to `tools` of a server.
pub(super) fn sheet(
    name: &str,
    pins: &ToolPins,
    agreed: &BTreeMap<String, Value>,
    tools: &[Value],
) -> String {
    let mut lines = vec![format!("The MCP server `{}` has tools that you have not agreed to:", plain(name))];
    for one in pins.differences(&ToolPins::of(tools)).iter().filter(|one| one.holds()) {
        lines.extend([String::new(), one.to_string()]);
        let old = match one {
            Difference::Renamed { from, .. } => agreed.get(from),
            one => agreed.get(one.tool()),
        };
        let new = tools.iter().filter(|tool| name_of(tool) == Some(one.tool()));
        new.for_each(|new| lines.extend(parts(old, new)));
    }
    lines.join("\n")
}

fn parts(old: Option<&Value>, new: &Value) -> Vec<String> {
    let keys = |tool: &Value| tool.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    let mut keys: Vec<String> = [old, Some(new)].into_iter().flatten().filter_map(keys).flatten().collect();
    keys.sort();
    keys.dedup();
    // The line above has the name.
    keys.retain(|key| key != "name");
    let mut lines = Vec::new();
    for key in keys {
        let (before, now) = (old.and_then(|old| old.get(&key)), new.get(&key));
        if before == now {
            continue;
        }
        let read = |value: Option<&Value>| value.map(|value| readable(&key, value)).unwrap_or_default();
        // The text for readers omits differences in the JSON alone.
        let is_same = read(before) == read(now);
        for (sign, value) in [('-', before), ('+', now)] {
            let shown = if is_same {
                value.map(|value| as_json(&key, value)).unwrap_or_default()
            } else {
                read(value)
            };
            lines.extend(shown.into_iter().map(|line| format!("  {sign} {line}")));
        }
    }
    lines
}

/// Returns a part of a tool as lines for a reader, with schemas in the words of `haft add`.
fn readable(key: &str, value: &Value) -> Vec<String> {
    let nothing = json!({ "type": "object" });
    let definition = |parameters, output| ToolDef { parameters, output, ..ToolDef::default() };
    let rows = match (key, value) {
        ("inputSchema", schema) => definition_lines(&definition(schema.clone(), None)),
        ("outputSchema", schema) => definition_lines(&definition(nothing, Some(schema.clone()))),
        (_, Value::String(text)) if text.contains('\n') => text.lines().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    // Many empty lines would push the next lines out of sight.
    let rows = rows.iter().filter(|row| !row.trim().is_empty()).map(|row| format!("  {}", plain(row)));
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() { as_json(key, value) } else { [vec![format!("{}:", plain(key))], rows].concat() }
}

fn as_json(key: &str, value: &Value) -> Vec<String> {
    vec![format!("{}: {}", plain(key), plain(&value.to_string()))]
}

/// Returns whether a tool has a part that a form shortens.
fn has_long_part(tool: &Value) -> bool {
    tool.as_object().is_some_and(|parts| parts.values().any(|part| part.to_string().len() > MAX_SHOWN))
}
