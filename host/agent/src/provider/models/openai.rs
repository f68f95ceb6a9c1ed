//! `GET /models` of OpenAI and of servers of its formats. OpenAI reports names alone; other servers add the context
//! window, under various names.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::error::Failure;

pub(in crate::provider) const OPENAI: Listing =
    Listing { path: "models", query: &[], is_public: false, read };

/// The context window in vLLM, llama.cpp, LM Studio, and servers that copied one of them.
const WINDOWS: &[&str] =
    &["/max_model_len", "/meta/n_ctx", "/max_context_length", "/context_length", "/context_window"];

fn read(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        Some(ListedModel { context_window: tokens(model, WINDOWS), ..named })
    };
    Ok(Page { models: list(page, "data")?.iter().filter_map(model).collect(), next: Vec::new() })
}
