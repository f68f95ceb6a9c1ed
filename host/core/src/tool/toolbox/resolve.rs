//! Resolves the tool of a call: by its name, or through the generic tool `program`. Runs nothing.

use super::super::entry::Entry;
use super::super::watch::Ended;
use super::super::{ToolError, generic, search};
use super::Toolbox;
use crate::call::ToolCall;

/// Minimal similarity of a suggested name.
const MIN_LIKENESS: f64 = 0.7;

/// Prefixes that models put before the name of a tool, from their training: `functions.bash`.
const NAMESPACES: &[&str] = &["functions", "function", "default_api", "tools", "tool"];

/// The beginning of a control token that a model wrote into a name: `bash<|channel|>commentary`.
const CONTROL: &str = "<|";

/// Maximum number of tools that a short name could mean and that are named.
const MAX_NAMED: usize = 5;

impl Toolbox {
    /// Returns the intended call and its tool, or the end of the call if the tool does not exist.
    pub(super) fn resolve(&self, call: ToolCall) -> (ToolCall, Result<&Entry, Ended>) {
        match self.meant(&call) {
            Ok(meant) => {
                let call = meant.unwrap_or(call);
                let found = self.find(&call.tool);
                let found = found.ok_or_else(|| Ended::UnknownTool(self.unknown(&call.tool)));
                (call, found)
            }
            Err(error) => (call, Err(Ended::Failed(error))),
        }
    }

    /// Returns the call that `call` makes through `program`, or by a decorated name; `None` if it is a direct call.
    /// Fails if neither the tool nor its arguments are clear.
    pub fn meant(&self, call: &ToolCall) -> Result<Option<ToolCall>, ToolError> {
        if let Some(tool) = self.bare(&call.tool) {
            let call = ToolCall { tool, ..call.clone() };
            return Ok(Some(self.through_generic(&call)?.unwrap_or(call)));
        }
        self.through_generic(call)
    }

    /// Returns the name of an existing tool, extracted from a model's decorated name.
    fn bare(&self, name: &str) -> Option<String> {
        let plain = name.split(CONTROL).next().unwrap_or_default().trim();
        let inner = plain
            .split_once(['.', ':', '/'])
            .filter(|(before, _)| NAMESPACES.contains(before))
            .map_or(plain, |(_, inner)| inner);
        let is_new = inner != name && self.find(name).is_none();
        let is_generic = || inner.eq_ignore_ascii_case(generic::NAME).then(|| inner.to_owned());
        is_new.then(|| self.find(inner).map(|entry| entry.def().name.clone()).or_else(is_generic)).flatten()
    }

    fn through_generic(&self, call: &ToolCall) -> Result<Option<ToolCall>, ToolError> {
        if !call.tool.eq_ignore_ascii_case(generic::NAME) || self.find(&call.tool).is_some() {
            return Ok(None);
        }
        let (name, arguments) =
            generic::name_and_arguments(&call.arguments).map_err(ToolError::InvalidArguments)?;
        let entry = self.called(name).map_err(ToolError::InvalidArguments)?;
        let arguments = generic::arguments_for(arguments, entry).map_err(ToolError::InvalidArguments)?;
        let tool = entry.map_or(name, |entry| &entry.def().name).to_owned();
        Ok(Some(ToolCall { id: call.id.clone(), tool, arguments }))
    }

    /// Returns the tool called `name`: the tool with this name, otherwise the only tool with this original name,
    /// without the prefix of its plugin or program.
    fn called(&self, name: &str) -> Result<Option<&Entry>, String> {
        if name.eq_ignore_ascii_case(generic::NAME) {
            return Err(format!("`{}` cannot run itself; give the name of another tool", generic::NAME));
        }
        if let Some(entry) = self.find(name) {
            return Ok(Some(entry));
        }
        let is_own =
            |entry: &&Entry| entry.def().name.strip_suffix(name).is_some_and(|before| before.ends_with("__"));
        let found: Vec<&Entry> = self.entries().filter(is_own).collect();
        match found.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            several => {
                let names = several.iter().take(MAX_NAMED).map(|entry| format!("`{}`", entry.def().name));
                let names = names.collect::<Vec<_>>().join(", ");
                let more = several.len().saturating_sub(MAX_NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Err(format!("`{name}` matches {} tools: {names}{more}", several.len()))
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        if let Some(why) = self.withheld(name) {
            return format!("`{name}` cannot be called: {why}");
        }
        let likeness = |entry: &&Entry| strsim::jaro_winkler(&entry.def().name, name);
        let nearest = self.entries().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        match nearest.filter(|entry| likeness(entry) >= MIN_LIKENESS) {
            Some(entry) => format!("Unknown tool: {name}; did you mean `{}`?", entry.def().name),
            None if self.offered.is_some() => {
                format!("Unknown tool: {name}; `{}` finds the available tools", search::NAME)
            }
            None => format!("Unknown tool: {name}"),
        }
    }
}
