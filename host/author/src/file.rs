//! A file of a new project, as a template has it.

/// A file of a template.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it belongs, relative to the project's folder.
    pub path: &'static str,
    /// What is in it.
    pub text: &'static str,
}
