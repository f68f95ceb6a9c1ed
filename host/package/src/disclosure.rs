//! What the user consents to: every tool as a model sees it, and every file of a package. Shown in full or as a diff
//! to what was shown before, and recorded by digests in program.lock. Judges nothing.

mod definition;
mod difference;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

pub use self::definition::lines as definition_lines;
pub use self::difference::{Change, Line, Sign};
use super::bundle::{Bundle, Offered};
use super::digest::Digest;
use super::inventory::MANIFEST;
use super::listing::{Listing, TreeError};
use haft_core::call::ToolDef;
use haft_core::skill;

/// Bytes of a file that is shown. Of a larger one only the digest is shown.
const MAX_TEXT: u64 = 1 << 20;

/// Bytes of all texts of a package that are held at once.
const MAX_TEXTS: u64 = 16 << 20;

/// Files that program.lock notes one by one, those that run and those that a model reads first: of more
/// the digest of the whole tree tells that one changed.
const MAX_NOTED: usize = 500;

/// What the user is shown.
#[derive(Clone, Debug, Default)]
pub struct Disclosure {
    /// In the order in which they are shown.
    pub items: Vec<Item>,
}

/// One item that the user is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The tool's name, the file's path in the package.
    pub name: String,
    /// What there is to read; `None` of what is no text, or too long.
    pub text: Option<String>,
    /// Of the exact content.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Whether it is a file that may be executed.
    pub executable: bool,
}

/// What an [`Item`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// What a component says of itself.
    About,
    /// A file that a model reads.
    Read,
    /// A file that can run: a script, a program.
    Runs,
    /// A component.
    Component,
    /// Any other file.
    File,
}

/// A tool as it is offered, with what it comes to where that is more than its definition.
#[derive(Clone, Debug)]
pub struct ToolDisclosure {
    /// What a model is told.
    pub def: ToolDef,
    /// The command line of a command tool, and how its arguments become words.
    pub runs: Vec<String>,
}

/// What program.lock notes of a [`Disclosure`]: digests by names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisclosureDigests {
    /// Of definitions.
    pub tools: BTreeMap<String, Digest>,
    /// Of files, and of what a component says of itself.
    pub files: BTreeMap<String, Digest>,
}

impl Disclosure {
    /// What is to be shown of something that is offered, with these tools.
    pub fn new(offered: &Offered, tools: &[ToolDisclosure]) -> Result<Self, TreeError> {
        let mut items: Vec<Item> = tools.iter().map(Item::tool).collect();
        match &offered.bundle {
            Some(bundle) => items.extend(files(bundle)?),
            None => items.extend(component(offered)?),
        }
        items.sort_by_key(|item| item.kind);
        Ok(Self { items })
    }

    /// The same of tools alone.
    pub fn from_tools(tools: impl IntoIterator<Item = ToolDef>) -> Self {
        let tools = tools.into_iter().map(|def| ToolDisclosure { def, runs: Vec::new() });
        Self { items: tools.map(|tool| Item::tool(&tool)).collect() }
    }

    /// What is noted of it.
    pub fn digests(&self) -> DisclosureDigests {
        let is_tool = |item: &&Item| item.kind == ItemKind::Tool;
        let digests = |item: &Item| (item.name.clone(), item.digest.clone());
        let files = self.items.iter().filter(|item| !is_tool(item)).take(MAX_NOTED);
        DisclosureDigests {
            tools: self.items.iter().filter(is_tool).map(digests).collect(),
            files: files.map(digests).collect(),
        }
    }

    /// What is noted of the definition of a tool that runs nothing of its own.
    pub fn definition_digest(def: ToolDef) -> Digest {
        Item::tool(&ToolDisclosure { def, runs: Vec::new() }).digest
    }

    /// The item of this kind and name.
    pub fn find(&self, is_tool: bool, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| (item.kind == ItemKind::Tool) == is_tool && item.name == name)
    }
}

impl Item {
    fn tool(tool: &ToolDisclosure) -> Self {
        let ToolDisclosure { def, runs } = tool;
        // All of it: what serialises by itself is what goes into a prompt.
        let mut exact = json!({
            "name": def.name, "description": def.description, "parameters": def.parameters,
            "output": def.output, "hints": def.hints, "runs": runs,
        });
        if let (Some(title), Some(exact)) = (&def.title, exact.as_object_mut()) {
            exact.insert("title".to_owned(), json!(title));
        }
        let exact = exact.to_string();
        let mut text = definition::lines(def);
        text.extend(runs.iter().cloned());
        Self {
            kind: ItemKind::Tool,
            name: def.name.clone(),
            text: Some(text.join("\n")),
            digest: Digest::hash(exact.as_bytes()),
            size: exact.len() as u64,
            executable: false,
        }
    }

    fn text(kind: ItemKind, name: &str, text: String) -> Self {
        let (digest, size) = (Digest::hash(text.as_bytes()), text.len() as u64);
        Self { kind, name: name.to_owned(), text: Some(text), digest, size, executable: false }
    }

    /// How many lines there are to read.
    pub fn lines(&self) -> usize {
        self.text.as_deref().map_or(0, |text| text.lines().count())
    }
}

/// What is told of a component that is no part of a package: what it says of itself, and its bytes.
fn component(offered: &Offered) -> Result<Vec<Item>, TreeError> {
    let mut about = vec![format!("name: {}", offered.name)];
    let mut say = |what: &str, text: Option<String>| about.extend(text.map(|text| format!("{what}: {text}")));
    say("version", offered.version.as_ref().map(ToString::to_string));
    say("description", offered.description.clone());
    say("by", (!offered.authors.is_empty()).then(|| offered.authors.join(", ")));
    say("licence", offered.license.clone());
    for request in &offered.requests {
        say("asks for", Some(format!("{} {}", request.what(), request.detail())));
    }
    let mut items = vec![Item::text(ItemKind::About, "about", about.join("\n"))];
    for plugin in &offered.plugins {
        let size = std::fs::metadata(&plugin.file).map(|metadata| metadata.len());
        items.push(Item {
            kind: ItemKind::Component,
            name: "component".to_owned(),
            text: None,
            digest: plugin.digest.clone(),
            size: size.map_err(super::listing::io_error("look at", &plugin.file))?,
            executable: false,
        });
    }
    Ok(items)
}

/// The files of a package.
fn files(bundle: &Bundle) -> Result<Vec<Item>, TreeError> {
    let (components, named) = (components(bundle), bundle.executed_files());
    let kind = |path: &str| {
        if path == skill::FILE {
            ItemKind::Read
        } else if components.iter().any(|component| component == path) {
            ItemKind::Component
        } else if named.contains(path) || bundle.listing.file(path).is_some_and(|file| file.executable) {
            ItemKind::Runs
        } else {
            ItemKind::File
        }
    };
    // What may be read of it is bounded: nothing that lies beside what a model reads, what says what the package
    // may do, or what is run may hide that.
    let rank = |path: &str| match kind(path) {
        _ if path == MANIFEST => 0,
        ItemKind::Read => 0,
        ItemKind::Runs => 1,
        _ => 2,
    };
    let mut paths: Vec<(usize, &str)> = bundle.listing.paths().enumerate().collect();
    paths.sort_by_key(|(_, path)| rank(path));
    let (mut items, mut held) = (Vec::new(), 0);
    for (place, path) in paths {
        let mut item = file(&bundle.folder, &bundle.listing, path)?;
        item.kind = kind(path);
        held += item.text.as_ref().map_or(0, |text| text.len() as u64);
        if held > MAX_TEXTS && rank(path) > 0 || item.kind == ItemKind::Component {
            item.text = None;
        }
        items.push((place, item));
    }
    items.sort_by_key(|(place, _)| *place);
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

fn components(bundle: &Bundle) -> Vec<String> {
    let files = bundle.components().map(|(_, file, _)| file);
    let inside = files.filter_map(|file| Some(file.strip_prefix(&bundle.folder).ok()?.to_str()?.to_owned()));
    inside.collect()
}

fn file(folder: &Path, listing: &Listing, path: &str) -> Result<Item, TreeError> {
    let missing = || TreeError::Missing(path.to_owned());
    let listed = listing.file(path).ok_or_else(missing)?.clone();
    let full = folder.join(path);
    let size = full.symlink_metadata().map_err(super::listing::io_error("look at", &full))?.len();
    let bytes = if size > MAX_TEXT { None } else { Some(listing.bytes(folder, path, MAX_TEXT)?) };
    let text = bytes.and_then(|bytes| text(path, bytes));
    let (name, kind) = (path.to_owned(), ItemKind::File);
    Ok(Item { kind, name, text, digest: listed.digest, size, executable: listed.executable })
}

/// The bytes as a text to read. What a model or an interpreter takes for text is text, whatever bytes are in
/// between.
fn text(path: &str, bytes: Vec<u8>) -> Option<String> {
    let is_taken_for_text = path == skill::FILE || bytes.starts_with(b"#!");
    match String::from_utf8(bytes) {
        Ok(text) if is_taken_for_text || !text.contains('\0') => Some(text),
        Err(error) if is_taken_for_text => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S03: a byte that is no text does not hide the rest.
    #[test]
    fn s03_what_is_read_as_text_is_shown_as_text() {
        assert_eq!(text("SKILL.md", b"Do\xff it.\0".to_vec()).unwrap(), "Do\u{fffd} it.\0");
        assert_eq!(text("run", b"#!/bin/sh\n\xff".to_vec()).unwrap(), "#!/bin/sh\n\u{fffd}");
        assert_eq!((text("x", b"a\0b".to_vec()), text("x", b"\xff".to_vec())), (None, None));
        assert_eq!(text("x", b"a".to_vec()).unwrap(), "a");
    }
}
