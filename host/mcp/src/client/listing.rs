//! Reads a server's list of tools, page by page. Each tool is checked separately, so that an invalid one does not
//! hide the others; the number of pages, tools and bytes is bounded. Of a tool whose arguments are also sent as
//! headers of HTTP (`x-mcp-header`, SEP-2243) the annotations are checked: `rmcp` checks lists of its own type, and
//! haft reads lists as JSON.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ServerError;
use super::calls::shortened;
use crate::pins::{Difference, INSTRUCTIONS, ToolPins};
use haft_core::call::Hints;
use haft_core::tool::{Keep, MendedSchema, Schema, ServerResources, clip, mend};

/// Maximum number of requested pages.
const MAX_PAGES: usize = 100;
/// Maximum number of tools of one server: no model makes use of a tenth of them.
const MAX_TOOLS: usize = 1000;
/// Maximum number of bytes of all tools of one server, as JSON.
const MAX_SIZE: usize = 8 << 20;
/// Maximum number of characters of a name, which appears in messages.
const MAX_NAME: usize = 256;
/// Maximum number of bytes of a resource's URI.
pub(super) const MAX_URI: usize = 2048;
/// Maximum number of characters of a title, which appears in a list.
const MAX_TITLE: usize = 256;
/// Maximum number of characters of a description, which every turn pays for.
const MAX_DESCRIPTION: usize = 16_000;

/// The keyword that names the header of an argument.
const ANNOTATION: &str = "x-mcp-header";
/// The types of values that a header can have.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];
/// Characters of a header's name besides letters and digits (RFC 9110, `token`).
const TOKEN: &[u8] = b"!#$%&'*+-.^_`|~";
/// Keywords whose values are no schemas.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolList {
    /// The tools that can be used, in its order.
    pub tools: Vec<RemoteTool>,
    /// Tools that cannot be used, and other omitted parts.
    pub rejected: Vec<Rejected>,
    /// Each of `tools` as the server sent it, without secrets, and its instructions to models: the pinned content.
    pub sent: Vec<Value>,
    /// Prompts, resources, skills and words to models. Prompts and resources are not pinned.
    #[serde(default)]
    pub offers: ServerOffers,
    /// Differences from the agreed list; tools that are held back are not among [`Self::tools`].
    #[serde(skip)]
    pub differences: Vec<Difference>,
}

impl ToolList {
    /// Returns the list without the tools that `pins` hold back: the only place where a server's list becomes the
    /// offered one.
    pub(super) fn held_to(&self, pins: &ToolPins) -> Self {
        let differences = pins.differences(&ToolPins::of(&self.sent));
        let mut offered = Self { differences, tools: Vec::new(), ..self.clone() };
        let tools = self.tools.iter().filter(|tool| offered.held(&tool.name).is_none());
        offered.tools = tools.cloned().collect();
        offered
    }

    /// Returns whether the server offers more than its instructions. A server that is still starting may not.
    pub fn has_offers(&self) -> bool {
        let ServerOffers { instructions, left_out, .. } = self.offers.clone();
        let words = ServerOffers { instructions, left_out, ..ServerOffers::default() };
        !self.tools.is_empty() || self.offers != words
    }

    /// Returns the server's instructions to models, unless they are held back.
    pub fn instructions(&self) -> Option<&str> {
        self.offers.instructions.as_deref().filter(|_| self.held(INSTRUCTIONS).is_none())
    }

    /// Adds the server's instructions to the pinned content: a model reads them like the description of a tool.
    pub(super) fn pin_words(&mut self) {
        let words = self.offers.instructions.as_deref();
        self.sent.extend(words.map(|words| json!({ "name": INSTRUCTIONS, "description": words })));
        self.sent.extend(self.offers.skills.iter().map(|skill| {
            let (head, files) = (&skill["frontmatter"], &skill["resources"]);
            json!({
                "name": skill["uri"], "description": head["description"], "frontmatter": head, "resources": files,
            })
        }));
    }

    /// The skills of the server that are not held back.
    pub(super) fn skills(&self) -> impl Iterator<Item = &Value> {
        let is_free = |skill: &&Value| skill["uri"].as_str().is_some_and(|uri| self.held(uri).is_none());
        self.offers.skills.iter().filter(is_free)
    }

    /// Returns the unmodified definition of the tool `name`.
    pub(super) fn definition(&self, name: &str) -> Option<&Value> {
        self.sent.iter().find(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
    }

    /// Returns the reason why `tool` is held back, if it is.
    pub fn held(&self, tool: &str) -> Option<&Difference> {
        self.differences.iter().find(|one| one.holds() && one.tool() == tool)
    }
}

/// A server's offers besides its tools, as listed, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerOffers {
    /// `Prompt` of the protocol.
    #[serde(default)]
    pub prompts: Vec<Value>,
    /// The resources and templates.
    #[serde(flatten)]
    pub of_resources: ServerResources,
    /// `Skill` of the extension for skills.
    #[serde(default)]
    pub skills: Vec<Value>,
    /// The server's instructions to models.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Omitted items, and the reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteTool {
    /// The server's own name for it.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments; an object schema.
    pub parameters: Value,
    /// Repaired and unchecked keywords of the schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mended: Vec<String>,
    /// JSON Schema of the data in its answer.
    pub output: Option<Value>,
    /// The server's hints about the tool's behaviour.
    pub hints: Hints,
}

/// Something that was omitted from a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The name of the tool, if the item is a tool.
    pub tool: Option<String>,
    /// The reason.
    pub why: String,
}

/// Collects the pages of a list.
#[derive(Debug, Default)]
pub(super) struct ToolListBuilder {
    /// Whether calls have headers of arguments, which have to be valid.
    has_param_headers: bool,
    listed: ToolList,
    names: HashSet<String>,
    cursors: HashSet<String>,
    pages: usize,
    size: usize,
}

impl ToolListBuilder {
    /// Returns a builder for the list of a server whose calls may have headers of arguments.
    pub(super) fn new(has_param_headers: bool) -> Self {
        Self { has_param_headers, ..Self::default() }
    }

    /// Adds a page, the result of `tools/list`. Returns the cursor of the next page, if one should be requested.
    pub(super) fn page(&mut self, result: &Value) -> Result<Option<String>, ServerError> {
        let tools = result.get("tools").and_then(Value::as_array);
        let tools =
            tools.ok_or_else(|| ServerError::Protocol("its list of tools has no `tools`".to_owned()))?;
        self.pages += 1;
        for tool in tools {
            self.size += tool.to_string().len();
            if self.listed.tools.len() == MAX_TOOLS || self.size > MAX_SIZE {
                self.reject(None, format!("tools after the first {} are left out", self.listed.tools.len()));
                return Ok(None);
            }
            self.tool(tool);
        }
        let next = result.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty());
        Ok(next.map(str::to_owned).filter(|next| self.is_worth_asking(next)))
    }

    fn is_worth_asking(&mut self, next: &str) -> bool {
        if !self.cursors.insert(next.to_owned()) {
            self.reject(None, format!("the list of tools repeats after {} pages", self.pages));
            return false;
        }
        if self.pages == MAX_PAGES {
            self.reject(
                None,
                format!("the list of tools has more than {MAX_PAGES} pages; the rest is left out"),
            );
            return false;
        }
        true
    }

    fn tool(&mut self, tool: &Value) {
        let name = tool.get("name").and_then(Value::as_str).map(|name| shortened(name.to_owned()));
        let headers = if self.has_param_headers { check_param_headers(&tool["inputSchema"]) } else { Ok(()) };
        match headers.and_then(|()| parse_tool(tool, name.as_deref())) {
            Ok(taken) if self.names.insert(taken.name.clone()) => {
                self.listed.tools.push(taken);
                self.listed.sent.push(tool.clone());
            }
            Ok(tool) => self.reject(Some(tool.name), "listed twice".to_owned()),
            Err(why) => self.reject(name, why),
        }
    }

    fn reject(&mut self, tool: Option<String>, why: String) {
        self.listed.rejected.push(Rejected { tool, why });
    }

    pub(super) fn finish(self) -> ToolList {
        self.listed
    }
}

/// Refuses a name that cannot appear in messages.
///
/// # Errors
/// The name is too long, or would be displayed as another name.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.chars().count() > MAX_NAME {
        return Err(format!("its name has more than {MAX_NAME} characters"));
    }
    if name.chars().any(char::is_control) {
        return Err("its name has control characters".to_owned());
    }
    Ok(())
}

fn parse_tool(tool: &Value, name: Option<&str>) -> Result<RemoteTool, String> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let name = name.filter(|name| !name.trim().is_empty()).ok_or("it has no name")?;
    // Pins use original names: no other name may become equal to an original name.
    check_name(tool.get("name").and_then(Value::as_str).unwrap_or(name))?;
    let none = json!({});
    let MendedSchema { schema, notes } =
        mend(tool.get("inputSchema").filter(|schema| !schema.is_null()).unwrap_or(&none));
    let annotations = tool.get("annotations");
    let older = annotations.and_then(|annotations| annotations.get("title")).and_then(Value::as_str);
    let title = text("title").or(older.filter(|title| !title.trim().is_empty()));
    let description = text("description").or(title).unwrap_or(name);
    Ok(RemoteTool {
        name: name.to_owned(),
        title: title.map(|title| clip(title, MAX_TITLE, Keep::Head)),
        description: clip(description, MAX_DESCRIPTION, Keep::Head),
        parameters: schema,
        mended: notes,
        output: tool.get("outputSchema").filter(|schema| Schema::compile(schema).is_ok()).cloned(),
        hints: Hints::from_annotations(annotations.unwrap_or(&Value::Null)),
    })
}

/// Checks the annotations of a tool's `inputSchema`.
///
/// # Errors
/// The reason why an annotation is invalid.
fn check_param_headers(schema: &Value) -> Result<(), String> {
    schema.as_object().map_or(Ok(()), |schema| within(schema, false, &mut HashSet::new()))
}

/// Checks a schema that only `properties` lead to.
fn within(
    schema: &Map<String, Value>,
    is_argument: bool,
    headers: &mut HashSet<String>,
) -> Result<(), String> {
    for (keyword, value) in schema {
        match keyword.as_str() {
            ANNOTATION if is_argument => header(schema, value, headers)?,
            "properties" => {
                for property in value.as_object().into_iter().flat_map(Map::values) {
                    property.as_object().map_or(Ok(()), |property| within(property, true, headers))?;
                }
            }
            keyword if DATA.contains(&keyword) => {}
            ANNOTATION => return Err(misplaced()),
            _ if is_annotated(value) => return Err(misplaced()),
            _ => {}
        }
    }
    Ok(())
}

fn misplaced() -> String {
    format!("`{ANNOTATION}` may stand in arguments only, which `properties` lead to")
}

/// Returns whether a value has an annotation anywhere. A property of that name has a schema.
fn is_annotated(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_annotated),
        Value::Object(fields) => {
            fields.get(ANNOTATION).is_some_and(Value::is_string) || fields.values().any(is_annotated)
        }
        _ => false,
    }
}

fn header(schema: &Map<String, Value>, value: &Value, headers: &mut HashSet<String>) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || TOKEN.contains(&byte);
    let name = value.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    let name = name.ok_or_else(|| format!("`{ANNOTATION}` must be the name of a header, not {value}"))?;
    if !schema.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(format!("`{ANNOTATION}: {name}` needs a type of {}", TYPES.join(", ")));
    }
    if headers.insert(name.to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(format!("two arguments have `{ANNOTATION}: {name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pages: &[Value]) -> ToolList {
        let mut listing = ToolListBuilder::default();
        for page in pages {
            listing.page(page).unwrap();
        }
        listing.finish()
    }

    /// MC06: an unusable tool hides no other, its error is reported, and a wrong schema counts as none (B12, B13).
    #[test]
    fn one_bad_tool_does_not_hide_the_others() {
        let object = json!({ "type": "object" });
        let listed = listed(&[json!({ "tools": [
            { "name": "good", "description": "Does good", "inputSchema": object, "annotations": { "readOnlyHint": true } },
            { "name": "text", "inputSchema": "object" },
            { "name": "array", "inputSchema": { "type": "array" } },
            { "name": "broken", "inputSchema": { "type": "object", "properties": { "a": { "type": "nonsense" } } } },
            { "name": "remote", "inputSchema": { "type": "object", "properties": { "a": { "$ref": "https://x.test/" } } } },
            { "inputSchema": object }, 7,
            { "name": "good", "inputSchema": object },
            { "name": "bare" },
            { "name": "titled", "title": "A title", "inputSchema": {}, "outputSchema": { "type": "nonsense" } },
        ] })]);
        let names: Vec<_> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "text", "array", "broken", "remote", "bare", "titled"]);
        let mended: Vec<_> = listed.tools.iter().map(|tool| !tool.mended.is_empty()).collect();
        assert_eq!(mended, [false, true, true, true, true, false, false]);
        let rejected: Vec<_> = listed.rejected.iter().map(|rejected| rejected.tool.as_deref()).collect();
        assert_eq!(rejected, [None, None, Some("good")]);
        assert_eq!(listed.tools[6].description, "A title");
        assert_eq!(listed.tools[5].parameters, json!({ "type": "object", "properties": {} }));
        assert!(listed.tools[0].hints.read_only && !listed.tools[0].hints.destructive);
        assert!(listed.tools[5].hints.destructive && listed.tools[5].hints.open_world);
        assert_eq!(listed.tools[6].output, None);
    }

    /// A name that would be displayed as another name cannot replace that name.
    #[test]
    fn a_name_with_control_characters_is_no_name_of_a_tool() {
        let tools: Vec<_> = ["read\u{7}", "\u{1}read", "read\u{7f}", "re\nad", "read"]
            .map(|name| json!({ "name": name }))
            .into();
        let listed = listed(&[json!({ "tools": tools })]);
        assert_eq!(listed.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["read"]);
        assert_eq!(listed.sent, [json!({ "name": "read" })]);
        assert_eq!(listed.rejected.len(), 4);
    }

    /// MC06: pages are followed, and a loop or an endless list ends.
    #[test]
    fn a_list_without_end_ends() {
        let page = |name: &str, next: &str| json!({ "tools": [{ "name": name }], "nextCursor": next });
        let mut listing = ToolListBuilder::default();
        assert_eq!(listing.page(&page("a", "1")).unwrap().as_deref(), Some("1"));
        assert_eq!(listing.page(&page("b", "2")).unwrap().as_deref(), Some("2"));
        assert_eq!(listing.page(&page("c", "1")).unwrap(), None);
        assert!(listing.finish().rejected[0].why.contains("repeats"));
        let mut listing = ToolListBuilder::default();
        let pages = (0..).take_while(|number| {
            listing.page(&page(&number.to_string(), &format!("next {number}"))).unwrap().is_some()
        });
        assert_eq!(pages.count(), MAX_PAGES - 1);
        let many: Vec<_> = (0..2000).map(|number| json!({ "name": number.to_string() })).collect();
        let listed = listed(&[json!({ "tools": many, "nextCursor": "" })]);
        assert_eq!((listed.tools.len(), listed.rejected.len()), (MAX_TOOLS, 1));
        assert!(ToolListBuilder::default().page(&json!({ "tool": [] })).is_err());
    }

    #[test]
    fn annotations_are_names_of_headers_of_single_arguments() {
        let tool = |properties: Value| json!({ "type": "object", "properties": properties });
        let one = |kind: &str, header: Value| json!({ "type": kind, ANNOTATION: header });
        let good = [
            tool(
                json!({ "a": one("string", json!("A")), "b": tool(json!({ "c": one("integer", json!("C")) })) }),
            ),
            tool(json!({ ANNOTATION: { "type": "number" }, "d": { "default": { ANNOTATION: "x" } } })),
        ];
        for good in good {
            assert_eq!(check_param_headers(&good), Ok(()), "{good}");
        }
        let mut bad = vec![
            tool(json!({ "a": one("string", json!("A")), "b": one("string", json!("a")) })),
            tool(json!({ "a": { "type": "array", "items": one("string", json!("A")) } })),
            json!({ "type": "object", ANNOTATION: "A" }),
        ];
        for header in [json!(""), json!("a b"), json!("a:"), json!("ä"), json!("a\u{7}"), json!(null)] {
            bad.push(tool(json!({ "a": one("string", header) })));
        }
        for kind in ["number", "object", "array", "null"] {
            bad.push(tool(json!({ "a": one(kind, json!("A")) })));
        }
        for bad in bad {
            assert!(check_param_headers(&bad).is_err(), "{bad}");
        }
    }
}
