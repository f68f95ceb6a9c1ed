//! A prompt of a person: a text and attached files. Reads no file and sends nothing.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use haft_core::call::Attachment;

/// A prompt of a person.
///
/// Serialised as `{"text": …, "attachments": […]}`, or as a plain string without attachments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The attached files, in order.
    pub attachments: Vec<Attachment>,
}

impl Prompt {
    /// Returns the text with a line for each file, for consumers of text only.
    pub fn told(&self) -> String {
        let mut text = self.text.clone();
        for attachment in &self.attachments {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&attachment.mention());
        }
        text
    }

    /// Appends the next prompt, given before the model answered.
    pub(crate) fn join(&mut self, next: Self) {
        if !self.text.is_empty() && !next.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&next.text);
        self.attachments.extend(next.attachments);
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self { text, attachments: Vec::new() }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Serialize for Prompt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The form with attachments.
        #[derive(Serialize)]
        struct Whole<'p> {
            text: &'p str,
            attachments: &'p [Attachment],
        }
        match self.attachments.as_slice() {
            [] => serializer.serialize_str(&self.text),
            attachments => Whole { text: &self.text, attachments }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Both forms.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Plain(String),
            Whole {
                text: String,
                #[serde(default)]
                attachments: Vec<Attachment>,
            },
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Plain(text) => text.into(),
            Written::Whole { text, attachments } => Self { text, attachments },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Message;
    use super::*;

    /// Conversations saved before prompts could hold files are read and written unchanged.
    #[test]
    fn a_prompt_without_files_is_its_text() {
        let plain = json!({ "user": "hi" });
        let message: Message = serde_json::from_value(plain.clone()).unwrap();
        assert_eq!(message, Message::User("hi".into()));
        assert_eq!(serde_json::to_value(&message).unwrap(), plain);
        let attachments = vec![Attachment::new("image/png", vec![1])];
        let message = Message::User(Prompt { text: "see".into(), attachments });
        let written = serde_json::to_value(&message).unwrap();
        assert_eq!(
            written,
            json!({ "user": { "text": "see", "attachments": [{ "media_type": "image/png", "data": "AQ==" }] } })
        );
        assert_eq!(serde_json::from_value::<Message>(written).unwrap(), message);
    }

    #[test]
    fn what_is_told_of_a_prompt_names_its_files() {
        let attachments =
            vec![Attachment { name: Some("a.png".into()), ..Attachment::new("image/png", vec![1]) }];
        let mut prompt = Prompt { text: String::new(), attachments };
        assert_eq!(prompt.told(), "[a.png: image/png, 1 bytes]");
        prompt.text = "see".into();
        prompt.join("now".into());
        assert_eq!(prompt.told(), "see\n\nnow\n[a.png: image/png, 1 bytes]");
    }
}
