//! Masks secrets in responses with `*` for each byte, also if a secret arrives in pieces. Holds back only bytes
//! that may be the beginning of a secret.

use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hyper::body::Bytes;

use haft_core::secret::encodings_of;

/// Finds some secrets, in upper and lower case, in every encoding that haft knows.
pub(super) struct Mask {
    finder: AhoCorasick,
    patterns: Vec<Vec<u8>>,
}

impl Mask {
    /// Returns `None` if the secrets are too many or too long for a search automaton.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a str>) -> Option<Self> {
        let patterns: BTreeSet<String> = secrets.flat_map(encodings_of).collect();
        let patterns: Vec<Vec<u8>> = patterns.into_iter().map(String::into_bytes).collect();
        let finder = AhoCorasick::builder().ascii_case_insensitive(true).build(&patterns).ok()?;
        Some(Self { finder, patterns })
    }

    /// Returns `text` without the secrets; `None` if it contains none.
    pub(super) fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut hidden = text.to_vec();
        let end = self.cover(text, &mut hidden);
        (end > 0).then_some(hidden)
    }

    /// Writes `*` over all secrets of `text` to `covered`. Returns the end of the last secret; 0 without a
    /// secret.
    fn cover(&self, text: &[u8], covered: &mut [u8]) -> usize {
        let mut last = 0;
        for found in self.finder.find_overlapping_iter(text) {
            if let Some(secret) = covered.get_mut(found.range()) {
                secret.fill(b'*');
            }
            last = last.max(found.end());
        }
        last
    }

    /// Returns the number of last bytes of `text` that may be the beginning of a secret.
    fn open_end(&self, text: &[u8]) -> usize {
        let open = |pattern: &Vec<u8>| {
            let longest = text.len().min(pattern.len().saturating_sub(1));
            (1..=longest).rev().find(|length| {
                let end = text.get(text.len() - length..);
                end.zip(pattern.get(..*length)).is_some_and(|(end, start)| end.eq_ignore_ascii_case(start))
            })
        };
        self.patterns.iter().filter_map(open).max().unwrap_or(0)
    }
}

pub(super) struct Masker {
    mask: Option<Arc<Mask>>,
    /// The possible beginning of a secret, unmodified.
    pending: Vec<u8>,
    /// The number of pending bytes that end a secret whose beginning was passed on.
    covered: usize,
}

impl Masker {
    /// Without a mask, passes everything on unmodified.
    pub(super) fn new(mask: Option<Arc<Mask>>) -> Self {
        Self { mask, pending: Vec::new(), covered: 0 }
    }

    /// Returns the bytes that may be passed on after `piece`; possibly none.
    pub(super) fn next(&mut self, piece: Bytes) -> Bytes {
        let Some(mask) = self.mask.clone() else { return piece };
        let mut text = std::mem::take(&mut self.pending);
        text.extend_from_slice(&piece);
        let open = mask.open_end(&text);
        self.pass(&mask, text, open)
    }

    /// Returns the remaining held bytes, at the end of the response.
    pub(super) fn end(&mut self) -> Bytes {
        let Some(mask) = self.mask.clone() else { return Bytes::new() };
        let text = std::mem::take(&mut self.pending);
        self.pass(&mask, text, 0)
    }

    fn pass(&mut self, mask: &Mask, mut text: Vec<u8>, open: usize) -> Bytes {
        let mut shown = text.clone();
        let end = mask.cover(&text, &mut shown).max(self.covered);
        if let Some(rest) = shown.get_mut(..self.covered) {
            rest.fill(b'*');
        }
        let cut = text.len() - open;
        self.pending = text.split_off(cut);
        self.covered = end.saturating_sub(cut);
        shown.truncate(cut);
        shown.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mask(secrets: &[&str]) -> Arc<Mask> {
        Arc::new(Mask::new(secrets.iter().copied()).unwrap())
    }

    fn in_pieces(mask: &Arc<Mask>, pieces: &[&str]) -> String {
        let mut masker = Masker::new(Some(mask.clone()));
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&masker.next(Bytes::copy_from_slice(piece.as_bytes())));
        }
        out.extend_from_slice(&masker.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn secrets_are_found_in_every_form_and_across_pieces() {
        let mask = mask(&["ab/c+d\"e="]);
        for (pieces, expected) in [
            (&["x ab/c+d\"e= y"][..], "x ********* y"),
            (&["AB/C+D\"E="], "*********"),
            (&["\"ab/c+d\\\"e=\""], "\"**********\""),
            (&["\"ab\\/c+d\\\"e=\""], "\"***********\""),
            (&["?k=ab%2Fc%2bd%22e%3D&"], "?k=*****************&"),
            (&["61622f632b64", "22653d"], "******************"),
            (&["x ab/", "c+d", "\"e", "= y"], "x ********* y"),
            (&["x a", "b/c+d\"e="], "x *********"),
            (&["ab/c+d\"e"], "ab/c+d\"e"),
            (&["ab/c+d", "ab/c+d\"e="], "ab/c+d*********"),
            (&[], ""),
        ] {
            assert_eq!(in_pieces(&mask, pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn secrets_that_overlap_are_all_hidden() {
        let mask = mask(&["abab", "babc"]);
        assert_eq!(in_pieces(&mask, &["xabababx"]), "x******x");
        assert_eq!(in_pieces(&mask, &["xab", "ab", "abx"]), "x******x");
        assert_eq!(in_pieces(&mask, &["xabab", "cx"]), "x*****x");
    }

    /// An event of a stream is passed on without waiting for the next event.
    #[test]
    fn what_cannot_be_a_secret_is_not_held_back() {
        let mut masker = Masker::new(Some(mask(&["hunter2hunter2"])));
        assert_eq!(masker.next(Bytes::from_static(b"data: hello\n\n")), "data: hello\n\n");
        assert_eq!(masker.next(Bytes::from_static(b"data: hunt")), "data: ");
        assert_eq!(masker.next(Bytes::from_static(b"ing\n\n")), "hunting\n\n");
        assert!(masker.end().is_empty());
    }

    proptest! {
        /// A text in pieces is masked like the complete text, regardless of the cuts.
        #[test]
        fn pieces_are_masked_as_the_whole(pieces in prop::collection::vec("[ab]{0,6}", 0..12)) {
            let mask = mask(&["aab", "abab", "bb"]);
            let whole = pieces.concat();
            let expected = mask.hide(whole.as_bytes()).map_or(whole.clone(), |hidden| String::from_utf8(hidden).unwrap());
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(in_pieces(&mask, &pieces), expected);
        }
    }
}
