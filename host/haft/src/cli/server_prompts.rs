//! Prompts of plugins and MCP servers as commands of a conversation: `/NAME VALUE…`. Getting a prompt is a call
//! through the toolbox, with the rules, limits and journal of a tool.

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::dialogue::Dialogue;
use haft_agent::provider::Prompt;
use haft_core::call::ToolCall;
use haft_core::report::{plain, shortened};
use haft_core::skill::SkillOffer;
use haft_core::tool::{Entry, Offer, Session, Toolbox, exposed_name};

/// Maximum characters of a prompt's description in a list.
const MAX_ABOUT: usize = 200;

pub(super) struct ServerPrompt<'t> {
    /// The name after the `/`, as MCP clients know it.
    pub(super) name: String,
    /// The description, on one line.
    pub(super) about: String,
    /// The name of each argument, and whether it is required.
    arguments: Vec<(String, bool)>,
    /// The name at the MCP server. `None` for a prompt of a plugin.
    own: Option<&'t str>,
    entry: &'t Entry,
}

/// Returns the prompts of the program's plugins and MCP servers. The first prompt with a name is used.
pub(super) fn all(dialogue: &Dialogue) -> Vec<ServerPrompt<'_>> {
    let mut found: Vec<ServerPrompt<'_>> = Vec::new();
    // The definition of a skill requires reading and hashing its files.
    let is_skill = |entry: &&Entry| {
        let own = entry.def().name.strip_prefix(SkillOffer::PREFIX);
        own.is_some_and(|own| !own.contains('/'))
    };
    let offers = dialogue.program.toolbox.offers().filter(|entry| !is_skill(entry));
    for prompt in offers.filter_map(ServerPrompt::of) {
        if found.iter().all(|other| other.name != prompt.name) {
            found.push(prompt);
        }
    }
    found
}

impl<'t> ServerPrompt<'t> {
    fn of(entry: &'t Entry) -> Option<Self> {
        let line = |text: &str| shortened(&plain(text.lines().next().unwrap_or_default()), MAX_ABOUT);
        match entry.offer()? {
            Offer::Prompt(def) => Some(Self {
                name: def.name.clone(),
                about: line(&def.description),
                arguments: def.arguments.iter().map(|one| (one.name.clone(), one.required)).collect(),
                own: None,
                entry,
            }),
            Offer::ServerPrompt { prompt, .. } => {
                let text = |value: &'t Value| value.as_str().unwrap_or_default();
                let own = text(&prompt.definition["name"]);
                let declared =
                    prompt.definition["arguments"].as_array().map(Vec::as_slice).unwrap_or_default();
                let argument = |one: &'t Value| (text(&one["name"]).to_owned(), one["required"] == true);
                Some(Self {
                    name: exposed_name(&["mcp", prompt.server, own]),
                    about: line(text(&prompt.definition["description"])),
                    arguments: declared.iter().map(argument).collect(),
                    own: Some(own),
                    entry,
                })
            }
            Offer::Resources { .. } | Offer::ServerResources { .. } | Offer::Skill { .. } => None,
        }
    }

    /// Returns the arguments for the help: `TARGET [DEPTH]`.
    pub(super) fn usage(&self) -> String {
        let shown = |(name, is_required): &(String, bool)| {
            let name = plain(name);
            if *is_required { name } else { format!("[{name}]") }
        };
        self.arguments.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// Gets the prompt, with `words` as its arguments. In plan mode it has only the right to read.
    ///
    /// # Errors
    /// `words` do not match the arguments, the call failed, or the rights cannot be reduced to reading in plan mode.
    pub(super) async fn get(
        &self,
        words: &str,
        session: &Session,
        is_planning: bool,
    ) -> anyhow::Result<Prompt> {
        let refusal =
            "is not available in plan mode: the rights of an MCP server cannot be reduced to reading";
        anyhow::ensure!(!(is_planning && self.entry.has_fixed_rights()), "`/{}` {refusal}", self.name);
        let planned = is_planning.then(|| self.entry.planning());
        let values: Value = values(&self.name, &self.arguments, words)?.into();
        let arguments = match self.own {
            None => values,
            Some(own) => {
                json!({ "method": "prompts/get", "params": { "name": own, "arguments": values } })
            }
        };
        let tool = self.entry.def().name.clone();
        let call = ToolCall { id: "prompt".into(), tool, arguments };
        let result = Toolbox::dispatch_to(planned.as_ref().unwrap_or(self.entry), call, session).await;
        anyhow::ensure!(!result.is_error, "`/{}` failed: {}", self.name, plain(&result.content));
        Ok(Prompt { text: result.content, attachments: result.attachments })
    }
}

/// Returns the arguments in `words`, split as in a shell: `NAME=VALUE`, or the values in the order of the arguments.
/// If there is a single argument, all of `words` is its value.
fn values(prompt: &str, arguments: &[(String, bool)], words: &str) -> anyhow::Result<Map<String, Value>> {
    let mut values = Map::new();
    let is_named = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| arguments.iter().any(|(own, _)| own == name))
    };
    let words = match arguments {
        [_] if !words.is_empty() && !is_named(words) => vec![words.to_owned()],
        _ => shell_words::split(words)
            .with_context(|| format!("`/{prompt}`: a quotation mark is not closed"))?,
    };
    for word in words {
        let (name, value) = match word.split_once('=').filter(|_| is_named(&word)) {
            Some((name, value)) => (name, value),
            None => match arguments.iter().find(|(name, _)| !values.contains_key(name)) {
                Some((name, _)) => (name.as_str(), word.as_str()),
                None => {
                    anyhow::bail!("`/{prompt}` takes {} values, and `{word}` is one more", arguments.len())
                }
            },
        };
        anyhow::ensure!(!values.contains_key(name), "`/{prompt}`: `{name}` is given twice");
        values.insert(name.to_owned(), value.into());
    }
    let missing = arguments.iter().find(|(name, is_required)| *is_required && !values.contains_key(name));
    match missing {
        Some((name, _)) => anyhow::bail!("`/{prompt}` needs `{name}`: `/{prompt} {name}=VALUE`"),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[(&str, bool)], words: &str) -> Result<Value, String> {
        let arguments: Vec<_> =
            arguments.iter().map(|(name, required)| ((*name).to_owned(), *required)).collect();
        values("p", &arguments, words).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_values_by_place_or_by_name() {
        let two = [("file", true), ("depth", false)];
        assert_eq!(given(&two, "a.rs 3"), Ok(json!({ "file": "a.rs", "depth": "3" })));
        assert_eq!(given(&two, "depth=3 'a b.rs'"), Ok(json!({ "file": "a b.rs", "depth": "3" })));
        assert_eq!(given(&two, "x=1"), Ok(json!({ "file": "x=1" })));
        assert_eq!(
            given(&[("task", true)], "it's all one value"),
            Ok(json!({ "task": "it's all one value" }))
        );
        assert_eq!(given(&[("task", true)], "task='a b'"), Ok(json!({ "task": "a b" })));
        assert_eq!(given(&[], ""), Ok(json!({})));
        assert_eq!(given(&two, "depth=3"), Err("`/p` needs `file`: `/p file=VALUE`".into()));
        assert_eq!(given(&two, "a b c"), Err("`/p` takes 2 values, and `c` is one more".into()));
        assert_eq!(given(&two, "a file=b"), Err("`/p`: `file` is given twice".into()));
        assert_eq!(given(&[], "a"), Err("`/p` takes 0 values, and `a` is one more".into()));
        assert_eq!(given(&two, "'a"), Err("`/p`: a quotation mark is not closed".into()));
    }
}
