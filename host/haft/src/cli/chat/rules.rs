//! `/allow` and `/deny`: the rules for calls of this session, and their storage in program.toml. Writes only rules
//! that the user has seen and agreed to.

use std::path::Path;

use super::super::terminal::{DIM, Hinted, Terminal, new_lines};
use crate::cli::conversation::Conversation;
use crate::cli::disclosure_sheet::Sheet;
use haft::program::Dirs;
use haft_core::tool::Entry;
use haft_manifest::RulePattern;
use haft_package::{Change, Project, ProjectError, Store, edit};

/// Lists the allowed tools, and the tools that need approval.
pub(super) fn list(conversation: &Conversation, terminal: Terminal) {
    let allowed = conversation.approvals.allowed();
    let is_allowed =
        |name: &str| allowed.iter().any(|rule| rule.tools().as_str() == name && rule.about().is_none());
    let asks = conversation
        .dialogue
        .toolbox
        .entries()
        .filter(|entry| entry.asks())
        .map(|entry| entry.def().name.clone());
    let asks: Vec<_> = asks.filter(|name| !is_allowed(name)).collect();
    let of_agents = conversation.approvals.allowed_to_agents().into_iter();
    let of_agents = of_agents.map(|(agent, rule)| format!("{agent}: {rule}"));
    let allowed: Vec<_> = allowed.iter().map(RulePattern::to_string).chain(of_agents).collect();
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    terminal.message(format_args!("allowed in this session: {}", list(&allowed)));
    terminal.message(format_args!("ask before every call: {}", list(&asks)));
}

/// Allows the calls that a rule matches, in this session.
pub(super) fn allow(conversation: &Conversation, rule: &str, terminal: Terminal) {
    match found(conversation, rule) {
        Err(error) => terminal.fail(&error),
        Ok((rule, entries)) if !entries.iter().any(|entry| entry.asks()) => {
            terminal.message(format_args!("`{rule}` needs no approval already"));
        }
        Ok((rule, entries)) => {
            let mut sheet = Sheet::new(terminal.message_columns(), None);
            for entry in entries {
                sheet.tool("allowed", &entry.def().name, entry.def());
            }
            terminal.message(sheet.text.trim_end());
            terminal.message(format_args!("`{rule}` runs without approval in this session"));
            conversation.approvals.allow(rule);
        }
    }
}

/// Writes a rule to `[agent] allow`, after the user has seen the line and agreed. The rule is also valid in this
/// session.
pub(super) async fn keep(conversation: &Conversation, rule: &str, terminal: Terminal) {
    if let Err(error) = write(conversation, rule, terminal).await {
        terminal.fail(&error);
    }
}

async fn write(conversation: &Conversation, rule: &str, terminal: Terminal) -> anyhow::Result<()> {
    let (rule, _) = found(conversation, rule)?;
    let path = conversation.dialogue.program.manifest.path.as_path();
    if path.as_os_str().is_empty() {
        let hint = "`haft init` writes one; `/allow` without `--save` applies to this session";
        return Err(Hinted::new("there is no program.toml to save the rule to", hint).into());
    }
    let before = Project::open(path)?.text;
    let after = ruled(path, &before, &rule)?;
    if after == before {
        terminal.message(format_args!("`allow` in `[agent]` already has `{rule}`"));
    } else {
        terminal.message(format_args!("{DIM}{}:{DIM:#}", path.display()));
        for line in new_lines(&before, &after) {
            terminal.message(format_args!("  + {line}"));
        }
        if !terminal.confirm("write this?").await? {
            terminal.message("nothing was written");
            return Ok(());
        }
        let store = Store::new(&Dirs::of_this_machine()?.store);
        Project::change(path, &store, |project| {
            // haft writes the displayed text or nothing.
            if project.text != before {
                return Err(ProjectError::Changed(path.to_owned()));
            }
            Ok(Change { text: after.clone(), lock: project.lock.clone() })
        })?;
        terminal.message(format_args!("`{rule}` is now allowed"));
    }
    conversation.approvals.allow(rule);
    Ok(())
}

fn ruled(path: &Path, text: &str, rule: &RulePattern) -> Result<String, ProjectError> {
    let text = edit::allow(text, &rule.to_string());
    text.map_err(|error| ProjectError::Edit { path: path.to_owned(), error })
}

/// Returns the rule with the tool's full name, and the tools that it matches.
fn found<'c>(conversation: &'c Conversation, rule: &str) -> anyhow::Result<(RulePattern, Vec<&'c Entry>)> {
    let rule: RulePattern =
        rule.parse().map_err(|error| anyhow::anyhow!("`{rule}` is not a rule: {error}"))?;
    let tools = rule.tools().as_str();
    if let Some(entry) = conversation.dialogue.toolbox.find(tools) {
        let about = rule.about().map(|about| format!("({about})")).unwrap_or_default();
        return Ok((format!("{}{about}", entry.def().name).parse()?, vec![entry]));
    }
    let entries =
        conversation.dialogue.toolbox.entries().filter(|entry| rule.tools().matches(&entry.def().name));
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        Err(anyhow::anyhow!(none_called(conversation, tools)))
    } else {
        Ok((rule, entries))
    }
}

/// Returns the message about a name that no tool has.
fn none_called(conversation: &Conversation, tool: &str) -> String {
    let names = conversation.dialogue.toolbox.entries().map(|entry| entry.def().name.as_str());
    match haft_core::report::nearest(tool, names) {
        Some(near) => format!("there is no tool `{tool}`; did you mean `{near}`?"),
        None => format!("there is no tool `{tool}`; `/tools` lists them"),
    }
}

/// Withdraws a rule of this session, also from agents.
pub(super) fn deny(conversation: &Conversation, rule: &str, terminal: Terminal) {
    // A session's rule may no longer match a tool, and is withdrawn nevertheless.
    let own = found(conversation, rule);
    let name = own.as_ref().map_or_else(|_| rule.to_owned(), |(rule, _)| rule.to_string());
    // An agent may have a tool under a name that another tool has here.
    let is_withdrawn =
        [name.as_str(), rule].map(|rule| conversation.approvals.withdraw(rule)).contains(&true);
    if is_withdrawn {
        terminal.message(format_args!("`{name}` needs approval again"));
    } else if let Err(error) = own {
        terminal.fail(&error);
    } else {
        terminal.message(format_args!("`{name}` was not allowed in this session"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_new() {
        let before = "[agent]\nallow = [\"a\"]\n\n[sandbox]\n";
        let after = "[agent]\nallow = [\"a\", \"b\"]\n\n[sandbox]\n";
        assert_eq!(new_lines(before, after), ["allow = [\"a\", \"b\"]"]);
        assert_eq!(new_lines("a\n", "a\n\n[agent]\nallow = [\"b\"]\n"), ["", "[agent]", "allow = [\"b\"]"]);
        assert_eq!(new_lines("[\n  \"a\",\n]\n", "[\n  \"a\",\n  \"b\",\n]\n"), ["  \"b\","]);
        assert_eq!(new_lines("a\na\n", "a\na\na\n"), ["a"]);
        assert_eq!(new_lines("", "x"), ["x"]);
    }
}
