//! Problems as shown to a person: the error, its place and a hint. Renders only: does not decide which reports
//! exist or where a report goes.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};
use anstyle::{AnsiColor, Style};

/// The maximum number of shown problems: corrections of the first ones often correct the others.
const MAX_SHOWN: usize = 50;

/// A range of bytes in a [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A text that problems refer to, with its name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The offsets of the lines after the first.
    lines: Arc<[usize]>,
}

impl Source {
    /// Returns the complete text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Creates a source. `name` is shown before line numbers, usually a path as the user wrote it.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let lines = text.match_indices('\n').map(|(newline, _)| newline + 1).collect();
        Self { name: name.into(), text, lines }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the line and the column of the start of `span`, in characters, both from 1.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line = self.lines.partition_point(|start| *start <= before.len());
        let start = line.checked_sub(1).and_then(|above| self.lines.get(above)).copied().unwrap_or(0);
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        (line + 1, column)
    }

    /// Returns the place in the form `program.toml:6:10`.
    pub fn place(&self, span: Span) -> String {
        let (line, column) = self.position(span);
        format!("{}:{line}:{column}", self.name)
    }

    /// Replaces every character inside `spans` by `*`, so that no snippet shows it. Offsets stay valid.
    #[must_use]
    pub fn masked(&self, spans: &[Span]) -> Self {
        if spans.is_empty() {
            return self.clone();
        }
        let mut hidden = vec![false; self.text.len()];
        for span in spans {
            let end = span.end.min(hidden.len());
            hidden.get_mut(span.start..end).unwrap_or_default().fill(true);
        }
        let mut text = String::with_capacity(self.text.len());
        for (at, character) in self.text.char_indices() {
            if hidden.get(at) == Some(&true) && !matches!(character, '\n' | '\r') {
                text.extend(std::iter::repeat_n('*', character.len_utf8()));
            } else {
                text.push(character);
            }
        }
        Self { name: self.name.clone(), text: text.into(), lines: self.lines.clone() }
    }
}

/// A problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    message: String,
    place: Option<Mark>,
    related: Vec<Mark>,
    hints: Vec<String>,
    is_warning: bool,
}

/// A place with its label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    span: Span,
    label: String,
}

impl Problem {
    /// Creates a problem without a place. `message` is lower case, without a final period.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Sets the place, and in `label` the error there.
    #[must_use]
    pub fn at(mut self, span: Span, label: impl Into<String>) -> Self {
        self.place = Some(Mark { span, label: label.into() });
        self
    }

    /// Removes the place, of a value that is not in the file.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self { place: None, ..self }
    }

    /// Adds a second place that explains the problem.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push(Mark { span, label: label.into() });
        self
    }

    /// Adds a hint, printed as a line `hint: …`.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Turns the problem into a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.is_warning = true;
        self
    }

    /// Returns whether the problem is a warning.
    pub fn is_warning(&self) -> bool {
        self.is_warning
    }

    /// Returns the message, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the place, if there is one.
    pub fn span(&self) -> Option<Span> {
        self.place.as_ref().map(|mark| mark.span)
    }

    /// Returns the hints.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    fn render(&self, source: Option<&Source>, renderer: &Renderer, hint_style: Style) -> String {
        let group = match (source, &self.place) {
            (Some(source), Some(place)) => {
                Level::ERROR.primary_title(&self.message).element(self.snippet(source, place))
            }
            _ => Group::with_title(Level::ERROR.primary_title(self.to_string())),
        };
        let mut text = renderer.render(&[group]);
        for hint in &self.hints {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n{hint_style}hint{hint_style:#}: {}", normalize_untrusted_str(hint));
        }
        text
    }

    fn snippet<'a>(
        &self,
        source: &'a Source,
        place: &Mark,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let mark = |kind: AnnotationKind, mark: &Mark| {
            let end = mark.span.end.min(source.text.len());
            kind.span(mark.span.start.min(end)..end).label(normalize_untrusted_str(&mark.label))
        };
        Snippet::source(&*source.text)
            .path(normalize_untrusted_str(&source.name))
            .annotation(mark(AnnotationKind::Primary, place))
            .annotations(self.related.iter().map(|other| mark(AnnotationKind::Context, other)))
    }
}

/// Writes `message: label` on one line, without the place.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.place {
            Some(Mark { label, .. }) if !label.is_empty() => write!(f, ": {label}"),
            _ => Ok(()),
        }
    }
}

/// All problems of one source, in the order of their places.
#[derive(Clone, Debug)]
pub struct Report {
    source: Option<Source>,
    problems: Vec<Problem>,
}

impl Report {
    /// Creates a report of problems without a source.
    pub fn new(problems: Vec<Problem>) -> Self {
        Self { source: None, problems }
    }

    /// Creates a report of problems in `source`.
    pub fn with_source(source: Source, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(Problem::span);
        Self { source: Some(source), problems }
    }

    /// Returns the problems; never empty in a report that is an error.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the place of a problem in the form `program.toml:6:10`; `None` without a place.
    pub fn place(&self, problem: &Problem) -> Option<String> {
        Some(self.source.as_ref()?.place(problem.span()?))
    }

    /// Renders the report with ANSI colours, the only escape sequences in it. Lines of the source are cut to
    /// `width` columns, if given.
    pub fn styled(&self, width: Option<usize>) -> String {
        let renderer = width.map_or_else(Renderer::styled, |width| Renderer::styled().term_width(width));
        self.render(&renderer, AnsiColor::BrightCyan.on_default().bold())
    }

    fn render(&self, renderer: &Renderer, hint_style: Style) -> String {
        let shown = self.problems.iter().take(MAX_SHOWN);
        let mut parts: Vec<String> =
            shown.map(|problem| problem.render(self.source.as_ref(), renderer, hint_style)).collect();
        let hidden = self.problems.len().saturating_sub(MAX_SHOWN);
        if hidden > 0 {
            parts.push(format!("{hidden} more problems are not shown"));
        }
        parts.join("\n\n")
    }
}

impl From<Problem> for Report {
    fn from(problem: Problem) -> Self {
        Self::new(vec![problem])
    }
}

/// Renders the report without colours and without a final newline.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain(), Style::new()))
    }
}

impl std::error::Error for Report {}

/// Returns the candidate most similar to `name`, if a third of the letters or fewer differ (one letter in a short
/// name).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let reach = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Replaces the hidden characters of an outside text, which could control a terminal or disguise the text: control
/// characters, directional marks and invisible characters.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns `text` as one item of a line that is compared with an agreed one. Quotes it, as for a shell, if it could be
/// taken for several items or for a variable.
pub fn item(text: &str) -> Cow<'_, str> {
    if text.contains([' ', '\'', '$']) { shell_words::quote(text) } else { text.into() }
}

/// Returns the first `characters` of a text, and `…` in place of the rest.
pub fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Escapes the end tag of the block `tag` in a text inside that block.
pub fn enclosed(text: &str, tag: &str) -> String {
    let end = format!("</{tag}");
    let lower = text.to_ascii_lowercase();
    let (mut escaped, mut from) = (String::with_capacity(text.len()), 0);
    for (at, _) in lower.match_indices(&end) {
        escaped.push_str(text.get(from..at).unwrap_or_default());
        escaped.push_str("<\\");
        from = at + 1;
    }
    escaped.push_str(text.get(from..).unwrap_or_default());
    escaped
}

/// Returns whether a character controls a terminal or is invisible: control characters, directional marks,
/// zero-width characters, and variation selectors and tags that can spell hidden text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fdd0}'..='\u{fdef}'
                | '\u{fe00}'..='\u{fe0d}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CL04: outside text moves no cursor and hides nothing.
    #[test]
    fn plain_text_has_nothing_to_obey() {
        assert_eq!(plain("größe\u{301} 字 ok"), "größe\u{301} 字 ok");
        assert_eq!(plain("a\u{1b}[2Jb\nc\td\u{9b}e"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e");
        assert_eq!(plain("\u{202e}x\u{2066}y\u{200b}z\u{e0041}"), "\u{fffd}x\u{fffd}y\u{fffd}z\u{fffd}");
    }

    fn source() -> Source {
        Source::new("a.toml", "first = 1\nsäcond = \"two\"\n")
    }

    #[test]
    fn a_problem_points_at_its_place() {
        let problem =
            Problem::new("invalid `säcond`").at((20..25).into(), "expected a number").hint("write `2`");
        let report = Report::with_source(source(), vec![problem]);
        let expected = "\
error: invalid `säcond`
 --> a.toml:2:10
  |
2 | säcond = \"two\"
  |          ^^^^^ expected a number
hint: write `2`";
        assert_eq!(report.to_string(), expected);
        assert_eq!(source().place((20..25).into()), "a.toml:2:10");
    }

    #[test]
    fn without_a_source_the_label_joins_the_message() {
        let problem = Problem::new("cannot read `x`").at((0..0).into(), "not there").hint("run `haft init`");
        assert_eq!(
            Report::from(problem).to_string(),
            "error: cannot read `x`: not there\nhint: run `haft init`"
        );
    }

    #[test]
    fn problems_come_in_the_order_of_the_source() {
        let problem = |at: usize| Problem::new(format!("at {at}")).at((at..at).into(), "");
        let report = Report::with_source(source(), vec![problem(10), problem(0)]);
        let messages: Vec<_> = report.problems().iter().map(Problem::message).collect();
        assert_eq!(messages, ["at 0", "at 10"]);
    }

    #[test]
    fn only_so_many_are_shown() {
        let report = Report::new(vec![Problem::new("bad"); MAX_SHOWN + 2]);
        assert!(report.to_string().ends_with("\n\n2 more problems are not shown"));
    }

    /// CL04: masked text is in no snippet, and later offsets stay valid.
    #[test]
    fn masked_text_is_not_shown() {
        let masked = Source::new("a", "k = \"sécret\" # x").masked(&[(4..13).into()]);
        let report = Report::with_source(masked, vec![Problem::new("bad").at((4..13).into(), "")]);
        assert!(!report.to_string().contains("cret"), "{report}");
        assert!(report.to_string().contains("k = ********* # x"), "{report}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let problem = Problem::new("bad \x1b[2J").at((0..1).into(), "\x1b[2J").hint("\x1b[2J");
        let report = Report::with_source(Source::new("\x1b[2J", "\x1b[2J"), vec![problem]);
        assert!(!report.to_string().contains('\x1b'), "{report}");
    }

    #[test]
    fn colours_are_only_in_the_styled_form() {
        let report = Report::from(Problem::new("bad").hint("good"));
        assert!(report.styled(None).contains('\x1b'));
        assert!(!report.to_string().contains('\x1b'));
    }

    #[test]
    fn nearest_allows_a_third_of_the_letters() {
        assert_eq!(nearest("grnat", ["limits", "grant"]), Some("grant"));
        assert_eq!(nearest("Tmie", ["time", "tools"]), Some("time"));
        assert_eq!(nearest("colour", ["grant", "limits"]), None);
    }
}
