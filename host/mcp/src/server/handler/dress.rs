//! Adapts a forwarded result to the protocol revision of its client: adds required fields and removes unknown ones.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::Era;

/// The keys of results that clients of later revisions may keep.
const CACHED: &[&str] =
    &["tools", "prompts", "resources", "resourceTemplates", "contents", "skills", "skill"];

impl Era {
    /// Adapts a forwarded result of a server.
    pub(super) fn dress(self, result: &mut JsonObject) {
        if !self.is_later {
            // Fields that a server sends to haft in a later revision than the client's.
            for key in ["resultType", "ttlMs", "cacheScope"] {
                result.remove(key);
            }
            if let Some(Value::Object(meta)) = result.get_mut("_meta") {
                meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/server"));
                if meta.is_empty() {
                    result.remove("_meta");
                }
            }
            return;
        }
        result.entry("resultType").or_insert_with(|| "complete".into());
        if CACHED.iter().any(|key| result.contains_key(*key)) {
            result.entry("ttlMs").or_insert_with(|| 0.into());
        }
        if result.contains_key("ttlMs") || result.contains_key("cacheScope") {
            // A server's answer may be public, but haft's depends on the rights of a caller.
            result.insert("cacheScope".to_owned(), "private".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A shared cache would give one caller the answer for another.
    #[test]
    fn no_server_says_that_its_answer_is_for_everybody() {
        let era = Era { has_session: false, is_later: true };
        for key in ["contents", "content"] {
            let mut result = JsonObject::new();
            result.extend([(key.to_owned(), json!([])), ("cacheScope".to_owned(), "public".into())]);
            era.dress(&mut result);
            assert_eq!(result.get("cacheScope"), Some(&json!("private")));
        }
    }
}
