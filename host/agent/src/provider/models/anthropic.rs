//! `GET /models` of Anthropic; the next page follows the last id of the previous one.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::error::Failure;

pub(in crate::provider) const ANTHROPIC: Listing =
    Listing { path: "models", query: &[("limit", "1000")], is_public: false, read };

fn read(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        Some(ListedModel { context_window: tokens(model, &["/max_input_tokens"]), ..named })
    };
    let has_more = page.get("has_more") == Some(&true.into());
    let last = text(page, "last_id").filter(|_| has_more);
    let next = last.map(|last| ("after_id", last.to_owned())).into_iter().collect();
    Ok(Page { models: list(page, "data")?.iter().filter_map(model).collect(), next })
}
