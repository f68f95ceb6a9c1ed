//! `GET /models` of OpenRouter, with prices in dollars a token, as strings.

use serde_json::Value;

use super::{ListedModel, Listing, Page, list, text, tokens};
use crate::provider::Prices;
use crate::provider::error::Failure;

pub(in crate::provider) const OPENROUTER: Listing =
    Listing { path: "models", query: &[], is_public: true, read };

/// The query parameters of a link to the next page.
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

/// Returns the prices of a million tokens; `None` if they vary (the router's own models have the price -1).
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |key: &str| {
        let dollars: f64 = pricing.get(key)?.as_str()?.parse().ok()?;
        // Rounded to a millionth of a dollar: the product of a decimal fraction is not exact in binary.
        (dollars >= 0.0 && dollars.is_finite()).then(|| (dollars * 1e12).round() / 1e6)
    };
    let (cached, stored) = (price("input_cache_read"), price("input_cache_write"));
    Some(Prices { input: price("prompt")?, output: price("completion")?, cached, stored })
}

/// Reads the query parameters from the link to the next page. Ignores its host: the key is sent to the vendor
/// alone.
fn next(link: &str) -> Vec<(&'static str, String)> {
    let query = link.split_once('?').map_or("", |(_, query)| query);
    let number = |key: &'static str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| (key, value.to_owned()))
    };
    PAGED.iter().filter_map(|key| number(key)).collect()
}
