//! Patterns in which `*` matches any characters. Matching is case-sensitive; only `*` and its two escapes are
//! special.

/// A pattern in which every `*` matches any number of characters; `\*` and `\\` match one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    /// The literal texts between the stars; never empty.
    parts: Vec<String>,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let (mut parts, mut part) = (Vec::new(), String::new());
        let mut characters = pattern.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '*' => parts.push(std::mem::take(&mut part)),
                '\\' => part.push(characters.next_if(|next| matches!(next, '*' | '\\')).unwrap_or('\\')),
                c => part.push(c),
            }
        }
        parts.push(part);
        Self { parts }
    }

    /// Returns the text, if it has no star.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the common prefix of all matching texts.
    pub(super) fn head(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// Returns the words that every text that matches begins with, and what follows them and a blank.
    pub(super) fn split_words(&self) -> (Vec<String>, Self) {
        let mut words: Vec<String> = self.head().split(' ').map(str::to_owned).collect();
        let first = words.pop().unwrap_or_default();
        let others = self.parts.iter().skip(1).cloned();
        (words, Self { parts: std::iter::once(first).chain(others).collect() })
    }

    /// Returns whether the pattern matches all of `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some((last, between)) = rest.split_last() else { return first == text };
        let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
        for part in between {
            let Some((_, after)) = left.split_once(part.as_str()) else { return false };
            left = after;
        }
        left.ends_with(last.as_str())
    }

    /// Returns whether the pattern may match a text that begins with `prefix`.
    pub(super) fn may_begin_with(&self, prefix: &str) -> bool {
        let head = self.head();
        head.starts_with(prefix) || (self.literal().is_none() && prefix.starts_with(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything_and_escapes_for_themselves() {
        for (pattern, text, is_meant) in [
            ("a*", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("aa*aa", "aaa", false),
            ("*", "", true),
            ("abc", "abcd", false),
            (r"ls \*", "ls *", true),
            (r"ls \*", "ls x", false),
            (r"a\\b", r"a\b", true),
            (r"a\b", r"a\b", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), is_meant, "{pattern} {text}");
        }
    }

    #[test]
    fn a_beginning_may_become_what_is_meant() {
        for (pattern, prefix, may) in [
            ("rm *", "r", true),
            ("rm *", "", true),
            ("rm *", "rm x", true),
            ("rm *", "echo ", false),
            ("rm x", "rm x", true),
            ("rm x", "rm xy", false),
            ("*force*", "echo ", true),
        ] {
            assert_eq!(Glob::new(pattern).may_begin_with(prefix), may, "{pattern} {prefix}");
        }
    }
}
