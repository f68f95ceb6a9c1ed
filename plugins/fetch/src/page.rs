//! Pages of a text, each with the notice that names the call for the next page. Counts characters, and cuts
//! none.

use haft_html as html;
use haft_plugin::Error;
use haft_plugin::http::Url;

use crate::markdown;

/// The text of a page.
pub(crate) struct Page {
    title: Option<String>,
    text: String,
    /// What the reader must know of how the text came to be.
    remark: Option<&'static str>,
}

/// The piece that is wanted, in characters.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) offset: u64,
    pub(crate) most: u32,
}

/// Characters of a title that are shown.
const MAX_TITLE: usize = 300;

impl Page {
    /// A text as it is.
    pub(crate) fn of_text(text: String) -> Self {
        Self { title: None, text, remark: None }
    }

    /// The readable part of an HTML page.
    pub(crate) fn of_html(source: String, url: &Url) -> Self {
        let document = html::parse(&source);
        drop(source);
        let title = document.first("title").map(|title| title.text().chars().take(MAX_TITLE).collect());
        let readable = markdown::convert_document(&document, url);
        let remark = match (document.is_cut(), readable.is_part) {
            (true, _) => Some("(the page is too large or too deeply nested; its rest was left out)"),
            (_, true) => Some("(the main part of the page; `raw` shows all of it)"),
            _ => None,
        };
        Self { title: title.filter(|title: &String| !title.is_empty()), text: readable.text, remark }
    }

    /// A piece of it, below what must be known of it and an empty line.
    pub(crate) fn show(&self, window: Window) -> Result<String, Error> {
        let total = self.text.chars().count();
        let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
        if offset > 0 && offset >= total {
            return Err(Error::invalid(format!(
                "`offset` {offset} is past the end: the text has {total} characters"
            )));
        }
        let most = usize::try_from(window.most).unwrap_or(usize::MAX);
        let end = offset.saturating_add(most).min(total);
        let piece = between(&self.text, offset, end);
        let title = self.title.iter().map(|title| format!("Title: {title}\n"));
        let remark = self.remark.iter().map(|remark| format!("{remark}\n"));
        let above: String = title.chain(remark).collect();
        let body = if total == 0 { "(no text)" } else { piece };
        Ok(format!("{above}\n{body}{}", notice(offset, end, total)))
    }
}

/// What stands below a piece that is not the last one.
fn notice(offset: usize, end: usize, total: usize) -> String {
    if end == total {
        return String::new();
    }
    let shown = end - offset;
    let what = if offset == 0 { format!("first {shown}") } else { format!("{shown} from offset {offset}") };
    format!("\n...[truncated] ({total} total chars, showing {what}; to read on: offset {end})")
}

/// The characters from one place to another.
fn between(text: &str, from: usize, to: usize) -> &str {
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(index, _)| index);
    text.get(byte(from)..byte(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, offset: u64, most: u32) -> String {
        Page::of_text(text.into()).show(Window { offset, most }).unwrap().split_off(1)
    }

    /// FU01: a piece has so many characters, and says how to read on.
    #[test]
    fn pieces_say_how_to_read_on() {
        let text = "äöü".repeat(10);
        assert_eq!(shown(&text, 0, 30), text);
        assert_eq!(
            shown(&text, 0, 4),
            "äöüä\n...[truncated] (30 total chars, showing first 4; to read on: offset 4)"
        );
        assert_eq!(
            shown(&text, 4, 4),
            "öüäö\n...[truncated] (30 total chars, showing 4 from offset 4; to read on: offset 8)"
        );
        assert_eq!(shown(&text, 28, 4), "öü");
        assert_eq!(shown("", 0, 4), "(no text)");
        let error = Page::of_text(text).show(Window { offset: 30, most: 1 }).unwrap_err();
        assert_eq!(error, Error::invalid("`offset` 30 is past the end: the text has 30 characters"));
    }
}
