//! `GET /models` of OpenRouter, which tells prices, in dollars for a single token and as texts.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::Prices;
use crate::provider::error::Failure;

pub(in crate::provider) const OPENROUTER: Listing =
    Listing { path: "models", query: &[], is_public: true, read };

/// The members of a link to the next page.
const PAGED: [&str; 2] = ["offset", "limit"];

fn read(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        let context_window = tokens(model, &["/context_length", "/top_provider/context_length"]);
        Some(ListedModel { context_window, prices: model.get("pricing").and_then(prices), ..named })
    };
    let models = list(page, "data")?.iter().filter_map(model).collect();
    Ok(Page {
        models,
        next: page.pointer("/links/next").and_then(Value::as_str).map(next).unwrap_or_default(),
    })
}

/// Prices of a million tokens; `None` where it depends (the router's own models say -1).
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |key: &str| {
        let dollars: f64 = pricing.get(key)?.as_str()?.parse().ok()?;
        // Rounded to a millionth of a dollar, since a product of decimals is none.
        (dollars >= 0.0 && dollars.is_finite()).then(|| (dollars * 1e12).round() / 1e6)
    };
    let (cached, stored) = (price("input_cache_read"), price("input_cache_write"));
    Some(Prices { input: price("prompt")?, output: price("completion")?, cached, stored })
}

/// What a link says of the page it leads to. Where it leads besides is of no interest: the key stays with the vendor.
fn next(link: &str) -> Vec<(&'static str, String)> {
    let query = link.split_once('?').map_or("", |(_, query)| query);
    let number = |key: &'static str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| (key, value.to_owned()))
    };
    PAGED.iter().filter_map(|key| number(key)).collect()
}
