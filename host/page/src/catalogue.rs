//! What the page is told of the tools of a program, by whoever has one.

use async_trait::async_trait;
use haft_journal::Granted;
use serde::Serialize;

/// Knows the tools of the program that the page was opened for.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// The tools as they are now. Asked every few seconds while somebody looks at them.
    async fn offered(&self) -> Offered;
}

/// The tools of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offered {
    /// Its name, or its program.toml.
    pub program: Option<String>,
    /// The tools, in the order in which models are told of them.
    pub tools: Vec<Offer>,
    /// What is installed and is not what was agreed to: a line each.
    pub changes: Vec<String>,
    /// Why there are no tools, where the program cannot be loaded.
    pub problem: Option<String>,
}

/// A tool of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offer {
    /// The name that models see.
    pub name: String,
    /// What models are told of it.
    pub description: String,
    /// Where it comes from.
    pub origin: String,
    /// SHA-256 of the component, where it is one.
    pub digest: Option<String>,
    /// Tokens that its definition takes in a prompt, about.
    pub tokens: usize,
    /// Whether a person may be asked before a call.
    pub asks: bool,
    /// What it may do.
    pub grant: Granted,
}
