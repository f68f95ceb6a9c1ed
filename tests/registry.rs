//! Packages in registries: an honest registry, and one with every fault. `.ci/steps/registry` tests a real one.

pub(crate) mod fake;
mod hostile;
mod keyless;
mod login;
mod publish;
mod real;
mod signed;
mod tags;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft::backend::confine::Confiner;
use haft::grant::Grant;
use haft::package::oci::{self, Access, Pulled, Reference};
use haft::package::signature::{Trust, TrustRoot};
use haft::package::{FetchError, FetchGrants, Fetching, Progress};
use haft::provider::Retry;

/// The smallest valid component.
pub(crate) const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// An access with short delays between attempts.
pub(crate) fn access() -> Access {
    let retry = Retry { first_delay: Duration::from_millis(5), ..Retry::default() };
    Access { retry, ..Access::default() }
}

/// The target directory of one test's downloads.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The number of entries in the directory.
    pub(crate) fn left(&self) -> usize {
        std::fs::read_dir(self.path()).unwrap().count()
    }

    pub(crate) async fn pull(
        &self,
        reference: &Reference,
        access: &Access,
        trust: &Trust,
    ) -> Result<Pulled, FetchError> {
        self.pull_by(reference, access, trust, &TrustRoot::default()).await
    }

    pub(crate) async fn pull_by(
        &self,
        reference: &Reference,
        access: &Access,
        trust: &Trust,
        root: &TrustRoot,
    ) -> Result<Pulled, FetchError> {
        let fetching = Fetching {
            directory: self.path(),
            base: self.path(),
            home: self.path(),
            progress: Progress::default(),
            expected: None,
            access,
            asks: false,
            trust,
            root,
            confiner: &Confiner::open(),
            grants: &FetchGrants { fetch: Grant::none(), build: Grant::none() },
        };
        oci::pull(reference, &fetching).await
    }
}
