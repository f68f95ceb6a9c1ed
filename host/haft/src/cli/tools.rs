//! `haft tools`: the tools that a model is offered, with their size in the prompt; for one tool, its complete
//! definition and its rights.

use clap::Args;
use serde_json::{Value, json};

use super::Exit;
use super::common::Common;
use super::disclosure_sheet::Sheet;
use super::log::grant;
use super::terminal::{Column, Hinted, Style, Terminal};
use haft::program::{Ask, Options, Program};
use haft_agent::provider::mend;
use haft_core::call::ToolDef;
use haft_core::report::{nearest, plain};
use haft_core::tool::{Entry, Toolbox, bytes, tokens};
use haft_journal::Granted;
use haft_mcp::client::exposed;

const MAX_DESCRIPTION: usize = 60;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft tools
  haft tools read                  one tool: its arguments and rights
  haft tools --agent
  haft tools --json | jq -r '.[].name'")]
pub(super) struct Tools {
    /// Show this tool: description, arguments and rights
    #[arg(add = super::completions::tools(), conflicts_with = "agent")]
    name: Option<String>,
    /// List the tools that the agent's model sees, after `[agent] tools` and `tool_budget`
    #[arg(long)]
    agent: bool,
    /// List the tools of all MCP servers again, instead of using the cached lists
    #[arg(long)]
    refresh: bool,
}

impl Tools {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let ask = if self.refresh { Ask::Always } else { Ask::WhereUnknown };
        let options = Options { ask, ..common.lenient_options(terminal, false)? };
        let program = common.load(terminal, &options).await?;
        let shown = match &self.name {
            Some(name) => show(&program, name, terminal),
            None => self.list(&program, terminal),
        };
        program.close().await;
        shown.map(|()| Exit::Success)
    }

    fn list(&self, program: &Program, terminal: Terminal) -> anyhow::Result<()> {
        let toolbox = if self.agent { program.agent_tools(&[]) } else { program.toolbox.clone() };
        let tools = toolbox.offered();
        if terminal.json {
            let asks = |def: &ToolDef| toolbox.find(&def.name).is_some_and(Entry::asks);
            let described = tools.iter().map(|(def, origin)| {
                let hooks: Vec<_> = program.hooks_of(&def.name).collect();
                described(def, origin, asks(def), &hooks)
            });
            return terminal.json(&described.collect::<Vec<_>>());
        }
        terminal.data(&table(&tools))?;
        if let Some(line) = unlisted(&toolbox) {
            terminal.data(&line)?;
        }
        for line in &program.uncallable {
            terminal.message(format!("not callable: {line}"));
        }
        for hook in program.hooks() {
            terminal.message(format!("the hook `{}` {hook}", hook.name));
        }
        for line in mended_lines(&toolbox) {
            terminal.message(line);
        }
        Ok(())
    }
}

fn show(program: &Program, name: &str, terminal: Terminal) -> anyhow::Result<()> {
    let Some(entry) = program.toolbox.find(name) else { return Err(unknown(name, &program.toolbox)) };
    let hooks: Vec<_> = program.hooks_of(&entry.def().name).collect();
    if terminal.json {
        let mut value = described(entry.def(), entry.origin(), entry.asks(), &hooks);
        if let Some(value) = value.as_object_mut() {
            value.insert("grant".to_owned(), json!(Granted::from(entry.grant())));
            value.insert("digest".to_owned(), entry.digest().into());
        }
        terminal.json(&value)
    } else {
        Ok(terminal.data(&sheet(entry, &hooks, terminal))?)
    }
}

fn unknown(name: &str, toolbox: &Toolbox) -> anyhow::Error {
    let names = toolbox.entries().map(|entry| entry.def().name.as_str());
    let hint = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`? `haft tools` lists all"),
        None => "`haft tools` lists all".to_owned(),
    };
    Hinted::new(format!("there is no tool `{}`", plain(name)), hint).into()
}

/// Returns the tool as the model sees it, and its rights.
fn sheet(entry: &Entry, hooks: &[&str], terminal: Terminal) -> String {
    let (def, bytes) = (entry.def(), bytes(entry.def()));
    let mut sheet = Sheet::new(terminal.data_columns(), None);
    sheet.tool("tool", &def.name, def);
    sheet.line("from", Style::new(), &plain(entry.origin()));
    if let Some(digest) = entry.digest() {
        sheet.line("sha256", Style::new(), digest);
    }
    for (at, line) in grant(&Granted::from(entry.grant())).lines().enumerate() {
        sheet.line(if at == 0 { "may" } else { "" }, Style::new(), &plain(line));
    }
    if entry.asks() {
        sheet.line("asks", Style::new(), "a person's approval before calls");
    }
    if !hooks.is_empty() {
        sheet.line("hooks", Style::new(), &plain(&hooks.join(", ")));
    }
    sheet.line("costs", Style::new(), &format!("{bytes} bytes of a prompt, about {} tokens", tokens(bytes)));
    sheet.text
}

fn described(def: &ToolDef, origin: &str, asks: bool, hooks: &[&str]) -> Value {
    let bytes = bytes(def);
    json!({
        "name": def.name,
        "title": def.title,
        "description": def.description,
        "parameters": def.parameters,
        "output": def.output,
        "hints": def.hints,
        "origin": origin,
        "asks": asks,
        "hooks": hooks,
        "mended": changes(def),
        "bytes": bytes,
        "tokens": tokens(bytes),
    })
}

fn table(tools: &[(&ToolDef, &str)]) -> String {
    use std::fmt::Write;
    let names = tools.iter().map(|(def, _)| def.name.len());
    let width = names.max().unwrap_or(0).max("total".len());
    let mut table = format!("{:width$}  {:>6}  {:>7}  what it does\n", "tool", "bytes", "~tokens");
    let mut total = 0;
    for (def, _) in tools {
        let (bytes, what) = (bytes(def), first_line(&def.description));
        total += bytes;
        // Writing to a `String` cannot fail.
        let _ = writeln!(table, "{:width$}  {bytes:>6}  {:>7}  {Column}{what}", def.name, tokens(bytes));
    }
    let _ = writeln!(table, "{:width$}  {total:>6}  {:>7}", "total", tokens(total));
    table
}

/// Returns a text about the tools that models do not see, if there are any.
fn unlisted(toolbox: &Toolbox) -> Option<String> {
    match toolbox.unlisted() {
        0 => None,
        1 => Some("1 more tool is found by `find_tools` and run by `program`".into()),
        more => Some(format!("{more} more tools are found by `find_tools` and run by `program`")),
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}

// Tools whose schema some vendors reject, and the schema that models receive instead. `haft check` shows them too.

/// Returns the changes that a vendor's rules require in the schema of `def`.
fn changes(def: &ToolDef) -> Vec<String> {
    mend(def).map(|mended| mended.changes).unwrap_or_default()
}

/// Returns a line for each tool of `toolbox` with a changed schema.
pub(super) fn mended_lines(toolbox: &Toolbox) -> Vec<String> {
    let line = |(name, changes): (String, Vec<String>)| {
        format!("schema mended for models: {name}: {}", changes.join("; "))
    };
    mended(toolbox).map(line).collect()
}

/// Returns a line for each tool of an MCP server whose original schema cannot be used.
pub(super) fn mended_server_lines(program: &Program) -> Vec<String> {
    let line = |(name, notes): (String, Vec<String>)| {
        format!("schema of an MCP server mended: {name}: {}", notes.join("; "))
    };
    of_servers(program).map(line).collect()
}

/// Returns the changes of all schemas as data.
pub(super) fn mended_json(program: &Program) -> Vec<Value> {
    let all = of_servers(program).chain(mended(&program.toolbox));
    all.map(|(name, changes)| json!({ "tool": name, "changes": changes })).collect()
}

fn mended(toolbox: &Toolbox) -> impl Iterator<Item = (String, Vec<String>)> {
    let defs = toolbox.entries().map(Entry::def);
    defs.map(|def| (def.name.clone(), changes(def))).filter(|(_, changes)| !changes.is_empty())
}

/// Returns the changes of MCP servers' schemas at reception, and the parts that are not checked.
fn of_servers(program: &Program) -> impl Iterator<Item = (String, Vec<String>)> {
    let lists = program
        .servers
        .iter()
        .filter_map(|server| Some((server.config().name.clone(), server.remembered()?.0)));
    let notes = lists.flat_map(|(server, list)| {
        let tools = list.tools.iter().filter(|tool| !tool.mended.is_empty());
        tools.map(|tool| (exposed(&server, &tool.name), tool.mended.clone())).collect::<Vec<_>>()
    });
    notes.filter(|(name, _)| program.toolbox.find(name).is_some())
}
