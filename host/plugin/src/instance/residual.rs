//! The check for resources that a guest left open after a call. It counts kinds of resources only; rights are checked
//! where things are opened.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

/// Streams that every guest may keep: its standard input, output and error.
const STANDARD_STREAMS: usize = 3;

/// Pollables that a guest may keep: those of its streams, and those that a C library never drops.
const MAX_KEPT: usize = 100;

/// Whether nothing is open but what a guest needs for any call: `directories` directories, standard
/// streams, and what waits for them. Not files, connections, requests or answers.
pub(crate) fn is_clean(table: &mut ResourceTable, directories: usize) -> bool {
    let (mut own, mut streams, mut others) = (0, 0, 0);
    for entry in table.iter_mut() {
        let entry: &dyn Any = entry;
        if let Some(descriptor) = entry.downcast_ref() {
            match descriptor {
                Descriptor::Dir(_) => own += 1,
                Descriptor::File(_) => return false,
            }
        } else if entry.is::<DynInputStream>() || entry.is::<DynOutputStream>() {
            streams += 1;
        } else if entry.is::<DynPollable>() {
            others += 1;
        } else {
            return false;
        }
    }
    own <= directories && streams <= STANDARD_STREAMS && others <= MAX_KEPT
}

#[cfg(test)]
mod tests {
    use wasmtime_wasi::filesystem::{Dir, File};
    use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
    use wasmtime_wasi::{FsPerms, OpenMode};

    use super::*;

    fn directory() -> Descriptor {
        let open = std::fs::File::open("/").unwrap();
        Descriptor::Dir(Dir::new(open, FsPerms::ReadOnly, OpenMode::READ, true))
    }

    fn table(fill: impl FnOnce(&mut ResourceTable)) -> ResourceTable {
        let mut table = ResourceTable::new();
        let (input, output): (DynInputStream, DynOutputStream) =
            (Box::new(ClosedInputStream), Box::new(SinkOutputStream));
        table.push(input).unwrap();
        table.push(output).unwrap();
        table.push(directory()).unwrap();
        fill(&mut table);
        table
    }

    /// What every guest has may stay; anything else that is open may not.
    #[test]
    fn what_is_open_is_seen() {
        assert!(is_clean(&mut table(|_| {}), 1));
        assert!(!is_clean(&mut table(|_| {}), 0), "a directory more than there are");
        let file = |table: &mut ResourceTable| {
            let open = std::fs::File::open("/dev/null").unwrap();
            let file = File::new(open, FsPerms::ReadOnly, OpenMode::READ, true);
            let _ = table.push(Descriptor::File(file)).unwrap();
        };
        assert!(!is_clean(&mut table(file), 1));
        let streams = |table: &mut ResourceTable| {
            for _ in 0..STANDARD_STREAMS {
                let stream: DynOutputStream = Box::new(SinkOutputStream);
                table.push(stream).unwrap();
            }
        };
        assert!(!is_clean(&mut table(streams), 1));
        let other = |table: &mut ResourceTable| {
            let _ = table.push("anything else").unwrap();
        };
        assert!(!is_clean(&mut table(other), 1));
    }
}
