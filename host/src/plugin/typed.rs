//! Components that know nothing of tools: each function they export is one, its types the schema.

/// Whether an export is no tool's: a standard interface that hosts of other kinds call, what a
/// toolchain needs for itself, or a method of a resource.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with("wasi:") || name.starts_with("cabi_") || name.starts_with('_') || name.starts_with('[')
}
