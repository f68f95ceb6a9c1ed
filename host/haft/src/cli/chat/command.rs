//! The `/` commands of `haft chat`. An unknown command is an error and is never sent to the model.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::super::terminal::{DIM, HEAD, Hinted, Terminal};
use super::super::{attach, replay, server_prompts, sessions};
use super::{allow_rule, deny_rule, keep_rule, list_rules};
use crate::cli::conversation::Conversation;
use haft_agent::History;
use haft_agent::provider::Prompt;
use haft_core::call::Attachment;
use haft_core::report::plain;
use haft_core::undo::Which;

pub(super) struct Kind {
    pub(super) name: &'static str,
    argument: &'static str,
    help: &'static str,
    make: fn(&str) -> Command,
}

/// All commands, in the order of `/help`.
pub(super) const COMMANDS: &[Kind] = &[
    Kind { name: "help", argument: "", help: "list the commands", make: |_| Command::Help },
    Kind { name: "tools", argument: "", help: "list the tools", make: |_| Command::Tools },
    Kind {
        name: "model",
        argument: "[NAME]",
        help: "show the current model, or change it",
        make: |name| if name.is_empty() { Command::ShowModel } else { Command::Model(name.to_owned()) },
    },
    Kind {
        name: "allow",
        argument: "[[--save] RULE]",
        help: "allow a tool, or the calls of `TOOL(PATTERN)`, for this session, or save the rule to \
            program.toml; without a rule, list the allowed calls",
        make: |rule| match rule.strip_prefix("--save ") {
            Some(rule) => Command::Keep(rule.trim().to_owned()),
            None if rule.is_empty() => Command::Allowed,
            None => Command::Allow(rule.to_owned()),
        },
    },
    Kind {
        name: "deny",
        argument: "RULE",
        help: "ask again before the calls of a tool, or before those that a rule allowed",
        make: |tool| Command::Deny(tool.to_owned()),
    },
    Kind {
        name: "plan",
        argument: "[off]",
        help: "plan mode: tools only read; `off` ends plan mode",
        make: |state| Command::Plan(state.to_owned()),
    },
    Kind {
        name: "attach",
        argument: "[FILE]",
        help: "attach an image, a PDF or a text to your next message, or list the attached files",
        make: |files| Command::Attach(files.to_owned()),
    },
    Kind { name: "detach", argument: "", help: "remove the attached files", make: |_| Command::Detach },
    Kind {
        name: "continue",
        argument: "",
        help: "resume a task that was stopped or failed",
        make: |_| Command::Continue,
    },
    Kind {
        name: "undo",
        argument: "[all]",
        help: "restore the files that tools changed in the last prompt, or in the whole session",
        make: |which| Command::Undo(which.to_owned()),
    },
    Kind {
        name: "compact",
        argument: "",
        help: "summarise the conversation now, to free context",
        make: |_| Command::Compact,
    },
    Kind {
        name: "fork",
        argument: "",
        help: "continue in a copy of this session; this session does not change",
        make: |_| Command::Fork,
    },
    Kind { name: "clear", argument: "", help: "start a new session", make: |_| Command::Clear },
    Kind {
        name: "save",
        argument: "[FILE]",
        help: "write the conversation to a file, as Markdown",
        make: |file| Command::Save(Some(file).filter(|file| !file.is_empty()).map(PathBuf::from)),
    },
    Kind { name: "quit", argument: "", help: "quit, as Ctrl-D does", make: |_| Command::Quit },
];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Tools,
    ShowModel,
    Model(String),
    Allowed,
    Allow(String),
    Keep(String),
    Deny(String),
    /// An empty argument or `on` starts plan mode; `off` ends it.
    Plan(String),
    /// Files, separated as in a shell.
    Attach(String),
    Detach,
    Continue,
    /// An empty argument means the last changes; `all` means all.
    Undo(String),
    Compact,
    Fork,
    Clear,
    Save(Option<PathBuf>),
    Quit,
}

pub(super) enum Next {
    /// Read the next line.
    Read,
    /// Run a prompt, or resume the unfinished one if there is none.
    Do(Option<Prompt>),
    Leave,
}

impl Command {
    /// Parses a line without its `/`.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let name = if name == "exit" { "quit" } else { name };
        let Some(kind) = COMMANDS.iter().find(|kind| kind.name == name) else {
            let hint = "`/help` lists the commands; to send text that starts with a `/`, put a space before \
                it";
            return Err(Hinted::new(format!("unknown command `/{name}`"), hint).into());
        };
        let argument = argument.trim();
        if argument.is_empty() && !kind.argument.is_empty() && !kind.argument.starts_with('[') {
            anyhow::bail!("`/{name}` needs a {}", kind.argument);
        }
        if !argument.is_empty() && kind.argument.is_empty() {
            anyhow::bail!("`/{name}` takes no argument");
        }
        Ok((kind.make)(argument))
    }

    /// Executes the command. `attached` are the files of the next prompt.
    pub(super) async fn execute(
        self,
        conversation: &mut Conversation,
        attached: &mut Vec<Attachment>,
        terminal: Terminal,
    ) -> anyhow::Result<Next> {
        match self {
            Self::Help => help(conversation, terminal),
            Self::Tools => tools(conversation, terminal),
            Self::ShowModel => terminal.message(conversation.dialogue.model()),
            Self::Model(model) => {
                conversation.dialogue.use_model(&model).await?;
                let model = conversation.dialogue.model();
                terminal.message(format_args!("{DIM}the model is now `{model}`{DIM:#}"));
            }
            Self::Allowed => list_rules(conversation, terminal),
            Self::Allow(rule) => allow_rule(conversation, &rule, terminal)?,
            Self::Keep(rule) => keep_rule(conversation, &rule, terminal).await?,
            Self::Deny(rule) => deny_rule(conversation, &rule, terminal)?,
            Self::Plan(state) => match state.as_str() {
                "" | "on" | "off" => {
                    conversation.dialogue.is_planning = state != "off";
                    tell_plan(state != "off", terminal);
                }
                other => anyhow::bail!("`/plan` takes `off` or no argument, not `{other}`"),
            },
            Self::Attach(files) => attach(conversation, &paths(&files)?, attached, terminal),
            Self::Detach => {
                attached.clear();
                terminal.message(format_args!("{DIM}no files are attached to your next message{DIM:#}"));
            }
            Self::Continue if conversation.is_unfinished() => return Ok(Next::Do(None)),
            Self::Continue => terminal.message("there is no unfinished task"),
            Self::Undo(which) => {
                let which = match which.as_str() {
                    "" => Which::Last,
                    "all" => Which::All,
                    other => anyhow::bail!("`/undo` takes `all` or no argument, not `{other}`"),
                };
                sessions::tell_undone(conversation.dialogue.undo(which)?.as_ref(), terminal);
            }
            Self::Compact => {
                let text = conversation.dialogue.compact().await?;
                terminal.message(format_args!("{DIM}{text}{DIM:#}"));
            }
            Self::Fork => fork(conversation, terminal)?,
            Self::Clear => {
                conversation.dialogue.history = History::default();
                terminal.message(format_args!("{DIM}your next message starts a new session{DIM:#}"));
            }
            Self::Save(file) => save(conversation, file, terminal)?,
            Self::Quit => return Ok(Next::Leave),
        }
        Ok(Next::Read)
    }
}

/// Attaches files to the next prompt, and lists the attached files.
fn attach(
    conversation: &Conversation,
    paths: &[PathBuf],
    attached: &mut Vec<Attachment>,
    terminal: Terminal,
) {
    let mut all = attached.clone();
    let read = attach::read_all(paths, &mut all);
    match read.and_then(|()| attach::check(&all, &conversation.dialogue)) {
        Ok(()) => *attached = all,
        Err(error) => terminal.fail(&error),
    }
    let list: Vec<_> = attached.iter().map(|file| plain(&file.described())).collect();
    match list.as_slice() {
        [] => terminal.message("no files are attached to your next message"),
        list => terminal.message(format_args!("attached to your next message: {}", list.join("; "))),
    }
}

fn fork(conversation: &mut Conversation, terminal: Terminal) -> anyhow::Result<()> {
    let before = conversation.dialogue.fork()?;
    let id = conversation.dialogue.id().unwrap_or_default();
    terminal.message(format_args!(
        "{DIM}this conversation continues as session {id}; `haft chat --resume {before}` continues the previous \
         one{DIM:#}"
    ));
    Ok(())
}

/// Returns the files that `words` name, quoted or escaped as in a shell. Terminals insert dropped files in this form.
fn paths(words: &str) -> anyhow::Result<Vec<PathBuf>> {
    let words = shell_words::split(words).context("a quotation mark is not closed")?;
    let home = etcetera::home_dir().ok();
    let path = |word: String| match (word.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(word),
    };
    Ok(words.into_iter().map(path).collect())
}

/// Tells which mode is active.
pub(super) fn tell_plan(is_planning: bool, terminal: Terminal) {
    terminal.message(if is_planning {
        format!("{DIM}plan mode: tools only read; `/plan off` ends plan mode{DIM:#}")
    } else {
        format!("{DIM}plan mode is off: tools have the rights of the program{DIM:#}")
    });
}

fn help(conversation: &Conversation, terminal: Terminal) {
    let line = |command: &str, help: &str| {
        terminal.message(format_args!("  {HEAD}{command:<18}{HEAD:#} {help}"));
    };
    for Kind { name, argument, help, .. } in COMMANDS {
        line(&format!("/{name} {argument}"), help);
    }
    line("Ctrl-O", "show the full tool results of your last prompt");
    for prompt in server_prompts::all(&conversation.dialogue) {
        line(&format!("/{} {}", prompt.name, prompt.usage()), &prompt.about);
    }
}

fn tools(conversation: &Conversation, terminal: Terminal) {
    for entry in conversation.dialogue.toolbox.entries() {
        let def = entry.def();
        let asks = if entry.asks() { " (asks)" } else { "" };
        let line = plain(def.description.lines().next().unwrap_or_default());
        terminal.message(format_args!("  {HEAD}{}{HEAD:#}{asks} {DIM}{line}{DIM:#}", def.name));
    }
}

fn save(conversation: &Conversation, file: Option<PathBuf>, terminal: Terminal) -> anyhow::Result<()> {
    let name =
        || PathBuf::from(format!("haft-{}.md", conversation.dialogue.id().unwrap_or_else(|| "chat".into())));
    let file = file.unwrap_or_else(name);
    let text = replay::of_messages(conversation.dialogue.history.messages());
    write(&file, &text).with_context(|| format!("cannot write `{}`", file.display()))?;
    terminal.message(format_args!("written to `{}`", file.display()));
    Ok(())
}

/// Writes a file that does not exist yet, with access for this user alone: conversations are private.
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
        assert_eq!(parse("allow --save  bash(ls *)"), Ok(Command::Keep("bash(ls *)".into())));
        assert_eq!(parse("attach a.png 'b c.pdf'"), Ok(Command::Attach("a.png 'b c.pdf'".into())));
        assert_eq!(parse("exit"), Ok(Command::Quit));
        assert_eq!(parse("plan off"), Ok(Command::Plan("off".into())));
        assert_eq!(parse("save"), Ok(Command::Save(None)));
        assert_eq!(parse("deny"), Err("`/deny` needs a RULE".into()));
        assert_eq!(parse("clear all"), Err("`/clear` takes no argument".into()));
        assert_eq!(parse("etc/passwd"), Err("unknown command `/etc/passwd`".into()));
    }

    #[test]
    fn files_are_named_as_in_a_shell() {
        let named = paths("a.png 'b c.pdf' d\\ e.txt ~/f \"~/g\"").unwrap();
        let home = etcetera::home_dir().unwrap();
        let expected: Vec<PathBuf> =
            vec!["a.png".into(), "b c.pdf".into(), "d e.txt".into(), home.join("f"), home.join("g")];
        assert_eq!(named, expected);
        assert!(paths("").unwrap().is_empty() && paths("'a").is_err());
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
