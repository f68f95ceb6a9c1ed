//! What depends on the operating system is in files of the same functions, one a system, and one file chooses.

use std::ffi::OsStr;

use super::{code, sources};

/// A condition on the system, but for that on the C library: see `heap.rs`.
const CONDITIONS: &[&str] = &["target_os", "cfg(unix", "cfg(windows", "cfg(not(unix", "target_vendor"];

#[test]
fn the_system_is_asked_for_in_files_called_platform_alone() {
    let mut wrong = Vec::new();
    let mut choices = 0;
    for (file, text) in sources() {
        let lines = code(&text).filter(|(_, line)| CONDITIONS.iter().any(|word| line.contains(word)));
        // The tests of a whole file may be of one system.
        let is_test = |line: &str| line.starts_with("#![cfg(") && file.ends_with("tests.rs");
        let (chosen, strays): (Vec<_>, Vec<_>) = lines.partition(|(_, line)| {
            file.file_name() == Some(OsStr::new("platform.rs")) && line.starts_with("#[cfg(") || is_test(line)
        });
        choices += chosen.len();
        wrong.extend(strays.iter().map(|(line, text)| format!("{}:{line}: {text}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(choices > 10, "found only {choices} conditions");
}
