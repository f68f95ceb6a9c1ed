//! The persistent state of plugins, bounded by quotas. Independent of the plugin host: the caller checks rights
//! and cancellation.
//!
//! - [`Homes`] and [`Owner`]: the location, the size and the removal of a plugin's data.
//! - [`Store`]: keys and values, changed in transactions; an acknowledged change survives the end of the
//!   process.
//! - [`FileQuota`]: the size limit of a private directory that several processes write.

mod owner;
mod quota;
mod size;
mod store;
mod usage;

pub use self::owner::{Homes, Kept, Owner, Swept};
pub use self::quota::{FileQuota, QuotaError};
pub use self::store::bounds::{MAX_KEY, MAX_READ, MAX_VALUE, WAIT};
pub use self::store::error::StoreError;
pub use self::store::{Change, Keys, Store};
pub use self::usage::Usage;

#[cfg(test)]
mod tests;
