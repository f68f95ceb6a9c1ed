//! Other people's packages, as a person meets them: every verb by way of the program itself, on real
//! folders, archives, repositories and a server of the test.

#![expect(clippy::disallowed_methods, reason = "these tests start part of haft")]

mod add;
mod attested;
mod consent;
mod foreign;
mod hostile;
mod keep;
mod outward;
mod place;
mod plugins;
mod registry;
mod remote;
mod rights;
mod sdist;
mod together;
mod update;
mod versions;
