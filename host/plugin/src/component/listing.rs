//! Checks a plugin's list of tools: names, sizes and schemas. The text is written by the plugin's author and read by
//! models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::component::offered;
pub(crate) use crate::component::offered::{MAX_DESCRIPTION, MAX_TITLE};
use crate::contract::Contract;
use crate::contract::act::metadata::DeclaredClass;
use crate::contract::mcp::message::Manner;
use crate::failure::LoadError;
use haft_core::call::{Hints, Offers, ToolDef};
use haft_core::tool::Schema;

/// The version of listings, raised when a component gets other texts or schemas.
pub(crate) const LISTING: u32 = 4;

/// Maximum number of tools of one plugin: more than a model can choose from.
pub(crate) const MAX_TOOLS: usize = 256;

/// Maximum number of characters in the name of an MCP server's tool, by the specification.
const MAX_MCP_NAME: usize = 128;

/// Maximum size of all definitions of one plugin in bytes, because every start reads them.
const MAX_SIZE: usize = 4 << 20;

/// The tools of a component, in the form of the cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) contract: Contract,
    /// The tools, by their original names.
    #[serde(with = "whole")]
    pub(crate) tools: Vec<ToolDef>,
    pub(crate) uncallable: Vec<Uncallable>,
    /// The protocol of an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manner: Option<Manner>,
    /// The classes of actions that it declares, of an `act:tools` component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<DeclaredClass>,
    /// The prompts and resources.
    #[serde(default, skip_serializing_if = "Offers::is_empty")]
    pub(crate) offers: Offers,
    /// The JSON Schema of the component's configuration, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<Value>,
}

/// A function of a component that cannot be a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncallable {
    /// The name the tool would have, without the plugin's.
    pub name: String,
    /// The reason; the text follows the name: "takes a resource".
    pub reason: String,
}

/// An instance's answer to a request for its tools.
pub(crate) enum Listed {
    Tools {
        tools: Vec<ListedTool>,
        manner: Option<Manner>,
    },
    /// The listing continues in another instance.
    Again,
}

/// A tool as a guest lists it, not yet checked.
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    /// JSON Schema, as text.
    pub(crate) parameters: String,
    /// JSON Schema, as text.
    pub(crate) output: Option<String>,
    pub(crate) hints: Hints,
}

/// Checks the tools that a guest lists. An MCP server's list is written for many clients, so that an unusable tool is
/// omitted there.
/// Errors: There are too many tools, or an invalid one.
pub(crate) fn check(contract: Contract, listed: Vec<ListedTool>) -> Result<Listing, LoadError> {
    if listed.len() > MAX_TOOLS {
        return Err(LoadError::Tool(format!("{} tools; the limit is {MAX_TOOLS}", listed.len())));
    }
    let mut tools: Vec<ToolDef> = Vec::with_capacity(listed.len());
    let mut uncallable = Vec::new();
    for tool in listed {
        let name = tool.name.clone();
        let is_known = tools.iter().any(|other| other.name == name);
        match check_one(tool, contract) {
            Ok(tool) if !is_known => tools.push(tool),
            checked if contract == Contract::Mcp => {
                let problem = checked.err().unwrap_or_else(|| "it is listed twice".into());
                uncallable.push(Uncallable { name, reason: format!("cannot be used: {problem}") });
            }
            Ok(_) => return Err(LoadError::Tool(format!("`{name}` is listed twice"))),
            Err(problem) => return Err(LoadError::Tool(format!("`{name}`: {problem}"))),
        }
    }
    Ok(Listing { tools, uncallable, ..Listing::new(contract) })
}

impl Listed {
    pub(crate) fn tools(tools: Vec<ListedTool>) -> Self {
        Self::Tools { tools, manner: None }
    }
}

impl Listing {
    pub(crate) fn new(contract: Contract) -> Self {
        let (tools, uncallable, classes) = (Vec::new(), Vec::new(), Vec::new());
        let (offers, manner, config) = (Offers::default(), None, None);
        Self { contract, tools, uncallable, manner, classes, offers, config }
    }

    /// Returns the tools, and the definitions of the offers, for a program that calls the plugin `name`.
    pub(crate) fn definitions(&self, name: &str) -> Vec<ToolDef> {
        self.tools.iter().cloned().chain(offered::definitions(name, &self.offers)).collect()
    }

    pub(crate) fn bounded(self) -> Result<Self, LoadError> {
        let schema = |value: &Value| value.to_string().len();
        let one = |tool: &ToolDef| {
            tool.description.len() + schema(&tool.parameters) + tool.output.as_ref().map_or(0, schema)
        };
        let offered = if self.offers.is_empty() { 0 } else { offered::size(&self.offers) };
        let size = self.tools.iter().map(one).fold(offered, usize::saturating_add);
        if size > MAX_SIZE {
            let (size, most) = (size >> 20, MAX_SIZE >> 20);
            return Err(LoadError::Tool(format!(
                "its tool definitions have {size} MiB; the limit is {most}"
            )));
        }
        Ok(self)
    }
}

fn check_one(tool: ListedTool, contract: Contract) -> Result<ToolDef, String> {
    check_name(&tool.name, contract)?;
    offered::check_texts(None, &tool.description)?;
    let parameters = json(&tool.parameters, "parameters are")?;
    Schema::compile(&parameters).map_err(|error| error.to_string())?;
    let output = tool.output.map(|schema| json(&schema, "output schema is")).transpose()?;
    if output.as_ref().is_some_and(|schema| Schema::compile(schema).is_err()) {
        return Err("its output schema is not a JSON Schema with `\"type\": \"object\"`".into());
    }
    let ListedTool { name, title, description, hints, .. } = tool;
    Ok(ToolDef { name, title, description, parameters, hints, output })
}

/// Checks a name: MCP also has names with dots and similar characters, for which models see others.
fn check_name(name: &str, contract: Contract) -> Result<(), String> {
    if contract == Contract::Mcp {
        let is_name =
            (1..=MAX_MCP_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        return if is_name {
            Ok(())
        } else {
            Err(format!("a name has 1 to {MAX_MCP_NAME} visible characters of ASCII"))
        };
    }
    offered::check_name(name, "a name")
}

fn json(text: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("its {what} not JSON: {error}"))
}

/// Serializes tools with the fields that [`ToolDef`] omits from prompts.
mod whole {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use haft_core::call::{Hints, ToolDef};

    #[derive(Serialize)]
    struct Borrowed<'a> {
        tool: &'a ToolDef,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        hints: Hints,
        output: Option<&'a Value>,
    }

    #[derive(Deserialize)]
    struct Owned {
        tool: ToolDef,
        title: Option<String>,
        hints: Hints,
        output: Option<Value>,
    }

    pub(crate) fn serialize<S: Serializer>(tools: &[ToolDef], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tools.iter().map(|tool| {
            let (title, output) = (tool.title.as_deref(), tool.output.as_ref());
            Borrowed { tool, title, hints: tool.hints, output }
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolDef>, D::Error> {
        let tools = Vec::<Owned>::deserialize(deserializer)?;
        let def = |Owned { tool, title, hints, output }| ToolDef { title, hints, output, ..tool };
        Ok(tools.into_iter().map(def).collect())
    }
}
