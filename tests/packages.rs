//! Third-party packages as a user sees them: every verb, by the program itself, on real folders, archives,
//! repositories and a server of the test.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod add;
mod attested;
mod consent;
mod foreign;
mod hostile;
mod keep;
mod narrow;
mod outward;
mod place;
mod planted;
mod plugins;
mod registry;
mod remote;
mod rights;
mod sdist;
mod search;
mod signer;
mod skills;
mod together;
mod update;
mod versions;
