//! Recognises the error texts of vendors for a request that exceeds the context window, for errors without a code,
//! and reads the numbers in them.

use super::error::Failure;

/// The numbers in an error about a request that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// The context window in tokens, if given.
    pub(crate) limit: Option<u32>,
    /// The size of the request in tokens, if given.
    pub(crate) asked: Option<u32>,
}

/// Parts of error texts, in lower case: OpenAI, Anthropic, Gemini, Ollama, llama.cpp, vLLM, LM Studio.
const WORDS: &[&str] = &[
    "context length",
    "context limit",
    "context size",
    "context window",
    "exceeds the maximum number of tokens",
    "prompt is too long",
    "reduce the length",
    "too many tokens",
];

/// Texts before the size of the context window.
const BEFORE_LIMIT: &[&str] = &[
    "context length is ",
    "context length of only ",
    "context length of ",
    "context size (",
    "context window of ",
    "number of tokens allowed (",
    "tokens > ",
    " > ",
];

/// Texts before the size of the request.
const BEFORE_ASKED: &[&str] = &[
    "prompt is too long: ",
    "token count (",
    "you requested about ",
    "you requested ",
    "messages resulted in ",
    "the request (",
    "request (",
];

impl Failure {
    /// Returns the numbers in the error, if the request was too long.
    pub(crate) fn too_long(&self) -> Option<TooLong> {
        let Self::TooLong(text) = self else { return None };
        let text = text.to_lowercase();
        let number = |markers: &[&str]| markers.iter().find_map(|marker| number_after(&text, marker));
        Some(TooLong { limit: number(BEFORE_LIMIT), asked: number(BEFORE_ASKED) })
    }
}

/// Returns whether `text`, in lower case, states that a request is too long.
pub(super) fn says_so(text: &str) -> bool {
    WORDS.iter().any(|word| text.contains(word))
}

/// Returns the number directly after `marker`, with or without thousands separators.
fn number_after(text: &str, marker: &str) -> Option<u32> {
    let (_, rest) = text.split_once(marker)?;
    let digits = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit);
    digits.collect::<String>().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, text, and the tokens of limit and request in it.
    const ANSWERED: &[(u16, &str, Option<u32>, Option<u32>)] = &[
        (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10234 tokens. Please reduce the length of the messages. (context_length_exceeded)",
            Some(8192),
            Some(10_234),
        ),
        (
            400,
            "Your input exceeds the context window of this model. Please adjust your input and try again. (context_length_exceeded)",
            None,
            None,
        ),
        (
            400,
            "prompt is too long: 212,345 tokens > 200,000 maximum (invalid_request_error)",
            Some(200_000),
            Some(212_345),
        ),
        (
            400,
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
            Some(200_000),
            None,
        ),
        (422, "Input validation error: too many tokens", None, None),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576). (INVALID_ARGUMENT)",
            Some(1_048_576),
            Some(1_200_000),
        ),
        (
            400,
            "the request exceeds the available context size (16384 tokens), try increasing it (exceed_context_size_error)",
            Some(16_384),
            None,
        ),
        (
            400,
            "request (20480 tokens) exceeds the available context size (16384 tokens), try increasing it",
            Some(16_384),
            Some(20_480),
        ),
        (400, "the input length exceeds the context length", None, None),
        (
            400,
            "This endpoint's maximum context length is 128000 tokens. However, you requested about 131072 tokens",
            Some(128_000),
            Some(131_072),
        ),
        (
            400,
            "Trying to keep the first 4623 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
            Some(4096),
            None,
        ),
    ];

    /// G02: texts as sent by vendors and servers.
    #[test]
    fn the_words_of_every_vendor_are_known() {
        for &(status, body, limit, asked) in ANSWERED {
            let failure = Failure::refused(status, body);
            assert_eq!(failure.too_long(), Some(TooLong { limit, asked }), "{body}");
            assert_eq!(failure.passing(), None, "the same again is as long");
        }
    }

    #[test]
    fn other_refusals_are_not_taken_for_it() {
        for body in ["no such model", "API key not valid", "max_tokens is too large: 100000", "rate limit"] {
            assert_eq!(Failure::refused(400, body).too_long(), None, "{body}");
        }
        let busy = Failure::refused(503, "context window");
        assert_eq!(busy.too_long(), None);
    }
}
