//! Finds the occurrences of a text in a file, and computes the replaced content. Reads the file in pieces, so that
//! its length does not matter, and knows no paths.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use crate::newlines;
use crate::survey::{LineEnds, MAX_PLACES, Occurrences, Utf8};
use crate::windows::Windows;

/// White space around a line that is looked past to find it alike.
const MAX_MARGIN: usize = 4 << 10;

/// A replacement that can be carried out. Keeps no list of all places: there may be millions.
#[derive(Debug)]
pub(crate) struct Replacement {
    old: String,
    new: String,
    count: usize,
    /// The first place.
    first: u64,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// The text does not occur; perhaps it does on this line, but for white space.
    Missing { similar: Option<u64> },
    /// It occurs more than once, and which is meant was not said.
    Several { count: usize, lines: String },
    /// The file is no text from this byte on.
    NotText(u64),
    /// It cannot be read.
    Unreadable(io::Error),
}

/// What one pass found.
struct Found {
    count: usize,
    places: Vec<u64>,
    /// Whether CRLF is meant where LF was written.
    is_crlf: bool,
}

impl From<io::Error> for Mismatch {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Finds what is to be replaced in `file`. Where its lines end in CRLF and those of `old` do not, both `old` and `new`
/// are taken to mean CRLF: models rarely write it.
pub(crate) fn find(
    file: &mut (impl Read + Seek),
    old: &str,
    new: &str,
    all: bool,
) -> Result<Replacement, Mismatch> {
    let adapted = with_crlf(old);
    let Found { count, places, is_crlf } = survey(&mut *file, old, &adapted, all)?;
    let (old, new) = if is_crlf { (adapted, with_crlf(new)) } else { (old.to_owned(), new.to_owned()) };
    match (count, places.first()) {
        (2.., _) if !all => Err(Mismatch::Several { count, lines: name_lines(file, &places, count)? }),
        (1.., Some(first)) => Ok(Replacement { old, new, count, first: *first }),
        _ => Err(Mismatch::Missing { similar: similar_line(file, &old)? }),
    }
}

impl Replacement {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Writes what the file consists of afterwards.
    pub(crate) fn write(&self, file: &mut (impl Read + Seek), out: &mut impl Write) -> io::Result<()> {
        file.rewind()?;
        if self.count > 1 {
            return self.write_all(file, out);
        }
        io::copy(&mut file.take(self.first), out)?;
        out.write_all(self.new.as_bytes())?;
        file.seek(SeekFrom::Start(self.first + self.old.len() as u64))?;
        io::copy(file, out).map(drop)
    }

    fn write_all(&self, file: &mut impl Read, out: &mut impl Write) -> io::Result<()> {
        let mut occurrences = Occurrences::new(&self.old, false);
        let mut windows = Windows::new(file, occurrences.overlap());
        let mut written = 0;
        while let Some(window) = windows.next()? {
            while let Some(place) = occurrences.next(window) {
                out.write_all(window.between(written, place))?;
                out.write_all(self.new.as_bytes())?;
                written = place + self.old.len() as u64;
            }
            // What may begin an occurrence is seen again.
            let overlap = if window.is_last { 0 } else { occurrences.overlap() as u64 };
            let end = window.end().saturating_sub(overlap).max(written);
            out.write_all(window.between(written, end))?;
            written = end;
        }
        Ok(())
    }
}

/// Goes through all of the file once.
fn survey(file: &mut impl Read, old: &str, adapted: &str, all: bool) -> Result<Found, Mismatch> {
    let (mut utf8, mut ends) = <(Utf8, LineEnds)>::default();
    let mut written = Occurrences::new(old, !all);
    // Who writes CR means it.
    let mut with_crlf = (!old.contains('\r') && adapted != old).then(|| Occurrences::new(adapted, !all));
    let overlap =
        written.overlap().max(with_crlf.as_ref().map_or(0, Occurrences::overlap)).max(Utf8::OVERLAP);
    let mut windows = Windows::new(file, overlap);
    while let Some(window) = windows.next()? {
        utf8.look(window);
        if utf8.is_broken {
            return Err(Mismatch::NotText(utf8.valid()));
        }
        ends.look(window);
        written.look(window);
        if let Some(occurrences) = &mut with_crlf {
            occurrences.look(window);
        }
    }
    let is_missing = written.count == 0;
    let is_crlf = match &with_crlf {
        Some(adapted) => ends.is_crlf() || is_missing && adapted.count > 0,
        None => ends.is_crlf() && !old.contains('\r'),
    };
    let meant = with_crlf.filter(|_| is_crlf).unwrap_or(written);
    Ok(Found { count: meant.count, places: meant.places, is_crlf })
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn name_lines(file: &mut (impl Read + Seek), places: &[u64], count: usize) -> io::Result<String> {
    file.rewind()?;
    let mut windows = Windows::new(file, 0);
    let mut places = places.iter().copied().peekable();
    let (mut line, mut lines) = (1, Vec::new());
    while places.peek().is_some()
        && let Some(window) = windows.next()?
    {
        let mut from = window.start;
        while let Some(place) = places.next_if(|place| *place < window.end()) {
            line += newlines::count(window.between(from, place));
            lines.push(line.to_string());
            from = place;
        }
        line += newlines::count(window.from(from));
    }
    let lines = lines.join(", ");
    Ok(match count.saturating_sub(MAX_PLACES) {
        0 => lines,
        more => format!("{lines} and {more} more"),
    })
}

/// The line that is the first line of `old`, but for the white space around it.
fn similar_line(file: &mut (impl Read + Seek), old: &str) -> io::Result<Option<u64>> {
    let Some(sought) = old.lines().map(str::trim).find(|line| !line.is_empty()) else { return Ok(None) };
    file.rewind()?;
    let longest = (sought.len() + MAX_MARGIN) as u64;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut piece = Vec::new();
    let (mut line, mut is_begun) = (1, false);
    loop {
        piece.clear();
        if (&mut reader).take(longest).read_until(b'\n', &mut piece)? == 0 {
            return Ok(None);
        }
        // A line that comes in several pieces is too long.
        let is_whole = !is_begun && (piece.ends_with(b"\n") || (piece.len() as u64) < longest);
        if is_whole && str::from_utf8(&piece).is_ok_and(|piece| piece.trim() == sought) {
            return Ok(Some(line));
        }
        is_begun = !piece.ends_with(b"\n");
        line += u64::from(!is_begun);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The text afterwards, or why there is none.
    fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
        let mut file = Cursor::new(text);
        let found = find(&mut file, old, new, all).map_err(|mismatch| format!("{mismatch:?}"))?;
        let mut out = Vec::new();
        found.write(&mut file, &mut out).unwrap();
        Ok(String::from_utf8(out).unwrap())
    }

    fn failed(mismatch: &Mismatch) -> Result<String, String> {
        Err(format!("{mismatch:?}"))
    }

    /// TE22.
    #[test]
    fn one_occurrence_is_replaced_wherever_it_is() {
        assert_eq!(replaced("abc", "a", "x", false), Ok("xbc".into()));
        assert_eq!(replaced("abc", "b", "", false), Ok("ac".into()));
        assert_eq!(replaced("abc", "c", "xyz", false), Ok("abxyz".into()));
        assert_eq!(replaced("héllo 🦀", "🦀", "wörld", false), Ok("héllo wörld".into()));
    }

    /// TE22.
    #[test]
    fn several_need_replace_all_and_their_lines_are_named() {
        let several = Mismatch::Several { count: 3, lines: "1, 2, 4".into() };
        assert_eq!(replaced("a\na\nb\na", "a", "x", false), failed(&several));
        assert_eq!(replaced("a\na\nb\na", "a", "x", true), Ok("x\nx\nb\nx".into()));
        let lines = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more".into();
        let several = Mismatch::Several { count: 12, lines };
        assert_eq!(replaced(&"a\n".repeat(12), "a", "b", false), failed(&several));
    }

    /// TE22.
    #[test]
    fn overlapping_occurrences_are_several() {
        let several = Mismatch::Several { count: 2, lines: "1, 1".into() };
        assert_eq!(replaced("aaa", "aa", "b", false), failed(&several));
        assert_eq!(replaced("aaa", "aa", "b", true), Ok("ba".into()));
        assert_eq!(replaced("ééé", "éé", "b", true), Ok("bé".into()));
    }

    /// TE22: a long text that repeats itself is not compared at every byte.
    #[test]
    fn overlapping_occurrences_cost_no_more_than_others() {
        let found = replaced(&"a".repeat(100_000), &"a".repeat(1000), "b", false).unwrap_err();
        assert!(found.starts_with("Several { count: 109,"), "{found}");
    }

    /// TE22.
    #[test]
    fn a_text_that_differs_in_white_space_is_pointed_at() {
        assert_eq!(
            replaced("x\n\tfoo();\n", "  foo();\n", "", false),
            failed(&Mismatch::Missing { similar: Some(2) })
        );
        assert_eq!(replaced("x\n", "y", "", false), failed(&Mismatch::Missing { similar: None }));
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

    /// TE22: what one pass over the whole text in memory finds is what is found piece by piece, wherever a border is.
    #[test]
    fn a_piece_ends_anywhere() {
        for shift in [0, 1, 2, 3, 5, 8] {
            let before = "x".repeat((1 << 20) - 4 + shift);
            for (old, new) in [("🦀 é", "ё"), ("é", "🦀🦀"), ("line\nline", "l")] {
                let text = format!("{before}{old}\n{}{old} end", "й\n".repeat(600_000));
                let expected = text.replace(old, new);
                assert!(replaced(&text, old, new, true) == Ok(expected), "{shift} {old}");
                let one = format!("{before}{old}{}", "й\n".repeat(600_000));
                assert!(replaced(&one, old, new, false) == Ok(one.replace(old, new)), "{shift} {old}");
                let lines = format!("1, {}", 600_002 + old.matches('\n').count());
                let several = Mismatch::Several { count: 2, lines };
                assert!(replaced(&text, old, new, false) == failed(&several), "{shift} {old}");
            }
            let crlf = format!("{before}\r\n{before}\r\nlast\r\n");
            assert!(replaced(&crlf, "last\n", "a\nb\n", false).unwrap().ends_with("x\r\na\r\nb\r\n"));
            let mixed = format!("{before}\n{before}\r\nlast\r\n");
            assert!(replaced(&mixed, "last", "a\nb", false).unwrap().ends_with("x\r\na\nb\r\n"));
        }
    }

    /// TE22: a text longer than a piece.
    #[test]
    fn what_is_replaced_may_be_longer_than_a_piece() {
        let old = "ab".repeat(1 << 20);
        for shift in 0..3 {
            let text = "c".repeat(shift) + &old + "d";
            assert!(replaced(&text, &old, "", false) == Ok("c".repeat(shift) + "d"));
        }
    }

    #[test]
    fn what_is_no_text_is_told_by_its_place() {
        for broken in [&b"\xff"[..], b"\xf0\x9f\xa6", b"\xe2\x82x"] {
            for before in ["", "é", &"y".repeat((1 << 20) - 1)] {
                let bytes = [before.as_bytes(), broken].concat();
                let found = find(&mut Cursor::new(bytes), "y", "z", true);
                assert!(matches!(found, Err(Mismatch::NotText(place)) if place == before.len() as u64));
            }
        }
    }
}
