//! The interface through which the page gets the tools of a program.

use async_trait::async_trait;
use haft_journal::Granted;
use serde::Serialize;

/// Provides the tools of the program that the page was opened for.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// Returns the current tools. Called every few seconds while a browser shows them.
    async fn offered(&self) -> Offered;
}

/// The tools of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offered {
    /// The name of the program, or the path of its program.toml.
    pub program: Option<String>,
    /// The tools, in the order in which models see them.
    pub tools: Vec<Offer>,
    /// Differences between the installed and the approved versions, a line each.
    pub changes: Vec<String>,
    /// The reason if the program cannot be loaded.
    pub problem: Option<String>,
}

/// A tool of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offer {
    /// The name that models see.
    pub name: String,
    /// The description for models.
    pub description: String,
    /// The origin.
    pub origin: String,
    /// The SHA-256 of the component, if the tool is one.
    pub digest: Option<String>,
    /// The approximate tokens of its definition in a prompt.
    pub tokens: usize,
    /// Whether a person may have to approve a call.
    pub asks: bool,
    /// The rights.
    pub grant: Granted,
}
