//! The tools of my-plugin. The struct is the arguments, its comments are what a model reads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use haft_plugin::{Context, Error, Hints, Output, Tool};

/// Finds the most frequent words of a text: the most frequent first, equally frequent ones in
/// alphabetical order. Upper and lower case are the same.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct TopWords {
    /// The text to look at.
    text: String,
    /// How many words to give at most; 10 if it is left out.
    limit: Option<u32>,
}

/// What was found.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Found {
    words: Vec<WordCount>,
}

/// A word of a text.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct WordCount {
    /// The word, in lower case.
    word: String,
    /// How often it occurs.
    times: u32,
}

impl Tool for TopWords {
    const NAME: &str = "top-words";
    const HINTS: Hints = Hints::READ_ONLY;

    fn output_schema() -> Option<String> {
        Some(haft_plugin::schema_of::<Found>())
    }

    fn call(self, _context: &Context) -> Result<Output, Error> {
        let limit = self.limit.unwrap_or(10);
        if limit == 0 {
            return Err(Error::invalid("`limit` must be at least 1"));
        }
        let mut times = BTreeMap::<String, u32>::new();
        for word in self.text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()) {
            if !word.is_empty() {
                *times.entry(word.to_ascii_lowercase()).or_default() += 1;
            }
        }
        let mut words: Vec<_> = times.into_iter().map(|(word, times)| WordCount { word, times }).collect();
        // The map gave them in alphabetical order, which a stable sort keeps.
        words.sort_by_key(|word| Reverse(word.times));
        words.truncate(limit as usize);
        let found = Found { words };
        Output::from(serde_json::to_string(&found.words)?).with_structured(&found)
    }
}

haft_plugin::export!(TopWords);

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: serde_json::Value) -> Result<String, Error> {
        let context = Context::for_tests("/work", "/home/me"); // the workspace, and what `~` means
        haft_plugin::testing::call::<TopWords>(&arguments, &context).map(|output| output.text())
    }

    #[test]
    fn counts_words() {
        let words = call(serde_json::json!({ "text": "the cat and The hat", "limit": 2 })).unwrap();
        assert_eq!(words, r#"[{"word":"the","times":2},{"word":"and","times":1}]"#);
    }

    #[test]
    fn needs_a_limit() {
        assert!(call(serde_json::json!({ "text": "the cat", "limit": 0 })).is_err());
    }
}
