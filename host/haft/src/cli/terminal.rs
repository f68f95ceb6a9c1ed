//! All output of haft. Data goes to standard output: unmodified into a file or a pipe, laid out on a terminal.
//! Messages go to standard error. A closed pipe is not an error. Every text is redacted, and a terminal receives no
//! control sequence except haft's own styles.

mod approval_prompt;
mod ask;
mod markdown;
mod progress;
mod screen;
mod stream;
mod style;
mod tracer;

use std::fmt::Display;
use std::io::{self, IsTerminal};

use indicatif::HumanBytes;
use serde::Serialize;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::stream::{Kind, Output, REDACTOR};
use haft_agent::provider::ProviderError;
use haft_core::call::ToolResult;
use haft_core::event::{Event, Events};
use haft_core::report::{Problem, Report, nearest, plain, shortened};
use haft_core::secret::{Redactor, Stream};
use haft_core::sync::Lock;
use haft_core::tool::Difference;
use haft_manifest::SecretError;
use haft_plugin_host::EVENT_TARGET;

pub(super) use self::approval_prompt::Person;
pub(super) use self::ask::{TTY, Typing};
pub(super) use self::markdown::rendered;
pub(super) use self::progress::rounded;
pub(super) use self::screen::{Answers, Screen, Show};
pub(super) use self::stream::{is_hung_up, reader_is_gone};
#[cfg(test)]
pub(super) use self::style::written;
pub(super) use self::style::{ADDED, Column, DIM, ERROR, FAILED, GOOD, HEAD, HINT, Style, WARNING};
pub(super) use self::tracer::{Trace, Tracer};

/// The output of haft, to a person or a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    /// Whether data is printed as JSON.
    pub(super) json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Hinted {
    message: String,
    hint: String,
}

impl Hinted {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl Terminal {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Returns the redactor of all output. Code that reads a secret registers it here.
    pub(super) fn redactor(self) -> Redactor {
        REDACTOR.clone()
    }

    /// Prints text that haft laid out, or lines of JSON if JSON is requested, with a final newline.
    pub(super) fn data(self, text: &str) -> io::Result<()> {
        Output::Data.line(text, if self.json { Kind::Json } else { Kind::Page })
    }

    /// Prints third-party text, with a final newline.
    pub(super) fn answer(self, text: &str) -> io::Result<()> {
        Output::Data.line(text, Kind::Answer)
    }

    /// Prints text that the user copies unchanged, with a final newline.
    pub(super) fn verbatim(self, text: &str) -> io::Result<()> {
        Output::Data.line(text, Kind::Whole)
    }

    /// Prints data as JSON on one line, or indented on a terminal.
    pub(super) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        let person = io::stdout().is_terminal();
        let text = if person { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        Ok(self.json_text(&text?)?)
    }

    pub(super) fn json_text(self, text: &str) -> io::Result<()> {
        Output::Data.line(text, Kind::Json)
    }

    /// Prints data as it arrives.
    pub(super) fn piece(self, text: &str) -> io::Result<()> {
        Output::Data.piece(text)
    }

    /// Prints data as JSON on one line, also on a terminal.
    pub(super) fn json_line(self, value: &serde_json::Value) -> io::Result<()> {
        self.json_text(&value.to_string())
    }

    pub(super) fn message(self, text: impl Display) {
        // If standard error is closed the message is lost.
        let _ = Output::Messages.line(&format!("{text}\n"), Kind::Page);
    }

    /// Prints a prompt. The user's answer follows on the same line.
    pub(super) fn ask(self, prompt: &str) {
        // If standard error is closed there is no user to ask.
        let _ = Output::Messages.ask(prompt);
    }

    /// Returns the columns of the terminal for messages. `None` if standard error is not a terminal.
    pub(super) fn message_columns(self) -> Option<usize> {
        Output::Messages.width()
    }

    /// Returns the columns of the terminal for data. `None` if standard output is not a terminal.
    pub(super) fn data_columns(self) -> Option<usize> {
        Output::Data.width()
    }

    pub(super) fn report(self, report: &Report) {
        self.message(style::of_codes(&report.styled(Output::Messages.width())));
    }

    /// Prints the error that ends haft.
    pub(super) fn fail(self, error: &anyhow::Error) {
        match error.downcast_ref::<Report>() {
            Some(report) => self.report(report),
            None => self.message(format_args!("{ERROR}error:{ERROR:#} {error:#}")),
        }
        if let Some(hint) = hint(error) {
            self.hint(&hint);
        }
    }

    /// Prints warnings. Prints a hint of several warnings once.
    pub(super) fn warn(self, report: &Report) {
        let mut groups: Vec<Vec<&Problem>> = Vec::new();
        for problem in report.problems() {
            match groups.iter_mut().find(|group| group.iter().all(|other| other.hints() == problem.hints())) {
                Some(group) if !problem.hints().is_empty() => group.push(problem),
                _ => groups.push(vec![problem]),
            }
        }
        for group in groups {
            for problem in &group {
                let place = report.place(problem).map(|place| format!(" ({place})")).unwrap_or_default();
                self.message(format_args!("{WARNING}warning:{WARNING:#} {}{place}", problem.message()));
            }
            group.first().into_iter().flat_map(|first| first.hints()).for_each(|hint| self.hint(hint));
        }
    }

    pub(super) fn warning(self, text: &str) {
        self.message(format_args!("{WARNING}warning:{WARNING:#} {text}"));
    }

    /// Prints a remedy for the previous message.
    pub(super) fn hint(self, hint: &str) {
        self.message(format_args!("{HINT}hint:{HINT:#} {hint}"));
    }

    /// Prints the lines of `after` that are not in `before`.
    pub(super) fn new_lines(self, before: &str, after: &str) {
        for line in new_lines(before, after) {
            self.message(format_args!("  + {line}"));
        }
    }

    /// Prints the result of a call.
    pub(super) fn result(self, result: &ToolResult) -> anyhow::Result<()> {
        match (self.json, result.is_error) {
            (true, _) => return self.json(result),
            (false, true) => self.tool_error(&result.content),
            (false, false) => self.answer(&result.content)?,
        }
        Ok(())
    }

    /// Prints a tool's error with its `hint:` lines as hints.
    fn tool_error(self, text: &str) {
        for line in text.lines() {
            match line.strip_prefix("hint: ") {
                Some(hint) => self.hint(hint),
                None => self.message(line),
            }
        }
    }

    /// Returns events that tell a user why loading takes long. Scripts get no message.
    pub(super) fn loading(self) -> Events {
        if !io::stderr().is_terminal() {
            return Events::none();
        }
        Events::to(move |event| {
            if let Event::Compiling { plugin, bytes } = event {
                let size = HumanBytes(*bytes);
                self.message(format_args!("{DIM}compiling `{plugin}` ({size}), once …{DIM:#}"));
            }
        })
    }

    /// Returns events that print the messages of tools for the user.
    pub(super) fn messages(self) -> Events {
        Events::to(move |event| self.print_event(event))
    }

    /// Returns events that print progress, and the standard error of running programs.
    pub(super) fn work(self) -> Events {
        let written = Lock::new(Stream::new(REDACTOR.clone()));
        Events::to(move |event| match event {
            Event::Stderr { chunk, .. } => {
                let text = written.lock().push(chunk);
                // If standard error is closed the message is lost.
                let _ = Output::Messages.piece(&text);
            }
            event => self.print_event(event),
        })
    }

    fn print_event(self, event: &Event) {
        match event {
            Event::Info { message, .. } => self.message(format_args!("{DIM}{message}{DIM:#}")),
            Event::Progress { done, total, message, .. } => {
                let total = total.map(|total| format!("/{total}")).unwrap_or_default();
                self.message(format_args!("{DIM}{done}{total} {message}{DIM:#}"));
            }
            _ => {}
        }
    }
}

pub(super) fn hint(error: &anyhow::Error) -> Option<String> {
    let provider = error.downcast_ref::<ProviderError>().and_then(ProviderError::hint);
    let secret = error.downcast_ref::<SecretError>().and_then(SecretError::hint);
    let own = error.downcast_ref::<Hinted>().map(|hinted| hinted.hint.clone());
    own.or(provider).or(secret)
}

/// Returns an error with its hint, for a client that displays texts.
pub(super) fn told(error: &anyhow::Error) -> String {
    let hint = hint(error).map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{error:#}{hint}")
}

/// Sends the log to standard error. `HAFT_LOG` sets levels by module (`haft=debug`). The messages of plugins are
/// omitted if the verb prints them itself (`tells`). `tracer` receives the calls of guests, whatever the log omits.
pub(super) fn log(verbose: u8, tells: bool, tracer: Option<Tracer>) {
    let level = match verbose {
        // haft has its own messages for the warnings of the MCP library.
        0 => "warn,rmcp=off",
        1 => "haft=info,warn,rmcp=off",
        2 => "haft=debug,info,rmcp=warn",
        _ => "trace",
    };
    let written = std::env::var("HAFT_LOG").unwrap_or_default();
    let parsed = EnvFilter::builder().parse(&written);
    let wrong = parsed.as_ref().err().map(ToString::to_string);
    let filter = parsed.ok().filter(|_| !written.is_empty()).unwrap_or_else(|| EnvFilter::new(level));
    let filter = match format!("{EVENT_TARGET}=off").parse() {
        Ok(off) if tells => filter.add_directive(off),
        _ => filter,
    };
    let logger = tracing_subscriber::fmt::layer()
        .with_writer(|| Log)
        // Colours of the log could not be distinguished from colours in logged texts.
        .with_ansi(false)
        .without_time()
        .with_target(false);
    let registry =
        tracing_subscriber::registry().with(logger.with_filter(filter)).with(tracer.map(Tracer::filtered));
    // A user of the library may have set a logger, which takes precedence.
    let _ = registry.try_init();
    if let Some(error) = wrong {
        tracing::warn!("`HAFT_LOG` is ignored: {error}; expected levels such as `haft=debug,warn`");
    }
}

/// The output of the log. Each message is written at once, so that none is split.
struct Log;

impl io::Write for Log {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        Output::Messages.line(&text, Kind::Page)?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines of `after` from the first to the last difference.
fn new_lines<'a>(before: &str, after: &'a str) -> Vec<&'a str> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let head = same(&mut old.iter().zip(&new));
    let rest = old.len().min(new.len()) - head;
    let tail = same(&mut old.iter().rev().zip(new.iter().rev())).min(rest);
    new.get(head..new.len() - tail).unwrap_or_default().to_vec()
}

// The first lines of long texts, and the lines that a call replaces.

/// Minimum number of lines that are left out.
const LEAST: usize = 2;

/// Returns the first `most` lines of a text, each of at most `characters` characters, and the number of omitted
/// lines. A single further line is returned too: a message about it would take as much room.
pub(super) fn first_lines(text: &str, most: usize, characters: usize) -> (Vec<String>, usize) {
    let text = text.trim_end();
    let count = text.lines().count();
    let shown = if count < most.saturating_add(LEAST) { count } else { most };
    (text.lines().take(shown).map(|line| shortened(line, characters)).collect(), count - shown)
}

/// Returns a number with its noun: `1 tool`, `2 tools`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the end of a message about an unknown name: the most similar one, if there is any.
pub(super) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map(|near| format!("; did you mean `{}`?", plain(near))).unwrap_or_default()
}

/// Returns the lines of a difference with their styles.
pub(super) fn changed(difference: &Difference) -> Vec<String> {
    let line = |(mark, line): &(char, String)| {
        let style = match mark {
            '+' => ADDED,
            '-' => FAILED,
            ' ' => Style::new(),
            _ => DIM,
        };
        format!("{style}{mark} {line}{style:#}")
    };
    let cut = difference.is_cut.then(|| format!("{DIM}… (the diff is truncated){DIM:#}"));
    difference.lines.iter().map(line).chain(cut).collect()
}

/// Returns a text with the number of omitted lines, and the command that shows them.
pub(super) fn more_lines(count: usize, how: &str) -> String {
    format!("{DIM}… {count} more lines ({how}){DIM:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U3: the first lines of a long text are shown, with the number of further lines.
    #[test]
    fn of_a_long_text_the_first_lines_are_shown() {
        let text = |lines: usize| "abc\n".repeat(lines);
        assert_eq!(
            first_lines(&text(3), 2, 2),
            (vec!["ab…".to_owned(); 3], 0),
            "one more takes no more room"
        );
        assert_eq!(first_lines(&text(4), 2, 9), (vec!["abc".to_owned(); 2], 2));
        assert_eq!(first_lines("", 2, 9), (vec![], 0));
    }

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
