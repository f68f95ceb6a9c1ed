//! The user's keyring, whatever the system has for one. Only ever read.

mod platform;

pub(super) use self::platform::{how_to_store, read};
