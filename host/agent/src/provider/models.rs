//! What a provider offers: the vendors' published lists of models, read page by page into the same words. Lists what
//! is listed; whether a model answers, nobody knows before it is asked.

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

/// Pages of one list: at the sizes that are asked for, more than any vendor has.
pub(super) const MAX_PAGES: usize = 20;
/// Models of one list; the longest of today has some hundreds.
pub(super) const MAX_MODELS: usize = 5000;
/// Bytes of a name: longer ones are none that could be asked.
const MAX_NAME: usize = 256;

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedModel {
    /// As requests name it.
    pub name: String,
    /// Tokens that it reads and writes at once, where that is told or known.
    pub context_window: Option<u32>,
    /// What it costs, where program.toml says it or the vendor tells it.
    pub prices: Option<Prices>,
}

/// What a provider offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelList {
    /// By name.
    pub models: Vec<ListedModel>,
    /// Whether there are more, on pages beyond the bound.
    pub is_cut: bool,
}

/// How a vendor's list is asked for and read.
pub(super) struct Listing {
    /// Below the base URL.
    pub(super) path: &'static str,
    /// The query of the first page, which stays with the others.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// Whether it is told without a key.
    pub(super) is_public: bool,
    /// What a page says.
    pub(super) read: fn(&Value) -> Result<Page, Failure>,
}

/// A page of a list.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) models: Vec<ListedModel>,
    /// What is added to the query to get the next one.
    pub(super) next: Vec<(&'static str, String)>,
}

impl ListedModel {
    /// A model of which nothing is told but its name; `None` where that is no name.
    fn named(name: Option<&str>) -> Option<Self> {
        let name = name.filter(|name| (1..=MAX_NAME).contains(&name.len()))?;
        Some(Self { name: name.to_owned(), context_window: None, prices: None })
    }
}

/// The list of that name in a page.
fn list<'p>(page: &'p Value, key: &str) -> Result<&'p [Value], Failure> {
    let list = page.get(key).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| Failure::Malformed(format!("there is no list `{key}` of models")))
}

/// The first of these members that is a number of tokens.
fn tokens(model: &Value, pointers: &[&str]) -> Option<u32> {
    let number =
        |pointer: &&str| u32::try_from(model.pointer(pointer)?.as_u64()?).ok().filter(|number| *number > 0);
    pointers.iter().find_map(number)
}

/// A text that says something.
fn text<'p>(value: &'p Value, key: &str) -> Option<&'p str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
