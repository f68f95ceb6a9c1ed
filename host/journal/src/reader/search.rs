//! One call, by its id, and what was called for it. Looks at the bytes of a line, and reads those that match.

use std::collections::HashSet;
use std::io;

use memchr::memmem;

use super::super::Record;
use super::View;
use super::backward::Backward;
use super::calls::in_order;
use super::outline::record;

/// How a line begins that this version wrote; the id follows.
const HEAD: &str = "{\"v\":1,\"id\":\"";

/// What an id stands for.
#[derive(Debug)]
pub enum Found {
    /// One call.
    One(Box<Record>),
    /// Calls that are several, of which it is the beginning.
    Several,
    /// None.
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
            // The last line of a call says all there is to say.
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

/// Whether a line is whole and of a call whose line does not begin with `start`, or blank: by its first and last bytes.
fn is_another(line: &[u8], start: &str) -> bool {
    let line = line.trim_ascii_end();
    line.is_empty()
        || line.starts_with(HEAD.as_bytes()) && !line.starts_with(start.as_bytes()) && line.ends_with(b"}")
}

pub(super) fn children(view: &View, parent: &Record, count: usize) -> io::Result<Vec<Record>> {
    // They come after the first line of their parent.
    let (first, own) = (format!("{HEAD}{}\"", parent.id), format!("\"parent\":\"{}\"", parent.id));
    let own = memmem::Finder::new(own.as_bytes());
    let (mut lines, mut line) = (Backward::new(view), Vec::new());
    let (mut ended, mut seen, mut unended) = (Vec::new(), HashSet::new(), Vec::new());
    while seen.len() < count && lines.next(&mut line)? {
        let is_own = own.find(&line).is_some();
        let read = (is_own || line.starts_with(first.as_bytes())).then(|| record(&line)).flatten();
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
