//! The published context windows of the vendors' models, by prefix of the name. Unknown ones are learnt from the
//! vendor's error messages.

/// Prefixes of names with tokens; of two matching prefixes, the longer one comes first.
const WINDOWS: &[(&str, u32)] = &[
    ("chatgpt-4o", 128_000),
    ("claude-", 200_000),
    ("gemini-", 1_048_576),
    ("gpt-3.5", 16_385),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8192),
    ("gpt-5", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// Returns the context window of `model` in tokens, including its output.
pub(super) fn context_window(model: &str) -> Option<u32> {
    // The names of OpenRouter begin with the vendor.
    let name = model.rsplit('/').next().unwrap_or(model);
    WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_the_beginning_of_their_name() {
        let rows = [
            ("gpt-5-mini-2025-08-07", Some(400_000)),
            ("gpt-4.1-nano", Some(1_047_576)),
            ("gpt-4-0613", Some(8192)),
            ("anthropic/claude-sonnet-4.5", Some(200_000)),
            ("models/gemini-flash-latest", Some(1_048_576)),
            ("openrouter/auto", None),
            ("qwen3:4b", None),
        ];
        for (model, expected) in rows {
            assert_eq!(context_window(model), expected, "{model}");
        }
    }
}
