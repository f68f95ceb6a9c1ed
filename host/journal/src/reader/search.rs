//! Finds a call by its id, and the calls made for it. Compares the bytes of lines, and parses only matching ones.

use std::collections::HashSet;
use std::io;

use memchr::memmem;

use super::super::Record;
use super::View;
use super::backward::Backward;
use super::calls::in_order;
use super::outline::record;

/// The beginning of a line of this version; the id follows.
const HEAD: &str = "{\"v\":1,\"id\":\"";

/// The result of a search for an id.
#[derive(Debug)]
pub enum Found {
    /// One call.
    One(Box<Record>),
    /// Several calls have this prefix.
    Several,
    /// No call.
    None,
}

pub(super) fn find(view: &View, id: &str) -> io::Result<(Found, usize)> {
    let start = format!("{HEAD}{id}");
    let (mut lines, mut line, mut found) = (Backward::new(view), Vec::new(), None::<Record>);
    let (mut is_several, mut broken) = (false, 0);
    while lines.next(&mut line)? {
        if is_another(&line, &start) {
            continue;
        }
        let Some(record) = record(&line) else {
            broken += 1;
            continue;
        };
        if record.id == id {
            // The last line of a call is complete.
            return Ok((Found::One(Box::new(record)), broken));
        }
        if !record.id.starts_with(id) {
            continue;
        }
        match &found {
            Some(found) => is_several |= found.id != record.id,
            None => found = Some(record),
        }
    }
    let found = match found {
        _ if is_several => Found::Several,
        Some(record) => Found::One(Box::new(record)),
        None => Found::None,
    };
    Ok((found, broken))
}

/// Whether a line is complete and of a call whose line does not begin with `start`, or blank: by its first and last
/// bytes.
fn is_another(line: &[u8], start: &str) -> bool {
    let line = line.trim_ascii_end();
    line.is_empty()
        || line.starts_with(HEAD.as_bytes()) && !line.starts_with(start.as_bytes()) && line.ends_with(b"}")
}

pub(super) fn children(view: &View, parent: &Record, count: usize) -> io::Result<Vec<Record>> {
    // The children follow the first line of their parent.
    let (first, child) = (format!("{HEAD}{}\"", parent.id), format!("\"parent\":\"{}\"", parent.id));
    let child = memmem::Finder::new(child.as_bytes());
    let (mut lines, mut line) = (Backward::new(view), Vec::new());
    let (mut ended, mut seen, mut unended) = (Vec::new(), HashSet::new(), Vec::new());
    while seen.len() < count && lines.next(&mut line)? {
        let is_child = child.find(&line).is_some();
        let read = (is_child || line.starts_with(first.as_bytes())).then(|| record(&line)).flatten();
        let Some(record) = read else { continue };
        let is_begin = record.outcome == super::super::Outcome::Started;
        if record.id == parent.id && (is_begin || record.merged) {
            break;
        }
        if record.parent.as_ref() == Some(&parent.id) && seen.insert(record.id.clone()) {
            if is_begin { unended.push(record) } else { ended.push(record) }
        }
    }
    ended.reverse();
    in_order(&mut unended);
    ended.append(&mut unended);
    Ok(ended)
}
