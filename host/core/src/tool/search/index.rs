//! An index of the words of tools. A query finds the tools that share its rarest words; words in a tool's name
//! weigh most. A pure function of the tools and the query.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::call::ToolDef;

/// Maximum number of words of a query.
const MAX_QUERY: usize = 32;

/// Maximum number of indexed words of one tool: a description has at most 16,000 characters.
const MAX_WORDS: usize = 2000;

/// Maximum number of levels of a schema in which parameters are looked for.
const MAX_DEPTH: usize = 6;

/// The weight of a word by its position.
const IN_NAME: f64 = 4.0;
const IN_DESCRIPTION: f64 = 1.5;
const IN_PARAMETERS: f64 = 0.5;

/// The minimum similarity of a word and its misspelling.
const MIN_LIKENESS: f64 = 0.9;

/// Letters of the shortest word that may have a slip, or be the beginning of another.
const MIN_LETTERS: usize = 4;

/// The weight of a similar word.
const ALIKE: f64 = 0.5;

/// The words of all tools.
pub(super) struct Index {
    /// The tools with each word, and its weight there. In order: sums of floats depend on it.
    words: BTreeMap<String, Vec<(usize, f64)>>,
    names: Vec<String>,
}

impl Index {
    pub(super) fn build<'a>(tools: impl Iterator<Item = &'a ToolDef>) -> Self {
        let (mut words, mut names) = (BTreeMap::<String, Vec<(usize, f64)>>::new(), Vec::new());
        for (place, def) in tools.enumerate() {
            for (word, worth) in words_of(def) {
                words.entry(word).or_default().push((place, worth));
            }
            names.push(def.name.to_lowercase());
        }
        Self { words, names }
    }

    /// Returns the indices of the tools that match `query`, the best first; of equal matches, the earlier tool
    /// first. Deterministic.
    pub(super) fn find(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in split(query).take(MAX_QUERY) {
            for (known, likeness) in self.meant(&word) {
                let Some(occurrences) = self.words.get(known) else { continue };
                let rarity = self.rarity(occurrences.len());
                for (place, worth) in occurrences {
                    *scores.entry(*place).or_default() += worth * likeness * rarity;
                }
            }
        }
        let whole = query.trim().to_lowercase();
        if let Some(place) = self.names.iter().position(|name| *name == whole) {
            scores.insert(place, f64::MAX);
        }
        let mut found: Vec<(usize, f64)> = scores.into_iter().collect();
        found.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        found.into_iter().map(|(place, _)| place).collect()
    }

    /// Returns the words of tools that a word of a query matches: itself, otherwise those that begin with it or are
    /// similar.
    fn meant<'a>(&'a self, word: &'a str) -> Vec<(&'a str, f64)> {
        if self.words.contains_key(word) {
            return vec![(word, 1.0)];
        }
        if word.len() < MIN_LETTERS {
            return Vec::new();
        }
        let is_alike = |known: &&String| {
            known.len() >= MIN_LETTERS
                && (known.starts_with(word)
                    || word.starts_with(known.as_str())
                    || strsim::jaro_winkler(known, word) >= MIN_LIKENESS)
        };
        self.words.keys().filter(is_alike).map(|known| (known.as_str(), ALIKE)).collect()
    }

    /// Returns the weight of a word by its rarity: a word of every tool has none.
    #[expect(clippy::cast_precision_loss, reason = "counts of tools are small")]
    fn rarity(&self, tools: usize) -> f64 {
        (1.0 + self.names.len() as f64 / tools.max(1) as f64).ln()
    }
}

/// Returns the words of a tool, each once, with its best weight.
fn words_of(def: &ToolDef) -> HashMap<String, f64> {
    let mut words = HashMap::new();
    let mut add = |text: &str, worth: f64| {
        for word in split(text) {
            if words.len() < MAX_WORDS {
                let known = words.entry(word).or_insert(worth);
                *known = known.max(worth);
            }
        }
    };
    add(&def.name, IN_NAME);
    add(&def.description, IN_DESCRIPTION);
    parameters(&def.parameters, MAX_DEPTH, &mut |text| add(text, IN_PARAMETERS));
    words
}

/// Passes the names and descriptions of parameters to `visit`.
fn parameters(schema: &Value, depth: usize, visit: &mut dyn FnMut(&str)) {
    let Some(below) = depth.checked_sub(1) else { return };
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, schema) in properties {
            visit(name);
            if let Some(description) = schema.get("description").and_then(Value::as_str) {
                visit(description);
            }
            parameters(schema, below, visit);
        }
    }
    if let Some(items) = schema.get("items") {
        parameters(items, below, visit);
    }
}

/// Returns the words of a text in their plain form: `listIssues` and `list_issues` are `list` and `issue`.
fn split(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut lower = false;
    for c in text.chars() {
        let begins = c.is_uppercase() && lower;
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        lower = c.is_lowercase();
    }
    words.push(word);
    words.into_iter().filter(|word| !word.is_empty()).map(|word| plain(&word).to_owned())
}

/// Returns a word without its ending, for a few endings of English.
fn plain(word: &str) -> &str {
    let kept = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 3);
    match word {
        _ if word.ends_with("ss") => word,
        _ => kept("ies").or_else(|| kept("y")).or_else(|| kept("s")).unwrap_or(word),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn def(name: &str, description: &str, parameters: Value) -> ToolDef {
        ToolDef { name: name.into(), description: description.into(), parameters, ..ToolDef::default() }
    }

    fn found(query: &str) -> Vec<&'static str> {
        let defs = [
            def("read", "Reads a file.", json!({})),
            def("github__list_issues", "Lists the issues of a repository.", json!({})),
            def("github__createPull", "Opens a pull request in a repository.", json!({})),
            def(
                "mail__send",
                "Sends a letter.",
                json!({ "properties": { "recipient": { "description": "Whose mailbox it goes to" } } }),
            ),
        ];
        let names = ["read", "github__list_issues", "github__createPull", "mail__send"];
        Index::build(defs.iter()).find(query).into_iter().map(|place| names[place]).collect()
    }

    /// PR15: names count more than descriptions, and these more than parameters; rare words count more than common
    /// ones.
    #[test]
    fn the_best_match_comes_first() {
        assert_eq!(found("pull request")[0], "github__createPull");
        assert_eq!(found("list the issues of my repository")[0], "github__list_issues");
        assert_eq!(found("issue")[0], "github__list_issues");
        assert_eq!(found("recipients"), ["mail__send"]);
        assert_eq!(found("github"), ["github__list_issues", "github__createPull"]);
        assert_eq!(found("read a file")[0], "read");
    }

    #[test]
    fn names_in_any_case_slips_and_beginnings_are_understood() {
        assert_eq!(found("GITHUB__CREATEPULL")[0], "github__createPull");
        assert_eq!(found("repositry")[0], "github__list_issues");
        assert_eq!(found("recip"), ["mail__send"]);
        assert!(found("weather").is_empty());
        assert!(found("  ").is_empty());
        assert!(found("日本語 \u{0}").is_empty());
    }

    #[test]
    fn words_are_split_and_made_plain() {
        let words = |text: &str| split(text).collect::<Vec<_>>();
        assert_eq!(words("listIssues"), ["list", "issue"]);
        assert_eq!(words("mcp__git__HTTPServer v2"), ["mcp", "git", "httpserver", "v2"]);
        assert_eq!(words("entries entry class as"), ["entr", "entr", "class", "as"]);
    }
}
