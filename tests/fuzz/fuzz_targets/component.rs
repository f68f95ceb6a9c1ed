//! Any bytes as a component's file: inspected, never run.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match haft::plugin::inspect::read_sections(bytes) {
        Ok(sections) => drop(sections.contract()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
