//! The dashboard, for a browser on this machine: the calls of every haft process of this user, the refusals, and
//! the calls that wait for approval, which the user answers there. Changes no grant and no program.toml.
//!
//! - [`Desk`]: the directory in which calls wait for a user, and by which any process detects an open dashboard.
//! - [`Server`]: the dashboard, on a loopback address. It reads the journal and the sessions; a [`Catalogue`] lists
//!   the tools.
//!
//! The page consists of static files, with uPlot and marked; all texts of tools, models and callers are sent to the
//! browser as JSON and inserted as text.

mod desk;
mod history;
mod live;
mod overview;
mod server;
mod sessions;
mod statistics;

use async_trait::async_trait;
use serde::Serialize;

pub use self::desk::{Desk, Origin, PageApprover};
pub use self::server::{Link, Places, Server};
use haft_journal::Granted;

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
    /// The approximate number of tokens of the tool's definition in a prompt.
    pub tokens: usize,
    /// Whether a person may have to approve a call.
    pub asks: bool,
    /// The rights.
    pub grant: Granted,
}
