//! What a guest has open when a call is over. Looks only at the kinds of things that it holds: that
//! it never has more than its grant is seen to where things are opened.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

/// Streams that every guest may keep: its standard input, output and error.
const STANDARD_STREAMS: usize = 3;

/// Things that a guest may keep without their being too many to be there for a reason: pollables of
/// its streams, and what a C library never gives back.
const MAX_KEPT: usize = 100;

/// Whether nothing is open but what a guest needs for any call: `directories` directories, standard
/// streams, and what waits for them. Not files, connections, requests or answers.
pub(super) fn is_clean(table: &mut ResourceTable, directories: usize) -> bool {
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
