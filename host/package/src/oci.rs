//! Packages from and to OCI registries. Trusts no registry with the content that it serves, and sends a
//! credential only to the registry that it was stored for.
//!
//! - [`Reference`]: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`. Only this machine is reached without TLS.
//! - [`pull()`], [`resolve`]: a manifest, its one layer ([`Content`]), its signer.
//! - [`tags()`]: the tags of a repository.
//! - [`push()`]: uploads a component or an archive in a form that other clients can read.
//!
//! The protocol is the OCI distribution specification. It takes few requests and is implemented here instead of
//! by a client library: every response has a size limit, every redirect and token realm is checked before a
//! request is sent to it, and every retry has an end.

mod credential;
mod credentials;
mod error;
mod exchange;
mod manifest;
mod pull;
mod push;
mod reference;
mod registry;
mod token;

pub use self::credentials::{Access, CredentialFiles};
pub use self::error::{Failure, OciError};
pub use self::manifest::{COMPONENT, Content, PACKAGE};
pub use self::pull::{Pulled, pull, resolve};
pub use self::push::{Publication, Pushed, push};
pub(crate) use self::reference::NotAReference;
pub use self::reference::Reference;
pub use self::registry::tags;
