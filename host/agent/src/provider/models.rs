//! The model lists of vendors, read page by page into one format: one constant and one reader per vendor.
//! Only a request shows whether a listed model answers.

use serde_json::Value;

use super::Prices;
use super::error::Failure;

/// The maximum number of pages of a list: at the requested page sizes, more than any vendor has.
pub(super) const MAX_PAGES: usize = 20;
/// The maximum number of models of a list; the longest list today has some hundred.
pub(super) const MAX_MODELS: usize = 5000;
/// The maximum length of a model name in bytes.
const MAX_NAME: usize = 256;

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedModel {
    /// The name in requests.
    pub name: String,
    /// The context window in tokens read and written, if reported or known.
    pub context_window: Option<u32>,
    /// The prices, if program.toml sets them or the vendor reports them.
    pub prices: Option<Prices>,
}

/// The models that a provider offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelList {
    /// The models, sorted by name.
    pub models: Vec<ListedModel>,
    /// Whether there are more models, on pages beyond the limit.
    pub is_cut: bool,
}

/// The request for the list of a vendor, and its format.
#[derive(Clone, Copy)]
pub(super) struct Listing {
    /// The path, relative to the base URL.
    pub(super) path: &'static str,
    pub(super) query: &'static [(&'static str, &'static str)],
    /// Whether the list needs no key.
    pub(super) is_public: bool,
    pub(super) read: fn(&Value) -> Result<Page, Failure>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) models: Vec<ListedModel>,
    /// The query parameters to add for the next page.
    pub(super) next: Vec<(&'static str, String)>,
}

impl ListedModel {
    /// Returns a model with a name and nothing else; `None` if the name is invalid.
    fn named(name: Option<&str>) -> Option<Self> {
        let name = name.filter(|name| (1..=MAX_NAME).contains(&name.len()))?;
        Some(Self { name: name.to_owned(), context_window: None, prices: None })
    }
}

fn list<'p>(page: &'p Value, key: &str) -> Result<&'p [Value], Failure> {
    let list = page.get(key).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| Failure::Malformed(format!("the list `{key}` of models is missing")))
}

/// Returns the first of these members that is a positive number of tokens.
fn tokens(model: &Value, pointers: &[&str]) -> Option<u32> {
    let number =
        |pointer: &&str| u32::try_from(model.pointer(pointer)?.as_u64()?).ok().filter(|number| *number > 0);
    pointers.iter().find_map(number)
}

/// Returns a text that is not empty.
fn text<'p>(value: &'p Value, key: &str) -> Option<&'p str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

pub(super) const ANTHROPIC: Listing =
    Listing { path: "models", query: &[("limit", "1000")], is_public: false, read: read_anthropic };

fn read_anthropic(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        Some(ListedModel { context_window: tokens(model, &["/max_input_tokens"]), ..named })
    };
    let has_more = page.get("has_more") == Some(&true.into());
    let last = text(page, "last_id").filter(|_| has_more);
    let next = last.map(|last| ("after_id", last.to_owned())).into_iter().collect();
    Ok(Page { models: list(page, "data")?.iter().filter_map(model).collect(), next })
}

pub(super) const GEMINI: Listing =
    Listing { path: "models", query: &[("pageSize", "1000")], is_public: false, read: read_gemini };

fn read_gemini(page: &Value) -> Result<Page, Failure> {
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

pub(super) const OLLAMA: Listing =
    Listing { path: "api/tags", query: &[], is_public: true, read: read_ollama };

fn read_ollama(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| ListedModel::named(text(model, "model").or_else(|| text(model, "name")));
    Ok(Page { models: list(page, "models")?.iter().filter_map(model).collect(), next: Vec::new() })
}

pub(super) const OPENAI: Listing =
    Listing { path: "models", query: &[], is_public: false, read: read_openai };

/// The context window in vLLM, llama.cpp, LM Studio, and servers that copied one of them.
const CONTEXT_WINDOWS: &[&str] =
    &["/max_model_len", "/meta/n_ctx", "/max_context_length", "/context_length", "/context_window"];

fn read_openai(page: &Value) -> Result<Page, Failure> {
    let model = |model: &Value| {
        let named = ListedModel::named(text(model, "id"))?;
        Some(ListedModel { context_window: tokens(model, CONTEXT_WINDOWS), ..named })
    };
    Ok(Page { models: list(page, "data")?.iter().filter_map(model).collect(), next: Vec::new() })
}

pub(super) const OPENROUTER: Listing =
    Listing { path: "models", query: &[], is_public: true, read: read_openrouter };

/// The query parameters of a link to the next page.
const PAGED: [&str; 2] = ["offset", "limit"];

fn read_openrouter(page: &Value) -> Result<Page, Failure> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str, context_window: Option<u32>) -> ListedModel {
        ListedModel { name: name.into(), context_window, prices: None }
    }

    /// The lists of vendors, as documented.
    #[test]
    fn lists_are_read_as_vendors_publish_them() {
        let page = (OPENAI.read)(&json!({ "object": "list", "data": [
            { "id": "gpt-5", "object": "model", "created": 1, "owned_by": "openai" },
            { "id": "local", "object": "model", "max_model_len": 32768 },
            { "id": "" }, { "object": "model" }, { "id": "x".repeat(300) },
        ] }));
        assert_eq!(page.unwrap().models, [named("gpt-5", None), named("local", Some(32_768))]);
        let claude = json!({ "type": "model", "id": "claude-opus-5", "display_name": "Claude Opus 5",
            "created_at": "2026-01-01T00:00:00Z", "max_input_tokens": 1_000_000, "max_tokens": 64_000 });
        let page = (ANTHROPIC.read)(
            &json!({ "data": [claude], "has_more": true, "first_id": "claude-opus-5", "last_id": "claude-opus-5" }),
        );
        let page = page.unwrap();
        assert_eq!(page.models, [named("claude-opus-5", Some(1_000_000))]);
        assert_eq!(page.next, [("after_id", "claude-opus-5".to_owned())]);
        let last =
            (ANTHROPIC.read)(&json!({ "data": [], "has_more": false, "first_id": null, "last_id": "x" }));
        assert_eq!(last.unwrap(), Page::default());
        let page = (GEMINI.read)(&json!({ "models": [
            { "name": "models/gemini-3-pro", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
              "supportedGenerationMethods": ["generateContent", "countTokens"] },
            { "name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"] },
        ], "nextPageToken": "abc" }));
        let page = page.unwrap();
        assert_eq!(
            (page.models, page.next),
            (vec![named("gemini-3-pro", Some(1_048_576))], vec![("pageToken", "abc".to_owned())])
        );
        assert_eq!((GEMINI.read)(&json!({})).unwrap(), Page::default());
        let page = (OLLAMA.read)(&json!({ "models": [
            { "name": "qwen3:4b", "model": "qwen3:4b", "size": 1, "digest": "d", "details": { "family": "qwen3" } },
        ] }));
        assert_eq!(page.unwrap().models, [named("qwen3:4b", None)]);
    }

    #[test]
    fn openrouter_tells_prices_and_pages() {
        let page = (OPENROUTER.read)(&json!({
            "data": [
                { "id": "a/b", "name": "A: B", "context_length": 8192,
                  "pricing": { "prompt": "0.00003", "completion": "0.00006", "input_cache_read": "0.000003" } },
                { "id": "openrouter/auto", "context_length": 2_000_000, "pricing": { "prompt": "-1", "completion": "-1" } },
            ],
            "links": { "next": "/api/v1/models?offset=500&limit=500" },
        }));
        let page = page.unwrap();
        let prices = Prices { input: 30.0, output: 60.0, cached: Some(3.0), stored: None };
        assert_eq!(page.models[0], ListedModel { prices: Some(prices), ..named("a/b", Some(8192)) });
        assert_eq!(page.models[1], named("openrouter/auto", Some(2_000_000)));
        assert_eq!(page.next, [("offset", "500".to_owned()), ("limit", "500".to_owned())]);
        let elsewhere =
            (OPENROUTER.read)(&json!({ "data": [], "links": { "next": "http://evil/?offset=a&x=1" } }));
        assert_eq!(elsewhere.unwrap(), Page::default());
    }

    #[test]
    fn what_is_no_list_is_said_to_be_none() {
        for listing in [OPENAI, ANTHROPIC, OLLAMA, OPENROUTER] {
            assert!(
                matches!((listing.read)(&json!({ "x": 1 })), Err(Failure::Malformed(why)) if why.contains("is missing"))
            );
        }
    }
}
