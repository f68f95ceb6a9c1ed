//! `GET /models`, of OpenAI and of the servers that speak its formats. OpenAI tells names alone; servers of one's own
//! add how much a model reads, each under another name.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::error::Failure;

pub(in crate::provider) const OPENAI: Listing =
    Listing { path: "models", query: &[], is_public: false, read };

/// vLLM, llama.cpp, LM Studio and others that copied one of them.
const WINDOWS: &[&str] =
    &["/max_model_len", "/meta/n_ctx", "/max_context_length", "/context_length", "/context_window"];

fn read(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        Some(ListedModel { context_window: tokens(model, WINDOWS), ..named })
    };
    Ok(Page { models: list(page, "data")?.iter().filter_map(model).collect(), next: Vec::new() })
}
