//! The diff between the content that the user agreed to and the content offered now. If the old content is no
//! longer available, all of the new content is shown.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::{Disclosure, DisclosureDigests, Item, ItemKind};
use crate::Digest;

/// Number of lines of context around a change.
const AROUND: usize = 3;

/// Time limit for the shortest diff of one item; after it a longer diff is accepted.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// One change between two disclosures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The item's kind.
    pub kind: ItemKind,
    /// The item's name.
    pub name: String,
    /// The kind of change: `changed`, `new`.
    pub what: String,
    /// The diff.
    pub lines: Vec<Line>,
}

/// A line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The sign of the line.
    pub sign: Sign,
    /// The text of the line.
    pub text: String,
}

/// The signs of diff lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The line was added.
    Added,
    /// The line was removed.
    Removed,
    /// The line is context.
    Same,
    /// The header of a hunk.
    Place,
}

/// Writes the line in unified diff format.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sign.as_str(), self.text)
    }
}

impl Sign {
    /// Returns the prefix of the line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "+",
            Self::Removed => "-",
            Self::Same => " ",
            Self::Place => "",
        }
    }
}

impl Disclosure {
    /// Returns the changes against the recorded `digests`. `before` holds the old content, as far as it is
    /// available.
    pub fn changes(&self, digests: &DisclosureDigests, before: &Disclosure) -> Vec<Change> {
        let mut changes: Vec<Change> =
            self.items.iter().filter_map(|item| changed(item, digests, before)).collect();
        let mut gone: Vec<(bool, &str)> =
            before.items.iter().map(|item| (item.kind == ItemKind::Tool, item.name.as_str())).collect();
        gone.extend(digests.tools.keys().map(|name| (true, name.as_str())));
        gone.extend(digests.files.keys().map(|name| (false, name.as_str())));
        gone.sort_unstable();
        gone.dedup();
        for (is_tool, name) in gone.into_iter().filter(|(is_tool, name)| self.find(*is_tool, name).is_none())
        {
            let old = before.find(is_tool, name);
            let kind = old.map_or(if is_tool { ItemKind::Tool } else { ItemKind::File }, |old| old.kind);
            let lines = old.map(|old| all(old, Sign::Removed)).unwrap_or_default();
            changes.push(Change { kind, name: name.to_owned(), what: "removed".to_owned(), lines });
        }
        changes.sort_by_key(|change| change.kind);
        changes
    }
}

fn changed(item: &Item, digests: &DisclosureDigests, before: &Disclosure) -> Option<Change> {
    let is_tool = item.kind == ItemKind::Tool;
    let change = |what: String, lines| Some(Change { kind: item.kind, name: item.name.clone(), what, lines });
    let known = if is_tool { &digests.tools } else { &digests.files }.get(&item.name);
    // The user has seen the old content only if its digest is the recorded one.
    let is_shown = |old: &&Item| known.is_none_or(|known| *known == old.digest);
    match (before.find(is_tool, &item.name).filter(is_shown), known) {
        (Some(old), _) if old.digest == item.digest && old.executable == item.executable => None,
        (Some(old), _) => {
            let (what, lines) = between(old, item);
            change(what, lines)
        }
        (None, Some(known)) if *known == item.digest => None,
        (None, Some(known)) => {
            let now = digest_and_size(&item.digest, item.size);
            let what = format!(
                "changed from {} to {now}; what it was is not kept here, and this is all of it",
                short(known)
            );
            change(what, all(item, Sign::Added))
        }
        (None, None) => {
            let mode = if item.executable { ", executable" } else { "" };
            let what = match item.text {
                Some(_) => format!("new{mode}"),
                None => format!("new{mode}, {}", digest_and_size(&item.digest, item.size)),
            };
            change(what, all(item, Sign::Added))
        }
    }
}

/// Describes the change of an item, with the diff of its text.
fn between(old: &Item, new: &Item) -> (String, Vec<Line>) {
    let mode = match (old.executable, new.executable) {
        (false, true) => Some("is executable now"),
        (true, false) => Some("is no longer executable"),
        _ => None,
    };
    if old.digest == new.digest {
        return (mode.unwrap_or("changed").to_owned(), Vec::new());
    }
    let and = mode.map(|mode| format!(", and {mode}")).unwrap_or_default();
    match (&old.text, &new.text) {
        (Some(before), Some(now)) if before != now => {
            let (before, now) = (ended(old.kind, before), ended(new.kind, now));
            (format!("changed{and}"), unified(&before, &now))
        }
        (Some(_), Some(_)) => (format!("changed in its form, not in its words{and}"), Vec::new()),
        _ => {
            let (before, now) =
                (digest_and_size(&old.digest, old.size), digest_and_size(&new.digest, new.size));
            (format!("changed from {before} to {now}{and}"), Vec::new())
        }
    }
}

/// Terminates the last line of a text that haft composed: a missing line end in it is not a property of the
/// offered content. In a file it is, and the diff shows it.
fn ended(kind: ItemKind, text: &str) -> Cow<'_, str> {
    let is_composed = matches!(kind, ItemKind::Tool | ItemKind::About);
    if is_composed && !text.is_empty() && !text.ends_with('\n') {
        return format!("{text}\n").into();
    }
    text.into()
}

fn unified(before: &str, now: &str) -> Vec<Line> {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, now);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        lines.push(Line { sign: Sign::Place, text: hunk.header().to_string().trim_end().to_owned() });
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Insert => Sign::Added,
                ChangeTag::Delete => Sign::Removed,
                ChangeTag::Equal => Sign::Same,
            };
            let text = change.value();
            // A last line without a line end differs from a line with one.
            let end = if change.missing_newline() && sign != Sign::Same { " [no newline]" } else { "" };
            lines.push(Line { sign, text: format!("{}{end}", text.strip_suffix('\n').unwrap_or(text)) });
        }
    }
    lines
}

fn all(item: &Item, sign: Sign) -> Vec<Line> {
    let lines = item.text.as_deref().unwrap_or_default().lines();
    lines.map(|line| Line { sign, text: line.to_owned() }).collect()
}

fn digest_and_size(digest: &Digest, size: u64) -> String {
    format!("{} ({size} bytes)", short(digest))
}

fn short(digest: &Digest) -> String {
    format!("sha256:{}", digest.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, text: &str) -> Item {
        Item::text(ItemKind::Runs, name, text.to_owned())
    }

    fn one(items: &[Item]) -> Disclosure {
        Disclosure { items: items.to_vec() }
    }

    fn summary(changes: &[Change]) -> String {
        let one = |Change { name, what, lines, .. }: &Change| {
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            format!("{name} {what}\n{lines}")
        };
        changes.iter().map(one).collect()
    }

    /// S02: changes, additions and removals are shown line by line.
    #[test]
    fn every_change_is_told() {
        let before = one(&[item("run", "a\nb\nc\n"), item("gone", "x\n"), item("same", "s\n")]);
        let mut now = one(&[item("run", "a\nB\nc"), item("same", "s\n"), item("extra", "y\n")]);
        assert!(before.changes(&before.digests(), &before).is_empty());
        now.items[1].executable = true;
        let expected = "run changed\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c [no newline]\nsame is executable now\n\
            extra new\n+y\ngone removed\n-x\n";
        assert_eq!(summary(&now.changes(&before.digests(), &before)), expected);
    }

    /// S02: an appended line does not change the line before it in a text that haft composed; in a file it
    /// does.
    #[test]
    fn a_line_more_is_one_line() {
        let difference = |kind, [before, now]: [&str; 2]| {
            let of = |text: &str| one(&[Item::text(kind, "about", text.to_owned())]);
            summary(&of(now).changes(&of(before).digests(), &of(before)))
        };
        for (texts, lines) in [
            (["a\nb", "a\nb\nc"], "@@ -1,2 +1,3 @@\n a\n b\n+c\n"),
            // The last line is a component's own text, which has a line end.
            (["a\nb\n", "a\nb\n\nc"], "@@ -1,2 +1,4 @@\n a\n b\n+\n+c\n"),
            (["", "a"], "@@ -0,0 +1 @@\n+a\n"),
        ] {
            assert_eq!(difference(ItemKind::About, texts), format!("about changed\n{lines}"));
        }
        let of_a_file = difference(ItemKind::Runs, ["a\nb", "a\nb\nc"]);
        assert_eq!(of_a_file, "about changed\n@@ -1,2 +1,3 @@\n a\n-b [no newline]\n+b\n+c [no newline]\n");
    }

    /// S02: kept content that does not match the recorded digest is not the content that the user agreed to.
    #[test]
    fn where_the_old_one_is_not_to_be_had_all_of_the_new_one_is_shown() {
        let (recorded, now) = (
            one(&[item("run", "a\n"), item("same", "s\n")]).digests(),
            one(&[item("run", "b\n"), item("same", "s\n")]),
        );
        for before in [Disclosure::default(), now.clone()] {
            let text = summary(&now.changes(&recorded, &before));
            assert!(
                text.starts_with("run changed from sha256:") && text.ends_with("all of it\n+b\n"),
                "{text}"
            );
        }
    }
}
