//! MCP servers that a skill names in the head of its SKILL.md, in the forms that other programs read: `mcp_servers`, `mcpServers`,
//! `mcp-servers` or `mcp`, in any spelling, at the top or in `metadata`, where a text is JSON. They are servers of that skill: with the rights that are
//! proposed for it, and with its folder as the place where they work.

use haft_core::skill::{head_fields, is_server_key, server_keys};
use serde_json::{Map, Value};

use super::claude;
use super::server::{Directory, PluginServer, Start};
use super::servers::put_all;
use super::skills::text;
use super::{Fault, FaultKind, Files, PluginSkill};
use crate::listing::listed;

/// Maximum number of reported faults of one head.
const MAX_FAULTS: usize = 8;

/// The key below which the others may be too.
const METADATA: &str = "metadata";

/// Adds the servers of `skill` to `servers`.
pub(super) fn discovered(
    files: &Files<'_>,
    skill: &PluginSkill,
    (servers, faults): (&mut Vec<PluginServer>, &mut Vec<Fault>),
) {
    let Ok(text) = text(files, &skill.folder) else { return };
    if server_keys(&text).is_empty() {
        return;
    }
    let (name, mut skipped) = (skill.skill.name.as_str(), Vec::new());
    let head = head_fields(&text).unwrap_or_else(|why| {
        skipped.push(why);
        Map::new()
    });
    let entries = entries(&head, &mut skipped);
    let more = skipped.len().saturating_sub(MAX_FAULTS);
    skipped.truncate(MAX_FAULTS);
    skipped.extend((more > 0).then(|| format!("and {more} more")));
    for why in skipped {
        let text = format!("servers that the head of skill `{name}` names are left out: {why}");
        faults.push(Fault::new(FaultKind::ServerSkipped, text));
    }
    let read = |value: &Value| {
        let start = claude::entry(value)?;
        Ok(placed(files, &skill.folder, start))
    };
    let known = servers.len();
    put_all(&entries, (&mut *servers, &mut *faults), |_| skill.proposed.clone(), read);
    for server in servers.iter_mut().skip(known) {
        server.skill = Some(name.to_owned());
    }
}

/// Returns the servers by their names, of all keys for servers.
fn entries(head: &Map<String, Value>, skipped: &mut Vec<String>) -> Map<String, Value> {
    let inner = head.get(METADATA).and_then(Value::as_object);
    let mut all = Map::new();
    for (key, value) in head.iter().chain(inner.into_iter().flatten()) {
        if !is_server_key(key) {
            continue;
        }
        let parsed = value.as_str().map(serde_json::from_str::<Value>).transpose();
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                skipped.push(format!("the text of `{key}` is not valid JSON: {error}"));
                continue;
            }
        };
        for (name, entry) in named(parsed.as_ref().unwrap_or(value)) {
            match entry {
                Some(entry) if !all.contains_key(&name) => drop(all.insert(name, entry)),
                Some(_) => skipped.push(format!("`{name}` is named twice")),
                // A bare name refers to a server that the user has configured elsewhere.
                None => skipped.push(format!("`{name}` is only a name: expected `command` or `url`")),
            }
        }
    }
    all
}

/// The entries of a table by name, of a list of tables with `name`, or of a list of names.
fn named(value: &Value) -> Vec<(String, Option<Value>)> {
    match value {
        Value::Object(all) => all.iter().map(|(name, entry)| (name.clone(), Some(entry.clone()))).collect(),
        Value::Array(all) => all.iter().map(listed_entry).collect(),
        _ => Vec::new(),
    }
}

fn listed_entry(entry: &Value) -> (String, Option<Value>) {
    let name = entry.get("name").unwrap_or(entry).as_str().unwrap_or_default().to_owned();
    let mut fields = entry.as_object().cloned();
    if let Some(fields) = &mut fields {
        fields.remove("name");
    }
    (name, fields.filter(|fields| !fields.is_empty()).map(Value::Object))
}

/// A server whose own files are those below the skill's folder.
fn placed(files: &Files<'_>, folder: &str, start: Start) -> Start {
    let Start::Stdio { words, env, directory } = start else { return start };
    let own = |word: String| {
        let path = word.strip_prefix("./").unwrap_or(&word);
        let inside = listed(folder, path);
        let is_own = !path.split('/').any(|part| part == "..") && files.has(&inside);
        if is_own { format!("./{inside}") } else { word }
    };
    let directory = match directory {
        Directory::Root(path) if path.is_empty() => Directory::Root(folder.to_owned()),
        other => other,
    };
    Start::Stdio { words: words.into_iter().map(own).collect(), env, directory }
}

#[cfg(test)]
mod tests {
    use haft_core::skill::head_fields;
    use serde_json::json;

    use super::*;

    /// MC14: every form of servers in a head is read, and a server without a start is reported.
    #[test]
    fn every_form_of_a_head_names_its_servers() {
        for head in [
            "mcp_servers:\n  a:\n    command: run\n    args: [x]",
            "mcpServers:\n  - name: a\n    command: run\n    args: [x]",
            "metadata:\n  mcp-servers:\n    a: { command: run, args: [x] }",
            "metadata:\n  mcp_servers: '{\"a\": {\"command\": \"run\", \"args\": [\"x\"]}}'",
        ] {
            let (fields, mut skipped) = (head_fields(&format!("---\n{head}\n---\n")).unwrap(), Vec::new());
            let found = entries(&fields, &mut skipped);
            assert_eq!(Value::Object(found), json!({ "a": { "command": "run", "args": ["x"] } }), "{head}");
            assert_eq!(skipped, Vec::<String>::new());
        }
        for (head, why) in [
            ("mcpServers: [github]", "`github` is only a name: expected `command` or `url`"),
            ("mcpServers: { a: { command: x } }\nmcp_servers: { a: { command: y } }", "`a` is named twice"),
        ] {
            let (fields, mut skipped) = (head_fields(&format!("---\n{head}\n---\n")).unwrap(), Vec::new());
            entries(&fields, &mut skipped);
            assert_eq!(skipped, [why], "{head}");
        }
        let head = "---\nmcpServers: text\nmcp: { a: { command: x } }\n---\n";
        let (fields, mut skipped) = (head_fields(head).unwrap(), Vec::new());
        assert!(
            entries(&fields, &mut skipped).contains_key("a"),
            "one wrong text leaves out no other key's servers"
        );
        assert!(skipped[0].contains("`mcpServers` is not valid JSON"), "{skipped:?}");
    }
}
