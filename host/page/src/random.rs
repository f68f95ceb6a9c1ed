//! Unguessable names from the system's random source. Fails where the system gives none.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a name: 128 bits. A longer link is broken by narrow terminals.
const BYTES: usize = 16;

/// A new name, of letters, digits, `-` and `_`.
pub(crate) fn name() -> io::Result<String> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes::<BYTES>()?))
}

/// `COUNT` random bytes.
pub(crate) fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}
