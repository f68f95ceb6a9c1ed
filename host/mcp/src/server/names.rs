//! The names of MCP servers' tools, prompts and resources for clients. One rule applies to all kinds: a name
//! contains the server, and every name identifies one server.
//!
//! | of server `s` | is shown as |
//! |---|---|
//! | tool or prompt `x` | `mcp__s__x` |
//! | resource `ui://app/x` | `ui://mcp__s/app/x` |
//! | resource `URI` | `haft://mcp__s/URI` |
//!
//! In a program with one server, its URIs are unchanged; if only one server is served, its names are unchanged too.

use serde_json::{Map, Value};

use haft_core::call::McpAnswer;
use haft_core::tool::{Served, client_name};

/// The prefix of MCP servers' URIs for clients, before the name of the server.
const RESOURCES: &str = "haft://mcp__";
/// The prefix of user interfaces (MCP Apps), which clients recognise by their scheme.
const INTERFACES: &str = "ui://mcp__";
/// The scheme of these.
const UI: &str = "ui://";
/// The key of a tool's `_meta` with its user interface, and the key of earlier revisions.
const UI_KEY: &str = "ui";
const LEGACY_UI_KEY: &str = "ui/resourceUri";
/// The URI in [`UI_KEY`].
const UI_URI: &str = "resourceUri";

/// The names that clients know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The prefix of names that clients do not see.
    pub(super) prefix: String,
    /// The only served MCP server, which keeps its own names.
    pub(super) alone: Option<String>,
    /// Whether URIs of MCP servers are unchanged.
    pub(super) own_uris: bool,
}

impl Names {
    /// Returns the tool or prompt that is called `own` in the toolbox.
    pub(super) fn of(&self, own: &str, served: Option<Served<'_>>) -> String {
        let served = served.filter(|served| self.alone.as_deref() == Some(served.server));
        match served.and_then(|served| served.definition["name"].as_str()) {
            Some(name) => name.to_owned(),
            None => client_name(own.strip_prefix(&self.prefix).unwrap_or(own)),
        }
    }

    /// Returns the URI or template `own` of `server`.
    pub(super) fn uri(&self, server: &str, own: &str) -> String {
        match own.strip_prefix(UI) {
            _ if self.own_uris => own.to_owned(),
            Some(rest) => format!("{INTERFACES}{server}/{rest}"),
            None => format!("{RESOURCES}{server}/{own}"),
        }
    }

    /// Returns the original URI at `server` of the resource that a client calls `shown`, if `shown` is a resource
    /// of this server.
    pub(super) fn own_uri(&self, server: &str, shown: &str) -> Option<String> {
        let after = |prefix: &str| shown.strip_prefix(prefix)?.strip_prefix(server)?.strip_prefix('/');
        match (after(INTERFACES), after(RESOURCES)) {
            (Some(rest), _) => Some(format!("{UI}{rest}")),
            (None, Some(own)) => Some(own.to_owned()),
            (None, None) => self.own_uris.then(|| shown.to_owned()),
        }
    }

    /// Returns a definition of `server` as clients get it: of a tool, a prompt or a resource.
    pub(super) fn definition(&self, server: &str, definition: &Value) -> Map<String, Value> {
        let mut fields = definition.as_object().cloned().unwrap_or_default();
        self.rewrite(server, &mut fields);
        fields
    }

    /// Rewrites the URIs in a result of `server`.
    pub(super) fn result(&self, server: &str, result: &mut Value) {
        if self.own_uris {
            return;
        }
        if let Some(fields) = result.as_object_mut() {
            self.interface(server, fields);
        }
        for block in McpAnswer::blocks(result) {
            if let Some(Value::Object(resource)) = block.get_mut("resource") {
                self.rewrite(server, resource);
            }
            self.rewrite(server, block);
        }
    }

    fn rewrite(&self, server: &str, fields: &mut Map<String, Value>) {
        for key in ["uri", "uriTemplate"] {
            if let Some(Value::String(uri)) = fields.get_mut(key) {
                *uri = self.uri(server, uri);
            }
        }
        self.interface(server, fields);
    }

    fn interface(&self, server: &str, fields: &mut Map<String, Value>) {
        let Some(meta) = fields.get_mut("_meta") else { return };
        for path in [format!("/{UI_KEY}/{UI_URI}"), format!("/{}", LEGACY_UI_KEY.replace('/', "~1"))] {
            if let Some(Value::String(uri)) = meta.pointer_mut(&path) {
                *uri = self.uri(server, uri);
            }
        }
    }
}

/// Removes the user interface from the definition of a tool whose client may not read it.
pub(super) fn without_interface(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = fields.get_mut("_meta") {
        meta.remove(LEGACY_UI_KEY);
        if let Some(Value::Object(ui)) = meta.get_mut(UI_KEY) {
            ui.remove(UI_URI);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_name_leads_back_to_its_server() {
        let names = Names::default();
        for (own, shown) in [
            ("file:///a b", "haft://mcp__s/file:///a b"),
            ("ui://app/x.html", "ui://mcp__s/app/x.html"),
            ("test://{id}/data", "haft://mcp__s/test://{id}/data"),
            ("haft://mcp__s/x", "haft://mcp__s/haft://mcp__s/x"),
        ] {
            assert_eq!(names.uri("s", own), shown);
            assert_eq!(names.own_uri("s", shown).as_deref(), Some(own));
            assert_eq!(names.own_uri("other", shown), None);
            assert_eq!(names.own_uri("mcp", shown), None);
        }
        assert_eq!(names.own_uri("s", "file:///a"), None, "nobody says whose it is");
        let own = Names { own_uris: true, ..Names::default() };
        assert_eq!(own.uri("s", "ui://app/x"), "ui://app/x");
        assert_eq!(own.own_uri("s", "ui://app/x").as_deref(), Some("ui://app/x"));
    }

    #[test]
    fn uris_are_rewritten_in_every_place() {
        let names = Names::default();
        let mut result = json!({
            "content": [
                { "type": "text", "text": "see x:1" },
                { "type": "resource_link", "uri": "x:1" },
                { "type": "resource", "resource": { "uri": "x:2", "text": "x:2" } },
            ],
            "contents": [{ "uri": "ui://a/b", "text": "" }],
            "messages": [{ "role": "user", "content": { "type": "resource_link", "uri": "x:3" } }],
            "_meta": { "ui": { "resourceUri": "ui://a/b" }, "ui/resourceUri": "ui://a/b" },
            "structuredContent": { "uri": "x:1" },
        });
        names.result("s", &mut result);
        let text = result.to_string();
        assert_eq!(text.matches("haft://mcp__s/x:").count(), 3, "{text}");
        assert_eq!(text.matches("ui://mcp__s/a/b").count(), 3, "{text}");
        assert_eq!(result["structuredContent"], json!({ "uri": "x:1" }));
        let tool =
            json!({ "name": "t", "_meta": { "ui": { "resourceUri": "ui://a/b", "visibility": ["app"] } } });
        let mut fields = names.definition("s", &tool);
        assert_eq!(fields["_meta"]["ui"]["resourceUri"], "ui://mcp__s/a/b");
        without_interface(&mut fields);
        assert_eq!(fields["_meta"], json!({ "ui": { "visibility": ["app"] } }));
    }

    /// M7: names leave room for a client's prefix.
    #[test]
    fn names_leave_room_for_what_a_client_puts_before_them() {
        let names = Names::default();
        let long = format!("mcp__server__{}", "x".repeat(51));
        let shown = names.of(&long, None);
        assert!(shown.len() <= 48 && shown.starts_with("mcp__server__x"), "{shown}");
        assert_eq!(names.of("mcp__s__t", None), "mcp__s__t");
        let definition = json!({ "name": "dotted.name/x" });
        let alone = Names { alone: Some("s".into()), ..Names::default() };
        let served = |server| Some(Served { server, definition: &definition });
        assert_eq!(alone.of("mcp__s__dotted_0", served("s")), "dotted.name/x");
        assert_eq!(alone.of("mcp__r__dotted_0", served("r")), "mcp__r__dotted_0");
    }
}
