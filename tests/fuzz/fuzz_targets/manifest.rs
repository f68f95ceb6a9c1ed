//! Any bytes as program.toml: they parse, or the report of their errors can be shown.

#![no_main]

use std::path::Path;

use haft::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(report) = Manifest::parse_bytes(bytes, Path::new("program.toml")) {
        assert!(!report.problems().is_empty());
        assert!(report.to_string().starts_with("error: "));
    }
});
