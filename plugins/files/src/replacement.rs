//! Where a text occurs in another, and what stands there afterwards. Words only, no files.

use std::ops::Range;

/// How many lines an error names; more would not help to choose.
const MAX_LINES_NAMED: usize = 10;

/// A replacement that can be carried out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    places: Vec<Range<usize>>,
    new: String,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The text does not occur; perhaps it does on this line, but for white space.
    Missing { similar: Option<usize> },
    /// It occurs more than once, and which is meant was not said.
    Several { count: usize, lines: String },
}

/// Finds what is to be replaced in `text`. Where the lines of `text` end in CRLF and those of
/// `old` do not, both `old` and `new` are taken to mean CRLF: models rarely write it.
pub(crate) fn find(text: &str, old: &str, new: &str, all: bool) -> Result<Replacement, Mismatch> {
    let adapted = crlf_of(text, old).map(|old| (old, with_crlf(new)));
    let (old, new) = adapted.unwrap_or_else(|| (old.to_owned(), new.to_owned()));
    let places = if all { separate(text, &old) } else { overlapping(text, &old) };
    match places.len() {
        0 => Err(Mismatch::Missing { similar: similar_line(text, &old) }),
        1 => Ok(Replacement { places, new }),
        _ if all => Ok(Replacement { places, new }),
        count => Err(Mismatch::Several { count, lines: name_lines(text, &places) }),
    }
}

impl Replacement {
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// What the text consists of afterwards.
    pub(crate) fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let starts = std::iter::once(0).chain(self.places.iter().map(|place| place.end));
        let ends = self.places.iter().map(|place| Some(place.start)).chain([None]);
        starts.zip(ends).flat_map(move |(start, end)| {
            let kept = text.get(start..end.unwrap_or(text.len())).unwrap_or_default();
            [kept, if end.is_some() { self.new.as_str() } else { "" }]
        })
    }
}

/// `old` with CRLF, if that is what it must mean: it says nothing of CR itself, and either every
/// line of `text` ends so or only so it occurs.
fn crlf_of(text: &str, old: &str) -> Option<String> {
    if old.contains('\r') || !text.contains("\r\n") {
        return None;
    }
    let adapted = with_crlf(old);
    let always = text.matches('\n').count() == text.matches("\r\n").count();
    (always || (!text.contains(old) && text.contains(&adapted))).then_some(adapted)
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn separate(text: &str, old: &str) -> Vec<Range<usize>> {
    text.match_indices(old).map(|(start, _)| start..start + old.len()).collect()
}

/// Every place where `old` occurs: in `aaa` there are two of `aa`, and no saying which is meant.
fn overlapping(text: &str, old: &str) -> Vec<Range<usize>> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find(old)) {
        let start = from + start;
        places.push(start..start + old.len());
        from = start + step;
    }
    places
}

fn name_lines(text: &str, places: &[Range<usize>]) -> String {
    let named = places.iter().take(MAX_LINES_NAMED).map(|place| line_of(text, place.start).to_string());
    let lines = named.collect::<Vec<_>>().join(", ");
    match places.len().saturating_sub(MAX_LINES_NAMED) {
        0 => lines,
        more => format!("{lines} and {more} more"),
    }
}

fn line_of(text: &str, index: usize) -> usize {
    text.get(..index).unwrap_or_default().matches('\n').count() + 1
}

/// The line that is the first line of `old`, but for the white space around it.
fn similar_line(text: &str, old: &str) -> Option<usize> {
    let sought = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    text.lines().position(|line| line.trim() == sought).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<String, Mismatch> {
        Ok(find(text, old, new, all)?.pieces(text).collect())
    }

    #[test]
    fn te22_one_occurrence_is_replaced_wherever_it_is() {
        assert_eq!(replaced("abc", "a", "x", false), Ok("xbc".into()));
        assert_eq!(replaced("abc", "b", "", false), Ok("ac".into()));
        assert_eq!(replaced("abc", "c", "xyz", false), Ok("abxyz".into()));
        assert_eq!(replaced("héllo 🦀", "🦀", "wörld", false), Ok("héllo wörld".into()));
    }

    #[test]
    fn te22_several_need_replace_all_and_their_lines_are_named() {
        let several = Mismatch::Several { count: 3, lines: "1, 2, 4".into() };
        assert_eq!(replaced("a\na\nb\na", "a", "x", false), Err(several));
        assert_eq!(replaced("a\na\nb\na", "a", "x", true), Ok("x\nx\nb\nx".into()));
        let Err(Mismatch::Several { count, lines }) = find(&"a\n".repeat(12), "a", "b", false) else {
            panic!()
        };
        assert_eq!((count, lines.as_str()), (12, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"));
    }

    #[test]
    fn te22_overlapping_occurrences_are_several() {
        let several = Mismatch::Several { count: 2, lines: "1, 1".into() };
        assert_eq!(replaced("aaa", "aa", "b", false), Err(several));
        assert_eq!(replaced("aaa", "aa", "b", true), Ok("ba".into()));
        assert_eq!(replaced("ééé", "éé", "b", true), Ok("bé".into()));
    }

    #[test]
    fn te22_a_text_that_differs_in_white_space_is_pointed_at() {
        assert_eq!(
            replaced("x\n\tfoo();\n", "  foo();\n", "", false),
            Err(Mismatch::Missing { similar: Some(2) })
        );
        assert_eq!(replaced("x\n", "y", "", false), Err(Mismatch::Missing { similar: None }));
    }

    #[test]
    fn crlf_files_stay_so_and_need_not_be_written_so() {
        assert_eq!(replaced("a\r\nb\r\n", "a\nb", "1\n2\n3", false), Ok("1\r\n2\r\n3\r\n".into()));
        assert_eq!(replaced("a\r\nb\r\n", "b", "2\n3", false), Ok("a\r\n2\r\n3\r\n".into()));
        // Mixed: as written first, with CRLF only where nothing else is found.
        assert_eq!(replaced("a\nb\r\nc", "a\nb", "x\ny", false), Ok("x\ny\r\nc".into()));
        assert_eq!(replaced("a\nb\r\nc", "b\nc", "x\ny", false), Ok("a\nx\r\ny".into()));
        // Who writes CR means it.
        assert_eq!(replaced("a\r\nb\r\n", "\r\n", "\n", true), Ok("a\nb\n".into()));
        assert_eq!(replaced("a\nb", "a\nb", "x\r\ny", false), Ok("x\r\ny".into()));
    }
}
