//! The tree, and a view of its nodes. Neighbours are linked, so that each of the parser's changes takes constant
//! time; every walk is a loop, since a tree can be deeper than a stack.

use html5ever::tendril::StrTendril;
use html5ever::{Attribute, QualName};

/// A parsed page.
#[derive(Debug)]
pub struct Document {
    pub(crate) nodes: Vec<Entry>,
    pub(crate) cut: bool,
}

/// Where a node stands in [`Document::nodes`]. The first is the document itself.
pub(crate) type Index = usize;

/// The document itself.
pub(crate) const ROOT: Index = 0;

/// A node and its neighbours.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) data: Data,
    pub(crate) parent: Option<Index>,
    pub(crate) previous: Option<Index>,
    pub(crate) next: Option<Index>,
    pub(crate) first_child: Option<Index>,
    pub(crate) last_child: Option<Index>,
    /// How many elements it stood in when it was put there.
    pub(crate) depth: usize,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Data {
    Element(QualName, Vec<Attribute>),
    Text(StrTendril),
    /// The document, a comment, or what a `<template>` keeps for later.
    Other,
}

impl Document {
    /// Whether the page was too large or too deep, and its rest is missing.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// How many nodes there are, the document itself included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The document itself.
    pub fn root(&self) -> Node<'_> {
        Node { document: self, index: ROOT }
    }

    /// The first element with this name.
    pub fn first(&self, name: &str) -> Option<Node<'_>> {
        self.root().descendants().find(|node| node.name() == Some(name))
    }
}

/// A node of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    document: &'a Document,
    index: Index,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.document, other.document) && self.index == other.index
    }
}

impl<'a> Node<'a> {
    fn entry(self) -> Option<&'a Entry> {
        self.document.nodes.get(self.index)
    }

    fn at(self, index: Option<Index>) -> Option<Self> {
        index.map(|index| Self { index, ..self })
    }

    /// A number of its own in its document, below the number of nodes.
    pub fn index(self) -> usize {
        self.index
    }

    /// The name of an element, in lower case.
    pub fn name(self) -> Option<&'a str> {
        match &self.entry()?.data {
            Data::Element(name, _) => Some(&name.local),
            _ => None,
        }
    }

    /// An attribute of an element.
    pub fn attribute(self, name: &str) -> Option<&'a str> {
        match &self.entry()?.data {
            Data::Element(_, attributes) => {
                let attribute = attributes.iter().find(|attribute| &*attribute.name.local == name);
                attribute.map(|attribute| &*attribute.value)
            }
            _ => None,
        }
    }

    /// Whether an element has this class.
    pub fn has_class(self, class: &str) -> bool {
        self.attribute("class")
            .is_some_and(|classes| classes.split_ascii_whitespace().any(|own| own == class))
    }

    /// The characters of a text.
    pub fn characters(self) -> Option<&'a str> {
        match &self.entry()?.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it stands in.
    pub fn parent(self) -> Option<Self> {
        self.at(self.entry()?.parent)
    }

    /// What it stands in, from the inside out.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), |node| node.parent())
    }

    /// What stands in it, in order.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let first = self.entry().and_then(|entry| entry.first_child);
        std::iter::successors(self.at(first), |node| node.at(node.entry()?.next))
    }

    /// Everything below it, in the order of the page.
    pub fn descendants(self) -> impl Iterator<Item = Self> {
        self.descendants_unless(|_| false)
    }

    /// Everything below it in the order of the page, but for what `skipped` says and what is below that.
    pub fn descendants_unless(self, skipped: impl Fn(Self) -> bool) -> impl Iterator<Item = Self> {
        let mut next = self.entry().and_then(|entry| entry.first_child);
        std::iter::from_fn(move || {
            loop {
                let node = self.at(next)?;
                let skips = skipped(node);
                next = if skips { self.after(node) } else { self.following(node) };
                if !skips {
                    return Some(node);
                }
            }
        })
    }

    /// What comes after `node` in the order of the page, within this one.
    fn following(self, node: Self) -> Option<Index> {
        node.entry()?.first_child.or_else(|| self.after(node))
    }

    /// What comes after `node` and all below it, within this one.
    fn after(self, node: Self) -> Option<Index> {
        let mut inside = std::iter::once(node).chain(node.ancestors()).take_while(|node| *node != self);
        inside.find_map(|node| node.entry()?.next)
    }

    /// The text in it, its white space as a page shows it: one space for any of it, none at the ends.
    pub fn text(self) -> String {
        let mut text = String::new();
        for part in self.descendants().filter_map(Self::characters) {
            push_collapsed(&mut text, part);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Appends `part`, with one space for every stretch of white space.
fn push_collapsed(text: &mut String, part: &str) {
    for character in part.chars() {
        let space = character.is_ascii_whitespace();
        if !space {
            text.push(character);
        } else if !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
    }
}
