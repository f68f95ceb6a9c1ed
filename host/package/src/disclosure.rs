//! The content that the user consents to: every tool as a model sees it, and every file of a package. Shown in full
//! or as a diff against the last disclosure, and recorded as digests in program.lock. Makes no judgement of the
//! content.

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

/// Limit on the bytes of a file whose text is shown. For a larger file only the digest is shown.
const MAX_TEXT: u64 = 1 << 20;

/// Limit on the bytes of all texts of a package that are held in memory.
const MAX_TEXTS: u64 = 16 << 20;

/// Limit on the files that program.lock records one by one; executables and files that a model reads come first.
/// The digest of the complete tree covers the others.
const MAX_NOTED: usize = 500;

/// All items that the user is shown.
#[derive(Clone, Debug, Default)]
pub struct Disclosure {
    /// The items in display order.
    pub items: Vec<Item>,
}

/// One item for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The item's kind.
    pub kind: ItemKind,
    /// The tool's name, or the file's path in the package.
    pub name: String,
    /// The text to read; `None` for binary content, a text that is too long, or texts of a package that
    /// are too long together.
    pub text: Option<String>,
    /// The digest of the exact content.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
    /// Whether the item is an executable file.
    pub executable: bool,
}

/// The kinds of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// The metadata that a component declares.
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

/// A tool's definition and, for a command tool, its command line.
#[derive(Clone, Debug)]
pub struct ToolDisclosure {
    /// The definition that the model receives.
    pub def: ToolDef,
    /// The command line of a command tool, and how its arguments become words.
    pub runs: Vec<String>,
}

/// The digests of a [`Disclosure`] that program.lock records, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisclosureDigests {
    /// Digests of tool definitions.
    pub tools: BTreeMap<String, Digest>,
    /// Digests of files, and of a component's declared metadata.
    pub files: BTreeMap<String, Digest>,
}

impl Disclosure {
    /// Returns the disclosure of a package or component with these tools.
    pub fn new(offered: &Offered, tools: &[ToolDisclosure]) -> Result<Self, TreeError> {
        let mut items: Vec<Item> = tools.iter().map(Item::tool).collect();
        match &offered.bundle {
            Some(bundle) => items.extend(files(bundle)?),
            None => items.extend(component(offered)?),
        }
        items.sort_by_key(|item| item.kind);
        Ok(Self { items })
    }

    /// Returns the disclosure of tools without a package.
    pub fn from_tools(tools: impl IntoIterator<Item = ToolDef>) -> Self {
        let tools = tools.into_iter().map(|def| ToolDisclosure { def, runs: Vec::new() });
        Self { items: tools.map(|tool| Item::tool(&tool)).collect() }
    }

    /// Returns the digests to record.
    pub fn digests(&self) -> DisclosureDigests {
        let is_tool = |item: &&Item| item.kind == ItemKind::Tool;
        let digests = |item: &Item| (item.name.clone(), item.digest.clone());
        let files = self.items.iter().filter(|item| !is_tool(item)).take(MAX_NOTED);
        DisclosureDigests {
            tools: self.items.iter().filter(is_tool).map(digests).collect(),
            files: files.map(digests).collect(),
        }
    }

    /// Returns the digest of a tool's definition without a command line.
    pub fn definition_digest(def: ToolDef) -> Digest {
        Item::tool(&ToolDisclosure { def, runs: Vec::new() }).digest
    }

    /// Returns the item of this kind and name.
    pub fn find(&self, is_tool: bool, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| (item.kind == ItemKind::Tool) == is_tool && item.name == name)
    }
}

impl Item {
    fn tool(tool: &ToolDisclosure) -> Self {
        let ToolDisclosure { def, runs } = tool;
        // Every field is listed: the `Serialize` impl of the definition writes only the fields of a prompt.
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

    /// Returns the number of lines of the text.
    pub fn lines(&self) -> usize {
        self.text.as_deref().map_or(0, |text| text.lines().count())
    }
}

/// Returns the items of a single component: its declared metadata, and its file.
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

fn files(bundle: &Bundle) -> Result<Vec<Item>, TreeError> {
    let (components, named) = (components(bundle), bundle.executed_files());
    let kind = |path: &str| {
        if path == skill::FILE || bundle.is_instruction(path) {
            ItemKind::Read
        } else if components.iter().any(|component| component == path) {
            ItemKind::Component
        } else if named.contains(path)
            || bundle.is_script(path)
            || bundle.listing.file(path).is_some_and(|file| file.executable)
        {
            ItemKind::Runs
        } else {
            ItemKind::File
        }
    };
    // The limit on shown text is filled in order of rank: no other file may displace the manifest, a file that
    // a model reads, or a file that runs. The files of the package itself come before those of its dependencies.
    let rank = |path: &str| match kind(path) {
        _ if path == MANIFEST => 0,
        ItemKind::Read => 0,
        ItemKind::Runs => 1,
        _ => 2,
    };
    let mut paths: Vec<(usize, &str)> = bundle.listing.paths().enumerate().collect();
    paths.sort_by_key(|(_, path)| (rank(path), path.matches('/').count()));
    let (mut items, mut held) = (Vec::new(), 0);
    for (place, path) in paths {
        let mut item = file((&bundle.folder, &bundle.listing), path, kind(path))?;
        let length = item.text.as_ref().map_or(0, |text| text.len() as u64);
        if held + length > MAX_TEXTS && rank(path) > 0 || item.kind == ItemKind::Component {
            item.text = None;
        } else {
            held += length;
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

fn file((folder, listing): (&Path, &Listing), path: &str, kind: ItemKind) -> Result<Item, TreeError> {
    let missing = || TreeError::Missing(path.to_owned());
    let listed = listing.file(path).ok_or_else(missing)?.clone();
    let full = folder.join(path);
    let size = full.symlink_metadata().map_err(super::listing::io_error("look at", &full))?.len();
    let bytes = if size > MAX_TEXT { None } else { Some(listing.bytes(folder, path, MAX_TEXT)?) };
    let text = bytes.and_then(|bytes| text(kind, bytes));
    let name = path.to_owned();
    Ok(Item { kind, name, text, digest: listed.digest, size, executable: listed.executable })
}

/// Returns the bytes as text, if they are text. A file that a model reads or that can run counts as text regardless
/// of its bytes: a single byte must not hide the rest.
fn text(kind: ItemKind, bytes: Vec<u8>) -> Option<String> {
    let is_taken_for_text = matches!(kind, ItemKind::Read | ItemKind::Runs) || bytes.starts_with(b"#!");
    match String::from_utf8(bytes) {
        Ok(text) if is_taken_for_text || !text.contains('\0') => Some(text),
        Err(error) if is_taken_for_text => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S03: an invalid byte does not hide the rest of a text.
    #[test]
    fn what_is_read_as_text_is_shown_as_text() {
        let text = |kind, bytes: &[u8]| text(kind, bytes.to_vec());
        assert_eq!(text(ItemKind::Read, b"Do\xff it.\0").unwrap(), "Do\u{fffd} it.\0");
        assert_eq!(text(ItemKind::Runs, b"import os\0\xff").unwrap(), "import os\0\u{fffd}");
        assert_eq!(text(ItemKind::File, b"#!/bin/sh\n\xff").unwrap(), "#!/bin/sh\n\u{fffd}");
        assert_eq!((text(ItemKind::File, b"a\0b"), text(ItemKind::File, b"\xff")), (None, None));
        assert_eq!(text(ItemKind::File, b"a").unwrap(), "a");
    }
}
