//! Unguessable names and numbers from the system's random source. Fails if the system provides none.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The size in bytes of a name that is as hard to guess as a key: 256 bits.
pub const KEY: usize = 32;

/// Returns a new name of `BYTES` random bytes, written in letters, digits, `-` and `_`.
///
/// # Errors
/// The system provides no random numbers.
pub fn name<const BYTES: usize>() -> io::Result<String> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes::<BYTES>()?))
}

/// Returns `COUNT` random bytes.
///
/// # Errors
/// The system provides no random numbers.
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(bytes)
}
