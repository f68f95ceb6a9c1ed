//! Reduces an author's program.toml for distribution: a component gets the requests of its plugin, a package
//! gets the tables that have a meaning in a package. All other tables stay private: providers, agents, and the
//! command lines of other tools and servers.

use anyhow::Context;
use toml::{Table, Value};
use toml_edit::DocumentMut;

use haft_manifest::Plugin;

/// Keys of `[[plugins]]` with a plugin's requests. The other keys are for the program that uses it.
const OF_PLUGIN: &[&str] = &["name", "grant", "limits", "secrets"];

/// The keys of `[program]` about its identity and owner.
const OF_PROGRAM: &[&str] = &["name", "version", "description", "authors", "author", "license"];

/// Tables that a package may contain.
const OF_PACKAGE: &[&str] = &["program", "tools", "plugins", "mcp_servers", "host_requirements", "build"];

/// Returns the program.toml for the component of `plugin`, with `file` as the component's path. `[program]` is
/// included if it describes the plugin itself (`is_its_own`): that of a program that only uses the plugin would
/// give it another name. Comments are not included.
pub fn of_component(text: &str, plugin: &Plugin, file: &str, is_its_own: bool) -> anyhow::Result<String> {
    let mut whole: Table = text.parse().context("cannot read program.toml again")?;
    let declared = match whole.remove("plugins") {
        Some(Value::Array(plugins)) => plugins,
        _ => Vec::new(),
    };
    let is_declared = |table: &Table| table.get("name").and_then(Value::as_str) == Some(plugin.name.as_str());
    let mut entry = declared.into_iter().find_map(|declared| match declared {
        Value::Table(table) if is_declared(&table) => Some(table),
        _ => None,
    });
    let entry = entry.as_mut().context("program.toml no longer declares the plugin")?;
    let mut entry_keys = only(entry, OF_PLUGIN);
    entry_keys.insert("component".to_owned(), file.into());
    let mut kept = Table::new();
    if is_its_own && let Some(Value::Table(mut program)) = whole.remove("program") {
        kept.insert("program".to_owned(), only(&mut program, OF_PROGRAM).into());
    }
    kept.insert("plugins".to_owned(), Value::Array(vec![entry_keys.into()]));
    toml::to_string(&kept).context("cannot write the component's requested rights")
}

/// Moves the keys `names` out of `table`, in their order.
fn only(table: &mut Table, names: &[&str]) -> Table {
    names.iter().filter_map(|name| Some(((*name).to_owned(), table.remove(*name)?))).collect()
}

/// Returns the program.toml of a package, and the tables that it omits.
///
/// # Errors
/// The text is not TOML.
pub fn of_package(text: &str) -> anyhow::Result<(String, Vec<String>)> {
    let mut document: DocumentMut = text.parse().context("cannot read program.toml again")?;
    let names: Vec<String> = document.iter().map(|(name, _)| name.to_owned()).collect();
    let left_out: Vec<String> =
        names.into_iter().filter(|name| !OF_PACKAGE.contains(&name.as_str())).collect();
    for name in &left_out {
        document.remove(name);
    }
    Ok((document.to_string(), left_out))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use haft_manifest::Manifest;

    const WHOLE: &str = r#"
# planted-comment
[program]
name = "notes"
version = "1.0.0"
include = ["planted-include"]
[provider]
name = "openai"
headers = { X-Team = "planted-header" }
[[mcp_servers]]
name = "s"
command = "server"
args = ["--password=planted-argument"]
[[plugins]]
name = "other"
component = "planted-other.wasm"
[[plugins]]
name = "words"
component = "deep/planted-folder/words.wasm"
confirm = ["*"]
descriptions = { count = "planted-description" }
grant = { read = ["./docs"], hosts = ["api.example.com"] }
limits = { memory = "128MiB" }
"#;

    fn words() -> Plugin {
        Manifest::parse(WHOLE, Path::new("program.toml")).unwrap().plugins.remove(1)
    }

    /// S01: a component gets only the requests of its own plugin.
    #[test]
    fn a_component_gets_what_its_plugin_asks_for_and_nothing_else() {
        let text = of_component(WHOLE, &words(), "words.wasm", false).unwrap();
        assert!(!text.contains("planted") && !text.contains("notes"), "{text}");
        let own = Manifest::parse(&text, Path::new("program.toml")).unwrap();
        assert_eq!(own.plugins[0].grant, words().grant);
        assert_eq!(own.plugins[0].limits, words().limits);
        let text = of_component(WHOLE, &words(), "words.wasm", true).unwrap();
        let own = Manifest::parse(&text, Path::new("program.toml")).unwrap();
        assert!(own.program.is_some_and(|program| program.name.as_str() == "notes"));
        assert!(!text.contains("planted"), "{text}");
    }

    /// S01: tables without a meaning in a package are omitted.
    #[test]
    fn a_package_gets_the_tables_of_packages() {
        let (text, left_out) = of_package(WHOLE).unwrap();
        assert_eq!(left_out, ["provider"]);
        assert!(!text.contains("planted-header") && text.contains("planted-argument"), "{text}");
    }
}
