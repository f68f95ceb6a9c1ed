//! The words of a part of a command line: without redirections, with what braces make of them.

use super::parts::UNKNOWN;

/// What comes before a text that a program is to read.
const HERE_STRING: &str = "<<<";

/// Words that the braces of one word may make; what makes more is not known.
const MAX_WORDS: usize = 64;

/// Bytes of a word whose braces are read.
const MAX_WORD: usize = 1024;

/// How deep braces may stand in braces.
const MAX_BRACES: usize = 8;

/// The words of a part that its program is given, and the texts that it is to read.
pub(super) fn without_redirections(part: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut words, mut read, mut operator) = (Vec::new(), Vec::new(), None);
    for word in part.split_whitespace() {
        let end = word.find(|c: char| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(word.len());
        let (own, target) = match word.split_at_checked(end) {
            Some(parts) if word.starts_with(['<', '>']) => parts,
            _ => (operator.take().unwrap_or_default(), word),
        };
        match own {
            "" => words.push(word),
            own if target.is_empty() => operator = Some(own),
            HERE_STRING => read.push(target),
            _ => {}
        }
    }
    (words, read)
}

/// What braces make of a word: `{rm,x}` is two, `{,rm}` one, `a{1..3}` is not known. `{}` stands for what a program puts
/// there.
pub(super) fn expanded(word: &str) -> Vec<String> {
    let unknown = UNKNOWN.to_string();
    let word = word.replace("{}", &unknown);
    if word.len() > MAX_WORD {
        return vec![word.replace('{', &unknown)];
    }
    let mut words = Vec::new();
    if !expand(&word, MAX_BRACES, &mut words) {
        return vec![unknown];
    }
    // A shell gives its program no empty word of these.
    words.retain(|word| !word.is_empty());
    words
}

/// Adds what a word becomes; `false` where that is too much.
fn expand(word: &str, depth: usize, into: &mut Vec<String>) -> bool {
    let Some((before, inner, after)) = braces(word) else {
        into.push(word.to_owned());
        return into.len() <= MAX_WORDS;
    };
    let Some(depth) = depth.checked_sub(1) else { return false };
    if inner.contains("..") && !inner.contains(',') {
        return expand(&format!("{before}{UNKNOWN}{after}"), depth, into);
    }
    alternatives(inner).iter().all(|one| expand(&format!("{before}{one}{after}"), depth, into))
}

/// The first braces of a word with a comma or two dots in them: what is before, in and after them.
fn braces(word: &str) -> Option<(&str, &str, &str)> {
    word.match_indices('{').find_map(|(open, _)| {
        let (mut depth, mut is_list) = (0_usize, false);
        let rest = word.get(open..)?;
        let close = rest.char_indices().find_map(|(index, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => is_list = true,
                _ => {}
            }
            (depth == 0).then_some(index)
        })?;
        let inner = rest.get(1..close)?;
        (is_list || inner.contains("..")).then_some((word.get(..open)?, inner, rest.get(close + 1..)?))
    })
}

/// What stands between the commas of braces, but those of inner ones.
fn alternatives(inner: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    inner
        .split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .collect()
}
