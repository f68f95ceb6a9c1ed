//! The only home of printing. Data goes to standard output as it is; talk goes to standard
//! error, with colours where that is a terminal. A reader that hangs up is no error. Refuses to
//! print a secret, whatever it is asked to print.

mod ask;
mod columns;
mod markdown;
mod person;
mod progress;
mod screen;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use indicatif::HumanBytes;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

pub(super) use self::markdown::rendered;
pub(super) use self::progress::rounded;
pub(super) use self::screen::{Screen, Show};
use crate::event::{Event, Events};
use crate::provider::ProviderError;
use crate::report::Report;
use crate::secret::{Redactor, SecretError, Stream};

/// Where a person or a program reads what haft has to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    /// Whether data is to be JSON.
    pub(super) json: bool,
}

/// An error with the way out.
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

/// What this process leaves out of all it prints: one for both streams and the log, as they are.
static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::of_environment);

pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const HEAD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();

impl Terminal {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// What is left out of all that is printed. Whoever reads a secret tells it.
    pub(super) fn redactor(self) -> Redactor {
        REDACTOR.clone()
    }

    /// Prints data, ending in a newline.
    pub(super) fn data(self, text: &str) -> io::Result<()> {
        let text = REDACTOR.redact(text);
        let mut out = anstream::stdout().lock();
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        pipe(write!(out, "{text}{end}").and_then(|()| out.flush()))
    }

    /// Prints data as JSON on one line; indented where a person looks.
    pub(super) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        let person = io::stdout().is_terminal();
        let text = if person { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        Ok(self.data(&text?)?)
    }

    /// Prints data as it arrives.
    pub(super) fn piece(self, text: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        pipe(out.write_all(REDACTOR.redact(text).as_bytes()).and_then(|()| out.flush()))
    }

    /// Prints data as JSON on one line, whoever looks.
    pub(super) fn json_line(self, value: &serde_json::Value) -> io::Result<()> {
        self.data(&value.to_string())
    }

    /// Says something.
    pub(super) fn say(self, text: impl Display) {
        // Where standard error is gone there is nobody to tell.
        let _ = writeln!(anstream::stderr().lock(), "{}", REDACTOR.redact(&text.to_string()));
    }

    /// Asks for what is entered after `prompt`, on the same line.
    pub(super) fn ask(self, prompt: &str) {
        let mut err = anstream::stderr().lock();
        // Where standard error is gone there is nobody to ask.
        let _ = write!(err, "{}", REDACTOR.redact(prompt)).and_then(|()| err.flush());
    }

    /// Says why haft ends.
    pub(super) fn fail(self, error: &anyhow::Error) {
        match error.downcast_ref::<Report>() {
            Some(report) => self.say(report.styled()),
            None => self.say(format_args!("{ERROR}error:{ERROR:#} {error:#}")),
        }
        let provider = error.downcast_ref::<ProviderError>().and_then(ProviderError::hint);
        let secret = error.downcast_ref::<SecretError>().and_then(SecretError::hint);
        let own = error.downcast_ref::<Hinted>().map(|hinted| hinted.hint.clone());
        if let Some(hint) = own.or(provider).or(secret) {
            self.hint(&hint);
        }
    }

    /// Says what is wrong and does not keep haft from going on.
    pub(super) fn warn(self, report: &Report) {
        for problem in report.problems() {
            let place = report.place(problem).map(|place| format!(" ({place})")).unwrap_or_default();
            self.say(format_args!("{WARNING}warning:{WARNING:#} {}{place}", problem.message()));
            for hint in problem.hints() {
                self.hint(hint);
            }
        }
    }

    /// Says what somebody should know before haft goes on.
    pub(super) fn warning(self, text: &str) {
        self.say(format_args!("{WARNING}warning:{WARNING:#} {text}"));
    }

    /// Says what to do about what was said before.
    pub(super) fn hint(self, hint: &str) {
        self.say(format_args!("{HINT}hint:{HINT:#} {hint}"));
    }

    /// An error's text with its `hint:` lines set off.
    pub(super) fn tool_error(self, text: &str) {
        for line in text.lines() {
            match line.strip_prefix("hint: ") {
                Some(hint) => self.hint(hint),
                None => self.say(line),
            }
        }
    }

    /// What keeps a person waiting before anything else happens. A script is told nothing.
    pub(super) fn loading(self) -> Events {
        if !io::stderr().is_terminal() {
            return Events::none();
        }
        Events::to(move |event| match event {
            Event::Compiling { plugin, bytes } => {
                let size = HumanBytes(*bytes);
                self.say(format_args!("{DIM}compiling `{plugin}` ({size}), once …{DIM:#}"));
            }
            Event::Compiled { plugin, duration } => {
                let seconds = duration.as_secs_f64();
                self.say(format_args!("{DIM}compiled `{plugin}` in {seconds:.1} s{DIM:#}"));
            }
            _ => {}
        })
    }

    /// What tools tell a person while they work.
    pub(super) fn messages(self) -> Events {
        Events::to(move |event| self.message(event))
    }

    /// What is being done, and what programs that run for it write.
    pub(super) fn work(self) -> Events {
        let written = Mutex::new(Stream::new(REDACTOR.clone()));
        Events::to(move |event| match event {
            Event::Stderr { chunk, .. } => {
                let text = written.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
                // Where standard error is gone there is nobody to tell.
                let _ = anstream::stderr().lock().write_all(text.as_bytes());
            }
            event => self.message(event),
        })
    }

    fn message(self, event: &Event) {
        match event {
            Event::Info { message, .. } => self.say(format_args!("{DIM}{message}{DIM:#}")),
            Event::Progress { done, total, message, .. } => {
                let total = total.map(|total| format!("/{total}")).unwrap_or_default();
                self.say(format_args!("{DIM}{done}{total} {message}{DIM:#}"));
            }
            _ => {}
        }
    }
}

/// A reader that has seen enough (`haft tools | head`) is not a failure.
fn pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Sends the log to standard error; `HAFT_LOG` says more exactly what (`haft=debug`).
pub(super) fn log(verbose: u8) {
    let level = match verbose {
        // What the MCP library complains of, haft tells in its own words.
        0 => "warn,rmcp=off",
        1 => "haft=info,warn,rmcp=off",
        2 => "haft=debug,info,rmcp=warn",
        _ => "trace",
    };
    let written = std::env::var("HAFT_LOG").unwrap_or_default();
    let parsed = EnvFilter::builder().parse(&written);
    let wrong = parsed.as_ref().err().map(ToString::to_string);
    let filter = parsed.ok().filter(|_| !written.is_empty()).unwrap_or_else(|| EnvFilter::new(level));
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Log)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .with_target(false);
    // A library user may have set a logger already; theirs is the better one.
    let _ = logger.try_init();
    if let Some(error) = wrong {
        tracing::warn!("`HAFT_LOG` is not followed: {error}; expected levels such as `haft=debug,warn`");
    }
}

/// Where the log goes. It is written message by message, so none is split.
struct Log;

impl Write for Log {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        io::stderr().write_all(REDACTOR.redact(&text).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
