//! Whether a file is an author's own, or that of a language's library or a dependency: a mistake is looked for in one's own.

/// Parts of the paths of Rust's library, of crates from a registry, of wasi-libc, of zig's library and of interpreters.
const LIBRARIES: &[&str] = &[
    "/rustc/",
    "/cargo/registry/",
    "/.cargo/registry/",
    "/cargo/git/",
    "/.cargo/git/",
    "/lib/libc/",
    "/wasi-libc/",
    "/lib/std/",
    "/site-packages/",
    "/python/lib/",
    "/node_modules/",
];

/// What such paths begin with where they are relative.
const BEGINNINGS: &[&str] = &["library/std/", "library/core/", "library/alloc/", "node_modules/"];

/// Files that `haft build` writes between the author's own and the component.
const GENERATED: &[&str] = &["src/bindings.rs", "build/bindings/", "build/js/", "haft_app.py", "wit_world/"];

/// Whether `path`, below a project's folder, was written by `haft build`.
pub(crate) fn is_generated(path: &str) -> bool {
    GENERATED.iter().any(|part| path.starts_with(part) || path.contains(&format!("/{part}")))
}

/// Whether `path` is in none of an author's own folders.
pub(crate) fn is_library(path: &str) -> bool {
    path.is_empty()
        || path.starts_with('<')
        || LIBRARIES.iter().any(|part| path.contains(part))
        || BEGINNINGS.iter().any(|beginning| path.starts_with(beginning))
}
