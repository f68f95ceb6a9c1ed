//! `GET /models` of Gemini, without models that generate no text (embeddings, images).

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::error::Failure;

pub(in crate::provider) const GEMINI: Listing =
    Listing { path: "models", query: &[("pageSize", "1000")], is_public: false, read };

fn read(page: &Value) -> Result<Page, Failure> {
    let writes = |model: &&Value| {
        let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    };
    let model = |model: &Value| {
        let name = text(model, "name").map(|name| name.strip_prefix("models/").unwrap_or(name));
        let named = ListedModel::named(name)?;
        Some(ListedModel { context_window: tokens(model, &["/inputTokenLimit"]), ..named })
    };
    let next = text(page, "nextPageToken").map(|token| ("pageToken", token.to_owned())).into_iter().collect();
    // The page after the last one has no list.
    let models = page.get("models").map_or(Ok(&[][..]), |_| list(page, "models"))?;
    Ok(Page { models: models.iter().filter(writes).filter_map(model).collect(), next })
}
