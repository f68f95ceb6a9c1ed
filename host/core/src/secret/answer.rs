//! Calls and answers without secrets: every text in them, whatever it is in. Decides nothing about
//! what is a secret.

use std::borrow::Cow;

use serde_json::Value;

use super::{REDACTED, Redactor};
use crate::call::{Attachment, ToolCall, ToolResult};

impl Redactor {
    /// The call as it may be told.
    pub fn call(&self, call: &ToolCall) -> ToolCall {
        let text = |text: &str| self.redact(text).into_owned();
        let mut arguments = call.arguments.clone();
        self.clean(&mut arguments);
        ToolCall { id: text(&call.id), tool: text(&call.tool), arguments }
    }

    /// The answer with the secrets masked.
    pub fn result(&self, result: ToolResult) -> ToolResult {
        if self.is_empty() {
            return result;
        }
        let ToolResult { content, is_error, attachments, mut structured } = result;
        if let Some(value) = &mut structured {
            self.clean(value);
        }
        let attachments = attachments.into_iter().map(|attachment| self.attachment(attachment)).collect();
        ToolResult { content: self.redact_owned(content), is_error, attachments, structured }
    }

    /// The file with the secrets masked.
    pub fn attachment(&self, attachment: Attachment) -> Attachment {
        let Attachment { name, media_type, data } = attachment;
        let name = name.map(|name| self.redact_owned(name));
        Attachment { name, media_type: self.redact_owned(media_type), data: self.redact_bytes(data) }
    }

    /// Takes the secrets out of every text of `value`.
    pub fn clean(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        // A list of work instead of recursion: the depth of the value is a tool's.
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            match value {
                Value::String(text) => *text = self.redact_owned(std::mem::take(text)),
                Value::Number(number) if self.hides(&number.to_string()) => *value = REDACTED.into(),
                Value::Array(items) => work.extend(items),
                Value::Object(fields) => {
                    if fields.keys().any(|key| self.hides(key)) {
                        let clean = std::mem::take(fields).into_iter();
                        fields.extend(clean.map(|(key, value)| (self.redact_owned(key), value)));
                    }
                    work.extend(fields.values_mut());
                }
                _ => {}
            }
        }
    }

    fn hides(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    /// CL04: no part of an answer shows a secret.
    #[test]
    fn cl04_every_part_of_an_answer_is_clean() {
        let redactor = Redactor::default();
        redactor.add(&["sk-4711-0815", "1234567890"].map(SecretString::from));
        let data = json!({ "sk-4711-0815": [{ "a": "x sk-4711-0815" }, 1_234_567_890, 42] });
        let result = ToolResult {
            content: "it is sk-4711-0815".into(),
            is_error: true,
            attachments: vec![Attachment {
                name: Some("sk-4711-0815.txt".into()),
                ..Attachment::new("text/plain", b"<sk-4711-0815>".into())
            }],
            structured: Some(data.clone()),
        };
        let clean = redactor.result(result);
        assert_eq!(clean.content, "it is ***");
        assert_eq!(clean.structured, Some(json!({ "***": [{ "a": "x ***" }, "***", 42] })));
        assert_eq!(clean.attachments[0].data, b"<***>");
        assert_eq!(clean.attachments[0].name.as_deref(), Some("***.txt"));
        let call = ToolCall { id: "1".into(), tool: "sk-4711-0815".into(), arguments: data };
        assert!(!format!("{:?}", redactor.call(&call)).contains("4711"));
    }
}
