//! Renders Markdown in a terminal while it arrives in pieces. Holds back only a possible beginning of a mark, and
//! does not change code blocks.

use super::style::{CODE, DIM, HEAD, ITALIC, Style, TITLE, reset};

/// Maximum characters that decide the kind of a line. No mark is longer.
const MAX_MARK: usize = 12;

/// A renderer of text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The beginning of a line of unknown kind.
    start: String,
    /// Whether the kind of the line is known.
    inside: bool,
    /// Whether the line is in a block of code.
    fenced: bool,
    kind: Kind,
    span: Span,
    /// A star or a backslash whose meaning depends on the next character.
    pending: Option<char>,
    last: Option<char>,
}

/// The styles of a text within a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    bold: bool,
    italic: bool,
    code: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Text,
    Heading,
    /// The line that begins or ends a block of code.
    Fence,
    Code,
    Quote,
}

/// Returns a complete text, with styles if standard output is a terminal.
pub(in crate::cli) fn rendered(text: &str) -> String {
    if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return text.to_owned();
    }
    let mut markdown = Markdown::default();
    let mut out = markdown.push(text);
    out += &markdown.finish();
    out
}

impl Markdown {
    /// Returns the text to display after `piece` has arrived.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.character(c, &mut out);
        }
        out
    }

    /// Ends the text, and returns its rest and the end of every style.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.begin_line(&mut out);
        self.end_line(&mut out);
        *self = Self::default();
        out
    }

    fn character(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.begin_line(out);
            self.end_line(out);
            out.push('\n');
        } else if self.inside {
            self.print_char(c, out);
        } else {
            self.start.push(c);
            if self.is_decided() {
                self.begin_line(out);
            }
        }
    }

    /// Returns whether the kind of the line is known.
    fn is_decided(&self) -> bool {
        let mark = self.start.trim_start();
        if mark.is_empty() || "```".starts_with(mark) {
            return self.start.chars().count() > MAX_MARK;
        }
        let is_mark = !self.fenced && mark.chars().all(|c| matches!(c, '#' | '-' | '*' | '+' | '>'));
        !is_mark || self.start.chars().count() > MAX_MARK
    }

    /// Displays the beginning of the line according to its kind.
    fn begin_line(&mut self, out: &mut String) {
        if self.inside {
            return;
        }
        self.inside = true;
        let start = std::mem::take(&mut self.start);
        let mark = start.trim_start();
        let indent = start.get(..start.len() - mark.len()).unwrap_or_default();
        let (kind, prefix, rest) = kind(mark, self.fenced);
        self.kind = kind;
        if kind == Kind::Fence {
            self.fenced = !self.fenced;
        }
        out.push_str(indent);
        out.extend(style(kind).map(|style| style.to_string()));
        out.push_str(prefix);
        for c in rest.chars() {
            self.print_char(c, out);
        }
    }

    fn end_line(&mut self, out: &mut String) {
        self.resolve(None, out);
        if self.span != Span::default() || self.kind != Kind::Text {
            out.push_str(&reset());
        }
        let fenced = self.fenced;
        *self = Self { fenced, ..Self::default() };
    }

    /// Displays a character within a line.
    fn print_char(&mut self, c: char, out: &mut String) {
        if matches!(self.kind, Kind::Fence | Kind::Code) {
            out.push(c);
            return;
        }
        if self.resolve(Some(c), out) {
            return;
        }
        match c {
            '`' => {
                self.span.code = !self.span.code;
                self.restyle(out);
            }
            '*' | '\\' if !self.span.code => self.pending = Some(c),
            c => self.plain(c, out),
        }
    }

    /// Decides the meaning of a pending character from `next`. Returns whether `next` is part of it.
    fn resolve(&mut self, next: Option<char>, out: &mut String) -> bool {
        let Some(held) = self.pending.take() else { return false };
        match (held, next) {
            ('*', Some('*')) => {
                self.span.bold = !self.span.bold;
                self.restyle(out);
                true
            }
            ('*', next) => {
                let opens = !self.span.italic && next.is_some_and(|c| !c.is_whitespace());
                let closes = self.span.italic && self.last.is_some_and(|c| !c.is_whitespace());
                if opens || closes {
                    self.span.italic = opens;
                    self.restyle(out);
                } else {
                    self.plain('*', out);
                }
                false
            }
            (_, Some(c)) if c.is_ascii_punctuation() => {
                self.plain(c, out);
                true
            }
            (held, _) => {
                self.plain(held, out);
                false
            }
        }
    }

    fn plain(&mut self, c: char, out: &mut String) {
        self.last = Some(c);
        out.push(c);
    }

    /// Sets the styles for the following text.
    fn restyle(&self, out: &mut String) {
        out.push_str(&reset());
        let own = [(self.span.bold, HEAD), (self.span.italic, ITALIC), (self.span.code, CODE)];
        let styles = own.into_iter().filter_map(|(is_on, style)| is_on.then_some(style));
        for style in style(self.kind).into_iter().chain(styles) {
            out.push_str(&style.to_string());
        }
    }
}

fn style(kind: Kind) -> Option<Style> {
    match kind {
        Kind::Heading => Some(TITLE),
        Kind::Fence | Kind::Quote => Some(DIM),
        Kind::Code => Some(CODE),
        Kind::Text => None,
    }
}

/// Returns the kind of a line that begins with `mark`, the replacement of the mark, and the text after the mark.
fn kind(mark: &str, fenced: bool) -> (Kind, &'static str, &str) {
    if mark.starts_with("```") {
        return (Kind::Fence, "", mark);
    }
    if fenced {
        return (Kind::Code, "", mark);
    }
    let heading = mark.trim_start_matches('#');
    let depth = mark.len() - heading.len();
    match (heading.strip_prefix(' '), mark.strip_prefix("> ")) {
        (Some(rest), _) if (1..=6).contains(&depth) => return (Kind::Heading, "", rest),
        (_, Some(rest)) => return (Kind::Quote, "│ ", rest),
        _ => {}
    }
    let item = ["- ", "* ", "+ "].into_iter().find_map(|bullet| mark.strip_prefix(bullet));
    item.map_or((Kind::Text, "", mark), |rest| (Kind::Text, "• ", rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> String {
        let mut markdown = Markdown::default();
        let mut out = markdown.push(text);
        out += &markdown.finish();
        out
    }

    /// Returns the text without styles.
    fn plain(text: &str) -> String {
        super::super::style::written(&whole(text), false)
    }

    #[test]
    fn marks_become_styles() {
        let bold = HEAD.to_string();
        let reset = reset();
        assert_eq!(whole("a **b** c"), format!("a {reset}{bold}b{reset} c"));
        assert_eq!(plain("# Title\n\n- one\n  * two\n> said\n"), "Title\n\n• one\n  • two\n│ said\n");
        assert_eq!(plain("*so* `a*b` \\*x\\* 2 * 3 snake_case a*"), "so a*b *x* 2 * 3 snake_case a*");
        assert_eq!(plain("#tag -x 1. one"), "#tag -x 1. one");
        assert_eq!(plain("-"), "-");
    }

    #[test]
    fn code_is_left_as_it_is() {
        let text = "```sh\n# no title\n- **x** \\*\n  ```\nafter";
        assert_eq!(plain(text), text);
        assert!(whole(text).contains(&CODE.to_string()));
    }

    #[test]
    fn text_is_shown_as_it_arrives() {
        let mut markdown = Markdown::default();
        assert_eq!(markdown.push("Hel"), "Hel");
        assert_eq!(markdown.push("lo *"), "lo ");
        assert_eq!(markdown.push(" you"), "* you");
        assert_eq!(markdown.push("\n-"), "\n");
        assert_eq!(markdown.push(" x"), "• x");
    }

    proptest! {
        /// The division into pieces does not change the output.
        #[test]
        fn pieces_make_the_same_as_the_whole(pieces in prop::collection::vec("[-a-c*`#>\\\\\n ]{0,5}", 0..12)) {
            let mut markdown = Markdown::default();
            let mut out: String = pieces.iter().map(|piece| markdown.push(piece)).collect();
            out += &markdown.finish();
            prop_assert_eq!(out, whole(&pieces.concat()));
        }
    }
}
