//! Guests that allocate memory, and one that tries to keep state.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a memory page holds; touching one byte of each makes the memory real.
const PAGE: usize = 4096;

/// What is asked for at a time where the whole may be more than one allocation can be.
const PIECE: usize = 1 << 20;

static CALLS: AtomicU64 = AtomicU64::new(0);

deed! {
    /// Counts the calls that this instance has had: 1, if every call gets a fresh one.
    CountCalls, "count_calls" {} |self, _context| {
        Ok((CALLS.fetch_add(1, Ordering::Relaxed) + 1).to_string().into())
    }
}

deed! {
    /// Allocates bytes in pieces of 1 MiB and touches every page; may ask for more than 4 GiB.
    Allocate, "allocate" { bytes: u64 } |self, _context| {
        let mut pieces = Vec::new();
        let mut held = 0;
        while held < self.bytes {
            pieces.push(touched(PIECE));
            held += PIECE as u64;
        }
        Ok(format!("allocated {held} bytes in {} pieces", pieces.len()).into())
    }
}

deed! {
    /// Tries to allocate bytes at once, and says so if it cannot.
    Fill, "fill" { bytes: usize } |self, _context| {
        let mut memory = Vec::<u8>::new();
        memory.try_reserve_exact(self.bytes)?;
        memory.resize(self.bytes, 1);
        Ok(format!("filled {} bytes", std::hint::black_box(memory).len()).into())
    }
}

deed! {
    /// Allocates for ever and never gives back.
    Leak, "leak" {} |self, _context| {
        loop {
            std::mem::forget(touched(PIECE));
        }
    }
}

fn touched(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(memory)
}
