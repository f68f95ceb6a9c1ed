//! What plugins keep between calls, bounded by quotas. Knows no plugin host: rights and waits of a call are its
//! caller's.
//!
//! - [`Homes`] and [`Owner`]: where what one plugin of one program keeps is, how much it is, and how it is removed.
//! - [`Store`]: keys and values, changed in transactions; what was acknowledged survives the end of the process.
//! - [`FileQuota`]: how much there may be in a private directory, whoever of several processes writes there.

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
