//! Signatures of files by minisign. Reads the file in chunks, except for legacy signatures, which sign the
//! complete file instead of its hash.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::{Error, PublicKey as Verifier, Signature};

use super::{PublicKey, SignatureError, key};
use crate::MAX_SIZE;

/// Number of bytes per read.
const CHUNK: usize = 64 << 10;

pub(super) fn claim(text: &str) -> String {
    let bytes = text.lines().nth(1).and_then(|line| STANDARD.decode(line.trim()).ok());
    match bytes.as_deref().and_then(|bytes| bytes.get(2..10)) {
        Some(id) => format!("with the minisign key {}", key::identifier(id)),
        None => "in an unreadable form".to_owned(),
    }
}

/// Verifies that `key` signed the file; returns the reason if not.
pub(super) fn verify(text: &str, path: &Path, key: &PublicKey) -> Result<Result<(), String>, SignatureError> {
    let Some(verifier) = key.minisign().and_then(|word| Verifier::from_base64(&word).ok()) else {
        return Ok(Err("the key is not a minisign key".to_owned()));
    };
    let Ok(signature) = Signature::decode(text) else {
        return Ok(Err("it is not a signature".to_owned()));
    };
    let unreadable = |error: io::Error| SignatureError::Read {
        path: path.display().to_string(),
        error: error.to_string(),
    };
    let outcome = verified(&verifier, &signature, path).map_err(unreadable)?;
    Ok(outcome.map_err(|error| match error {
        Error::UnexpectedKeyId => "it was made with another key".to_owned(),
        _ => "it is not a signature of this file".to_owned(),
    }))
}

fn verified(verifier: &Verifier, signature: &Signature, path: &Path) -> io::Result<Result<(), Error>> {
    let mut file = File::open(path)?.take(MAX_SIZE);
    let mut stream = match verifier.verify_stream(signature) {
        Ok(stream) => stream,
        Err(Error::UnsupportedLegacyMode) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(verifier.verify(&bytes, signature, true));
        }
        Err(error) => return Ok(Err(error)),
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(stream.finalize()),
            read => stream.update(chunk.get(..read).unwrap_or_default()),
        }
    }
}
