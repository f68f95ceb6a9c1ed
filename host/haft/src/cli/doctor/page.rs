//! How a diagnosis looks: sections of lines, each with a mark, a name and what there is to say. It
//! refuses to know what any of it means.

use std::fmt::Write;

use crate::cli::terminal::{Column, DIM, ERROR, GOOD, HEAD, HINT, Style, WARNING};

/// Lines that belong together.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) lines: Vec<Line>,
}

/// One thing that was looked at.
pub(super) struct Line {
    mark: Mark,
    name: String,
    text: String,
    more: Vec<String>,
    hints: Vec<String>,
}

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// As it should be.
    Good,
    /// Not there, and not needed.
    Absent,
    /// Less than it could be.
    Warning,
    /// In the way of working.
    Bad,
}

impl Mark {
    fn symbol(self) -> (char, Style) {
        match self {
            Self::Good => ('✓', GOOD),
            Self::Absent => ('–', DIM),
            Self::Warning => ('!', WARNING),
            Self::Bad => ('✗', ERROR),
        }
    }
}

impl Line {
    pub(super) fn new(mark: Mark, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { mark, name: name.into(), text: text.into(), more: Vec::new(), hints: Vec::new() }
    }

    /// The same with another mark.
    pub(super) fn marked(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// Adds lines below.
    pub(super) fn more(mut self, more: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.more.extend(more.into_iter().map(Into::into));
        self
    }

    /// Adds what can be done about it.
    pub(super) fn hint(mut self, hints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hints.extend(hints.into_iter().map(Into::into));
        self
    }
}

/// The page, with colours, which the terminal leaves out where there are none.
pub(super) fn render(title: &str, sections: &[Section]) -> String {
    let names = sections.iter().flat_map(|section| &section.lines).map(|line| line.name.chars().count());
    let width = names.max().unwrap_or_default();
    let mut page = format!("{HEAD}{title}{HEAD:#}\n");
    for section in sections.iter().filter(|section| !section.lines.is_empty()) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "\n{HEAD}{}{HEAD:#}", section.title);
        section.lines.iter().for_each(|line| write_line(&mut page, line, width));
    }
    page
}

fn write_line(page: &mut String, line: &Line, width: usize) {
    let (mark, style) = line.mark.symbol();
    let text = if line.mark == Mark::Absent { DIM } else { Style::new() };
    let _ =
        writeln!(page, "  {style}{mark}{style:#} {:width$}  {Column}{text}{}{text:#}", line.name, line.text);
    let indent = width + 6;
    for more in &line.more {
        let _ = writeln!(page, "{:indent$}{Column}{more}", "");
    }
    for hint in &line.hints {
        let _ = writeln!(page, "{:indent$}{Column}{HINT}hint:{HINT:#} {hint}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_a_column_and_empty_sections_are_left_out() {
        let wide = Line::new(Mark::Bad, "größer", "b").more(["c"]).hint(["d"]);
        let sections = [
            Section { title: "One", lines: vec![Line::new(Mark::Good, "x", "a"), wide] },
            Section { title: "Two", lines: Vec::new() },
        ];
        let page = crate::cli::terminal::written(&render("haft", &sections), false);
        assert_eq!(page, "haft\n\nOne\n  ✓ x       a\n  ✗ größer  b\n            c\n            hint: d\n");
    }
}
