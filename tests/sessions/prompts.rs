//! Prompts of MCP servers as commands of `haft chat`.

use super::Place;
use super::model::{Model, Says, asked};
use super::terminal::Terminal;
use crate::mcp::fake;

/// Chat lists a server's prompt as a command, names a missing argument, and sends the prompt's messages to the model.
#[test]
fn a_prompt_of_a_server_is_a_command_of_chat() {
    let model = Model::start(|messages| Says::text(format!("<{}>", asked(messages).replace('\n', "/"))));
    let place = Place::new(model, "");
    let program = place.read("program.toml") + &fake::toml("own", &fake::with_prompt(), "");
    place.home.write("program.toml", &program);
    assert_eq!(place.haft(&["trust", "--yes"]).code, 0);
    let Some(terminal) = Terminal::start(&place, "prompts", &["chat"]) else { return };
    terminal.sees("Ctrl-D quits", 1);
    terminal.enter("/help");
    terminal.sees("/mcp__own__review file [depth] Reviews a file", 1);
    terminal.enter("/mcp__own__review");
    terminal.sees("`/mcp__own__review` needs `file`", 1);
    terminal.enter("/mcp__own__review a.rs");
    terminal.sees("<User:/Review it.//Assistant:/I do.>", 1);
    place.model.assert_content();
}
