//! The findings of `haft inspect`, laid out for reading. All third-party text on the page is neutralised.

use std::fmt::Write;

use super::Found;
use super::component::{Component, Tools, grouped, section_meaning, signature};
use crate::cli::disclosure_sheet::{Sheet, clean};
use crate::cli::terminal::{DIM, ERROR, GOOD, HEAD, Style, WARNING, counted, rounded};
use haft_core::report::plain;
use haft_plugin_host::inspect::{Producer, Sections};

/// Maximum number of listed tools, sections or names. `--json` has all of them.
const MAX_LISTED: usize = 40;
/// Maximum bytes of a line of names.
const WIDTH: usize = 90;
/// Maximum characters of the text on one line.
const MAX_TEXT: usize = 160;

/// Returns the page for a width of `columns`. The terminal removes the colours if it has none. Long texts are cut if
/// `rest` names a command that shows them whole.
pub(super) fn render(found: &Found, columns: Option<usize>, rest: Option<String>) -> String {
    let mut page = Page(Sheet::new(columns, rest));
    page.title(found);
    for (name, text) in &found.facts {
        page.line(name, Style::new(), text);
    }
    page.rights(found);
    for component in &found.components {
        page.component(component, found);
    }
    page.0.package(&found.others);
    if let Some(ignored) = &found.ignored {
        page.line("ignored", WARNING, ignored);
    }
    for problem in &found.problems {
        page.line("problem", ERROR, problem);
    }
    page.0.text.trim_end().to_owned()
}

struct Page(Sheet);

impl Page {
    fn line(&mut self, name: &str, style: Style, text: &str) {
        self.0.line(name, style, &clean(text.trim_end()));
    }

    fn title(&mut self, found: &Found) {
        let description = found.description.as_deref().map(|text| format!(": {}", shortened(text)));
        let version = found.version.as_deref().map(|version| format!(" {}", shortened(version)));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            self.0.text,
            "{HEAD}{}{}{HEAD:#}{}",
            shortened(&found.name),
            version.unwrap_or_default(),
            description.unwrap_or_default()
        );
    }

    fn rights(&mut self, found: &Found) {
        match &found.asked {
            None => {}
            Some(asked) if asked.is_empty() => {
                self.line("requests", GOOD, "no rights: no files, no network, no environment");
            }
            Some(asked) => self.lines("requests", WARNING, asked),
        }
        match &found.granted {
            None => {}
            Some(granted) if granted.is_empty() => self.line("granted", GOOD, "nothing"),
            Some(granted) => self.lines("granted", Style::new(), granted),
        }
    }

    fn lines(&mut self, head: &str, style: Style, texts: &[String]) {
        for (index, text) in texts.iter().take(MAX_LISTED).enumerate() {
            self.line(if index == 0 { head } else { "" }, style, text);
        }
        self.more(texts.len());
    }

    fn more(&mut self, count: usize) {
        if let Some(more) = count.checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            self.line("", DIM, &format!("… and {more} more (`--json` has all)"));
        }
    }

    fn component(&mut self, component: &Component, found: &Found) {
        if found.components.len() > 1 {
            let _ = writeln!(self.0.text, "\n{HEAD}{}{HEAD:#}", shortened(&component.title));
        }
        let compiled = match component.compiled {
            Some(bytes) => format!(", compiled {}", rounded(bytes)),
            None => String::new(),
        };
        self.line("component", Style::new(), &format!("{}{compiled}", rounded(component.size)));
        if found.digest.as_ref() != Some(&component.digest) {
            self.line("digest", Style::new(), &component.digest.to_string());
        }
        match (&component.contract, &component.sections) {
            (Ok(contract), _) => self.line("contract", Style::new(), contract),
            (Err(why), Ok(_)) => self.line("contract", ERROR, &format!("none: {why}")),
            (Err(_), Err(why)) => self.line("broken", ERROR, why),
        }
        match &component.tools {
            Some(Ok(tools)) => self.tools(tools),
            Some(Err(why)) => self.line("tools", ERROR, why),
            None if component.contract.is_ok() => self.line("tools", DIM, "not requested"),
            None => {}
        }
        if let Ok(sections) = &component.sections {
            self.insides(sections);
        }
    }

    fn tools(&mut self, tools: &Tools) {
        if tools.all.is_empty() {
            self.line("tools", WARNING, "none");
        }
        for (index, (name, def)) in tools.all.iter().enumerate() {
            self.0.tool(if index == 0 { "tools" } else { "" }, &signature(name, def), def);
        }
        for (index, (name, def)) in tools.prompts.iter().enumerate() {
            self.0.tool(if index == 0 { "prompts" } else { "" }, &signature(name, def), def);
        }
        let resources: Vec<String> =
            tools.resources.iter().map(|one| format!("{}: {}", one.place, one.description)).collect();
        self.lines("resources", Style::new(), &resources);
        let reasons: Vec<String> =
            tools.uncallable.iter().map(|one| format!("{} {}", one.name, one.reason)).collect();
        self.lines("no tools", DIM, &reasons);
    }

    fn insides(&mut self, sections: &Sections) {
        for (index, group) in grouped(&sections.imports).iter().enumerate() {
            let head = if index == 0 { "imports" } else { "" };
            self.line(head, Style::new(), &format!("{}: {}", group.about, group.means));
            for line in wrapped(group.names.iter().map(|name| bare(name))) {
                self.line("", DIM, &format!("  {line}"));
            }
        }
        if !sections.imports.is_empty() {
            self.line("", DIM, "imports are interfaces that the component can use; they grant no rights");
        }
        let exports: Vec<String> = sections.exports.iter().map(|one| one.name.clone()).collect();
        self.lines("exports", Style::new(), &exports);
        let parts = [counted(sections.modules, "core module"), counted(sections.components, "component")];
        let (code, data) = (rounded(sections.code), rounded(sections.data));
        let inside = format!("{}; {code} of code, {data} of data", parts.join(", "));
        self.line("inside", Style::new(), &inside);
        self.line("made with", Style::new(), &made_with(&sections.producers));
        let own = sections.custom.iter().filter(|one| one.depth == 0);
        let described = own.map(|one| match section_meaning(&one.name) {
            Some(meaning) => format!("{} ({}): {meaning}", one.name, rounded(one.size as u64)),
            None => format!("{} ({})", one.name, rounded(one.size as u64)),
        });
        let mut custom: Vec<String> = described.collect();
        let inner = sections.custom.len() - custom.len();
        if inner > 0 {
            custom.push(format!("and {inner} in nested components"));
        }
        self.lines("sections", Style::new(), &custom);
        self.lines("note", WARNING, &sections.problems);
    }
}

/// Returns a name such as `wasi:filesystem/types@0.2.6` without the prefix that the group's title implies.
fn bare(name: &str) -> &str {
    name.strip_prefix("wasi:").unwrap_or(name)
}

/// Returns words on as few lines as possible.
fn wrapped<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the languages, then the tools that processed them, each once.
fn made_with(producers: &[Producer]) -> String {
    let mut seen: Vec<String> = Vec::new();
    for field in ["language", "processed-by", "sdk"] {
        for producer in producers.iter().filter(|producer| producer.field == field) {
            let text = format!("{} {}", producer.name, producer.version);
            let text = text.trim().to_owned();
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
    }
    if seen.is_empty() { "not declared".to_owned() } else { seen.join(", ") }
}

/// Returns third-party text on one line, with bounded length.
fn shortened(text: &str) -> String {
    let text = plain(text.trim_end());
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text,
    }
}
