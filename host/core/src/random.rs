//! Unguessable names and numbers from the system's random source. Fails where the system gives none.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Bytes of a name that is as hard to guess as a key: 256 bits.
pub const KEY: usize = 32;

/// A new name of so many random bytes, written in letters, digits, `-` and `_`.
///
/// # Errors
/// The system gives no random numbers.
pub fn name<const BYTES: usize>() -> io::Result<String> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes::<BYTES>()?))
}

/// `COUNT` random bytes.
///
/// # Errors
/// The system gives no random numbers.
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}
