//! A page for a browser on the same machine: what every haft process of this user calls, what was refused, what waits for
//! a person, and the way to answer that. It changes no grant and no program.toml.
//!
//! - [`Desk`]: the directory in which calls wait for a person, and by which any process finds an open page.
//! - [`Server`]: the page itself, on a loopback address. It reads the journal and the sessions; what tools there are it
//!   is told by a [`Catalogue`].
//!
//! The page is files of its own, uPlot and marked; all that tools, models and callers wrote reaches the browser as
//! JSON and is put there as text.

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
