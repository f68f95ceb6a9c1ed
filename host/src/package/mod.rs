//! Packages: finding, checking, installing and keeping other people's plugins. Runs none of their code.
//!
//! - [`PackageSource`]: where one comes from, parsed from what a person writes.
//! - [`fetch`]: brings it to a temporary place, within bounds, with its digest.

mod archive;
mod digest;
mod fetch;
mod folder;
mod inventory;
mod listing;
pub mod oci;
mod progress;
mod source;

pub use self::digest::{Digest, DigestError, Hasher};
pub use self::fetch::{Content, FetchError, Fetched, Fetching, fetch};
pub use self::progress::{Progress, Step};
pub use self::source::{PackageSource, SourceError};

/// The largest file that is fetched, and the most that the files of one package may have together:
/// ten times a component with a whole Python inside.
pub const MAX_SIZE: u64 = 256 << 20;
