//! A file of a project template.

/// A file of a project template.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The path, relative to the project's folder.
    pub path: &'static str,
    /// The content.
    pub text: &'static str,
}
