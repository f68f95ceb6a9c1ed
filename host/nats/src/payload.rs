//! What is sent, whatever its size: in the message itself, or, where that is too large, in the object store under a name
//! that stands in the message. Bounded, on the way in too.

use std::time::Duration;

use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use super::error::{LinkError, unusable};
use super::link::Link;
use super::message::random_name;

/// The header with the name of the object that the payload is in.
const OBJECT: &str = "Haft-Object";

/// Bytes that are left of a message for its subject and headers.
const HEAD: usize = 8 << 10;

/// Bytes of a payload: several times the largest answer of a plugin, its attachments as base64.
const MAX_PAYLOAD: usize = 256 << 20;

/// How long one may take to be stored or read.
const MOVING: Duration = Duration::from_mins(1);

/// A payload, ready to be sent as often as needed.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    bytes: Bytes,
    object: Option<String>,
}

impl Payload {
    /// Puts `bytes` where they can be sent from.
    pub(crate) async fn new(link: &Link, bytes: Vec<u8>) -> Result<Self, LinkError> {
        let most = room(link);
        if bytes.len() <= most {
            return Ok(Self { bytes: bytes.into(), object: None });
        }
        if bytes.len() > MAX_PAYLOAD {
            let why = format!("{} bytes, and at most {MAX_PAYLOAD} travel", bytes.len());
            return Err(LinkError::Server { what: "a payload is too large", why });
        }
        let (name, store) = (random_name(), link.payloads().await?);
        let put = tokio::time::timeout(MOVING, store.put(name.as_str(), &mut bytes.as_slice())).await;
        let put = put.map_err(|late| unusable("a payload cannot be stored", &late))?;
        put.map_err(|error| unusable("a payload cannot be stored", &error))?;
        Ok(Self { bytes: Bytes::new(), object: Some(name) })
    }

    /// Bytes in memory.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Sends it.
    pub(crate) async fn send(
        self,
        link: &Link,
        subject: impl Into<async_nats::Subject>,
        reply: Option<String>,
    ) -> Result<(), LinkError> {
        let (client, subject) = (&link.client, subject.into());
        let sent = match (self.object, reply) {
            (None, None) => client.publish(subject, self.bytes).await,
            (None, Some(reply)) => client.publish_with_reply(subject, reply, self.bytes).await,
            (Some(object), None) => client.publish_with_headers(subject, named(&object), self.bytes).await,
            (Some(object), Some(reply)) => {
                client.publish_with_reply_and_headers(subject, reply, named(&object), self.bytes).await
            }
        };
        sent.map_err(|error| unusable("a message cannot be sent", &error))
    }
}

fn named(object: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(OBJECT, object);
    headers
}

/// Bytes of a payload that fit into one message of this server.
pub(crate) fn room(link: &Link) -> usize {
    link.client.max_payload().saturating_sub(HEAD)
}

/// Whether all of a payload came in the message.
pub(crate) fn is_whole(message: &Message) -> bool {
    message.headers.is_none()
}

/// What came: in the message, or where the message says.
pub(crate) async fn received(link: &Link, message: &Message) -> Result<Bytes, LinkError> {
    let name = message.headers.as_ref().and_then(|headers| headers.get(OBJECT));
    let Some(name) = name else { return Ok(message.payload.clone()) };
    let moved = tokio::time::timeout(MOVING, fetched(link, name.as_str())).await;
    moved.map_err(|late| unusable("a payload cannot be read", &late))?
}

async fn fetched(link: &Link, name: &str) -> Result<Bytes, LinkError> {
    let unreadable = "a payload cannot be read";
    let store = link.payloads().await?;
    let object = store.get(name).await.map_err(|error| unusable(unreadable, &error))?;
    let size = object.info().size;
    if size > MAX_PAYLOAD {
        return Err(LinkError::Server { what: unreadable, why: format!("it has {size} bytes") });
    }
    let mut bytes = Vec::with_capacity(size);
    // What is stored may be more than it says of itself.
    let read = object.take(size as u64 + 1).read_to_end(&mut bytes).await;
    if read.map_err(|error| unusable(unreadable, &error))? > size {
        return Err(LinkError::Server {
            what: unreadable,
            why: format!("it has more than the {size} bytes it says"),
        });
    }
    // Read once; what is left here goes by its age.
    if let Err(error) = store.delete(name).await {
        tracing::debug!("a payload stays in its bucket: {error}");
    }
    Ok(bytes.into())
}
