//! A page for a browser on the same machine: the calls of every haft process of this user, the refusals, and the
//! calls that wait for approval, which the person answers there. It changes no grant and no program.toml.
//!
//! - [`Desk`]: the directory in which calls wait for a person, and through which any process detects an open page.
//! - [`Server`]: the page itself, on a loopback address. It reads the journal and the sessions; a [`Catalogue`]
//!   lists the tools.
//!
//! The page consists of static files, with uPlot and marked; all texts of tools, models and callers are sent to the
//! browser as JSON and inserted as text.

mod assets;
mod catalogue;
mod desk;
mod history;
mod live;
mod overview;
mod server;
mod sessions;
mod statistics;

pub use self::catalogue::{Catalogue, Offer, Offered};
pub use self::desk::{Desk, Origin, PageApprover};
pub use self::server::{Link, Places, Server};
