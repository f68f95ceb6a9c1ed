//! The tools of MCP servers before they are used for the first time: a person at the terminal is shown them, and asked.

use std::fmt::Write;

use haft::program::{Ask, FirstList, Options, Program};
use haft_core::report::plain;
use serde_json::Value;

use super::terminal::Terminal;

/// `program`, with the tools of those servers that a person agrees to now; servers that run go on.
pub(super) async fn agreed(
    program: Program,
    options: &Options,
    terminal: Terminal,
) -> anyhow::Result<Program> {
    let mut is_other = false;
    for first in &program.first_lists {
        terminal.message(sheet(first));
        let question = format!("use these tools of `{}`, and hold it to them?", first.server.config().name);
        if terminal.confirm(&question).await? {
            first.agree()?;
            is_other = true;
        }
    }
    if !is_other {
        return Ok(program);
    }
    let options = Options { servers: program.servers.clone(), ask: Ask::Never, ..options.clone() };
    Program::load(&options).await
}

/// What a person reads before that.
fn sheet(first: &FirstList) -> String {
    let name = &first.server.config().name;
    format!("MCP server `{name}` lists these tools for the first time:{}", lines(first.tools()))
}

/// Each of `tools`: its name, and its description as models get it, a line below the other.
pub(super) fn lines(tools: &[Value]) -> String {
    let mut sheet = String::new();
    for tool in tools {
        let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = write!(sheet, "\n  {}", plain(text("name")));
        for line in text("description").lines() {
            let _ = write!(sheet, "\n      {}", plain(line));
        }
    }
    sheet
}
