//! Discovers the MCP path of a component, its protocol and its tools. Every step has a separate instance, because
//! an instance may serve no second request.
//!
//! `initialize` is sent to one path after the other. A server that answers with a session is queried in that
//! instance. A server without a session is queried without `initialize`, or with it after a refusal. A server that
//! refuses `initialize` may support the stateless protocol.

use serde_json::{Map, Value, json};

use super::message::{Failure, GREETING, Manner, STATELESS, Sessions};
use super::session::{Channel, Session};
use crate::component::listing::{ListedTool, MAX_DESCRIPTION, MAX_TITLE, MAX_TOOLS};
use haft_core::call::Hints;
use haft_core::tool::Schema;

/// The paths of servers: that of the specification's examples, that of servers that ignore the path, and that of
/// Cosmonic's template.
const PATHS: &[&str] = &["/mcp", "/", "/v1/mcp"];

/// Maximum number of pages of a list of tools.
const MAX_PAGES: usize = 100;

/// The state of the inquiry.
#[derive(Default)]
pub(super) struct Inquiry {
    step: Step,
    refusals: Refusals,
    tools: Vec<ListedTool>,
    pages: usize,
}

enum Step {
    /// The greeting, at the path of this number.
    Greet(usize),
    /// The stateless protocol, at this path. The text is the refusal of `initialize`.
    Discover(usize, String),
    List(Manner, Option<String>),
}

pub(super) enum Next {
    /// The inquiry continues in another instance.
    Again(Inquiry),
    Listed(Vec<ListedTool>, Manner),
}

/// The reason why a component is not a server at the tried paths.
#[derive(Default)]
struct Refusals(Vec<(String, Vec<String>)>);

impl Default for Step {
    fn default() -> Self {
        Self::Greet(0)
    }
}

impl Inquiry {
    pub(super) async fn go_on(mut self, channel: &mut Channel<'_>) -> Result<Next, Failure> {
        match std::mem::take(&mut self.step) {
            Step::Greet(number) => self.greet(number, channel).await,
            Step::Discover(number, refusal) => self.discover((number, refusal), channel).await,
            Step::List(manner, cursor) if manner.sessions == Sessions::Greeted => {
                let session = Session::open(&manner, channel).await?;
                self.list_all(session, cursor, channel).await
            }
            Step::List(manner, cursor) => self.list((manner, cursor), channel).await,
        }
    }

    fn again(self, step: Step) -> Next {
        Next::Again(Self { step, ..self })
    }

    async fn greet(mut self, number: usize, channel: &mut Channel<'_>) -> Result<Next, Failure> {
        let path = PATHS.get(number).copied().unwrap_or_default();
        let mut session = Session::new(Manner {
            path: path.to_owned(),
            version: GREETING.into(),
            sessions: Sessions::Greeted,
        });
        match session.greet(channel).await {
            Ok(()) if session.id.is_some() => {
                session.confirm(channel).await?;
                self.list_all(session, None, channel).await
            }
            Ok(()) => {
                let manner = Manner { sessions: Sessions::None, ..session.manner };
                Ok(self.again(Step::List(manner, None)))
            }
            Err(Failure::Refused { message, .. }) => Ok(self.again(Step::Discover(number, message))),
            Err(Failure::NotMcp(why)) => {
                self.refusals.add(why, path);
                match PATHS.get(number + 1) {
                    Some(_) => Ok(self.again(Step::Greet(number + 1))),
                    None => Err(Failure::NotMcp(self.refusals.text())),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    async fn discover(
        self,
        (number, message): (usize, String),
        channel: &mut Channel<'_>,
    ) -> Result<Next, Failure> {
        let path = PATHS.get(number).copied().unwrap_or_default().to_owned();
        let manner = Manner { path, version: STATELESS.into(), sessions: Sessions::Stateless };
        match Session::new(manner.clone()).request(channel, "server/discover", Map::new()).await {
            Ok(_) => Ok(self.again(Step::List(manner, None))),
            Err(Failure::Ended(error)) => Err(Failure::Ended(error)),
            // More useful to people than the refusal of a request that few servers support.
            Err(_) => Err(Failure::Refused { code: 0, message }),
        }
    }

    /// Requests a page without `initialize`.
    async fn list(
        mut self,
        (manner, cursor): (Manner, Option<String>),
        channel: &mut Channel<'_>,
    ) -> Result<Next, Failure> {
        let is_first = cursor.is_none();
        let listed = Session::new(manner.clone()).request(channel, "tools/list", at(cursor)).await;
        match listed {
            Ok(page) => match self.take(&page)? {
                None => Ok(Next::Listed(self.tools, manner)),
                more => Ok(self.again(Step::List(manner, more))),
            },
            Err(Failure::Refused { .. } | Failure::NotMcp(_))
                if is_first && manner.sessions == Sessions::None =>
            {
                let manner = Manner { sessions: Sessions::Greeted, ..manner };
                Ok(self.again(Step::List(manner, None)))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn list_all(
        mut self,
        mut session: Session,
        mut cursor: Option<String>,
        channel: &mut Channel<'_>,
    ) -> Result<Next, Failure> {
        loop {
            let page = session.request(channel, "tools/list", at(cursor)).await?;
            cursor = self.take(&page)?;
            if cursor.is_none() {
                return Ok(Next::Listed(self.tools, session.manner));
            }
        }
    }

    /// Adds a page. Returns the cursor of the next page, if there is one.
    fn take(&mut self, page: &Value) -> Result<Option<String>, Failure> {
        let tools = tools_of(page).ok_or_else(|| Failure::wrong("tools/list", "holds no `tools`"))?;
        self.tools.extend(tools);
        self.pages += 1;
        if self.pages == MAX_PAGES || self.tools.len() > MAX_TOOLS {
            let why = format!("has more than {MAX_TOOLS} tools, or {MAX_PAGES} pages of them");
            return Err(Failure::wrong("tools/list", &why));
        }
        let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty());
        Ok(next.map(str::to_owned))
    }
}

fn at(cursor: Option<String>) -> Map<String, Value> {
    cursor.map(|cursor| ("cursor".to_owned(), cursor.into())).into_iter().collect()
}

impl Refusals {
    fn add(&mut self, why: String, path: &str) {
        let path = format!("`{path}`");
        match self.0.iter_mut().find(|(other, _)| *other == why) {
            Some((_, paths)) => paths.push(path),
            None => self.0.push((why, vec![path])),
        }
    }

    fn text(&self) -> String {
        let each = self.0.iter().map(|(why, paths)| format!("{why} at {}", paths.join(", ")));
        each.collect::<Vec<_>>().join("; ")
    }
}

fn tools_of(result: &Value) -> Option<Vec<ListedTool>> {
    Some(result.get("tools")?.as_array()?.iter().map(tool).collect())
}

fn tool(tool: &Value) -> ListedTool {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let annotations = tool.get("annotations").unwrap_or(&Value::Null);
    let older = annotations.get("title").and_then(Value::as_str).filter(|title| !title.trim().is_empty());
    let title = text("title").or(older);
    let name = text("name").unwrap_or_default();
    let description = text("description").or(title).unwrap_or(name);
    // A schema that cannot be compiled is ignored.
    let output = tool.get("outputSchema").filter(|schema| Schema::compile(schema).is_ok());
    ListedTool {
        name: name.to_owned(),
        description: description.chars().take(MAX_DESCRIPTION).collect(),
        parameters: parameters(tool.get("inputSchema")),
        title: title.map(|title| title.chars().take(MAX_TITLE).collect()),
        output: output.map(Value::to_string),
        hints: Hints::from_annotations(annotations),
    }
}

/// Returns the schema as text. Some servers omit its type.
fn parameters(schema: Option<&Value>) -> String {
    let mut schema = schema.filter(|schema| !schema.is_null()).cloned().unwrap_or_else(|| json!({}));
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
    }
    schema.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once() {
        let mut refusals = Refusals::default();
        refusals.add("it says no".into(), "/mcp");
        refusals.add("it says nothing".into(), "/");
        refusals.add("it says no".into(), "/v1/mcp");
        assert_eq!(refusals.text(), "it says no at `/mcp`, `/v1/mcp`; it says nothing at `/`");
    }

    #[test]
    fn what_a_server_leaves_out_is_filled_in() {
        let listed = tools_of(&json!({ "tools": [
            { "name": "a", "title": "An a", "inputSchema": { "properties": {} },
              "outputSchema": { "type": "nonsense" }, "annotations": { "readOnlyHint": true } },
            { "name": "b", "description": "Does b." },
            7,
        ] }));
        let [a, b, nameless] = &listed.unwrap()[..] else { panic!("three") };
        assert_eq!((a.description.as_str(), a.title.as_deref(), &a.output), ("An a", Some("An a"), &None));
        assert_eq!(a.parameters, r#"{"properties":{},"type":"object"}"#);
        assert!(a.hints.read_only && !a.hints.destructive);
        assert_eq!((b.description.as_str(), b.parameters.as_str()), ("Does b.", r#"{"type":"object"}"#));
        assert!(b.hints.destructive && b.hints.open_world);
        assert_eq!(nameless.name, "", "the check of all lists says that");
        assert!(tools_of(&json!({ "tool": [] })).is_none());
    }
}
