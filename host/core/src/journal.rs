//! The record of a call, and the destination of its lines. The crate `haft-journal` writes and reads the files.

mod record;

use std::sync::Arc;
use std::{fmt, io};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::encoding::hex;

pub use self::record::{Granted, Outcome, Program, Record};

/// The maximum size of a line in bytes: many times that of the longest record. A longer line is invalid.
pub const MAX_LINE: usize = 1 << 20;

/// The destination of the lines of calls.
pub trait Lines: fmt::Debug + Send + Sync {
    /// Writes lines that may wait in groups from now on, for many calls.
    fn gather(&self);

    /// Returns whether the next lines can be written without opening or moving a file, and without starting a
    /// thread.
    fn is_settled(&self) -> bool;

    /// Records the start of a call, before it returns or, if the line `may_wait`, within 5 ms.
    fn begin(&self, record: &Arc<Record>, may_wait: bool);

    /// Drops the first line of the call `id` if it still waits. Returns whether it did.
    fn forget(&self, id: &str) -> bool;

    /// Records the end of a call.
    fn end(&self, record: &Record);
}

/// The journal of calls; the default records nothing. Clones write to one file.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner<dyn Lines>>>);

#[derive(Debug)]
struct Inner<L: ?Sized> {
    program: Program,
    lines: L,
}

impl Journal {
    /// Returns the journal of the calls of `program`, which writes to `lines`.
    pub fn of(program: Program, lines: impl Lines + 'static) -> Self {
        Self(Some(Arc::new(Inner { program, lines })))
    }

    /// Writes lines that may wait in groups from now on, for many calls. `haft_journal::write_through` or dropping the
    /// journal writes the last group.
    pub fn gather(&self) {
        if let Some(inner) = &self.0 {
            inner.lines.gather();
        }
    }

    /// Returns whether calls are recorded.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the program of the calls.
    pub fn program(&self) -> Program {
        self.0.as_ref().map(|inner| inner.program.clone()).unwrap_or_default()
    }

    /// See [`Lines::is_settled`].
    pub fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.lines.is_settled())
    }

    pub(crate) fn begin(&self, record: &Arc<Record>, may_wait: bool) {
        if let Some(inner) = &self.0 {
            inner.lines.begin(record, may_wait);
        }
    }

    /// Records the end of a call, with the fields that `ended` adds.
    pub(crate) fn end(&self, begun: Arc<Record>, ended: impl FnOnce(Record) -> Record) {
        if let Some(inner) = &self.0 {
            let merged = inner.lines.forget(&begun.id);
            // A finishing call owns it for at most a moment.
            inner.lines.end(&Record { merged, ..ended(Arc::unwrap_or_clone(begun)) });
        }
    }
}

// The arguments of a call in the journal: in full up to a limit, beyond it as SHA-256, which identifies them.
// Never stores the beginning of a long argument: the content of a written file does not belong into the journal.

/// The maximum size of all arguments as JSON, in bytes. Any command and any path fit; complete files do not.
const MAX_ARGUMENTS: usize = 16 << 10;

/// The maximum size of one argument in bytes that stays readable if all together are too long.
const MAX_ARGUMENT: usize = 1 << 10;

/// Returns the arguments, and the names of those replaced by `{"sha256": …, "bytes": …}`. If that is not sufficient,
/// one such object replaces all arguments.
fn bounded(arguments: &Value) -> (Value, Vec<String>) {
    if size(arguments) <= MAX_ARGUMENTS {
        return (arguments.clone(), Vec::new());
    }
    let (mut kept, mut digested) = (Map::new(), Vec::new());
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let is_long = size(value) > MAX_ARGUMENT;
        if is_long {
            digested.push(name.clone());
        }
        kept.insert(name.clone(), if is_long { digest(value) } else { value.clone() });
    }
    let kept = Value::Object(kept);
    let is_enough = arguments.is_object() && size(&kept) <= MAX_ARGUMENTS;
    if is_enough { (kept, digested) } else { (digest(arguments), vec!["*".to_owned()]) }
}

/// Returns the digest of a text's bytes, which can be compared with a file's, or of another value's JSON.
fn digest(value: &Value) -> Value {
    let mut written = Written { hash: Some(Sha256::new()), ..Written::default() };
    match value {
        Value::String(text) => written.add(text.as_bytes()),
        // Writing to a digest cannot fail.
        value => drop(serde_json::to_writer(&mut written, value)),
    }
    json!({ "sha256": written.hash.map(|hash| hex(&hash.finalize())), "bytes": written.bytes })
}

/// Counts the written bytes, and hashes them if there is a hash, without storing them.
#[derive(Default)]
struct Written {
    bytes: usize,
    hash: Option<Sha256>,
}

impl Written {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn size(value: &Value) -> usize {
    // A long text counts with its unencoded length, so that the content of a file is not encoded to be measured.
    match value {
        Value::String(text) if text.len() > MAX_ARGUMENTS => text.len(),
        Value::Object(fields) if fields.values().any(|field| size(field) > MAX_ARGUMENTS) => usize::MAX,
        value => {
            let mut written = Written::default();
            // Writing to a counter cannot fail.
            drop(serde_json::to_writer(&mut written, value));
            written.bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    #[test]
    fn what_is_no_text_is_digested_as_json() {
        let list = json!(vec!["x\n"; 10_000]);
        let (kept, _) = bounded(&json!({ "list": list }));
        let text = list.to_string();
        assert_eq!(kept["list"], json!({ "sha256": sha256(text.as_bytes()), "bytes": text.len() }));
    }

    #[test]
    fn short_arguments_are_kept_in_full() {
        let arguments = json!({ "command": "x".repeat(10_000), "timeout": 3 });
        assert_eq!(bounded(&arguments), (arguments, vec![]));
    }

    #[test]
    fn of_long_arguments_the_short_ones_stay_readable() {
        let content = "y".repeat(100_000);
        let (kept, digested) = bounded(&json!({ "file_path": "a.txt", "content": content }));
        assert_eq!(digested, ["content"]);
        assert_eq!(kept["file_path"], "a.txt");
        assert_eq!(kept["content"], json!({ "sha256": sha256(content.as_bytes()), "bytes": 100_000 }));
    }

    #[test]
    fn arguments_that_are_long_in_many_ways_become_one_digest() {
        let many: Map<_, _> = (0..2000).map(|n| (format!("field{n}"), json!("x".repeat(100)))).collect();
        for arguments in [Value::Object(many), json!([vec!["x"; 10_000]]), json!("x".repeat(20_000))] {
            let (kept, digested) = bounded(&arguments);
            assert_eq!((kept["bytes"].is_u64(), digested), (true, vec!["*".to_owned()]));
        }
    }
}
