//! The model lists of vendors, read page by page into one format. A listed model is not known to answer before it
//! is asked.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod openrouter;

use serde_json::Value;

pub(super) use self::anthropic::ANTHROPIC;
pub(super) use self::gemini::GEMINI;
pub(super) use self::ollama::OLLAMA;
pub(super) use self::openai::OPENAI;
pub(super) use self::openrouter::OPENROUTER;
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

/// How the list of a vendor is requested and read.
pub(super) struct Listing {
    /// The path, relative to the base URL.
    pub(super) path: &'static str,
    /// The query of every page.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// Whether the list needs no key.
    pub(super) is_public: bool,
    /// Reads a page.
    pub(super) read: fn(&Value) -> Result<Page, Failure>,
}

/// A page of a list.
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

/// Returns the list with this name in a page.
fn list<'p>(page: &'p Value, key: &str) -> Result<&'p [Value], Failure> {
    let list = page.get(key).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| Failure::Malformed(format!("there is no list `{key}` of models")))
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

#[cfg(test)]
mod tests;
