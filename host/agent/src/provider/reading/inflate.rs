//! Decompresses a response that a server compressed unasked: detected from its first bytes, not from its headers.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use crate::provider::error::Failure;

/// The magic bytes of gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The state of a response.
#[derive(Default)]
pub(in crate::provider) enum Inflate {
    /// No byte has arrived.
    #[default]
    Unknown,
    /// Only the first byte of a possible gzip header has arrived.
    First,
    Plain,
    Packed(Box<MultiGzDecoder<Bounded>>),
}

/// A buffer with a size limit in bytes.
pub(in crate::provider) struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflate {
    /// Decompresses the next piece to at most `most` bytes.
    pub(in crate::provider) fn take(&mut self, piece: &[u8], most: usize) -> Result<Vec<u8>, Failure> {
        let mut piece = piece.to_vec();
        if matches!(self, Self::First) {
            piece.splice(0..0, GZIP.iter().take(1).copied());
            *self = Self::Unknown;
        }
        if matches!(self, Self::Unknown) {
            *self = match piece.as_slice() {
                [] => Self::Unknown,
                [first] if GZIP.first() == Some(first) => Self::First,
                start if start.starts_with(GZIP) => {
                    Self::Packed(Box::new(MultiGzDecoder::new(Bounded { bytes: Vec::new(), most })))
                }
                _ => Self::Plain,
            };
        }
        match self {
            Self::Plain => Ok(piece),
            Self::Unknown | Self::First => Ok(Vec::new()),
            Self::Packed(decoder) => {
                decoder.get_mut().most = most;
                let unpacked = decoder.write_all(&piece).and_then(|()| decoder.flush());
                let bytes = std::mem::take(&mut decoder.get_mut().bytes);
                match unpacked {
                    Ok(()) => Ok(bytes),
                    Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(Failure::TooLarge(most)),
                    Err(error) => {
                        Err(Failure::Malformed(format!("the answer is packed, and broken: {error}")))
                    }
                }
            }
        }
    }
}
