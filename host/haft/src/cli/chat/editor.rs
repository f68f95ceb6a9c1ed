//! Reads lines from the user, with history and completion. The history is bounded, and stored on disk only if
//! sessions are saved.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Behavior, Cmd, CompletionType, ConditionalEventHandler, Config, Event, EventContext, EventHandler,
    Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::command::COMMANDS;
use crate::cli::conversation::Conversation;
use crate::cli::server_prompts;
use haft::program::Dirs;
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// Maximum number of entries of the history.
const MAX_ENTRIES: usize = 1000;

/// Maximum bytes that are read from the history file: many times the size of a full history.
const MAX_FILE: u64 = 8 << 20;

const PROMPT: &str = "> ";

const PLAN_PROMPT: &str = "plan> ";

pub(super) enum Entered {
    Text(String),
    /// An empty entry, or Ctrl-C.
    Nothing,
    /// The user wants to see the full answers of tools. The next read shows the typed text again.
    ShowAnswers,
    /// The user wants to leave.
    End,
}

type Lines = rustyline::Editor<Words, MemHistory>;

/// A line editor. It reads on a separate thread, and is absent during a read.
pub(super) struct Editor {
    lines: Option<Lines>,
    /// The file of the history.
    file: Option<PathBuf>,
    redactor: Redactor,
    left: Left,
}

/// The text before and after the cursor.
type Typed = (String, String);

/// The typed text at the time of Ctrl-O.
#[derive(Clone, Default)]
struct Left(Arc<Lock<Option<Typed>>>);

impl ConditionalEventHandler for Left {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let (before, after) = context.line().split_at_checked(context.pos())?;
        *self.0.lock() = Some((before.to_owned(), after.to_owned()));
        Some(Cmd::Interrupt)
    }
}

impl Editor {
    /// Returns an editor that completes the tools of `conversation`.
    pub(super) fn new(conversation: &Conversation, keeps_nothing: bool) -> anyhow::Result<Self> {
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(MAX_ENTRIES)?
            .auto_add_history(false)
            .build();
        let history = MemHistory::with_config(&config);
        let mut lines = Lines::with_history(config, history).context("cannot read from the terminal")?;
        let tools = conversation.dialogue.toolbox.entries().map(|entry| entry.def().name.clone()).collect();
        let prompts =
            server_prompts::all(&conversation.dialogue).into_iter().map(|prompt| prompt.name).collect();
        lines.set_helper(Some(Words { tools, prompts, files: FilenameCompleter::new() }));
        let newline = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        lines.bind_sequence(newline, EventHandler::Simple(Cmd::Newline));
        let left = Left::default();
        lines.bind_sequence(KeyEvent::ctrl('O'), EventHandler::Conditional(Box::new(left.clone())));
        let keeps = !keeps_nothing && conversation.dialogue.program.sessions().is_some();
        let file = keeps.then(Dirs::of_this_machine).transpose()?.map(|dirs| dirs.state.join("history"));
        for entry in file.as_deref().map(entries).unwrap_or_default() {
            lines.add_history_entry(entry)?;
        }
        let redactor = conversation.dialogue.program.redactor.clone();
        Ok(Self { lines: Some(lines), file, redactor, left })
    }

    /// Reads an entry; `words` is its initial text.
    pub(super) async fn read(&mut self, is_planning: bool, words: String) -> anyhow::Result<Entered> {
        let mut lines = self.lines.take().context("the terminal is already being read")?;
        let (before, after) = self.left.0.lock().take().unwrap_or_default();
        let read = tokio::task::spawn_blocking(move || {
            let prompt = if is_planning { PLAN_PROMPT } else { PROMPT };
            let read = lines.readline_with_initial(prompt, (&(words + &before), &after));
            (lines, read)
        });
        let (lines, read) = read.await.context("the terminal could not be read")?;
        let lines = self.lines.insert(lines);
        match read {
            Ok(text) => {
                let text = text.replace("\\\n", "\n");
                if text.trim().is_empty() {
                    return Ok(Entered::Nothing);
                }
                if lines.add_history_entry(text.as_str())? {
                    let text = self.redactor.redact(&text);
                    // An error of the history file does not end the chat.
                    if let Some(Err(error)) = self.file.as_deref().map(|file| keep(file, &text)) {
                        tracing::info!("the input history is not saved: {error}");
                    }
                }
                Ok(Entered::Text(text.trim_end().to_owned()))
            }
            Err(ReadlineError::Interrupted) if self.left.0.lock().is_some() => Ok(Entered::ShowAnswers),
            Err(ReadlineError::Interrupted) => Ok(Entered::Nothing),
            Err(ReadlineError::Eof) => Ok(Entered::End),
            Err(error) => Err(error).context("the terminal could not be read"),
        }
    }
}

/// Returns the entries of earlier conversations, oldest first. Each line of the file is a JSON string.
fn entries(file: &Path) -> Vec<String> {
    let Ok(file) = std::fs::File::open(file) else { return Vec::new() };
    let lines = BufReader::new(file.take(MAX_FILE)).lines().map_while(Result::ok);
    let all: Vec<String> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let more = all.len().saturating_sub(MAX_ENTRIES);
    all.into_iter().skip(more).collect()
}

/// Appends an entry. Keeps only the newest entries of a large file.
fn keep(file: &Path, text: &str) -> std::io::Result<()> {
    let entry = serde_json::Value::from(text).to_string() + "\n";
    let options = || {
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        options
    };
    if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > MAX_FILE / 2) {
        let newest = entries(file).into_iter().map(|entry| serde_json::Value::from(entry).to_string() + "\n");
        let next = file.with_extension("next");
        options().write(true).truncate(true).open(&next)?.write_all(newest.collect::<String>().as_bytes())?;
        std::fs::rename(next, file)?;
    }
    options().append(true).open(file)?.write_all(entry.as_bytes())
}

/// Completes commands and their arguments, and decides whether an entry is complete.
struct Words {
    tools: Vec<String>,
    prompts: Vec<String>,
    files: FilenameCompleter,
}

impl Helper for Words {}

impl Highlighter for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or_default();
        if typed.starts_with("/save ") || typed.starts_with("/attach ") {
            return self.files.complete(line, at, context);
        }
        Ok(complete(typed, &self.tools, &self.prompts))
    }
}

/// Returns the start of the last word in `typed`, and its completions.
fn complete(typed: &str, tools: &[String], prompts: &[String]) -> (usize, Vec<Pair>) {
    let pair = |text: String| Pair { display: text.clone(), replacement: text };
    let Some(command) = typed.strip_prefix('/') else { return (0, Vec::new()) };
    match command.split_once(' ') {
        None => {
            let names = COMMANDS.iter().map(|kind| kind.name).chain(prompts.iter().map(String::as_str));
            let names = names.filter(|name| name.starts_with(command));
            (1, names.map(|name| pair(format!("{name} "))).collect())
        }
        Some(("allow" | "deny", tool)) => {
            let names = tools.iter().filter(|name| name.starts_with(tool));
            (typed.len() - tool.len(), names.cloned().map(pair).collect())
        }
        Some(_) => (0, Vec::new()),
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_whole = is_whole(context.input());
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Returns whether an entry is complete: it does not end with `\`, and every code block is closed.
fn is_whole(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    !text.ends_with('\\') && fences % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_tools_are_completed() {
        let words = |typed: &str| {
            let (at, found) = complete(typed, &["bash".into(), "read".into()], &["mcp__s__review".into()]);
            (at, found.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
        };
        assert_eq!(words("/to"), (1, vec!["tools ".to_owned()]));
        assert_eq!(words("/allow b"), (7, vec!["bash".to_owned()]));
        assert_eq!(words("/c").1, ["continue ", "compact ", "clear "]);
        assert!(words("what /to").1.is_empty() && words("/model g").1.is_empty());
    }

    #[test]
    fn an_entry_may_have_several_lines() {
        assert!(is_whole("a\nb") && is_whole("```\nx\n```"));
        assert!(!is_whole("a \\") && !is_whole("look:\n```rust\nfn"));
    }

    #[test]
    fn entries_are_kept_with_their_line_breaks_and_within_bounds() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("history");
        for text in ["one\ntwo", "three"] {
            keep(&file, text).unwrap();
        }
        assert_eq!(entries(&file), ["one\ntwo", "three"]);
        let long = "x".repeat(64 << 10);
        for _ in 0..80 {
            keep(&file, &long).unwrap();
        }
        assert!(std::fs::metadata(&file).unwrap().len() < MAX_FILE);
        assert_eq!(entries(&file).last(), Some(&long));
    }
}
