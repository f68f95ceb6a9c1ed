//! Code that depends on the operating system is a whole item or a whole file of one system.

use super::{code, sources};

/// Conditions on the system, without the condition on the C library in `heap.rs`.
const CONDITIONS: &[&str] = &["target_os", "cfg(unix", "cfg(windows", "cfg(not(unix", "target_vendor"];

/// The names of files that belong to one system, by system.
pub(super) const SYSTEMS: &[&str] = &["linux", "macos"];

#[test]
fn only_whole_items_and_files_depend_on_the_system() {
    let mut wrong = Vec::new();
    let mut choices = 0;
    for (file, text) in sources() {
        let lines = code(&text).filter(|(_, line)| CONDITIONS.iter().any(|word| line.contains(word)));
        // A file of tests may belong to one system.
        let is_test = |line: &str| line.starts_with("#![cfg(") && file.ends_with("tests.rs");
        let (chosen, strays): (Vec<_>, Vec<_>) = lines
            .partition(|(_, line)| SYSTEMS.iter().any(|system| is_choice(line, system)) || is_test(line));
        choices += chosen.len();
        wrong.extend(strays.iter().map(|(line, text)| format!("{}:{line}: {text}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(choices > 10, "found only {choices} conditions");
}

/// True if a line marks an item, or the file of a module, as code of `system`. The deepest accepted indentation is a
/// method's, because such conditions do not occur inside functions.
fn is_choice(line: &str, system: &str) -> bool {
    let item = format!("#[cfg(target_os = \"{system}\")]");
    line.strip_prefix("    ").unwrap_or(line) == item
        || line.starts_with(&format!("#[cfg_attr(target_os = \"{system}\", path = \""))
            && line.ends_with(&format!("/{system}.rs\")]"))
}
