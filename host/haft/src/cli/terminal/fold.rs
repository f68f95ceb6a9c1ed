//! The first lines of long texts, and the lines that a call replaces.

use super::{ADDED, DIM, FAILED, Style};
use haft_core::report::shortened;
use haft_core::tool::Difference;

/// A line that can be left out.
const LEAST: usize = 2;

/// The first `most` lines of a text, each of at most so many characters, and how many there are besides. A single line more
/// is shown too: it takes no more room than what would be said of it.
pub(in crate::cli) fn first_lines(text: &str, most: usize, characters: usize) -> (Vec<String>, usize) {
    let text = text.trim_end();
    let count = text.lines().count();
    let shown = if count < most.saturating_add(LEAST) { count } else { most };
    (text.lines().take(shown).map(|line| shortened(line, characters)).collect(), count - shown)
}

/// The lines of a difference as they are to be seen.
pub(in crate::cli) fn changed(difference: &Difference) -> Vec<String> {
    let line = |(mark, line): &(char, String)| {
        let style = match mark {
            '+' => ADDED,
            '-' => FAILED,
            ' ' => Style::new(),
            _ => DIM,
        };
        format!("{style}{mark} {line}{style:#}")
    };
    let cut = difference.is_cut.then(|| format!("{DIM}… (the difference has more than is shown){DIM:#}"));
    difference.lines.iter().map(line).chain(cut).collect()
}

/// Says how many lines are left out, and what shows them.
pub(in crate::cli) fn more_lines(count: usize, how: &str) -> String {
    format!("{DIM}… {count} more lines ({how}){DIM:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u3_of_a_long_text_the_first_lines_are_shown() {
        let text = |lines: usize| "abc\n".repeat(lines);
        assert_eq!(
            first_lines(&text(3), 2, 2),
            (vec!["ab…".to_owned(); 3], 0),
            "one more takes no more room"
        );
        assert_eq!(first_lines(&text(4), 2, 9), (vec!["abc".to_owned(); 2], 2));
        assert_eq!(first_lines("", 2, 9), (vec![], 0));
    }
}
