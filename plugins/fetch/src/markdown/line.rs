//! Builds a paragraph: collapses white space as browsers do, and puts marks such as `**` only around non-empty
//! text. Knows no nodes.

/// A paragraph in the making.
#[derive(Default)]
pub(super) struct Line {
    text: String,
    /// Whether white space came last.
    space: bool,
    /// Whether white space came first.
    led: bool,
    /// Marks that begin with the next character.
    opening: Vec<&'static str>,
}

impl Line {
    /// Adds characters of the page.
    pub(super) fn text(&mut self, characters: &str) {
        for character in characters.chars() {
            if character.is_whitespace() {
                self.space();
            } else if !is_invisible(character) {
                self.make_ready();
                self.text.push(character);
            }
        }
    }

    /// Adds what must stay as it is.
    pub(super) fn verbatim(&mut self, text: &str) {
        if !text.is_empty() {
            self.make_ready();
            self.text.push_str(text);
        }
    }

    /// Adds white space.
    pub(super) fn space(&mut self) {
        self.led |= self.text.is_empty();
        self.space = true;
    }

    /// Begins a new line.
    pub(super) fn break_line(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.space = false;
    }

    /// Begins what is marked.
    pub(super) fn open(&mut self, mark: &'static str) {
        self.opening.push(mark);
    }

    /// Ends what was marked last.
    pub(super) fn close(&mut self, mark: &'static str) {
        if self.opening.pop().is_none() {
            // Marks belong to the words, not to the end of their line.
            let end = self.text.trim_end_matches('\n').len();
            self.text.insert_str(end, mark);
        }
    }

    /// Adds another line as one piece, put into words by `wrap`; nothing when it is empty.
    pub(super) fn piece(&mut self, inner: Self, wrap: impl FnOnce(String) -> String) {
        let (led, trailed) = (inner.led, inner.space);
        let text = inner.finish();
        if led {
            self.space();
        }
        if !text.is_empty() {
            self.verbatim(&wrap(text));
        }
        if trailed {
            self.space();
        }
    }

    /// The text, without white space around it.
    pub(super) fn finish(self) -> String {
        let trimmed = self.text.trim_end().len();
        let mut text = self.text;
        text.truncate(trimmed);
        text
    }

    /// The text as one line.
    pub(super) fn finish_flat(self) -> String {
        self.finish().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn make_ready(&mut self) {
        if self.space && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.space = false;
        for mark in self.opening.drain(..) {
            self.text.push_str(mark);
        }
    }
}

/// Soft hyphens, zero-width spaces and joiners' marks: they say where a line may be broken.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}')
}
