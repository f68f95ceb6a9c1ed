//! Approvals that a user of `haft chat` gives to an agent that is a tool, and their withdrawal.

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers};
use super::terminal::Terminal;

const PART: &str = "shell_confirm = true\n[[agents]]\nname = \"part\"\ndescription = \"P.\"\n\
                    system_prompt = \"You are a part.\"\ntools = [\"bash\"]\n";

/// Calls the agent, which runs a command, and reports its answer.
fn script(messages: &[Value]) -> Says {
    let is_part = messages[0]["content"] == "You are a part.";
    if messages.last().is_some_and(|message| message["role"] == "tool") {
        let (_, _, answer) = answers(messages).pop().unwrap();
        return Says::text(if is_part { answer } else { format!("The agent said: {}", answer.trim()) });
    }
    if is_part {
        Says::call("bash", json!({ "command": "echo part-$((4700 + 11))" }))
    } else {
        Says::call("agent__part", json!({ "task": "do it" }))
    }
}

/// `always` applies to the agent until `/deny` withdraws it; the user's approval for the model does not apply to the
/// agent.
#[test]
fn what_is_allowed_to_an_agent_is_shown_and_taken_back() {
    let place = Place::new(Model::start(script), PART);
    let Some(terminal) = Terminal::start(&place, "asking", &["chat"]) else { return };
    terminal.prompts(1);
    terminal.enter("one");
    terminal.sees("part: Run: echo part-$((4700 + 11)) [y/N/always]", 1);
    terminal.enter("always");
    terminal.sees("The agent said: part-4711", 1);
    terminal.sees("input tokens", 1);
    terminal.enter("two");
    terminal.sees("The agent said: part-4711", 2);
    terminal.sees("input tokens", 2);
    terminal.enter("/allow");
    terminal.sees("allowed in this session: part: bash", 1);
    terminal.enter("/deny bash");
    terminal.sees("`bash` needs approval again", 1);
    terminal.enter("/allow bash");
    terminal.sees("`bash` runs without approval in this session", 1);
    terminal.enter("three");
    terminal.sees("part: Run: echo part-$((4700 + 11)) [y/N/always]", 2);
    terminal.enter("n");
    terminal.sees("The agent said: Error: Command execution denied by user.", 1);
    place.model.assert_content();
}
