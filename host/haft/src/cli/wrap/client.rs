//! A server at a client that nobody decided about yet: its first request is answered by a server that was tried, and what
//! that needs is asked for by elicitation. After that haft passes bytes on and reads none of them.

use std::io;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Stdin, Stdout, stdin, stdout};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use super::given::line;
use super::person::MAX_ROUNDS;
use super::trial::{CHUNK, LAST, MAX_LINE, Pieces, Trial};
use super::watch::{self, Watcher};
use super::{Exit, Start, fetch};
use haft_core::encoding::hex;
use haft_core::grant::Right;
use haft_core::random;
use haft_sandbox::attached;

/// The field of the form.
const APPROVE: &str = "approve";
/// Bytes that a client may send while its person reads the question.
const MAX_HELD: usize = 16 << 20;
/// The error code of JSON-RPC for a server that does not start.
const NOT_STARTED: i32 = -32_000;
/// How a client says that the session begins.
const BEGUN: &str = "notifications/initialized";

/// The client.
struct Client {
    input: BufReader<Stdin>,
    output: Stdout,
    /// Its first line.
    first: Vec<u8>,
    request: Value,
    /// What it sent after that, and the server has not got.
    held: Vec<u8>,
    /// Whether its first request is answered.
    is_answered: bool,
}

/// What a person said.
enum Said {
    Yes,
    No,
    /// Nothing: the question was dismissed, or the client is gone.
    Nothing,
}

/// Serves the client: with what a person agrees to, or tells it how to be asked.
pub(super) async fn serve(mut start: Start) -> anyhow::Result<Exit> {
    let mut client = Client::new().await?;
    for round in 0..=MAX_ROUNDS {
        let mut trial = Trial::start(&start).await?;
        trial.ask(&client.first, client.id()).await?;
        let mut watcher = Watcher::new(&start, &trial.grant)?;
        trial.refused.iter().for_each(|refusal| watcher.tell(refusal));
        let wanted = start.wanted(&trial)?;
        if wanted.is_empty() && round == 0 && trial.answer.is_some() {
            start.decide(&[], true)?;
        }
        let is_needed = trial.answer.is_none() || !start.configured().is_empty();
        if wanted.is_empty() || round == MAX_ROUNDS || !(client.can_elicit() || is_needed) {
            return client.pass_on(trial, watcher).await;
        }
        if !client.can_elicit() {
            trial.end().await?;
            return client.refuse(&start, &wanted).await;
        }
        client.answer(&mut trial, &start.command.name).await?;
        let sheet = start.sheet(&wanted);
        let said = tokio::select! {
            said = client.elicit(&sheet) => said?,
            () = watcher.stopped() => {
                trial.end().await?;
                break;
            }
        };
        match said {
            Said::Yes => {
                start.decide(&wanted, true)?;
                trial.end().await?;
                fetch::fetch(&mut start).await?;
                continue;
            }
            Said::No => start.decide(&wanted, false)?,
            Said::Nothing => {}
        }
        return client.pass_on(trial, watcher).await;
    }
    Ok(Exit::Failure)
}

impl Client {
    async fn new() -> anyhow::Result<Self> {
        let mut input = BufReader::with_capacity(CHUNK, stdin());
        let first = line_of(&mut input).await.context("cannot read from the client")?;
        let request = serde_json::from_slice(&first).unwrap_or_default();
        Ok(Self { input, output: stdout(), first, request, held: Vec::new(), is_answered: false })
    }

    fn id(&self) -> &Value {
        self.request.get("id").unwrap_or(&Value::Null)
    }

    /// Whether it shows forms to a person, by what it says of itself in `initialize`.
    fn can_elicit(&self) -> bool {
        let elicitation = self.request.pointer("/params/capabilities/elicitation").and_then(Value::as_object);
        let shows_forms = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
        self.request.get("method").is_some_and(|method| method == "initialize") && shows_forms
    }

    async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.output.write_all(bytes).await?;
        self.output.flush().await.context("cannot write to the client")
    }

    /// Answers the first request as the server did, or in the place of one that has not: a person is asked in a session.
    async fn answer(&mut self, trial: &mut Trial, name: &str) -> anyhow::Result<()> {
        if self.is_answered {
            return Ok(());
        }
        // What the server wrote before its answer waits: a question of its own would look like haft's.
        let answer = match &trial.answer {
            Some(answer) => answer.clone(),
            None => self.answer_in_place(name),
        };
        self.write(&answer).await?;
        self.is_answered = true;
        Ok(())
    }

    fn answer_in_place(&self, name: &str) -> Vec<u8> {
        let listed = || json!({ "listChanged": true });
        let result = json!({
            "protocolVersion": self.request.pointer("/params/protocolVersion"),
            "capabilities": { "tools": listed(), "prompts": listed(), "resources": listed() },
            "serverInfo": { "name": name, "version": env!("CARGO_PKG_VERSION") },
        });
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": self.id(), "result": result })).into_bytes()
    }

    /// Asks the person, once the client has begun the session. What else it sends meanwhile is kept for the server.
    async fn elicit(&mut self, sheet: &str) -> anyhow::Result<Said> {
        if !self.has_begun() && !self.until(|message| method(message) == Some(BEGUN)).await? {
            return Ok(Said::Nothing);
        }
        // A name that no server knows, whose question this is not.
        let own_id = format!("haft-{}", hex(&random::bytes::<16>().context("a question cannot be named")?));
        let approve = json!({ "type": "boolean", "title": "Agree to this", "default": false });
        let schema = json!({ "type": "object", "properties": { APPROVE: approve }, "required": [APPROVE] });
        let parameters = json!({ "message": sheet, "requestedSchema": schema });
        let question =
            json!({ "jsonrpc": "2.0", "id": own_id, "method": "elicitation/create", "params": parameters });
        self.write(format!("{question}\n").as_bytes()).await?;
        let mut said = Said::Nothing;
        self.until(|message| {
            let is_answer = message.get("id").is_some_and(|id| *id == own_id) && method(message).is_none();
            if is_answer {
                said = self::said(message);
            }
            is_answer
        })
        .await?;
        Ok(said)
    }

    /// Whether the client has said that the session begins.
    fn has_begun(&self) -> bool {
        let lines = self.held.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .any(|message| method(&message) == Some(BEGUN))
    }

    /// Reads on until a message `is_it`; `false` at the end of the input. All but an answer to haft is kept.
    async fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> anyhow::Result<bool> {
        loop {
            let line = line_of(&mut self.input).await.context("cannot read from the client")?;
            if line.is_empty() || self.held.len() > MAX_HELD {
                return Ok(false);
            }
            let message = serde_json::from_slice(&line).unwrap_or_default();
            let is_found = is_it(&message);
            if !is_found || method(&message).is_some() {
                self.held.extend(line);
            }
            if is_found {
                return Ok(true);
            }
        }
    }

    /// Answers the first request with the command that asks a person.
    async fn refuse(mut self, start: &Start, wanted: &[Right]) -> anyhow::Result<Exit> {
        let command = line(&start.asked, &start.command.name, &start.command.words);
        let rights: Vec<String> = wanted.iter().map(super::given::shown).collect();
        let text = format!(
            "the MCP server `{}` was not started, since nobody agreed to what it asks for ({}): run `{command}` once in a terminal, which asks you",
            start.command.name,
            rights.join(", "),
        );
        let text = haft_core::report::plain(&text);
        start.terminal.message(format_args!("haft: {text}"));
        if !self.id().is_null() {
            let error = json!({ "code": NOT_STARTED, "message": text });
            let answer = json!({ "jsonrpc": "2.0", "id": self.id(), "error": error });
            self.write(format!("{answer}\n").as_bytes()).await?;
        }
        Ok(Exit::Declined)
    }

    /// Passes on bytes until the server has ended.
    async fn pass_on(mut self, mut trial: Trial, watcher: Watcher) -> anyhow::Result<Exit> {
        let before = std::mem::take(&mut trial.before);
        self.write(&before).await?;
        let answer = trial.answer.take();
        // The client has an answer; that of this server comes second.
        let second = (answer.is_none() && self.is_answered).then(|| self.id().clone());
        if let Some(answer) = answer.filter(|_| !self.is_answered) {
            self.write(&answer).await?;
        }
        let Self { input, output, held, .. } = self;
        let passing = trial.streams().map(|(server, answers)| {
            tokio::spawn(to_server(input, held, server));
            tokio::spawn(to_client(answers, output, second))
        });
        let status = trial.finish(watcher).await?;
        if let Some(passing) = passing {
            let _: Result<_, _> = timeout(LAST, passing).await;
        }
        Ok(watch::exit(status))
    }
}

/// Passes on what was kept and what the client sends, to its end. A server that closed its input reads nothing.
async fn to_server(mut client: BufReader<Stdin>, held: Vec<u8>, mut server: Sender) -> io::Result<()> {
    server.write_all(&held).await?;
    tokio::io::copy_buf(&mut client, &mut server).await.map(drop)
}

/// Passes on what the server writes, as it comes, but for its answer to the request `second`, which has one.
async fn to_client(
    mut server: BufReader<Receiver>,
    mut client: Stdout,
    second: Option<Value>,
) -> io::Result<()> {
    if let Some(id) = second {
        let mut pieces = Pieces::default();
        while let Some(piece) = pieces.next(&mut server).await? {
            if pieces.is_answer(&piece, &id) {
                break;
            }
            client.write_all(&piece).await?;
            client.flush().await?;
        }
    }
    loop {
        let bytes = server.fill_buf().await?;
        let count = bytes.len();
        if count == 0 {
            // The server has closed its output, or has ended.
            return attached::close_output().map_err(io::Error::other);
        }
        client.write_all(bytes).await?;
        client.flush().await?;
        server.consume(count);
    }
}

/// A line with its end, or a part of one that is too long; nothing at the end of the input.
async fn line_of(input: &mut BufReader<Stdin>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    Ok(line)
}

fn method(message: &Value) -> Option<&str> {
    message.get("method")?.as_str()
}

/// What the answer to a question means. Only a form that was filled in tells of a person.
fn said(answer: &Value) -> Said {
    let action = answer.pointer("/result/action").and_then(Value::as_str);
    let approves = answer.pointer("/result/content").and_then(|content| content.get(APPROVE)?.as_bool());
    match (action, approves) {
        (Some("accept"), Some(true)) => Said::Yes,
        (Some("accept" | "decline"), _) => Said::No,
        _ => Said::Nothing,
    }
}
