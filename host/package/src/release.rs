//! haft's own releases: found, verified, and put in the place of the two programs that are installed. It takes
//! nothing that is not signed, and replaces nothing that another installer looks after.
//!
//! 1. [`Installation::open`] refuses where haft cannot or must not replace itself.
//! 2. [`Updater::find`] fetches `SHA256SUMS`, verifies its signature, and chooses the tarball of this machine.
//! 3. [`Updater::install`] fetches that tarball, compares its digest, unpacks it beside the installed programs, asks
//!    the new one for its version, and replaces both by renaming.

mod error;
mod installation;
mod owner;
mod releases;
mod replace;
mod sums;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use semver::Version;
use tokio_util::sync::CancellationToken;

pub use self::error::ReleaseError;
pub use self::installation::Installation;
pub use self::owner::Owner;
pub use self::releases::Releases;
use self::replace::Pair;
use self::sums::Tarball;
use super::archive::{self, Form};
use super::signature::{self, Trust};
use super::{Digest, Progress, folder};
use haft_core::grant::{Grant, Root};
use haft_core::tool::{Context, Own};
use haft_sandbox::confine::Confiner;
use haft_sandbox::process::{self, ExitReason, Output, ProcessSpec};

/// The list of a release's digests.
const SUMS: &str = "SHA256SUMS";

/// Bytes of that list: a hundred times one with every channel.
const MAX_SUMS: u64 = 256 << 10;

/// Bytes of a tarball: four times one.
const MAX_TARBALL: u64 = 64 << 20;

/// How long the new program may take to say its version: a thousand times what it takes.
const TRYING: Duration = Duration::from_secs(20);

/// Characters of what it says that are kept.
const MAX_SAID: usize = 1000;

/// What an update works with.
#[derive(Debug)]
pub struct Updater<'a> {
    /// Where releases are.
    pub releases: &'a Releases,
    /// The key that has to have signed them. [`Trust::Nobody`] takes none.
    pub trust: &'a Trust,
    /// Who hears how far a fetch has come.
    pub progress: &'a Progress,
    /// What holds the new program to its rights while it is tried: reading, and nothing else.
    pub confiner: &'a Confiner,
}

/// A release that was verified to be one.
#[derive(Clone, Debug)]
pub struct Release {
    tarball: Tarball,
}

impl Release {
    /// Its version.
    pub fn version(&self) -> &Version {
        &self.tarball.version
    }
}

/// The name that releases have for this machine, such as `x86_64-unknown-linux-musl`; `None` where there are none.
pub fn target() -> Option<String> {
    let processor = std::env::consts::ARCH;
    let is_made = std::env::consts::OS == "linux" && ["x86_64", "aarch64"].contains(&processor);
    is_made.then(|| format!("{processor}-unknown-linux-musl"))
}

impl Updater<'_> {
    /// The newest release, or the one with this version. Fetches into `directory`, of this call alone.
    pub async fn find(&self, version: Option<&Version>, directory: &Path) -> Result<Release, ReleaseError> {
        let target = target().ok_or(ReleaseError::Machine)?;
        let file = directory.join(SUMS);
        self.releases.fetch(version, SUMS, &file, MAX_SUMS, self.progress).await?;
        self.releases.fetch_signature(version, SUMS, &file, self.progress).await?;
        let verdict = signature::verify_file(&file, self.trust);
        let verdict = verdict.map_err(|error| ReleaseError::Signature { file: SUMS.to_owned(), error })?;
        if verdict.signer().is_none() {
            return Err(ReleaseError::NoKey);
        }
        let text = fs::read_to_string(&file).map_err(ReleaseError::io("read", &file))?;
        let none = || ReleaseError::None { version: version.cloned(), target: target.clone() };
        let tarball = sums::tarballs(&text, &target)
            .filter(|tarball| version.is_none_or(|version| *version == tarball.version))
            .max_by(|one, other| one.version.cmp_precedence(&other.version));
        tarball.map(|tarball| Release { tarball }).ok_or_else(none)
    }

    /// Puts `release` in the place of what is installed: both programs, or none. Whatever fails, the programs
    /// that were there are there again.
    pub async fn install(&self, release: &Release, installation: &Installation) -> Result<(), ReleaseError> {
        let Tarball { version, name, digest } = &release.tarball;
        let file = installation.arriving().join(name);
        self.releases.fetch(Some(version), name, &file, MAX_TARBALL, self.progress).await?;
        let (found, _) = Digest::of_file(&file, MAX_TARBALL).map_err(ReleaseError::io("read", &file))?;
        if found != *digest {
            return Err(ReleaseError::Digest { name: name.clone(), found, expected: digest.clone() });
        }
        let to = installation.arriving().join("unpacked");
        let (from, into) = (file.clone(), to.clone());
        let unpacked = tokio::task::spawn_blocking(move || archive::unpack_any(&from, Form::Gzip, &into));
        let unpacked = unpacked.await.map_err(|error| ReleaseError::Try(error.to_string()))?;
        unpacked.map_err(|error| ReleaseError::Archive { name: name.clone(), error })?;
        let new = Pair::within(&to.join(name.trim_end_matches(".tar.gz")));
        new.settle(name)?;
        self.try_out(&new.haft, version, installation.arriving()).await?;
        replace::replace(&new, installation.pair(), installation.arriving())
    }

    /// Asks a program for its version, with the right to read and no other.
    async fn try_out(&self, program: &Path, version: &Version, at: &Path) -> Result<(), ReleaseError> {
        let failed = |error: &dyn std::fmt::Display| ReleaseError::Try(error.to_string());
        let root = Root::resolve(Path::new("/"), at).map_err(|error| failed(&error))?;
        let grant = Grant::none().with_read_anywhere().with_workspace(root);
        let spec = ProcessSpec {
            program: program.to_owned(),
            arguments: vec!["--version".into()],
            input: Vec::new(),
            output: Output::Separate,
            limit: MAX_SAID,
            timeout: TRYING,
            environment: Vec::new(),
        };
        let (own, cancel) = (Own::default(), CancellationToken::new());
        let context = Context { cancel: &cancel, ..own.context(&grant) };
        let finished = process::run(self.confiner, &spec, "--version", &context).await;
        let mut finished = finished.map_err(|error| failed(&error))?;
        let said = finished.stdout.render(MAX_SAID);
        match finished.end {
            ExitReason::Exited(status) if status.success() && said.trim() == format!("haft {version}") => {
                Ok(())
            }
            ExitReason::Exited(status) if status.success() => {
                Err(ReleaseError::Try(format!("it says `{}`", haft_core::report::plain(said.trim()))))
            }
            ExitReason::Exited(status) => Err(failed(&format_args!("it ended with {status}"))),
            ExitReason::TimedOut => {
                Err(failed(&format_args!("it said nothing within {} seconds", TRYING.as_secs())))
            }
            ExitReason::Cancelled => Err(failed(&"it was interrupted")),
        }
    }
}

impl Pair {
    /// Makes what was unpacked programs that are on the disk whole, or says what is missing.
    fn settle(&self, tarball: &str) -> Result<(), ReleaseError> {
        for program in [&self.haft, &self.helper] {
            if !program.is_file() {
                let missing = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(ReleaseError::Missing { name: tarball.to_owned(), missing });
            }
            fs::set_permissions(program, fs::Permissions::from_mode(0o755))
                .map_err(ReleaseError::io("write", program))?;
            folder::sync(program).map_err(|error| ReleaseError::Try(error.to_string()))?;
        }
        Ok(())
    }
}
