//! What is typed with a `/` before it. Refuses to take a command it does not know for something to send.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::terminal::{DIM, HEAD, Hinted, Terminal};
use super::super::transcript;
use crate::cli::conversation::Conversation;
use crate::cli::disclosure_sheet::Sheet;

/// A row of [`COMMANDS`].
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// What comes after it.
    argument: &'static str,
    help: &'static str,
    make: fn(&str) -> Command,
}

/// Every command, in the order in which `/help` lists them.
pub(super) const COMMANDS: &[Kind] = &[
    Kind { name: "help", argument: "", help: "list the commands", make: |_| Command::Help },
    Kind { name: "tools", argument: "", help: "list the tools", make: |_| Command::Tools },
    Kind {
        name: "model",
        argument: "[NAME]",
        help: "say which model is asked, or ask another",
        make: |name| if name.is_empty() { Command::ShowModel } else { Command::Model(name.to_owned()) },
    },
    Kind {
        name: "allow",
        argument: "[TOOL]",
        help: "allow every further call of a tool in this session, or list what is allowed",
        make: |tool| if tool.is_empty() { Command::Allowed } else { Command::Allow(tool.to_owned()) },
    },
    Kind {
        name: "deny",
        argument: "TOOL",
        help: "ask again before every call of a tool",
        make: |tool| Command::Deny(tool.to_owned()),
    },
    Kind {
        name: "continue",
        argument: "",
        help: "go on with what was stopped or failed",
        make: |_| Command::Continue,
    },
    Kind {
        name: "clear",
        argument: "",
        help: "forget what was said and begin another session",
        make: |_| Command::Clear,
    },
    Kind {
        name: "save",
        argument: "[FILE]",
        help: "write what was said to a file, as Markdown",
        make: |file| Command::Save(Some(file).filter(|file| !file.is_empty()).map(PathBuf::from)),
    },
    Kind { name: "quit", argument: "", help: "leave; so does Ctrl-D", make: |_| Command::Quit },
];

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Tools,
    ShowModel,
    Model(String),
    Allowed,
    Allow(String),
    Deny(String),
    Continue,
    Clear,
    Save(Option<PathBuf>),
    Quit,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing but to read on.
    Read,
    /// What was entered; what is left, where nothing was.
    Do(Option<String>),
    /// Ask this model from now on.
    Model(String),
    /// Leave.
    Leave,
}

impl Command {
    /// The command of a line without its `/`.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let name = if name == "exit" { "quit" } else { name };
        let Some(kind) = COMMANDS.iter().find(|kind| kind.name == name) else {
            let hint = "`/help` lists the commands; what begins with a `/` and is none can be sent with a space before it";
            return Err(Hinted::new(format!("unknown command `/{name}`"), hint).into());
        };
        let argument = argument.trim();
        if argument.is_empty() && !kind.argument.is_empty() && !kind.argument.starts_with('[') {
            anyhow::bail!("`/{name}` needs a {}", kind.argument);
        }
        if !argument.is_empty() && kind.argument.is_empty() {
            anyhow::bail!("`/{name}` takes nothing after it");
        }
        Ok((kind.make)(argument))
    }

    /// Does it.
    pub(super) fn execute(self, conversation: &mut Conversation, terminal: Terminal) -> Next {
        match self {
            Self::Help => help(terminal),
            Self::Tools => tools(conversation, terminal),
            Self::ShowModel => terminal.message(conversation.dialogue.model()),
            Self::Model(model) => return Next::Model(model),
            Self::Allowed => allowed(conversation, terminal),
            Self::Allow(tool) => allow(conversation, &tool, terminal),
            Self::Deny(tool) => deny(conversation, &tool, terminal),
            Self::Continue if conversation.is_unfinished() => return Next::Do(None),
            Self::Continue => terminal.message("nothing is left to go on with"),
            Self::Clear => {
                conversation.dialogue.clear();
                terminal.message(format_args!(
                    "{DIM}all is forgotten; what you say next begins another session{DIM:#}"
                ));
            }
            Self::Save(file) => save(conversation, file, terminal),
            Self::Quit => return Next::Leave,
        }
        Next::Read
    }
}

fn help(terminal: Terminal) {
    for Kind { name, argument, help, .. } in COMMANDS {
        let command = format!("/{name} {argument}");
        terminal.message(format_args!("  {HEAD}{command:<18}{HEAD:#} {help}"));
    }
}

fn tools(conversation: &Conversation, terminal: Terminal) {
    for entry in conversation.dialogue.toolbox.entries() {
        let def = entry.def();
        let asks = if entry.asks() { " (asks)" } else { "" };
        let line = haft_core::report::plain(def.description.lines().next().unwrap_or_default());
        terminal.message(format_args!("  {HEAD}{}{HEAD:#}{asks} {DIM}{line}{DIM:#}", def.name));
    }
}

fn allowed(conversation: &Conversation, terminal: Terminal) {
    let allowed = conversation.approvals.allowed();
    let asks = conversation
        .dialogue
        .toolbox
        .entries()
        .filter(|entry| entry.asks())
        .map(|entry| entry.def().name.clone());
    let asks: Vec<_> = asks.filter(|name| !allowed.contains(name)).collect();
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    terminal.message(format_args!("allowed in this session: {}", list(&allowed)));
    terminal.message(format_args!("ask before every call: {}", list(&asks)));
}

fn allow(conversation: &Conversation, tool: &str, terminal: Terminal) {
    match conversation.dialogue.toolbox.find(tool) {
        None => terminal.message(none_called(conversation, tool)),
        Some(entry) if !entry.asks() => {
            terminal.message(format_args!("`{}` runs without being approved anyway", entry.def().name));
        }
        Some(entry) => {
            let def = entry.def();
            let mut sheet = Sheet::new(terminal.message_columns(), None);
            sheet.tool("allowed", &def.name, def);
            terminal.message(sheet.text.trim_end());
            conversation.approvals.allow(def.name.clone());
            terminal.message(format_args!("`{}` runs without being approved in this session", def.name));
        }
    }
}

/// What is said of a name that no tool has.
fn none_called(conversation: &Conversation, tool: &str) -> String {
    let names = conversation.dialogue.toolbox.entries().map(|entry| entry.def().name.as_str());
    match haft_core::report::nearest(tool, names) {
        Some(near) => format!("there is no tool `{tool}`; did you mean `{near}`?"),
        None => format!("there is no tool `{tool}`; `/tools` lists them"),
    }
}

fn deny(conversation: &Conversation, tool: &str, terminal: Terminal) {
    // What was allowed for a session may be gone by now, and is withdrawn all the same.
    let found = conversation.dialogue.toolbox.find(tool);
    let name = found.map_or(tool, |entry| &entry.def().name);
    if found.is_none() && !conversation.approvals.allowed().iter().any(|allowed| allowed == tool) {
        terminal.message(none_called(conversation, tool));
    } else if conversation.approvals.withdraw(name) {
        terminal.message(format_args!("`{name}` is to be approved again"));
    } else {
        terminal.message(format_args!("`{name}` was not allowed in this session"));
    }
}

fn save(conversation: &Conversation, file: Option<PathBuf>, terminal: Terminal) {
    let name = || PathBuf::from(format!("haft-{}.md", conversation.id().unwrap_or_else(|| "chat".into())));
    let file = file.unwrap_or_else(name);
    let text = transcript::of_messages(conversation.dialogue.history().messages());
    match write(&file, &text) {
        Ok(()) => terminal.message(format_args!("written to `{}`", file.display())),
        Err(error) => {
            terminal.fail(&anyhow::anyhow!("cannot write `{}`: {error}", file.display()));
        }
    }
}

/// Writes a file that is not there yet, readable by this user alone: conversations are private.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_each_other_and_from_mistakes() {
        let parse = |line: &str| Command::parse(line).map_err(|error| error.to_string());
        assert_eq!(parse("model"), Ok(Command::ShowModel));
        assert_eq!(parse("model  gpt x "), Ok(Command::Model("gpt x".into())));
        assert_eq!(parse("allow bash"), Ok(Command::Allow("bash".into())));
        assert_eq!(parse("exit"), Ok(Command::Quit));
        assert_eq!(parse("save"), Ok(Command::Save(None)));
        assert_eq!(parse("deny"), Err("`/deny` needs a TOOL".into()));
        assert_eq!(parse("clear all"), Err("`/clear` takes nothing after it".into()));
        assert_eq!(parse("etc/passwd"), Err("unknown command `/etc/passwd`".into()));
    }

    #[test]
    fn a_file_that_is_there_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.md");
        write(&file, "one").unwrap();
        assert!(write(&file, "two").is_err());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "one");
    }
}
