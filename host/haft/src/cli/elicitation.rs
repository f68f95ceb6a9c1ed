//! Asks the user at the terminal what an MCP server wants to know. It never answers by itself: a default is used when
//! the user accepts it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::field::Field;
use super::terminal::{HEAD, Terminal};
use haft_core::tool::Schema;
use haft_mcp::client::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};

mod field;

/// Where a person is, whatever the standard streams are.
const TERMINAL: &str = "/dev/tty";
/// Bytes of an answer.
const MAX_ANSWER: u64 = 64 << 10;
/// How often a form is shown that was filled in wrongly.
const MAX_ATTEMPTS: usize = 3;

/// The person at the terminal, if there is one.
pub(super) fn present() -> Option<Arc<dyn Elicitor>> {
    let is_there = io::stderr().is_terminal() && File::open(TERMINAL).is_ok();
    is_there.then(|| Arc::new(AtTerminal::default()) as Arc<dyn Elicitor>)
}

#[derive(Debug, Default)]
struct AtTerminal {
    /// Who is being asked is asked nothing else.
    turn: tokio::sync::Mutex<()>,
}

#[async_trait]
impl Elicitor for AtTerminal {
    async fn ask(&self, question: &ElicitationQuestion) -> Reply {
        let _turn = self.turn.lock().await;
        let question = question.clone();
        let (answer, answered) = tokio::sync::oneshot::channel();
        // A detached thread: reading from a terminal cannot be cancelled, and must not delay the exit.
        std::thread::spawn(move || {
            let reply = Dialog::new().and_then(|mut dialog| dialog.hold(&question));
            // The receiver may be gone.
            let _ = answer.send(reply.unwrap_or(Reply::Cancel));
        });
        answered.await.unwrap_or(Reply::Cancel)
    }
}

struct Dialog {
    terminal: Terminal,
    lines: BufReader<File>,
}

impl Dialog {
    fn new() -> io::Result<Self> {
        Ok(Self { terminal: Terminal::new(false), lines: BufReader::new(File::open(TERMINAL)?) })
    }

    fn hold(&mut self, question: &ElicitationQuestion) -> io::Result<Reply> {
        let server = &question.server;
        self.terminal.message(format_args!(
            "{HEAD}MCP server `{server}` asks:{HEAD:#} {}",
            on_a_line(&question.message)
        ));
        match &question.mode {
            ElicitationMode::Page(url) => {
                self.terminal.message(format_args!("  {}", on_a_line(url)));
                let asked = "Open it in a browser if you trust the server. Done? [y/N] ";
                Ok(if self.agreed(asked)? { Reply::Accept(None) } else { Reply::Decline })
            }
            ElicitationMode::Form(schema) => {
                if !self.agreed("What you enter is sent to the server. Answer it? [y/N] ")? {
                    return Ok(Reply::Decline);
                }
                self.form(schema)
            }
        }
    }

    fn form(&mut self, schema: &Value) -> io::Result<Reply> {
        let fields = Field::all(schema);
        let check = Schema::compile(schema).ok();
        for _ in 0..MAX_ATTEMPTS {
            let mut answers = Map::new();
            for field in &fields {
                if let Some(value) = self.field(field)? {
                    answers.insert(field.name.clone(), value);
                }
            }
            let answers = Value::Object(answers);
            match check.as_ref().map(|schema| schema.check(&answers)) {
                Some(Err(error)) => {
                    self.terminal.message(format_args!("  {}", on_a_line(&error.to_string())));
                }
                _ => return Ok(Reply::Accept(Some(answers))),
            }
        }
        Ok(Reply::Cancel)
    }

    fn field(&mut self, field: &Field) -> io::Result<Option<Value>> {
        self.terminal.message(format_args!("  {}", on_a_line(&field.describe())));
        for _ in 0..MAX_ATTEMPTS {
            match field.read(self.line("  > ")?.trim()) {
                Ok(value) => return Ok(value),
                Err(why) => self.terminal.message(format_args!("  {}", on_a_line(&why))),
            }
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    fn agreed(&mut self, asked: &str) -> io::Result<bool> {
        Ok(matches!(self.line(asked)?.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// What is entered; the end of input is an error, so that nothing is taken for an answer.
    fn line(&mut self, prompt: &str) -> io::Result<String> {
        self.terminal.ask(prompt);
        let mut line = String::new();
        match (&mut self.lines).take(MAX_ANSWER).read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

/// A text of a server's, on a line.
fn on_a_line(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect()
}
