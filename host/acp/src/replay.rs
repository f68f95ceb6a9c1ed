//! Shows an earlier conversation in the editor, without the model's thinking.

use agent_client_protocol_schema::v1::{ContentBlock, ImageContent};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::output::Outbox;
use crate::tool_call::MAX_PICTURE;
use crate::updates::Updates;
use haft_agent::provider::{Message, Prompt};

/// Shows `messages`, as fast as the editor reads them.
pub(crate) async fn replay(messages: &[Message], updates: &Updates, outbox: &Outbox) {
    for message in messages {
        outbox.room().await;
        match message {
            Message::User(prompt) => said(prompt, updates, outbox).await,
            Message::Turn(exchange) => {
                updates.agent_said(&exchange.reply().text);
                for (requested, result) in exchange.answered() {
                    outbox.room().await;
                    updates.called(&requested.call, result);
                }
            }
        }
    }
}

async fn said(prompt: &Prompt, updates: &Updates, outbox: &Outbox) {
    if !prompt.text.is_empty() {
        updates.user_said(prompt.text.as_str().into());
    }
    for file in &prompt.attachments {
        outbox.room().await;
        let is_shown = file.essence().starts_with("image/") && file.data.len() <= MAX_PICTURE;
        updates.user_said(if is_shown {
            let data = BASE64_STANDARD.encode(&file.data);
            ContentBlock::Image(ImageContent::new(data, file.essence()))
        } else {
            file.mention().into()
        });
    }
}
