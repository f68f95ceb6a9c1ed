//! Where a text occurs in another, and what stands there afterwards. Words only, no files.

/// How many lines an error names; more would not help to choose.
const MAX_LINES_NAMED: usize = 10;

/// A replacement that can be carried out. Keeps no list of places: there may be millions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    old: String,
    new: String,
    count: usize,
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
    let count = if all { text.matches(&old).count() } else { overlapping(text, &old).count() };
    match count {
        0 => Err(Mismatch::Missing { similar: similar_line(text, &old) }),
        2.. if !all => Err(Mismatch::Several { count, lines: name_lines(text, &old, count) }),
        _ => Ok(Replacement { old, new, count }),
    }
}

impl Replacement {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What the text consists of afterwards.
    pub(crate) fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let kept = text.split(self.old.as_str()).enumerate();
        kept.flat_map(|(index, kept)| [if index == 0 { "" } else { self.new.as_str() }, kept])
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

/// Where `old` begins, everywhere: in `aaa` there are two of `aa`, and no saying which is meant.
fn overlapping<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text.get(from..)?.find(old)?;
        from = start + step;
        Some(start)
    })
}

fn name_lines(text: &str, old: &str, count: usize) -> String {
    let starts = overlapping(text, old).take(MAX_LINES_NAMED);
    let lines = starts.map(|start| line_of(text, start).to_string()).collect::<Vec<_>>().join(", ");
    match count.saturating_sub(MAX_LINES_NAMED) {
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

    /// TE22.
    #[test]
    fn te22_one_occurrence_is_replaced_wherever_it_is() {
        assert_eq!(replaced("abc", "a", "x", false), Ok("xbc".into()));
        assert_eq!(replaced("abc", "b", "", false), Ok("ac".into()));
        assert_eq!(replaced("abc", "c", "xyz", false), Ok("abxyz".into()));
        assert_eq!(replaced("héllo 🦀", "🦀", "wörld", false), Ok("héllo wörld".into()));
    }

    /// TE22.
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

    /// TE22.
    #[test]
    fn te22_overlapping_occurrences_are_several() {
        let several = Mismatch::Several { count: 2, lines: "1, 1".into() };
        assert_eq!(replaced("aaa", "aa", "b", false), Err(several));
        assert_eq!(replaced("aaa", "aa", "b", true), Ok("ba".into()));
        assert_eq!(replaced("ééé", "éé", "b", true), Ok("bé".into()));
    }

    /// TE22.
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
