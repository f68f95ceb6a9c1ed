//! Parses text to a tree of TOML, and reports every syntax error. Does not know the keys. A text that nests deeper
//! than the stack allows is refused before parsing.

use haft_core::report::{Problem, Span};
use toml::de::{DeTable, Error};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// Parts of one dotted key. The parser bounds arrays and inline tables itself (80), but every
/// part of a key is a table more to walk and to drop.
const MAX_KEY_PARTS: usize = 16;

/// The tree, or all that is wrong.
pub(super) fn parse(text: &str) -> Result<DeTable<'_>, Vec<Problem>> {
    if let Some(span) = too_long_key(text) {
        let label = format!("a key has at most {MAX_KEY_PARTS} parts");
        return Err(vec![not_toml().at(span, label)]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() { Ok(table.into_inner()) } else { Err(problems(text, &errors)) }
}

/// One mistake often makes the parser stumble again on the same line: the first of each line.
fn problems(text: &str, errors: &[Error]) -> Vec<Problem> {
    let mut positions: Vec<(Span, &Error)> =
        errors.iter().map(|error| (error.span().map_or(Span::default(), Span::from), error)).collect();
    positions.sort_by_key(|(span, _)| *span);
    let same_line =
        |a: Span, b: Span| !text.get(a.start..b.start).is_some_and(|between| between.contains('\n'));
    positions.dedup_by(|(later, _), (earlier, _)| same_line(*earlier, *later));
    positions.into_iter().map(|(span, error)| problem(text, span, error.message())).collect()
}

/// The parser's words, where it has good ones.
fn problem(text: &str, span: Span, message: &str) -> Problem {
    let found = text.get(span.start..span.end).unwrap_or_default();
    let rest = text.get(span.start..).unwrap_or_default();
    match message {
        "duplicate key" if found == "tools" => {
            not_toml().at(span, message).hint("write every tool as `[[tools]]` with a key `name`")
        }
        "duplicate key" => not_toml().at(span, "this key was defined before"),
        _ if message.contains("recursion depth") => not_toml().at(span, "nested too deeply"),
        _ if message.starts_with("string values must be quoted") && found.is_empty() => {
            not_toml().at(span, "a value is missing")
        }
        _ if rest.starts_with(':') => {
            not_toml().at(span, message).hint("write `key = value`, not `key: value`")
        }
        _ => not_toml().at(span, message),
    }
}

fn not_toml() -> Problem {
    Problem::new("not valid TOML")
}

/// The first key with too many parts, by the parser's own tokens.
fn too_long_key(text: &str) -> Option<Span> {
    let mut dots = 0;
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Equals
            | TokenKind::Comma
            | TokenKind::LeftSquareBracket
            | TokenKind::RightSquareBracket
            | TokenKind::LeftCurlyBracket
            | TokenKind::RightCurlyBracket
            | TokenKind::Newline => dots = 0,
            _ => {}
        }
        if dots >= MAX_KEY_PARTS {
            return Some(Span { start: token.span().start(), end: token.span().end() });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        parse(text).map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_the_end() {
        let key = vec!["a"; 100_000].join(".");
        assert_eq!(messages(&format!("{key} = 1")), ["not valid TOML: a key has at most 16 parts"]);
        assert_eq!(messages(&format!("[{key}]")), ["not valid TOML: a key has at most 16 parts"]);
        assert_eq!(messages(&format!("x = {{ {key} = 1 }}")), ["not valid TOML: a key has at most 16 parts"]);
        for (open, close) in [("[", "]"), ("{a=", "}"), ("[{a=", "}]")] {
            let nested = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
            assert!(!messages(&nested).is_empty());
        }
        assert!(messages(&format!("{} = 1", vec!["a"; MAX_KEY_PARTS].join("."))).is_empty());
        assert!(messages("a = \"1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18\"").is_empty());
    }

    #[test]
    fn one_problem_a_line() {
        assert_eq!(messages("a = \nb = = =\nc = 1\n").len(), 2);
    }
}
