//! Bounds how deep a WIT text nests, without recursion: its parser recurses once per level and would overflow the
//! stack.

/// Brackets within brackets; types need a few, packages and interfaces three.
const MAX_NESTING: usize = 100;

/// Whether a text nests deeper than any that a person writes. What stands in comments does not count.
pub(super) fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut comments) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        if rest.starts_with("/*") {
            (comments, length) = (comments + 1, 2);
        } else if comments > 0 {
            if rest.starts_with("*/") {
                (comments, length) = (comments - 1, 2);
            }
        } else if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else {
            match first {
                '<' | '{' | '(' => depth += 1,
                // `->` closes nothing that was opened; nor does it matter.
                '>' | '}' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth > MAX_NESTING || comments > MAX_NESTING {
            return true;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nested_counts() {
        assert!(!is_too_deep(&"interface a { f: func(x: list<u8>) -> list<u8>; }\n".repeat(1000)));
        assert!(!is_too_deep(&"/// a < b, (or {\n".repeat(1000)));
        assert!(!is_too_deep(&"/* < */ // ü <\n".repeat(1000)));
        assert!(is_too_deep(&"list<".repeat(101)));
        assert!(is_too_deep(&"/*".repeat(101)));
        assert!(!is_too_deep("//"));
    }
}
