//! Payloads of any size: sent inside a message, or, if too large, in pieces stored at the server. The subjects of
//! the pieces belong to the worker that sends or receives them, so no other worker may read them, and the pieces
//! are encrypted with a key that only the message contains. Sizes are bounded in both directions.

use std::time::Duration;

use async_nats::client::traits::Publisher as _;
use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::link::Link;
use super::message::random_name;
use super::stores::Kept;
use super::{LinkError, subjects, unusable};
use haft_core::encoding::hex;

/// The header that holds a [`Stored`].
const OBJECT: &str = "Haft-Object";

/// The number of bytes of a message that are reserved for its subject, its headers and encryption.
const HEAD: usize = 8 << 10;

/// The maximum size of a payload in bytes: several times the largest answer of a plugin, with attachments in
/// base64.
pub(crate) const MAX_PAYLOAD: usize = 256 << 20;

/// The maximum number of pieces: servers accept messages of a megabyte, or of an eighth if configured so.
const MAX_PIECES: usize = 2048;

/// Time limit for storing or reading a payload.
const MOVING: Duration = Duration::from_mins(1);

/// A payload, ready to be sent any number of times.
#[derive(Clone)]
pub(crate) struct Payload {
    bytes: Bytes,
    stored: Option<String>,
}

/// The location and the key of the pieces: `NAME PIECES KEY`.
struct Stored {
    name: String,
    pieces: usize,
    key: LessSafeKey,
}

impl Payload {
    /// Prepares `bytes`, sent to or by `worker`; stores them at the server if they are too large for a message.
    pub(crate) async fn new(link: &Link, worker: &str, bytes: Vec<u8>) -> Result<Self, LinkError> {
        let most = room(link);
        if bytes.len() <= most {
            return Ok(Self { bytes: bytes.into(), stored: None });
        }
        let pieces = bytes.len().div_ceil(most);
        if bytes.len() > MAX_PAYLOAD || pieces > MAX_PIECES {
            let travels = MAX_PAYLOAD.min(most.saturating_mul(MAX_PIECES));
            let why = format!("{} bytes; the limit is {travels}", bytes.len());
            return Err(LinkError::Server { what: "a payload is too large", why });
        }
        let what = "a payload cannot be stored";
        let bits = haft_core::random::bytes::<32>().map_err(|error| unusable(what, &error))?;
        let stored = Stored { name: random_name()?, pieces, key: key(&bits)? };
        let put = tokio::time::timeout(MOVING, stored.put(link, worker, &bytes, most)).await;
        put.map_err(|late| unusable(what, &late))??;
        let header = format!("{} {pieces} {}", stored.name, hex(&bits));
        Ok(Self { bytes: Bytes::new(), stored: Some(header) })
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) async fn send(
        self,
        link: &Link,
        subject: impl Into<async_nats::Subject>,
        reply: Option<String>,
    ) -> Result<(), LinkError> {
        let headers = self.stored.map(|stored| {
            let mut headers = HeaderMap::new();
            headers.insert(OBJECT, stored);
            headers
        });
        let (subject, reply, payload) = (subject.into(), reply.map(Into::into), self.bytes);
        let sent = link.client.publish_message(OutboundMessage { subject, reply, payload, headers }).await;
        sent.map_err(|error| unusable("a message cannot be sent", &error))
    }
}

impl Stored {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (name, pieces, digits) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        let is_name = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits: Vec<u8> = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok())
            .collect::<Option<_>>()?;
        let key = key(&bits.try_into().ok()?).ok()?;
        (is_name && pieces <= MAX_PIECES).then(|| Self { name: name.to_owned(), pieces, key })
    }

    async fn put(&self, link: &Link, worker: &str, bytes: &[u8], most: usize) -> Result<(), LinkError> {
        let what = "a payload cannot be stored";
        Kept::Payloads.stream(link).await?;
        let mut sent = Vec::new();
        for (at, piece) in bytes.chunks(most).enumerate() {
            let mut piece = piece.to_vec();
            let sealed = self.key.seal_in_place_append_tag(nonce(at), Aad::empty(), &mut piece);
            sealed.map_err(|_| unusable(what, &"it cannot be encrypted"))?;
            let subject = subjects::payload(&link.prefix, worker, &self.name, at);
            let publish = link.jetstream.publish(subject, piece.into()).await;
            sent.push(publish.map_err(|error| unusable(what, &error))?);
        }
        for taken in sent {
            taken.await.map_err(|error| unusable(what, &error))?;
        }
        Ok(())
    }

    async fn get(&self, link: &Link, worker: &str, most: usize) -> Result<Bytes, LinkError> {
        let what = "a payload cannot be read";
        let stream = Kept::Payloads.stream(link).await?;
        let mut bytes = Vec::new();
        for at in 0..self.pieces {
            let subject = subjects::payload(&link.prefix, worker, &self.name, at);
            let piece = stream.direct_get_last_for_subject(subject).await;
            let mut piece = Vec::from(piece.map_err(|error| unusable(what, &error))?.payload);
            let opened = self.key.open_in_place(nonce(at), Aad::empty(), &mut piece);
            bytes.extend_from_slice(
                opened.map_err(|_| unusable(what, &"its content differs from what was sent"))?,
            );
            if bytes.len() > most {
                return Err(unusable(what, &format!("it has more than {most} bytes")));
            }
        }
        Ok(bytes.into())
    }

    /// Frees the storage: replaces each piece by an empty message, which expires too.
    async fn clear(&self, link: &Link, worker: &str) {
        for at in 0..self.pieces {
            let subject = subjects::payload(&link.prefix, worker, &self.name, at);
            if let Err(error) = link.client.publish(subject, Bytes::new()).await {
                tracing::debug!("a payload was not removed from the server: {error}");
            }
        }
    }
}

/// Makes the cipher of a key, which is used for one payload only.
fn key(bits: &[u8; 32]) -> Result<LessSafeKey, LinkError> {
    let key = UnboundKey::new(&AES_256_GCM, bits);
    key.map(LessSafeKey::new).map_err(|_| unusable("a payload cannot be encrypted", &"a bug in haft"))
}

/// Returns the unique nonce of a piece.
fn nonce(piece: usize) -> Nonce {
    let mut bytes = [0; ring::aead::NONCE_LEN];
    for (slot, byte) in bytes.iter_mut().zip((piece as u64).to_le_bytes()) {
        *slot = byte;
    }
    Nonce::assume_unique_for_key(bytes)
}

/// Returns the maximum size of a payload in a message of this server, in bytes.
pub(crate) fn room(link: &Link) -> usize {
    link.client.max_payload().saturating_sub(HEAD).max(1)
}

pub(crate) fn is_whole(message: &Message) -> bool {
    message.headers.is_none()
}

/// Reads a payload of `worker`, of at most `most` bytes: from the message, or from the server.
pub(crate) async fn received(
    link: &Link,
    worker: &str,
    message: &Message,
    most: usize,
) -> Result<Bytes, LinkError> {
    let header = message.headers.as_ref().and_then(|headers| headers.get(OBJECT));
    let Some(header) = header else { return Ok(message.payload.clone()) };
    let what = "a payload cannot be read";
    let stored = Stored::read(header.as_str()).ok_or_else(|| unusable(what, &"no object has this name"))?;
    let moved = tokio::time::timeout(MOVING, stored.get(link, worker, most)).await;
    let bytes = moved.map_err(|late| unusable(what, &late))??;
    stored.clear(link, worker).await;
    Ok(bytes)
}
