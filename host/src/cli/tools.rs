//! `haft tools`: what a model would be offered, and what that costs it.

use clap::Args;
use serde_json::json;

use super::terminal::Terminal;
use super::{Common, Exit};
use crate::call::ToolDef;
use crate::program::Ask;
use crate::tool::Entry;

/// Bytes of JSON a token, roughly, for every vendor's tokenizer.
const BYTES_PER_TOKEN: usize = 4;

/// Characters of a description in the table.
const MAX_DESCRIPTION: usize = 60;

#[derive(Debug, Args)]
pub(super) struct Tools {
    /// Ask all MCP servers anew, instead of showing what they had when they were last asked
    #[arg(long)]
    refresh: bool,
}

impl Tools {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let ask = if self.refresh { Ask::Always } else { Ask::WhereUnknown };
        let program = common.program(terminal, false, ask).await?;
        if terminal.json {
            let tools: Vec<_> = program.toolbox.entries().map(described).collect();
            terminal.json(&tools)?;
        } else {
            terminal.data(&table(program.toolbox.entries()))?;
        }
        program.close().await;
        Ok(Exit::Success)
    }
}

fn described(entry: &Entry) -> serde_json::Value {
    let def = entry.def();
    let bytes = bytes(def);
    json!({
        "name": def.name,
        "description": def.description,
        "parameters": def.parameters,
        "output": def.output,
        "hints": def.hints,
        "origin": entry.origin(),
        "bytes": bytes,
        "tokens": bytes.div_ceil(BYTES_PER_TOKEN),
    })
}

/// What the definition adds to a prompt.
fn bytes(def: &ToolDef) -> usize {
    serde_json::to_string(def).map_or(0, |text| text.len())
}

fn table<'a>(entries: impl ExactSizeIterator<Item = &'a Entry>) -> String {
    use std::fmt::Write;
    let rows: Vec<&Entry> = entries.collect();
    let width = rows.iter().map(|entry| entry.def().name.len()).max().unwrap_or(0).max("total".len());
    let mut table = format!("{:width$}  {:>6}  {:>7}  what it does\n", "tool", "bytes", "~tokens");
    let mut total = 0;
    for entry in rows {
        let def = entry.def();
        let (bytes, what) = (bytes(def), first_line(&def.description));
        total += bytes;
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            table,
            "{:width$}  {bytes:>6}  {:>7}  {what}",
            def.name,
            bytes.div_ceil(BYTES_PER_TOKEN)
        );
    }
    let _ = writeln!(table, "{:width$}  {total:>6}  {:>7}", "total", total.div_ceil(BYTES_PER_TOKEN));
    table
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}
