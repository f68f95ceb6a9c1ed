//! Turns a server's answer into a tool result: text as it is, one line for every other block, and binary data as
//! attachments. Whatever is left out or cut is said so in the text.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::calls::shortened;
use haft_core::call::{Attachment, ToolResult};
use haft_core::tool::{Keep, Whole, clip, foreign};

/// Bytes of all pictures and the like of one answer: a few photographs, and as much as vendors take.
const MAX_ATTACHED: usize = 8 << 20;
/// Blocks of an answer that are read.
const MAX_BLOCKS: usize = 1000;

/// The tool result of `result`, from `tools/call`; at most `limit` characters of text, and the rest in `whole`.
pub(super) fn to_tool_result(result: &Value, limit: usize, whole: &Whole) -> ToolResult {
    let mut answer = ContentBuilder::default();
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for block in blocks.iter().take(MAX_BLOCKS) {
        answer.block(block);
    }
    if blocks.len() > MAX_BLOCKS {
        answer.push_line(format!("[{} more blocks are left out]", blocks.len() - MAX_BLOCKS));
    }
    let structured = result.get("structuredContent").filter(|data| !data.is_null());
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    // Beside an error there is no data that a schema was promised for.
    let structured = structured.and_then(|data| answer.structured(data, limit)).filter(|_| !is_error);
    if answer.lines.is_empty() {
        answer.push_line("(the answer is empty)".to_owned());
    }
    let text = answer.lines.join("\n");
    // A failure is shown where haft's own are.
    let text = if is_error { foreign(&text) } else { text.into() };
    let content = clip(&text, limit, Keep::Ends);
    whole.leave(&content, || clip(&text, Whole::MAX, Keep::Ends));
    ToolResult { content, is_error, attachments: answer.attachments, structured }
}

#[derive(Default)]
struct ContentBuilder {
    lines: Vec<String>,
    attachments: Vec<Attachment>,
    attached: usize,
}

impl ContentBuilder {
    fn push_line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn block(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") => self.push_line(text("text").unwrap_or_default().to_owned()),
            Some(kind @ ("image" | "audio")) => {
                self.attach(kind, text("mimeType"), text("data").unwrap_or_default());
            }
            Some("resource_link") => self.push_line(format!("[resource {}]", describe_resource(block))),
            Some("resource") => self.resource(block.get("resource").unwrap_or(&Value::Null)),
            kind => {
                let kind = shortened(kind.unwrap_or("unknown").to_owned());
                self.push_line(format!("[content of type `{kind}`, which haft does not know]"));
            }
        }
    }

    /// A resource within the answer.
    fn resource(&mut self, resource: &Value) {
        let text = |key: &str| resource.get(key).and_then(Value::as_str);
        match (text("text"), text("blob")) {
            (Some(content), _) => {
                self.push_line(format!("[resource {}]", describe_resource(resource)));
                self.push_line(content.to_owned());
            }
            (None, Some(blob)) => {
                let what = format!("resource {}", describe_resource(resource));
                self.attach(&what, text("mimeType"), blob);
            }
            (None, None) => {
                self.push_line(format!("[resource {}, without content]", describe_resource(resource)));
            }
        }
    }

    fn attach(&mut self, what: &str, media_type: Option<&str>, encoded: &str) {
        let media_type = shortened(media_type.unwrap_or("application/octet-stream").to_owned());
        let Ok(data) = BASE64_STANDARD.decode(encoded) else {
            return self.push_line(format!("[{what}, {media_type}: left out, since it is not valid base64]"));
        };
        let length = data.len();
        if self.attached + length > MAX_ATTACHED {
            let most = MAX_ATTACHED >> 20;
            self.push_line(format!(
                "[{what}, {media_type}, {length} bytes: left out, an answer holds {most} MiB]"
            ));
        } else {
            self.attached += length;
            self.push_line(format!("[{what}, {media_type}, {length} bytes]"));
            self.attachments.push(Attachment::new(media_type, data));
        }
    }

    /// The data, shown as text unless a text says the same; `None` where it is too much.
    fn structured(&mut self, data: &Value, limit: usize) -> Option<Value> {
        let is_shown = |line: &String| serde_json::from_str::<Value>(line).is_ok_and(|shown| shown == *data);
        if !self.lines.iter().any(is_shown) {
            self.push_line(data.to_string());
        }
        // Cut data is no data; the text shows what there is room for.
        (data.to_string().chars().count() <= limit).then(|| data.clone())
    }
}

/// The line for a resource: name, URI, media type, size.
fn describe_resource(resource: &Value) -> String {
    let text = |key: &str| resource.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("title").or(text("name")).map(|name| format!("{name} "));
    let uri = text("uri").unwrap_or("without a URI");
    let mut line = format!("{}<{uri}>", name.unwrap_or_default());
    for more in [text("mimeType").map(str::to_owned), size(resource), text("description").map(str::to_owned)]
    {
        line.extend(more.map(|more| format!(", {more}")));
    }
    shortened(line)
}

fn size(resource: &Value) -> Option<String> {
    Some(format!("{} bytes", resource.get("size")?.as_u64()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// MC03: text blocks are joined by newlines, an error is an error, and nothing is lost.
    #[test]
    fn mc03_every_kind_of_content_is_told() {
        let result = json!({ "isError": true, "content": [
            { "type": "text", "text": "line one" },
            { "type": "text", "text": "line two" },
            { "type": "image", "mimeType": "image/png", "data": "AP8=" },
            { "type": "audio", "mimeType": "audio/wav", "data": "!" },
            { "type": "resource_link", "uri": "file:///a", "name": "a", "size": 7, "description": "An a" },
            { "type": "resource", "resource": { "uri": "x:1", "mimeType": "text/plain", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "x:2", "blob": "AAAA" } },
            { "type": "hologram", "data": "?" },
        ] });
        let answer = to_tool_result(&result, 1000);
        assert_eq!(
            answer.content,
            "line one\nline two\n[image, image/png, 2 bytes]\n\
             [audio, audio/wav: left out, since it is not valid base64]\n\
             [resource a <file:///a>, 7 bytes, An a]\n[resource <x:1>, text/plain]\ninside\n\
             [resource <x:2>, application/octet-stream, 3 bytes]\n\
             [content of type `hologram`, which haft does not know]"
        );
        assert!(answer.is_error);
        let types: Vec<_> = answer.attachments.iter().map(|attached| attached.media_type.as_str()).collect();
        assert_eq!(types, ["image/png", "application/octet-stream"]);
    }

    /// MC03: data is shown, and not twice.
    #[test]
    fn mc03_structured_content_is_shown_once() {
        let data = json!({ "a": [1, 2] });
        let shown = |text: Option<&str>| {
            let content: Vec<_> = text.iter().map(|text| json!({ "type": "text", "text": text })).collect();
            to_tool_result(&json!({ "content": content, "structuredContent": data }), 1000)
        };
        assert_eq!(shown(None).content, r#"{"a":[1,2]}"#);
        assert_eq!(shown(Some("{ \"a\": [1, 2] }")).content, "{ \"a\": [1, 2] }");
        assert_eq!(shown(Some("prose")).content, "prose\n{\"a\":[1,2]}");
        assert_eq!(shown(None).structured, Some(data.clone()));
        assert_eq!(to_tool_result(&json!({}), 100).content, "(the answer is empty)");
    }

    fn to_tool_result(result: &Value, limit: usize) -> ToolResult {
        super::to_tool_result(result, limit, &Whole::default())
    }

    /// MC12
    #[test]
    fn mc12_an_answer_is_as_long_as_it_may_be() {
        let long = "ж".repeat(5000);
        let answer = to_tool_result(
            &json!({ "content": [{ "type": "text", "text": long }], "structuredContent": [long] }),
            100,
        );
        assert!(answer.content.chars().count() <= 100 && answer.content.contains("truncated"));
        let wanted = Whole::wanted();
        super::to_tool_result(&json!({ "content": [{ "type": "text", "text": long }] }), 100, &wanted);
        assert_eq!(wanted.take().as_ref(), Some(&long));
        assert_eq!(answer.structured, None);
        let picture = BASE64_STANDARD.encode(vec![0; MAX_ATTACHED / 2 + 1]);
        let picture = json!({ "type": "image", "mimeType": "image/png", "data": picture });
        let answer = to_tool_result(&json!({ "content": [picture, picture] }), 1000);
        assert_eq!(answer.attachments.len(), 1);
        assert!(answer.content.ends_with("left out, an answer holds 8 MiB]"), "{}", answer.content);
    }
}
