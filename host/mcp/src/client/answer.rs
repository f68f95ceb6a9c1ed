//! Converts a server's answer to a tool result: the unmodified answer for MCP clients, and for models its text, one
//! line for every other block, and binary data as attachments. The text mentions every omitted or cut part.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::calls::shortened;
use haft_core::call::{Attachment, McpAnswer, ToolResult};
use haft_core::tool::{Keep, Whole, clip, foreign};

/// Maximum number of bytes of all attachments of one answer: a few photographs, the limit of vendors.
const MAX_ATTACHED: usize = 8 << 20;
/// Maximum number of bytes of the structured data and `_meta` of one answer, as JSON.
const MAX_DATA: usize = 8 << 20;
/// Number of characters of a text without room: enough for the notice that it was cut.
const MIN_TEXT: usize = 100;
/// The media type of binary data that has none.
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// Maximum number of an answer's blocks for models.
const MAX_BLOCKS: usize = 1000;

/// Returns the tool result for `result`, from `tools/call`. The text has at most `limit` characters; `whole` gets the
/// complete text.
pub(super) fn to_tool_result(mut result: Value, limit: usize, whole: &Whole) -> ToolResult {
    let answer = ContentBuilder { attachments: attachments(&mut result), ..ContentBuilder::default() };
    let told = text_of(&result, answer, limit, whole);
    if let Some(result) = within(result, limit) {
        return ToolResult { mcp: Some(Box::new(McpAnswer::Result(result))), ..told };
    }
    let most = MAX_DATA >> 20;
    let why = format!("the answer's data is larger than {most} MiB and is left out; its text is:\n");
    ToolResult { content: why + &told.content, is_error: true, structured: None, ..told }
}

/// Removes the binary data from `result`, up to the limit, and returns the data.
pub(super) fn attachments(result: &mut Value) -> Vec<Attachment> {
    let (mut all, mut size) = (Vec::new(), 0);
    McpAnswer::each_binary(result, |media_type, place| {
        let Some(encoded) = place.as_str() else {
            // A number of the server must not become the index of an attachment.
            *place = Value::Null;
            return;
        };
        let data = BASE64_STANDARD.decode(encoded).ok().filter(|data| size + data.len() <= MAX_ATTACHED);
        let Some(data) = data else { return };
        size += data.len();
        *place = all.len().into();
        let media_type = shortened(media_type.unwrap_or(UNKNOWN_TYPE).to_owned());
        all.push(Attachment::new(media_type, data));
    });
    all
}

/// Returns the result with texts of together at most `limit` characters; `None` if its data exceed it.
fn within(mut result: Value, limit: usize) -> Option<Value> {
    let data = result.get("structuredContent").map_or(0, |data| data.to_string().len());
    let meta = result.get("_meta").map_or(0, |meta| meta.to_string().len());
    let mut left = limit;
    for block in McpAnswer::blocks(&mut result) {
        let holder = match block.get("resource") {
            Some(Value::Object(_)) => block.get_mut("resource").and_then(Value::as_object_mut),
            _ => Some(block),
        };
        if let Some(Value::String(text)) = holder.and_then(|holder| holder.get_mut("text")) {
            // Characters are counted only if the bytes exceed the limit.
            if text.len() > left && text.chars().count() > left {
                *text = clip(text, left.max(MIN_TEXT), Keep::Ends);
            }
            left = left.saturating_sub(text.chars().count());
        }
    }
    (data + meta <= MAX_DATA).then_some(result)
}

/// Returns the text of `result` for models; `answer` has its binary data.
fn text_of(result: &Value, mut answer: ContentBuilder, limit: usize, whole: &Whole) -> ToolResult {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for block in blocks.iter().take(MAX_BLOCKS) {
        answer.block(block);
    }
    if blocks.len() > MAX_BLOCKS {
        answer.lines.push(format!("[{} more blocks are left out]", blocks.len() - MAX_BLOCKS));
    }
    let structured = result.get("structuredContent").filter(|data| !data.is_null());
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    // The data of an error need not match a schema.
    let structured = structured.and_then(|data| answer.structured(data, limit)).filter(|_| !is_error);
    if answer.lines.is_empty() {
        answer.lines.push("(the answer is empty)".to_owned());
    }
    let text = answer.lines.join("\n");
    // Marked as foreign, because haft's own errors appear in the same place.
    let text = if is_error { foreign(&text) } else { text.into() };
    let content = clip(&text, limit, Keep::Ends);
    whole.leave(&content, || clip(&text, Whole::MAX, Keep::Ends));
    ToolResult { content, is_error, attachments: answer.attachments, structured, mcp: None }
}

/// Returns the text of the messages in `result`, from `prompts/get`, and the `attachments`; `None` without messages.
/// Each message names its role if one is of the model.
pub(super) fn prompt_text(result: &Value, attachments: Vec<Attachment>) -> (Option<String>, Vec<Attachment>) {
    let mut said = ContentBuilder { attachments, ..ContentBuilder::default() };
    let messages = result.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_of_model = |message: &Value| message["role"] == "assistant";
    let has_roles = messages.iter().any(is_of_model);
    for message in messages.iter().take(MAX_BLOCKS) {
        if !said.lines.is_empty() {
            said.lines.push(String::new());
        }
        if has_roles {
            said.lines.push(if is_of_model(message) { "Assistant:" } else { "User:" }.to_owned());
        }
        match &message["content"] {
            Value::Array(blocks) => blocks.iter().take(MAX_BLOCKS).for_each(|block| said.block(block)),
            block => said.block(block),
        }
    }
    ((!messages.is_empty()).then(|| said.lines.join("\n")), said.attachments)
}

#[derive(Default)]
struct ContentBuilder {
    lines: Vec<String>,
    attachments: Vec<Attachment>,
}

impl ContentBuilder {
    fn block(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") => self.lines.push(text("text").unwrap_or_default().to_owned()),
            Some(kind @ ("image" | "audio")) => {
                self.attached(kind, text("mimeType"), block.get("data"));
            }
            Some("resource_link") => self.lines.push(format!("[resource {}]", describe_resource(block))),
            Some("resource") => self.resource(block.get("resource").unwrap_or(&Value::Null)),
            kind => {
                let kind = shortened(kind.unwrap_or("unknown").to_owned());
                self.lines.push(format!("[content of the unknown type `{kind}`]"));
            }
        }
    }

    fn resource(&mut self, resource: &Value) {
        let text = |key: &str| resource.get(key).and_then(Value::as_str);
        match (text("text"), resource.get("blob")) {
            (Some(content), _) => {
                self.lines.push(format!("[resource {}]", describe_resource(resource)));
                self.lines.push(content.to_owned());
            }
            (None, Some(blob)) => {
                let what = format!("resource {}", describe_resource(resource));
                self.attached(&what, text("mimeType"), Some(blob));
            }
            (None, None) => {
                self.lines.push(format!("[resource {}, without content]", describe_resource(resource)));
            }
        }
    }

    /// Adds the line for binary data, which is an attachment if there was room.
    fn attached(&mut self, what: &str, media_type: Option<&str>, place: Option<&Value>) {
        let index = place.and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        if let Some(file) = index.and_then(|index| self.attachments.get(index)) {
            let (media_type, length) = (&file.media_type, file.data.len());
            return self.lines.push(format!("[{what}, {media_type}, {length} bytes]"));
        }
        let media_type = shortened(media_type.unwrap_or(UNKNOWN_TYPE).to_owned());
        let encoded = place.and_then(Value::as_str).unwrap_or_default();
        let why = match BASE64_STANDARD.decode(encoded) {
            Ok(data) => format!(
                "[{what}, {media_type}, {} bytes: left out, the limit of an answer is {} MiB]",
                data.len(),
                MAX_ATTACHED >> 20
            ),
            Err(_) => format!("[{what}, {media_type}: left out: not valid base64]"),
        };
        self.lines.push(why);
    }

    /// Returns the data, also as text unless a text block contains them; `None` if they exceed the limit.
    fn structured(&mut self, data: &Value, limit: usize) -> Option<Value> {
        if !is_shown(&self.lines, data) {
            self.lines.push(data.to_string());
        }
        // Truncated data are invalid; the text shows the part that fits.
        (data.to_string().chars().count() <= limit).then(|| data.clone())
    }
}

/// Returns whether `lines` contain `data` already: as JSON, or the one value in `{"result": X}`, as text or item by
/// item.
fn is_shown(lines: &[String], data: &Value) -> bool {
    let says = |line: &String, value: &Value| {
        value.as_str() == Some(line) || serde_json::from_str::<Value>(line).is_ok_and(|shown| shown == *value)
    };
    let wrapped = data.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("result"));
    let is_said = |value: &Value| match value {
        Value::Array(items) if lines.len() == items.len() && !items.is_empty() => {
            lines.iter().zip(items).all(|(line, item)| says(line, item))
        }
        _ => false,
    };
    let is_whole = |value: &Value| lines.iter().any(|line| says(line, value));
    is_whole(data) || wrapped.is_some_and(|value| is_whole(value) || is_said(value))
}

/// Returns the line for a resource: name, URI, media type, size.
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

    /// A server's number in place of binary data is not an index of haft's attachments.
    #[test]
    fn an_index_of_the_server_leads_to_no_attachment() {
        let mut result = json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": "AAEC" },
            { "type": "image", "data": 0 },
        ] });
        let attachments = attachments(&mut result);
        assert_eq!(attachments.len(), 1);
        let sent = McpAnswer::with_data(result, &attachments);
        let data: Vec<_> = sent["content"].as_array().unwrap().iter().map(|block| &block["data"]).collect();
        assert_eq!(data, [&json!("AAEC"), &Value::Null]);
    }

    /// MC03: text blocks are joined by newlines, an error is an error, and nothing is lost.
    #[test]
    fn every_kind_of_content_is_told() {
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
            "line one\nline two\n[image, image/png, 2 bytes]\n[audio, audio/wav: left out: not valid \
             base64]\n[resource a <file:///a>, 7 bytes, An a]\n[resource <x:1>, \
             text/plain]\ninside\n[resource <x:2>, application/octet-stream, 3 bytes]\n[content of the \
             unknown type `hologram`]"
        );
        assert!(answer.is_error);
        let types: Vec<_> = answer.attachments.iter().map(|attached| attached.media_type.as_str()).collect();
        assert_eq!(types, ["image/png", "application/octet-stream"]);
    }

    /// MC03: data is shown, and not twice.
    #[test]
    fn structured_content_is_shown_once() {
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
        super::to_tool_result(result.clone(), limit, &Whole::default())
    }

    /// The text of a prompt has the messages of each role, and a line for a picture.
    #[test]
    fn a_prompt_is_the_text_of_its_messages() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let one = json!({ "messages": [{ "role": "user", "content": text("Review it.") }] });
        assert_eq!(prompt_text(&one, Vec::new()).0.as_deref(), Some("Review it."));
        let mut two = json!({ "messages": [
            { "role": "user", "content": [text("See"), { "type": "image", "mimeType": "image/png", "data": "AP8=" }] },
            { "role": "assistant", "content": text("I see.") },
        ] });
        let files = attachments(&mut two);
        let (said, files) = prompt_text(&two, files);
        assert_eq!(said.unwrap(), "User:\nSee\n[image, image/png, 2 bytes]\n\nAssistant:\nI see.");
        assert_eq!(files.len(), 1);
        assert_eq!(prompt_text(&json!({ "completion": {} }), Vec::new()).0, None);
    }

    /// M6: MCP clients get the answer as the server sent it, with each byte stored once, and text within the limit.
    #[test]
    fn the_answer_itself_is_kept() {
        let result = json!({
            "content": [
                { "type": "text", "text": "a", "annotations": { "priority": 0.7 }, "_meta": { "k": 1 } },
                { "type": "text", "text": "b" },
                { "type": "image", "mimeType": "image/png", "data": "AP8=" },
                { "type": "resource_link", "uri": "x:1", "name": "x", "size": 3, "icons": [{ "src": "https://e.test/i" }] },
                { "type": "resource", "resource": { "uri": "x:2", "blob": "AAEC", "_meta": { "z": 1 } } },
            ],
            "structuredContent": { "a": 1.0 }, "_meta": { "e": [1] }, "isError": true,
        });
        let answer = to_tool_result(&result, 1000);
        let Some(McpAnswer::Result(kept)) = answer.mcp.as_deref() else { panic!("{answer:?}") };
        assert_eq!(kept["content"][2]["data"], 0, "the bytes are an attachment");
        assert_eq!(McpAnswer::with_data(kept.clone(), &answer.attachments), result);
        let long = json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }, { "type": "text", "text": "y".repeat(900) }] });
        let answer = to_tool_result(&long, 1000);
        let Some(McpAnswer::Result(kept)) = answer.mcp.as_deref() else { panic!("{answer:?}") };
        let text = |at: usize| kept["content"][at]["text"].as_str().unwrap();
        assert!(text(0).contains("truncated") && text(1).contains("truncated"));
        assert!(text(0).chars().count() + text(1).chars().count() <= 1000 + MIN_TEXT);
        let much = json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": { "a": "y".repeat(MAX_DATA) } });
        let answer = to_tool_result(&much, 1000);
        assert!(
            answer.is_error && answer.mcp.is_none() && answer.content.contains("left out"),
            "{}",
            answer.content
        );
    }

    /// M4: data that only wrap a text block are not shown twice.
    #[test]
    fn wrapped_data_is_shown_once() {
        for (texts, value) in [
            (vec!["boom"], json!("boom")),
            (vec!["2"], json!(2)),
            (vec!["[\"a\",\"b\"]"], json!(["a", "b"])),
            (vec!["a", "b", "{\"c\":1}"], json!(["a", "b", { "c": 1 }])),
        ] {
            let content: Vec<_> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
            let result = json!({ "content": content, "structuredContent": { "result": value } });
            assert_eq!(to_tool_result(&result, 1000).content, texts.join("\n"));
        }
        let other =
            json!({ "content": [{ "type": "text", "text": "1" }], "structuredContent": { "result": 2 } });
        assert_eq!(to_tool_result(&other, 1000).content, "1\n{\"result\":2}");
    }

    /// MC12: the text of an answer is truncated to its limit, and attachments above the limit are omitted.
    #[test]
    fn an_answer_is_as_long_as_it_may_be() {
        let long = "ж".repeat(5000);
        let answer = to_tool_result(
            &json!({ "content": [{ "type": "text", "text": long }], "structuredContent": [long] }),
            100,
        );
        assert!(answer.content.chars().count() <= 100 && answer.content.contains("truncated"));
        let wanted = Whole::wanted();
        super::to_tool_result(json!({ "content": [{ "type": "text", "text": long }] }), 100, &wanted);
        assert_eq!(wanted.take().as_ref(), Some(&long));
        assert_eq!(answer.structured, None);
        let picture = BASE64_STANDARD.encode(vec![0; MAX_ATTACHED / 2 + 1]);
        let picture = json!({ "type": "image", "mimeType": "image/png", "data": picture });
        let answer = to_tool_result(&json!({ "content": [picture, picture] }), 1000);
        assert_eq!(answer.attachments.len(), 1);
        assert!(answer.content.ends_with("left out, the limit of an answer is 8 MiB]"), "{}", answer.content);
    }
}
