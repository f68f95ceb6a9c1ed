//! The sink of the parser, which builds the tree. Accepts every step of the parser, also invalid ones: no function
//! fails.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use html5ever::interface::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, Namespace, QualName};

use crate::document::{Data, Document, Entry, Index, ROOT};
use crate::{MAX_DEPTH, MAX_NODES};

/// A tree in the making.
pub(crate) struct Sink {
    nodes: RefCell<Vec<Entry>>,
    deepest: Cell<usize>,
}

impl Default for Sink {
    fn default() -> Self {
        Self { nodes: RefCell::new(vec![Entry::of(Data::Other)]), deepest: Cell::new(0) }
    }
}

impl Entry {
    fn of(data: Data) -> Self {
        Self { data, parent: None, previous: None, next: None, first_child: None, last_child: None, depth: 0 }
    }
}

impl Sink {
    /// Whether the tree is as large or as deep as it may become.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes.borrow().len() >= MAX_NODES || self.deepest.get() >= MAX_DEPTH
    }

    fn add(&self, data: Data) -> Index {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Entry::of(data));
        nodes.len() - 1
    }

    /// Adds a child, before `next` or as the last one. Text is added to a text beside it.
    fn put(&self, parent: Index, next: Option<Index>, child: NodeOrText<Index>) {
        let mut tree = Tree(self.nodes.borrow_mut());
        let previous = match next {
            Some(next) => tree.entry(next).and_then(|entry| entry.previous),
            None => tree.entry(parent).and_then(|entry| entry.last_child),
        };
        let index = match child {
            NodeOrText::AppendText(text) => {
                if tree.extend_text(previous, &text) {
                    return;
                }
                tree.0.push(Entry::of(Data::Text(text)));
                tree.0.len() - 1
            }
            NodeOrText::AppendNode(index) => index,
        };
        tree.detach(index);
        let depth = tree.link(parent, next, index);
        self.deepest.set(self.deepest.get().max(depth));
    }
}

/// The nodes, while they are being changed.
struct Tree<'a>(std::cell::RefMut<'a, Vec<Entry>>);

impl Tree<'_> {
    fn entry(&mut self, index: Index) -> Option<&mut Entry> {
        self.0.get_mut(index)
    }

    fn extend_text(&mut self, index: Option<Index>, more: &StrTendril) -> bool {
        match index.and_then(|index| self.entry(index)).map(|entry| &mut entry.data) {
            Some(Data::Text(text)) => {
                text.push_tendril(more);
                true
            }
            _ => false,
        }
    }

    /// Takes a node out of its place.
    fn detach(&mut self, index: Index) {
        let Some(entry) = self.entry(index) else { return };
        let (parent, previous, next) = (entry.parent.take(), entry.previous.take(), entry.next.take());
        let Some(parent) = parent else { return };
        self.join(parent, previous, next);
    }

    /// Puts a node without a place into one; says how deep that is.
    fn link(&mut self, parent: Index, next: Option<Index>, index: Index) -> usize {
        let previous = match next {
            Some(next) => self.entry(next).and_then(|entry| entry.previous),
            None => self.entry(parent).and_then(|entry| entry.last_child),
        };
        self.join(parent, previous, Some(index));
        self.join(parent, Some(index), next);
        let depth = self.entry(parent).map_or(0, |entry| entry.depth) + 1;
        if let Some(entry) = self.entry(index) {
            (entry.parent, entry.depth) = (Some(parent), depth);
        }
        depth
    }

    /// Makes two children of `parent` neighbours; `None` stands for its ends.
    fn join(&mut self, parent: Index, previous: Option<Index>, next: Option<Index>) {
        match previous {
            Some(previous) => self.change(previous, |entry| entry.next = next),
            None => self.change(parent, |entry| entry.first_child = next),
        }
        match next {
            Some(next) => self.change(next, |entry| entry.previous = previous),
            None => self.change(parent, |entry| entry.last_child = previous),
        }
    }

    fn change(&mut self, index: Index, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entry(index) {
            change(entry);
        }
    }
}

/// The name of an element, as the parser wants to see it.
#[derive(Debug)]
pub(crate) struct Name(QualName);

impl ElemName for Name {
    fn ns(&self) -> &Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &LocalName {
        &self.0.local
    }
}

impl TreeSink for Sink {
    type Handle = Index;
    type Output = Document;
    type ElemName<'a> = Name;

    fn finish(self) -> Document {
        Document { nodes: self.nodes.into_inner(), cut: false }
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Index {
        ROOT
    }

    fn elem_name<'a>(&'a self, target: &'a Index) -> Name {
        let nodes = self.nodes.borrow();
        match nodes.get(*target).map(|entry| &entry.data) {
            Some(Data::Element(name, _)) => Name(name.clone()),
            _ => Name(QualName::new(None, Namespace::default(), LocalName::default())),
        }
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _flags: ElementFlags) -> Index {
        self.add(Data::Element(name, attributes))
    }

    fn create_comment(&self, _text: StrTendril) -> Index {
        self.add(Data::Other)
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Index {
        self.add(Data::Other)
    }

    fn append(&self, parent: &Index, child: NodeOrText<Index>) {
        self.put(*parent, None, child);
    }

    fn append_based_on_parent_node(&self, element: &Index, previous: &Index, child: NodeOrText<Index>) {
        let has_parent = self.nodes.borrow().get(*element).is_some_and(|entry| entry.parent.is_some());
        if has_parent { self.append_before_sibling(element, child) } else { self.append(previous, child) }
    }

    fn append_doctype_to_document(&self, _name: StrTendril, _public: StrTendril, _system: StrTendril) {}

    /// What a template holds is no part of the page: it gets a place beside the tree.
    fn get_template_contents(&self, _target: &Index) -> Index {
        self.add(Data::Other)
    }

    fn same_node(&self, one: &Index, other: &Index) -> bool {
        one == other
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Index, child: NodeOrText<Index>) {
        let parent = self.nodes.borrow().get(*sibling).and_then(|entry| entry.parent);
        if let Some(parent) = parent {
            self.put(parent, Some(*sibling), child);
        }
    }

    fn add_attrs_if_missing(&self, target: &Index, attributes: Vec<Attribute>) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(Data::Element(_, own)) = nodes.get_mut(*target).map(|entry| &mut entry.data) {
            let new: Vec<_> = attributes
                .into_iter()
                .filter(|attribute| own.iter().all(|own| own.name != attribute.name))
                .collect();
            own.extend(new);
        }
    }

    fn remove_from_parent(&self, target: &Index) {
        Tree(self.nodes.borrow_mut()).detach(*target);
    }

    fn reparent_children(&self, node: &Index, new_parent: &Index) {
        let mut tree = Tree(self.nodes.borrow_mut());
        while let Some(child) = tree.entry(*node).and_then(|entry| entry.first_child) {
            tree.detach(child);
            tree.link(*new_parent, None, child);
        }
    }
}
