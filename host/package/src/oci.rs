//! Packages from OCI registries and to them. Trusts no registry for what was fetched from it, and
//! shows a credential to none but the one it was stored for.
//!
//! - [`Reference`]: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`. Only this machine is spoken to
//!   without TLS.
//! - [`pull()`], [`describe`], [`resolve`]: a manifest, its one layer ([`Content`]), who signed it.
//! - [`tags()`]: what else a repository has.
//! - [`push()`]: a component or an archive, so that other clients can read it.
//!
//! The protocol is the distribution specification's, a handful of requests, spoken here and not by
//! another's client: every answer has a bound, redirects and places for tokens are judged before
//! anything is sent there, and nothing is asked for ever.

mod access;
mod challenge;
mod content;
mod credential;
mod credentials;
mod document;
mod error;
mod exchange;
mod helper;
mod manifest;
mod pull;
mod push;
mod reference;
mod registry;
mod signatures;
mod tags;
mod token;

pub use self::access::Access;
pub use self::content::{COMPONENT, Content, PACKAGE};
pub use self::credentials::CredentialFiles;
pub use self::error::{Failure, OciError};
pub use self::pull::{Described, Pulled, describe, pull, resolve};
pub use self::push::{Publication, Pushed, push};
pub use self::reference::{DEFAULT_TAG, NotAReference, Reference, SCHEME};
pub use self::tags::tags;
