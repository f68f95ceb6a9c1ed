//! SHA-256 digests, the keys of stored content. A digest identifies content; it does not make it trustworthy.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use haft_core::encoding::hex;

/// Number of bytes per read.
const CHUNK: usize = 64 << 10;

/// A SHA-256 digest, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

/// The error of a text that is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a SHA-256 digest: `sha256:` and 64 hexadecimal digits")]
pub struct DigestError;

/// Computes a digest incrementally.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn hash(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the digest of a file and its size in bytes. Fails beyond `most` bytes.
    pub fn of_file(path: &Path, most: u64) -> io::Result<(Self, u64)> {
        let mut file = File::open(path)?.take(most.saturating_add(1));
        let (mut hasher, mut size, mut chunk) = (Hasher::default(), 0, vec![0; CHUNK]);
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                return Ok((hasher.finish(), size));
            }
            size += read as u64;
            if size > most {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("larger than {} MiB", most >> 20),
                ));
            }
            hasher.update(chunk.get(..read).unwrap_or_default());
        }
    }

    /// Returns the 64 hexadecimal digits alone: a valid file name on every file system.
    pub fn hex(&self) -> &str {
        &self.0
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let pairs = self.0.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
        pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
    }

    /// Returns the first 12 digits, enough for a person to distinguish digests.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Digest {
        Digest(hex(&self.0.finalize()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    /// Also accepts only the digits, as `sha256sum` prints them.
    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        let is_right = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_right.then(|| Self(hex.to_ascii_lowercase())).ok_or(DigestError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of the empty input, as `sha256sum` prints it.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::hash(b"");
        assert_eq!(digest.to_string(), format!("sha256:{EMPTY}"));
        assert_eq!(digest.to_string().parse(), Ok(digest.clone()));
        assert_eq!(EMPTY.to_uppercase().parse(), Ok(digest.clone()));
        assert_eq!(digest.short(), "e3b0c44298fc");
        for wrong in ["", "sha256:", "sha256:00", "md5:00", &format!("sha256:{}", "g".repeat(64))] {
            assert_eq!(wrong.parse::<Digest>(), Err(DigestError), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = vec![7; 100_000];
        std::fs::write(file.path(), &bytes).unwrap();
        let (digest, size) = Digest::of_file(file.path(), 100_000).unwrap();
        assert_eq!((digest, size), (Digest::hash(&bytes), 100_000));
        let error = Digest::of_file(file.path(), 99_999).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
