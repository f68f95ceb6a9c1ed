//! `haft update` of an MCP server: lists the server's tools, shows the differences from the agreed ones, asks, and
//! pins the tools again, for this user and in program.lock.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::disclosure_sheet::Sheet;
use super::super::install_session::{InstallSession, project_error};
use super::super::terminal::{Hinted, Terminal};
use super::super::trusted::first_list;
use super::{Outcome, Update, change_json};
use crate::cli::common::Common;
use haft::program::{Agreed, PinRecord, Program};
use haft_core::report::plain;
use haft_mcp::client::{Server, ToolList};
use haft_mcp::pins::{Difference, ToolPins};
use haft_package::disclosure::{Change, Disclosure, DisclosureDigests, Item, ItemKind};
use haft_package::{Change as Files, Digest, Project, ProjectError};

/// The MCP servers of a program, of which none runs yet.
#[derive(Default)]
pub(super) struct Servers {
    program: Option<Program>,
}

struct Asked<'a> {
    server: &'a Arc<Server>,
    record: PinRecord,
    /// The pinned tools. `None` before the first consent.
    before: Option<Agreed>,
    listed: Arc<ToolList>,
    known: Vec<String>,
}

impl Servers {
    /// Returns the servers of the program; parts without consent are left out. Returns none if the program cannot be
    /// loaded.
    pub(super) async fn load(common: &Common, terminal: Terminal) -> Self {
        match common.known_program(terminal).await {
            Ok(program) => Self { program: Some(program) },
            Err(error) => {
                terminal.warning(&plain(&format!("the tools of MCP servers were not listed: {error:#}")));
                Self::default()
            }
        }
    }

    fn find(&self, name: &str) -> Option<(&Program, &Arc<Server>)> {
        let program = self.program.as_ref()?;
        Some((program, program.servers.iter().find(|server| server.config().name == name)?))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the names of the pinned servers that program.toml itself declares.
    pub(super) fn own(&self) -> Vec<String> {
        let declared = self.program.iter().flat_map(|program| &program.manifest.mcp_servers);
        let held = declared.filter(|server| server.enabled && server.pinned);
        held.map(|server| server.name.as_str().to_owned()).filter(|name| self.has(name)).collect()
    }

    pub(super) async fn close(&self) {
        if let Some(program) = &self.program {
            program.close().await;
        }
    }

    pub(super) async fn update(
        &self,
        name: &str,
        (verb, session): (&Update, &InstallSession),
        terminal: Terminal,
    ) -> anyhow::Result<Outcome> {
        let Some((program, server)) = self.find(name) else { return Ok(Outcome::Same) };
        let record = program.pin_record(server);
        let read = record.read();
        let is_first = matches!(read, Ok(None));
        // Without a readable record the list is shown as a first list.
        let before = read.unwrap_or_default();
        if is_first && verb.names.is_empty() && !verb.rights.yes {
            return Ok(Outcome::Same);
        }
        let failed = |error| anyhow::anyhow!("MCP server `{name}` {error}");
        server.list().await.map_err(failed)?;
        let listed = server.sent().unwrap_or_default();
        let declared = program.manifest.mcp_servers.iter().map(|server| server.name.as_str().to_owned());
        let loaded = program.servers.iter().map(|server| server.config().name.clone());
        let known = declared.chain(loaded).collect();
        let asked = Asked { server, record, before, listed, known };
        asked.settle((verb, session), terminal).await
    }
}

impl Asked<'_> {
    async fn settle(
        &self,
        (verb, session): (&Update, &InstallSession),
        terminal: Terminal,
    ) -> anyhow::Result<Outcome> {
        let name = self.server.config().name.as_str();
        let differences = self.differences();
        if let (Some(before), true) = (&self.before, differences.is_empty()) {
            self.note(&before.pins, session, terminal)?;
            return Ok(Outcome::Same);
        }
        let changes = self.changes();
        terminal.message(self.page(&differences, &changes, verb, terminal));
        let is_agreed = verb.rights.yes || {
            let has_person = terminal.has_person();
            if !has_person {
                let hint = "`--yes` agrees without a question";
                terminal
                    .fail(&Hinted::new("nothing was changed: there is no terminal to ask at", hint).into());
            }
            has_person && terminal.confirm(&format!("pin `{name}` to these tools?")).await?
        };
        if !is_agreed {
            return Ok(Outcome::Declined);
        }
        let agreed = self.record.agree(&self.listed)?;
        self.note(&agreed.pins, session, terminal)?;
        terminal.message(format_args!("updated `{name}`: {} pinned", agreed.pins.summary()));
        Ok(Outcome::Updated(self.json(&differences, &changes)))
    }

    fn differences(&self) -> Vec<Difference> {
        let nothing = ToolPins::default();
        let before = self.before.as_ref().map_or(&nothing, |before| &before.pins);
        before.differences(&ToolPins::of(&self.listed.sent))
    }

    /// Returns the changed texts, as far as the old texts are known.
    fn changes(&self) -> Vec<Change> {
        let Some(before) = &self.before else { return Vec::new() };
        let disclosure = |tools: &[Value]| Disclosure { items: tools.iter().map(item).collect() };
        disclosure(&self.listed.sent).changes(&DisclosureDigests::default(), &disclosure(&before.tools))
    }

    fn page(
        &self,
        differences: &[Difference],
        changes: &[Change],
        verb: &Update,
        terminal: Terminal,
    ) -> String {
        let name = self.server.config().name.as_str();
        if self.before.is_none() {
            return first_list(name, &self.listed.sent);
        }
        let told: String = differences.iter().map(|one| format!("\n  {one}")).collect();
        let rest = (!verb.rights.full).then(|| format!("haft update --full {name}"));
        let mut sheet = Sheet::new(terminal.message_columns(), rest);
        sheet.changes(changes);
        format!("the tools of MCP server `{name}` differ from their pins:{told}\n{}", sheet.text.trim_end())
    }

    /// Writes the pins to program.lock, for all users of the folder. If that fails, the pins are valid for this user
    /// only.
    fn note(&self, pins: &ToolPins, session: &InstallSession, terminal: Terminal) -> anyhow::Result<()> {
        let pin = self.record.for_lock(pins)?;
        if session.project.lock.server(&pin.name, &pin.configuration) == Some(&pin)
            || !session.project.exists()
        {
            return Ok(());
        }
        let written = Project::change(&session.project.path, &session.context.store, |project| {
            let mut lock = project.lock.clone();
            let is_known = |name: &str| self.known.iter().any(|known| known == name);
            lock.put_server(pin, is_known);
            Ok::<_, ProjectError>(Files { text: project.text.clone(), lock })
        });
        if let Err(error) = written {
            let error = project_error(error);
            terminal
                .warning(&plain(&format!("the pins are saved for you, but not in program.lock: {error:#}")));
        }
        Ok(())
    }

    fn json(&self, differences: &[Difference], changes: &[Change]) -> Value {
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let changes: Vec<Value> = changes.iter().map(change_json).collect();
        json!({ "name": self.server.config().name, "kind": "server", "differences": told, "changes": changes })
    }
}

/// Returns a tool for comparison: all its fields, with texts unchanged and the rest as JSON.
fn item(tool: &Value) -> Item {
    let fields = tool.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
    let line = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}: {text}"),
        value => format!("{key}: {value:#}"),
    };
    let text = fields.map(line).collect::<Vec<_>>().join("\n");
    Item {
        kind: ItemKind::Tool,
        name: tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        digest: Digest::hash(text.as_bytes()),
        size: text.len() as u64,
        text: Some(text),
        executable: false,
    }
}
