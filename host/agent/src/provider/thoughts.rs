//! Separates the thinking of a model from its text if the server does not: thinking in the text stands between two
//! tags. Models write the tags at the start of a turn; the opening tag may be in the prompt already.

/// A visible piece of a streamed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thought(String),
}

/// The opening and closing tags in the templates of models.
const MARKS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
];

/// Returns `text` without the thinking before it.
pub(super) fn said(text: &str) -> &str {
    let mut rest = text;
    while let Some((_, last)) = begins(rest) {
        rest = rest.split_once(last).map_or("", |(_, after)| after).trim_start();
    }
    // The opening tag was in the prompt: the closing tag is on a separate line.
    let lone = MARKS.iter().find_map(|(first, last)| {
        let (before, after) = rest.split_once(&format!("{last}\n"))?;
        (!before.contains(first) && (before.is_empty() || before.ends_with('\n'))).then(|| after.trim_start())
    });
    lone.unwrap_or(rest)
}

/// Returns the tags of a text that begins with an opening tag.
fn begins(text: &str) -> Option<(&'static str, &'static str)> {
    let text = text.trim_start();
    MARKS.iter().find(|(first, _)| text.starts_with(first)).copied()
}

/// Separates thinking from a text that arrives in pieces. Withholds at most the length of a tag, and the whitespace
/// before the first word.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    held: String,
    place: Place,
}

/// The position in the text.
#[derive(Debug, Default, PartialEq)]
enum Place {
    /// Before the first word.
    #[default]
    Start,
    /// Inside thinking that ends with this tag.
    Thinking(&'static str),
    /// Between thinking and the first word.
    Between,
    /// After all thinking.
    Saying,
}

impl Thoughts {
    /// Appends the visible pieces of the next piece of the text.
    pub(super) fn take(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.held.push_str(text);
        loop {
            match self.place {
                Place::Saying => {
                    pieces.push(Piece::Text(std::mem::take(&mut self.held)));
                    return;
                }
                Place::Thinking(last) => {
                    let Some((thought, after)) = self.held.split_once(last) else {
                        let kept = ends_in_part(&self.held, last);
                        let rest = self.held.split_off(self.held.len() - kept);
                        pieces.push(Piece::Thought(std::mem::replace(&mut self.held, rest)));
                        return;
                    };
                    pieces.push(Piece::Thought(thought.to_owned()));
                    (self.held, self.place) = (after.to_owned(), Place::Between);
                }
                Place::Start | Place::Between => {
                    let text = self.held.trim_start();
                    if let Some((first, last)) = begins(text) {
                        self.held = text.strip_prefix(first).unwrap_or_default().to_owned();
                        self.place = Place::Thinking(last);
                    } else if MARKS.iter().any(|(first, _)| first.starts_with(text)) {
                        return;
                    } else {
                        self.held = self.rest();
                        self.place = Place::Saying;
                    }
                }
            }
        }
    }

    /// Returns the withheld rest at the end of the text.
    pub(super) fn finish(&mut self) -> Piece {
        let rest = self.rest();
        if matches!(self.place, Place::Thinking(_)) { Piece::Thought(rest) } else { Piece::Text(rest) }
    }

    /// Returns the withheld text, without the whitespace after thinking.
    fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.place == Place::Between { held.trim_start().to_owned() } else { held }
    }
}

/// Returns the number of bytes at the end of `text` that may be the beginning of `mark`.
fn ends_in_part(text: &str, mark: &str) -> usize {
    let parts = mark.char_indices().rev().map(|(at, _)| at).filter_map(|at| mark.get(..at));
    parts.map(str::len).find(|len| mark.get(..*len).is_some_and(|part| text.ends_with(part))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (A17): a text, its visible part, and its thinking.
    const TEXTS: &[(&str, &str, &str)] = &[
        ("<think>\nfour, I guess\n</think>\n\n4", "4", "\nfour, I guess\n"),
        ("\n <think>a</think><think>b</think> c", "c", "ab"),
        ("[THINK]a[/THINK]b", "b", "a"),
        ("<thinking>never closed", "", "never closed"),
        ("The mark is </think>, I think.", "The mark is </think>, I think.", ""),
        ("<thing>", "<thing>", ""),
        ("<thin", "<thin", ""),
        ("  plain", "  plain", ""),
        ("◁think▷ä◁/think▷ö", "ö", "ä"),
    ];

    #[test]
    fn what_is_thought_is_told_from_what_is_said_however_it_is_cut() {
        for (text, expected, thought) in TEXTS {
            assert_eq!(said(text), *expected, "{text}");
            for size in [1, 2, 3, 100] {
                let (mut thoughts, mut pieces) = (Thoughts::default(), Vec::new());
                let letters: Vec<char> = text.chars().collect();
                for piece in letters.chunks(size) {
                    thoughts.take(&piece.iter().collect::<String>(), &mut pieces);
                }
                pieces.push(thoughts.finish());
                let (mut words, mut hidden) = (String::new(), String::new());
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => words.push_str(&text),
                        Piece::Thought(text) => hidden.push_str(&text),
                    }
                }
                assert_eq!((words.as_str(), hidden.as_str()), (*expected, *thought), "{text} by {size}");
            }
        }
        assert_eq!(said("hm, four\n</think>\n\n4"), "4");
    }
}
