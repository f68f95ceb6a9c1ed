//! `GET /api/tags` of Ollama: the pulled models. The context window depends on how a model is loaded, and is not
//! listed.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text};
use crate::provider::error::Failure;

pub(in crate::provider) const OLLAMA: Listing =
    Listing { path: "api/tags", query: &[], is_public: true, read };

fn read(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| ListedModel::named(text(model, "model").or_else(|| text(model, "name")));
    Ok(Page { models: list(page, "models")?.iter().filter_map(model).collect(), next: Vec::new() })
}
