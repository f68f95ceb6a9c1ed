//! Checks a component before it is published, for errors and possible improvements. Executes only the code that
//! a load executes, and does not judge the component's code.

use serde_json::Value;

use super::pack::{MAX_COMPONENT, size};
use haft_core::call::ToolDef;
use haft_core::report::Problem;
use haft_core::tool::{self, exposed_name};
use haft_manifest::GrantTable;
use haft_plugin_host::inspect::Sections;
use haft_plugin_host::{Contract, LoadError, Plugin};

/// Number of prompt tokens of one tool above which a warning is given: ten times the usual number.
const MANY_FOR_A_TOOL: usize = 1500;

/// Prompt tokens of a plugin's tools above which a warning is given: more is a large part of a model's
/// effective context.
const MANY_FOR_A_PLUGIN: usize = 8000;

/// Nesting of objects and lists that models still fill in reliably.
const DEEP: usize = 6;

/// Number of bytes of a component above which compilation is slow and memory use high.
const LARGE: u64 = 64 << 20;

/// Limit on the findings of one kind.
const MAX_ALIKE: usize = 10;

/// Maximum number of characters of a description's first sentence that a list shows.
const MAX_GIST: usize = 90;

/// The result of a check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Errors that make the component unusable.
    pub errors: Vec<Problem>,
    /// Warnings about the use of the component.
    pub warnings: Vec<Problem>,
}

/// A component to check, and its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The name of the plugin.
    pub name: &'a str,
    /// The path, as the user wrote it.
    pub path: &'a str,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The custom sections of the file.
    pub sections: &'a Sections,
    /// The requested rights; `None` if nothing declares them.
    pub asked: Option<&'a GrantTable>,
    /// The result of loading the component.
    pub loaded: Result<&'a Plugin, &'a LoadError>,
}

/// Runs all checks.
pub fn examine(subject: &Subject<'_>) -> Findings {
    let mut findings = Findings::default();
    findings.file(subject);
    findings.rights(subject);
    match subject.loaded {
        Ok(plugin) => findings.tools(subject, plugin),
        Err(error) => findings.errors.push(Problem::new(format!("cannot be loaded: {error}"))),
    }
    findings
}

/// Estimates the prompt tokens of a tool's definition.
pub fn tokens(def: &ToolDef) -> usize {
    tool::tokens(tool::bytes(def))
}

/// Returns the first sentence of a description, truncated to one line.
pub fn summary_line(description: &str) -> String {
    let paragraph = description.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().trim();
    match sentence.char_indices().nth(MAX_GIST) {
        Some((end, _)) => format!("{}…", sentence.get(..end).unwrap_or_default().trim_end()),
        None => sentence.to_owned(),
    }
}

impl Findings {
    fn warn(&mut self, message: String, hints: &[String]) {
        let problem = hints.iter().fold(Problem::new(message), Problem::hint);
        self.warnings.push(problem);
    }

    fn file(&mut self, subject: &Subject<'_>) {
        let (path, shown) = (subject.path, size(subject.bytes));
        if subject.bytes > MAX_COMPONENT {
            let most = size(MAX_COMPONENT);
            self.errors.push(Problem::new(format!("too large: {shown}, and haft loads at most {most}")));
        } else if subject.bytes > LARGE {
            self.warn(format!("large: {shown}; the first use takes long, because it is compiled"), &[]);
        }
        for problem in &subject.sections.problems {
            self.warn(problem.clone(), &["build or pack it again".to_owned()]);
        }
        let is_typed = subject.sections.contract().is_ok_and(|contract| contract == Contract::Typed);
        if is_typed && subject.sections.wit.is_empty() {
            let hint =
                format!("`haft plugin build` adds it, and so does `haft plugin pack {path} --wit DIR`");
            self.warn("no documentation in the component: models see names and types only".into(), &[hint]);
        }
        if subject.sections.program.is_none() && subject.asked.is_none() && subject.sections.act.is_none() {
            let hint = "`haft plugin build` and `haft plugin pack --program program.toml` add it".to_owned();
            self.warn(
                "the component does not declare the rights it requests; a user has to find them out".into(),
                &[hint],
            );
        }
    }

    fn rights(&mut self, subject: &Subject<'_>) {
        let Some(asked) = subject.asked else { return };
        for right in RIGHTS {
            let import = subject.sections.imports.iter().find(|import| right.is_served_by(&import.name));
            let (is_asked, keys) = ((right.is_asked)(asked), right.keys);
            match import {
                Some(import) if !is_asked && right.needs_asking && !always_imports(subject.sections) => {
                    let message = format!(
                        "imports `{}` but does not request `{keys}`: its calls will be refused",
                        import.name
                    );
                    let hint =
                        format!("if it is used, request it: `[plugins.grant]` with `{}`", right.example);
                    self.warn(message, &[hint]);
                }
                None if is_asked => {
                    let hint =
                        "request only the rights that are used: a person reads and grants them".to_owned();
                    self.warn(format!("requests `{keys}` but imports no interface that uses it"), &[hint]);
                }
                _ => {}
            }
        }
    }

    fn tools(&mut self, subject: &Subject<'_>, plugin: &Plugin) {
        for refused in plugin.uncallable().iter().take(MAX_ALIKE) {
            self.warn(format!("`{}` is not a tool: it {}", refused.name, refused.reason), &[]);
        }
        let shown = plugin.tools().iter().take(MAX_ALIKE);
        shown.for_each(|tool| self.tool(subject, tool));
        let total: usize = plugin.tools().iter().map(tokens).sum();
        if total > MANY_FOR_A_PLUGIN {
            let message =
                format!("its {} tools use about {total} tokens of every prompt", plugin.tools().len());
            self.warn(message, &["models use fewer tools with shorter descriptions better".to_owned()]);
        }
    }

    fn tool(&mut self, subject: &Subject<'_>, tool: &ToolDef) {
        let name = &tool.name;
        let (plain, exposed) = (format!("{}__{name}", subject.name), exposed_name(&[subject.name, name]));
        if plain != exposed {
            let message =
                format!("`{name}` is exposed as `{exposed}`: models do not accept the name `{plain}`");
            self.warn(message, &["names have at most 64 letters, digits, `_` and `-`".to_owned()]);
        }
        if tool.description.trim().is_empty() {
            let hint = "write a comment above the function, then `haft plugin build`".to_owned();
            self.warn(format!("`{name}` has no description: a model cannot tell when to call it"), &[hint]);
        }
        let bare = undescribed(&tool.parameters);
        if !bare.is_empty() {
            let hint = "describe them in the comment of the function: `` - `text`: what it is ``".to_owned();
            self.warn(format!("`{name}` has parameters without a description: {}", bare.join(", ")), &[hint]);
        }
        if depth(&tool.parameters) > DEEP {
            let hint = "models fill in flat parameters more reliably".to_owned();
            self.warn(format!("the parameters of `{name}` are nested deeper than {DEEP} levels"), &[hint]);
        }
        let tokens = tokens(tool);
        if tokens > MANY_FOR_A_TOOL {
            self.warn(format!("`{name}` alone uses about {tokens} tokens of every prompt"), &[]);
        }
    }
}

/// A right that a plugin can request, and the imports that use it.
struct Right {
    /// The keys of program.toml.
    keys: &'static str,
    imports: &'static [&'static str],
    is_asked: fn(&GrantTable) -> bool,
    /// Whether a component with the import always uses it.
    needs_asking: bool,
    example: &'static str,
}

const RIGHTS: &[Right] = &[
    Right {
        keys: "hosts",
        imports: &[
            "wasi:http/outgoing-handler",
            "wasi:sockets/tcp-create-socket",
            "wasi:sockets/udp-create-socket",
        ],
        is_asked: |asked| !asked.hosts.is_empty(),
        needs_asking: true,
        example: "hosts = [\"api.example.com\"]",
    },
    Right {
        keys: "read` or `write",
        imports: &["wasi:filesystem/"],
        is_asked: |asked| !asked.read.is_empty() || !asked.write.is_empty(),
        needs_asking: false,
        example: "read = [\"./docs\"]",
    },
    Right {
        keys: "env",
        imports: &["wasi:cli/environment"],
        is_asked: |asked| !asked.env.is_empty(),
        needs_asking: false,
        example: "env = [\"LANG\"]",
    },
];

impl Right {
    fn is_served_by(&self, import: &str) -> bool {
        self.imports.iter().any(|prefix| import.starts_with(prefix))
    }
}

/// Toolchains whose components contain an interpreter and import everything, used or not. componentize-py is
/// recognised by the tool that snapshots its interpreter.
const INTERPRETERS: &[&str] = &[
    "component-init-transform",
    "componentize-js",
    "componentize-py",
    "componentize-qjs",
    "componentizejs",
    "jco",
];

fn always_imports(sections: &Sections) -> bool {
    let names = sections.producers.iter().map(|producer| producer.name.to_lowercase());
    names.into_iter().any(|name| INTERPRETERS.iter().any(|known| name.contains(known)))
}

/// Returns the properties of an object without a description.
fn undescribed(parameters: &Value) -> Vec<String> {
    let properties = parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
    let is_bare = |schema: &Value| {
        schema.get("description").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
    };
    properties
        .filter(|(_, schema)| is_bare(schema))
        .map(|(name, _)| format!("`{name}`"))
        .take(MAX_ALIKE)
        .collect()
}

/// Returns the nesting of objects and lists; a text or a number has depth 0.
fn depth(schema: &Value) -> usize {
    let keyed = ["properties", "$defs"].into_iter().filter_map(|key| schema.get(key)?.as_object());
    let keyed = keyed.flat_map(|object| object.values());
    let listed =
        ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    let single = ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
    let deepest = keyed.chain(single).map(|inner| depth(inner) + 1);
    deepest.chain(listed.flatten().map(depth)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use haft_core::grant::HostPattern;
    use haft_plugin_host::inspect::{Extern, ExternKind, Producer};

    fn sections(imports: &[&str], producer: &str) -> Sections {
        let import = |name: &&str| Extern { name: (*name).to_owned(), kind: ExternKind::Interface };
        let producer =
            Producer { field: "processed-by".into(), name: producer.into(), version: String::new() };
        Sections {
            imports: imports.iter().map(import).collect(),
            producers: vec![producer],
            ..Sections::default()
        }
    }

    fn warnings(sections: &Sections, asked: Option<&GrantTable>) -> Vec<String> {
        let error = LoadError::Changed;
        let subject = Subject { name: "p", path: "p.wasm", bytes: 1, sections, asked, loaded: Err(&error) };
        examine(&subject).warnings.iter().map(|problem| problem.message().to_owned()).collect()
    }

    #[test]
    fn what_is_imported_and_what_is_asked_for_go_together() {
        let (nothing, hosts) = (
            GrantTable::default(),
            GrantTable { hosts: vec!["a.example".parse::<HostPattern>().unwrap()], ..GrantTable::default() },
        );
        let http = "wasi:http/outgoing-handler@0.2.6";
        let text = warnings(&sections(&[http], "rustc"), Some(&nothing));
        assert_eq!(
            text,
            [format!("imports `{http}` but does not request `hosts`: its calls will be refused")]
        );
        assert!(warnings(&sections(&[http], "rustc"), Some(&hosts)).is_empty());
        for interpreter in ["componentize-py", "component-init-transform"] {
            assert!(warnings(&sections(&[http], interpreter), Some(&nothing)).is_empty());
        }
        let text = warnings(&sections(&["wasi:filesystem/types@0.2.6"], "rustc"), Some(&hosts));
        assert_eq!(text, ["requests `hosts` but imports no interface that uses it"]);
        assert_eq!(warnings(&sections(&[], ""), None).len(), 1, "nothing says what it asks for");
    }

    #[test]
    fn a_gist_is_a_sentence_that_takes_a_line() {
        assert_eq!(summary_line("One thing\nand another. More."), "One thing and another.");
        assert_eq!(summary_line("First\n\nsecond"), "First");
        assert!(summary_line(&"ä".repeat(200)).chars().count() == MAX_GIST + 1);
    }

    #[test]
    fn parameters_without_a_word_and_deep_ones_are_noticed() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "string", "description": "An a" },
            "b": { "type": "array", "items": { "type": "object", "properties": { "c": { "type": "string" } } } },
        }});
        assert_eq!(undescribed(&schema), ["`b`"]);
        assert_eq!(depth(&schema), 3);
        assert_eq!(depth(&json!({ "type": "string" })), 0);
    }
}
