//! MCP servers that a skill names in the head of its SKILL.md, in the forms that other programs read: `mcp_servers`, `mcpServers`,
//! `mcp-servers` or `mcp`, in any spelling, at the top or in `metadata`, where a text is JSON. They are servers of that
//! skill, with its folder as the place where they work. In a plugin they have the rights that are proposed for the skill.

use haft_core::grant::Right;
use haft_core::skill::{head_fields, is_server_key, server_keys};
use haft_manifest::McpServer;
use serde_json::{Map, Value};

use super::claude;
use super::server::{Directory, PluginServer, Start};
use super::servers::put_all;
use super::skills::text;
use super::{DATA, Fault, FaultKind, Files, PluginSkill, ROOT, written};
use crate::listing::listed;

/// Maximum number of reported faults of one head.
const MAX_FAULTS: usize = 8;

/// The key below which the others may be too.
const METADATA: &str = "metadata";

/// A skill whose head is read.
struct Place<'a> {
    name: &'a str,
    /// The skill's folder in the plugin; empty outside of a plugin.
    folder: &'a str,
    /// Reports whether a path is a file of the plugin, or of the skill.
    has: &'a dyn Fn(&str) -> bool,
    is_in_plugin: bool,
}

pub(super) fn discovered(
    files: &Files<'_>,
    skill: &PluginSkill,
    (servers, faults): (&mut Vec<PluginServer>, &mut Vec<Fault>),
) {
    let Ok(text) = text(files, &skill.folder) else { return };
    let has = |path: &str| files.has(path);
    let place = Place { name: &skill.skill.name, folder: &skill.folder, has: &has, is_in_plugin: true };
    put(&text, &place, skill.proposed.as_ref(), (servers, faults));
}

/// Returns the servers in the head of the SKILL.md `text` of the skill `name` outside of a plugin, as entries of a
/// program.toml with an empty grant, and the faults of the head, one line each. A word that names a file of the skill
/// begins with `./`. `has` reports whether a path is a file of the skill.
pub fn servers_of_head(text: &str, name: &str, has: &dyn Fn(&str) -> bool) -> (Vec<McpServer>, Vec<String>) {
    let (mut servers, mut faults) = (Vec::new(), Vec::new());
    let place = Place { name, folder: "", has, is_in_plugin: false };
    put(text, &place, Some(&Vec::new()), (&mut servers, &mut faults));
    let entries = servers.iter().filter_map(written::entry).collect();
    (entries, faults.into_iter().map(|fault| fault.text).collect())
}

fn put(
    text: &str,
    place: &Place<'_>,
    proposed: Option<&Vec<Right>>,
    (servers, faults): (&mut Vec<PluginServer>, &mut Vec<Fault>),
) {
    if server_keys(text).is_empty() {
        return;
    }
    let (name, mut skipped) = (place.name, Vec::new());
    let head = head_fields(text).unwrap_or_else(|why| {
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
        let text = value.to_string();
        if !place.is_in_plugin && [ROOT, DATA].iter().any(|name| text.contains(&format!("{name}}}"))) {
            let why = "`${PLUGIN_ROOT}` and `${PLUGIN_DATA}` exist only in plugins: expected a path that begins with `./`";
            return Err(why.into());
        }
        Ok(placed(place, claude::entry(value)?))
    };
    let known = servers.len();
    put_all(&entries, (&mut *servers, &mut *faults), |_| proposed.cloned(), read);
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
        let value = parsed.as_ref().unwrap_or(value);
        if !value.is_object() && !value.is_array() {
            skipped.push(format!("expected `{key}`, a table or a list"));
        }
        for (name, entry) in named(value) {
            match entry {
                Some(entry) if !all.contains_key(&name) => drop(all.insert(name, entry)),
                Some(_) => skipped.push(format!("in `{key}`, `{name}` is named twice")),
                // A bare name refers to a server that the user has configured elsewhere.
                None => {
                    skipped.push(format!("in `{key}`, `{name}` is only a name: expected `command` or `url`"));
                }
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
fn placed(place: &Place<'_>, start: Start) -> Start {
    let Place { folder, has, .. } = place;
    let Start::Stdio { words, env, directory } = start else { return start };
    let own = |word: String| {
        let path = word.strip_prefix("./").unwrap_or(&word);
        let inside = listed(folder, path);
        let is_own = !path.split('/').any(|part| part == "..") && has(&inside);
        if is_own { format!("./{inside}") } else { word }
    };
    let directory = match directory {
        Directory::Root(path) if path.is_empty() => Directory::Root((*folder).to_owned()),
        other => other,
    };
    Start::Stdio { words: words.into_iter().map(own).collect(), env, directory }
}

#[cfg(test)]
mod tests {
    use haft_core::skill::head_fields;
    use haft_manifest::Transport;
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
            ("mcpServers: [github]", "in `mcpServers`, `github` is only a name: expected `command` or `url`"),
            (
                "mcpServers: { a: { command: x } }\nmcp_servers: { a: { command: y } }",
                "in `mcp_servers`, `a` is named twice",
            ),
            ("mcp: 3", "expected `mcp`, a table or a list"),
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

    /// MC14: outside of a plugin a server has an empty grant, and finds its files below the skill's folder.
    #[test]
    fn a_head_outside_of_a_plugin_declares_entries_of_a_program() {
        let head = "mcpServers:\n  a: { command: run, args: [server.py, ./b, /c.py] }\n  h: { url: 'https://a.test/' }\n  \
                    p: { command: run, args: ['${CLAUDE_PLUGIN_ROOT}/x'] }\n  q: { command: run, args: 3 }";
        let has = |path: &str| path == "server.py";
        let (servers, faults) = servers_of_head(&format!("---\n{head}\n---\n"), "s", &has);
        let [a, h] = servers.as_slice() else { panic!("{servers:?}") };
        let Transport::Stdio { command, .. } = &a.transport else { panic!("{a:?}") };
        assert_eq!(command.value, ["run", "./server.py", "./b", "/c.py"]);
        let rights = a.grant.as_ref().map(|grant| grant.rights.rights());
        assert_eq!((rights, a.pinned), (Some(Vec::new()), true));
        assert!(h.grant.is_none() && matches!(h.transport, Transport::Http { .. }), "{h:?}");
        assert!(faults[0].contains("server `p` is left out: `${PLUGIN_ROOT}` and"), "{faults:?}");
        assert!(faults[1].contains("server `q` is left out: expected `args`, an array"), "{faults:?}");
        assert_eq!(faults.len(), 2);
    }
}
