//! What program.lock pins of the entries of program.toml, and the definitions that were agreed to.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft_core::report::{Problem, Span};
use haft_manifest::Located;
use haft_package::{Digest, Kind, Lock, PackageSource, Pin, Store};

/// What pins say of entries, and where what they pin is kept.
pub(super) struct Pinned<'a> {
    pub(super) lock: &'a Lock,
    pub(super) store: &'a Store,
}

impl Pinned<'_> {
    /// The pin of an entry that comes from `source`; a problem where it pins another one.
    pub(super) fn find(
        &self,
        kind: Kind,
        name: &str,
        source: &Located<PackageSource>,
    ) -> Result<Option<&Pin>, Problem> {
        match self.lock.find(kind, name) {
            Some(pin) if pin.source != source.value => {
                let problem =
                    Problem::new(format!("`{name}` is pinned from another source: `{}`", pin.source));
                let problem = problem.at(source.span, "not what program.lock says");
                Err(problem.hint(format!("`haft update {name}` installs what is written here")))
            }
            pin => Ok(pin),
        }
    }
}

/// Digests of the definitions that the user agreed to, by exposed names.
pub(super) type Agreed = Arc<BTreeMap<String, Digest>>;

/// What a pin says of them; nothing where an earlier haft noted none.
pub(super) fn agreed(pin: &Pin) -> Option<Agreed> {
    pin.disclosed.as_ref().map(|digests| Arc::new(digests.tools.clone()))
}

/// What is said of an entry that is not installed.
pub(super) fn not_installed(name: &str, span: Span) -> Problem {
    Problem::new(format!("`{name}` is not installed on this machine"))
        .at(span, "nothing was fetched from here")
        .hint("`haft add` installs what program.toml and program.lock name")
}
