//! Serves a client whose server has no consent yet: a trial server answers the first request, and haft asks for the
//! rights that the server needs by elicitation. Afterwards a relay passes on the messages of both.

use std::io::{BufRead, Read};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::person::MAX_ROUNDS;
use super::question::{self, Said};
use super::relay::{self, End, Line, Relay};
use super::rights::line;
use super::trial::{MAX_LINE, Trial};
use super::watch::{self, Watcher};
use super::{Exit, Start, fetch};
use haft_core::grant::Right;

/// Maximum bytes that a client may send while its user reads the question.
const MAX_HELD: usize = 16 << 20;
/// The error code of JSON-RPC for a server that does not start.
const NOT_STARTED: i32 = -32_000;
/// The client's message at the beginning of the session.
const BEGUN: &str = "notifications/initialized";

struct Client {
    /// `None` while a line is read.
    input: Option<relay::Client>,
    relay: Relay,
    first: Vec<u8>,
    request: Value,
    /// Further messages of the client, which the server has not received.
    held: Vec<u8>,
    is_answered: bool,
}

/// Serves the client: with the rights that the user agrees to, or with the command that asks for them.
pub(super) async fn serve(mut start: Start) -> anyhow::Result<Exit> {
    let mut client = Client::new(&start).await?;
    for round in 0..=MAX_ROUNDS {
        let mut trial = Trial::start(&start).await?;
        trial.ask(&client.first, client.id()).await?;
        let mut watcher = Watcher::new(&start, &trial.grant)?;
        let wanted = start.wanted(&trial)?;
        if wanted.is_empty() && round == 0 && trial.answer.is_some() {
            start.decide(&[], true)?;
        }
        let is_needed = trial.answer.is_none() || !start.configured().is_empty();
        let is_asked = !wanted.is_empty() && round < MAX_ROUNDS && (client.can_elicit() || is_needed);
        start.tell(&trial, if is_asked { &wanted } else { &[] });
        if !is_asked {
            return client.pass_on(trial, watcher).await;
        }
        if !client.can_elicit() {
            trial.end().await?;
            return client.refuse(&start, &wanted);
        }
        client.answer(&trial, &start.command.name)?;
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
            Said::No if start.is_fetched_by(&wanted) => {
                trial.end().await?;
                return Ok(start.leave_unfetched());
            }
            Said::No => start.decide(&wanted, false)?,
            Said::Nothing => {}
        }
        return client.pass_on(trial, watcher).await;
    }
    Ok(Exit::Failure)
}

impl Client {
    async fn new(start: &Start) -> anyhow::Result<Self> {
        let (input, relay) = (Some(relay::client()?), Relay::new(start)?);
        let mut client = Self {
            input,
            relay,
            first: Vec::new(),
            request: Value::Null,
            held: Vec::new(),
            is_answered: false,
        };
        loop {
            client.first = client.line().await?;
            match client.relay.sent.judge(&client.first)? {
                Line::Passes => break,
                Line::Replaced(rest) if rest.is_empty() => {}
                Line::Replaced(rest) => {
                    client.first = rest;
                    break;
                }
            }
        }
        client.request = serde_json::from_slice(&client.first).unwrap_or_default();
        Ok(client)
    }

    /// Returns a line with its newline, or a part of a line that is too long. Empty at the end of the input.
    async fn line(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut input = self.input.take().context("haft no longer reads from the client")?;
        let read = move || {
            let mut line = Vec::new();
            let read = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line);
            (input, read.map(|_| line))
        };
        let (input, line) = spawn_blocking(read).await?;
        self.input = Some(input);
        line.context("cannot read from the client")
    }

    fn id(&self) -> &Value {
        self.request.get("id").unwrap_or(&Value::Null)
    }

    fn can_elicit(&self) -> bool {
        question::shows_forms(&self.request)
    }

    /// Answers the first request with the server's answer. If the server has not answered, haft answers, so that the
    /// user can be asked within the session.
    fn answer(&mut self, trial: &Trial, name: &str) -> anyhow::Result<()> {
        if self.is_answered {
            return Ok(());
        }
        // The server's messages before its answer are held back: a question among them would look like a question of
        // haft.
        match &trial.answer {
            Some(answer) => self.relay.received.line(answer),
            None => self.relay.output.write(&self.answer_in_place(name)),
        }
        .context("cannot write to the client")?;
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

    /// Asks the user, after the client has begun the session. Stores other messages of the client for the server.
    async fn elicit(&mut self, sheet: &str) -> anyhow::Result<Said> {
        if !self.has_begun() && !self.until(|message| method(message) == Some(BEGUN)).await? {
            return Ok(Said::Nothing);
        }
        let (own_id, line) = question::new(sheet)?;
        self.relay.output.write(&line).context("cannot write to the client")?;
        let mut said = Said::Nothing;
        self.until(|message| {
            let is_answer = message.get("id").is_some_and(|id| *id == own_id) && method(message).is_none();
            if is_answer {
                said = question::said(message);
            }
            is_answer
        })
        .await?;
        Ok(said)
    }

    fn has_begun(&self) -> bool {
        let lines = self.held.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .any(|message| method(&message) == Some(BEGUN))
    }

    /// Reads messages until `is_it` returns true. Returns `false` at the end of the input. Stores all messages except
    /// answers to haft.
    async fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> anyhow::Result<bool> {
        loop {
            let line = self.line().await?;
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

    /// Answers the first request with the command that asks the user.
    fn refuse(self, start: &Start, wanted: &[Right]) -> anyhow::Result<Exit> {
        let command = line(&start.asked, &start.command.name, &start.command.words);
        let rights: Vec<String> = wanted.iter().map(super::rights::shown).collect();
        let name = &start.command.name;
        let text = format!(
            "the MCP server `{name}` was not started: you have not agreed to the rights that it requests ({}){}; \
             run `{command}` once in a terminal to agree",
            rights.join(", "),
            [start.changes(), start.other_consent()?, start.ending()].concat(),
        );
        let text = haft_core::report::plain(&text);
        start.terminal.message(format_args!("haft: {text}"));
        if !self.id().is_null() {
            let answer = relay::error_line(self.id(), NOT_STARTED, &text);
            self.relay.output.write(&answer).context("cannot write to the client")?;
        }
        Ok(Exit::Declined)
    }

    /// Relays the messages of client and server until the server has ended.
    async fn pass_on(mut self, mut trial: Trial, mut watcher: Watcher) -> anyhow::Result<Exit> {
        let is_silent = trial.has_ended && trial.answer.is_none();
        let client = self.relay.output.clone();
        match trial.answer.take() {
            Some(answer) if !self.is_answered => trial.before.extend(answer),
            Some(_) => {}
            // The client has an answer already: the answer of this server would be the second.
            None => {
                self.relay.received.leave_out(self.request.get("id").filter(|_| self.is_answered).cloned());
            }
        }
        let passing = match (trial.ends()?, self.input) {
            (Some((input, output)), Some(lines)) => {
                Some(self.relay.begin(lines, End { before: self.held, ..input }, output))
            }
            _ => None,
        };
        let status = trial.finish(&mut watcher).await?;
        if let Some(passing) = passing {
            watcher.wait_for(passing).await;
        }
        if is_silent || !client.is_used() {
            watcher.tell_unanswered(status);
        }
        Ok(watch::exit(status))
    }
}

fn method(message: &Value) -> Option<&str> {
    message.get("method")?.as_str()
}
