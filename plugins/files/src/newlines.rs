//! Counts line ends in bytes, eight at a time: in a guest the standard library has nothing as fast.

/// As many bytes as are looked at together.
const WORD: usize = 8;

/// How many line ends there are.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<WORD>();
    let whole: u32 = words.iter().map(|word| in_word(u64::from_ne_bytes(*word))).sum();
    let rest: u64 = rest.iter().map(|byte| u64::from(*byte == b'\n')).sum();
    u64::from(whole) + rest
}

/// Passes over the first `lines` lines, or all there are; how many ended, and how many bytes they have.
pub(crate) fn pass(bytes: &[u8], lines: u64) -> (u64, usize) {
    let ends = count(bytes);
    if ends < lines {
        return (ends, bytes.len());
    }
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let last = usize::try_from(lines - 1).ok().and_then(|before| ends.nth(before));
    (lines, last.map_or(bytes.len(), |(index, _)| index + 1))
}

/// How many of eight bytes are line ends. The high bit of a byte stays clear where the others, taken from those of a line
/// end, are all zero.
fn in_word(word: u64) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differs = word ^ u64::from_ne_bytes([b'\n'; WORD]);
    let others = (differs & LOW) + LOW;
    (!(others | differs | LOW)).count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_counts_wherever_it_is() {
        let bytes: Vec<u8> = (0..=255).chain([10, 10, 138, 0, 11, 9, 10, 255, 10]).collect();
        for from in 0..bytes.len() {
            for to in from..bytes.len() {
                let part = &bytes[from..to];
                assert_eq!(count(part), part.split(|byte| *byte == 10).count() as u64 - 1);
            }
        }
    }

    #[test]
    fn lines_are_passed_over() {
        let text = b"one\ntwo\n\nfour and more\nfive";
        assert_eq!(pass(text, 1), (1, 4));
        assert_eq!(pass(text, 3), (3, 9));
        assert_eq!(pass(text, 4), (4, 23));
        assert_eq!(pass(text, 5), (4, text.len()));
        assert_eq!(pass(b"", 5), (0, 0));
    }
}
