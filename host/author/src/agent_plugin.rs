//! The files with which clients of Agent Plugins 1.0.0 (agent-plugins.org) load a haft package: `plugin.json`,
//! `mcp.json` and a `SKILL.md`; and the manifests of Claude Code and Gemini CLI in their own formats. The package
//! itself is in [`FOLDER`]. Writes no file.

use serde_json::{Map, Value, json};

use haft_core::call::ToolDef;
use haft_core::report::{Problem, Report};
use haft_core::skill::{MAX_DESCRIPTION, Skill, check_name};
pub use haft_package::agent_plugin::{AGENT as MANIFEST, CLAUDE, SERVERS, SKILLS};
use haft_package::agent_plugin::{MANIFEST_SCHEMA, SERVERS_SCHEMA};

/// The folder of the haft package in the plugin.
pub const FOLDER: &str = "haft";

/// The manifest of an extension of Gemini CLI.
pub const GEMINI: &str = "gemini-extension.json";

/// The plugin's folder in the words of a server's command (section 9.2), and as Claude Code and Gemini CLI call it.
const ROOT: &str = "${PLUGIN_ROOT}";
const CLAUDE_ROOT: &str = "${CLAUDE_PLUGIN_ROOT}";
const GEMINI_ROOT: &str = "${extensionPath}";

/// A package or component as an Agent Plugin.
#[derive(Clone, Copy, Debug)]
pub struct AgentPlugin<'a> {
    /// The plugin's name in haft.
    pub name: &'a str,
    /// The version.
    pub version: &'a str,
    /// The description, if there is one.
    pub description: Option<&'a str>,
    /// The authors.
    pub authors: &'a [String],
    /// The licence, if declared.
    pub license: Option<&'a str>,
    /// The tools, under the names that `haft serve` gives them.
    pub tools: &'a [ToolDef],
}

impl AgentPlugin<'_> {
    /// Returns the name in the form of the specification (section 5.5): without hyphens at its end or side by side.
    pub fn plugin_name(&self) -> String {
        let words: Vec<&str> = self.name.split('-').filter(|word| !word.is_empty()).collect();
        words.join("-")
    }

    /// Returns the text of [`MANIFEST`].
    pub fn manifest(&self) -> String {
        let mut manifest = Map::new();
        manifest.insert("$schema".to_owned(), MANIFEST_SCHEMA.into());
        manifest.extend(self.about());
        text(&Value::Object(manifest))
    }

    /// Returns the text of [`SERVERS`]: one server, which is `haft serve` for the package in the plugin.
    pub fn servers(&self) -> String {
        let server = json!({ "type": "stdio", "command": "haft", "args": arguments(ROOT) });
        text(&json!({ "$schema": SERVERS_SCHEMA, "mcpServers": { self.plugin_name(): server } }))
    }

    /// Returns the text of [`CLAUDE`].
    pub fn claude(&self) -> String {
        self.with_server(CLAUDE_ROOT)
    }

    /// Returns the text of [`GEMINI`]. Gemini CLI requires a version, and finds the skills by itself.
    pub fn gemini(&self) -> String {
        self.with_server(GEMINI_ROOT)
    }

    /// Returns a manifest that includes the server, with the plugin's folder called `root`.
    fn with_server(&self, root: &str) -> String {
        let mut manifest = self.about();
        let server = json!({ "command": "haft", "args": arguments(root) });
        manifest.insert("mcpServers".to_owned(), json!({ self.plugin_name(): server }));
        text(&Value::Object(manifest))
    }

    fn about(&self) -> Map<String, Value> {
        let author = (!self.authors.is_empty()).then(|| json!({ "name": self.authors.join(", ") }));
        let fields = [
            ("name", Some(Value::from(self.plugin_name()))),
            ("version", Some(Value::from(self.version))),
            ("description", self.description.map(Value::from)),
            ("author", author),
            ("license", self.license.map(Value::from)),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Returns the name of the skill and the text of its SKILL.md, made from `written`, the package's own text, or
    /// from the tools' descriptions.
    ///
    /// # Errors
    /// The package's SKILL.md has a name that no Agent Skill may have.
    pub fn skill(&self, written: Option<&str>) -> Result<(String, String), Report> {
        let own = self.plugin_name();
        let Some(written) = written else {
            return Ok((own.clone(), format!("{}{}", self.head(&own, None), self.tools_text())));
        };
        if !written.trim_start_matches('\u{feff}').starts_with("---") {
            let description = Skill::parse(written, &own).description;
            return Ok((own.clone(), format!("{}\n{written}", self.head(&own, Some(&description)))));
        }
        let skill = Skill::parse(written, &own);
        let problem = |why: String| Problem::new(format!("the `name` in `SKILL.md`: {why}")).into();
        check_name(&skill.name).map(|()| (skill.name.clone(), written.to_owned())).map_err(problem)
    }

    fn head(&self, name: &str, description: Option<&str>) -> String {
        let described = description.filter(|text| !text.is_empty()).or(self.description);
        let said = |tool: &ToolDef| {
            let first = tool.description.lines().next().unwrap_or_default();
            format!("{}: {first}", tool.name)
        };
        let tools = || self.tools.iter().map(said).collect::<Vec<_>>().join(" ");
        let description = described.map_or_else(tools, str::to_owned);
        let words: Vec<&str> = description.split_whitespace().collect();
        let description: String = words.join(" ").chars().take(MAX_DESCRIPTION).collect();
        // A JSON string is also a YAML string.
        format!("---\nname: {name}\ndescription: {}\n---\n", Value::from(description))
    }

    fn tools_text(&self) -> String {
        let title = self.plugin_name();
        let tool = |tool: &ToolDef| {
            let parameters = parameters(&tool.parameters);
            let gap = if parameters.is_empty() { "" } else { "\n" };
            format!("\n## {}\n\n{}\n{gap}{parameters}", tool.name, tool.description.trim())
        };
        let tools: String = self.tools.iter().map(tool).collect();
        format!("\n# {title}\n\nThe MCP server `{title}` has these tools.\n{tools}")
    }
}

/// Returns the words that start the server, with the plugin's folder called `root`.
fn arguments(root: &str) -> Value {
    json!(["serve", "--program", format!("{root}/{FOLDER}/program.toml")])
}

fn parameters(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let line = |(name, schema): (&String, &Value)| {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let kind = text("type").map(|kind| format!(", {kind}")).unwrap_or_default();
        let need = if required.iter().any(|known| known == name) { "required" } else { "optional" };
        let described = text("description").unwrap_or_default();
        let described: Vec<&str> = described.split_whitespace().collect();
        let described =
            if described.is_empty() { String::new() } else { format!(": {}", described.join(" ")) };
        format!("- `{name}` ({need}{kind}){described}\n")
    };
    properties.map(line).collect()
}

fn text(document: &Value) -> String {
    // Serialization cannot fail: every key is a string.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(tools: &[ToolDef]) -> AgentPlugin<'_> {
        let (version, description) = ("1.0.0", Some("Counts \"words\""));
        AgentPlugin { name: "a--words-", version, description, authors: &[], license: None, tools }
    }

    fn tool() -> ToolDef {
        let parameters = json!({
            "type": "object", "required": ["path"],
            "properties": { "path": { "type": "string", "description": "The\nfile." }, "deep": { "anyOf": [] } },
        });
        ToolDef {
            name: "words__count".into(),
            title: None,
            description: "Counts.".into(),
            parameters,
            hints: haft_core::call::Hints::from_annotations(&Value::Null),
            output: None,
        }
    }

    #[test]
    fn manifests_of_other_formats_start_the_server_in_the_plugins_folder() {
        let tools = [tool()];
        let plugin = plugin(&tools);
        let (claude, gemini) = (plugin.claude(), plugin.gemini());
        for (text, root) in [(claude, "${CLAUDE_PLUGIN_ROOT}"), (gemini, "${extensionPath}")] {
            let program = format!("{root}/haft/program.toml");
            let server = json!({ "command": "haft", "args": ["serve", "--program", program] });
            let expected = json!({
                "name": "a-words", "version": "1.0.0", "description": "Counts \"words\"",
                "mcpServers": { "a-words": server },
            });
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        }
    }

    #[test]
    fn a_skill_is_made_of_what_the_tools_say() {
        let tools = [tool()];
        let (name, text) = plugin(&tools).skill(None).unwrap();
        assert_eq!(name, "a-words");
        assert_eq!(
            text,
            "---\nname: a-words\ndescription: \"Counts \\\"words\\\"\"\n---\n\n# a-words\n\nThe MCP server `a-words` has these \
             tools.\n\n## words__count\n\nCounts.\n\n- `path` (required, string): The file.\n- `deep` (optional)\n"
        );
        assert_eq!(Skill::parse(&text, "x").description, "Counts \"words\"");
    }

    #[test]
    fn a_skill_of_the_package_keeps_its_text() {
        let written = "---\nname: counting\ndescription: How to count\n---\nDo.\n";
        assert_eq!(plugin(&[]).skill(Some(written)).unwrap(), ("counting".into(), written.into()));
        let (name, text) = plugin(&[]).skill(Some("# Counting\nCount well.\n")).unwrap();
        assert_eq!((name.as_str(), Skill::parse(&text, "x").name.as_str()), ("a-words", "a-words"));
        assert!(
            text.ends_with("---\n\n# Counting\nCount well.\n") && text.contains("Count well.\"\n---"),
            "{text}"
        );
        for name in ["Count it", "-a", "a--b", &"a".repeat(65)] {
            let written = format!("---\nname: {name}\n---\n");
            let refused = plugin(&[]).skill(Some(&written)).map(|(name, _)| name);
            // The reader truncates a longer name.
            assert!(refused.is_err(), "{name}: {refused:?}");
        }
    }
}
