//! The resource of `wasi:keyvalue`.

/// An open bucket: its name, which is a part of every key.
#[expect(unreachable_pub, reason = "the bindings hand it on")]
pub struct Bucket(pub(super) String);
