//! `haft self-update`: replaces this haft with a newer release, where it came as a tarball. It takes nothing that the
//! key of haft's releases did not sign, and leaves a haft alone that another installer looks after.

use std::path::Path;

use clap::Args;
use semver::Version;
use serde_json::json;

use super::Exit;
use super::terminal::{Hinted, Terminal};
use crate::cli::common::Common;
use crate::cli::install_session::public_key;
use haft_package::release::{Installation, Owner, Release, ReleaseError, Releases, Updater};
use haft_package::signature::{PublicKey, Trust};

/// Names another place of releases than the one that this haft was built with.
const FROM: &str = "HAFT_UPDATE_FROM";

/// Where releases are, and the key that signs them: `.ci/dist` fills both in.
const REPOSITORY: Option<&str> = option_env!("HAFT_REPOSITORY");
const KEY: Option<&str> = option_env!("HAFT_MINISIGN_PUBLIC_KEY");

#[derive(Debug, Args)]
#[command(after_help = "\
`SHA256SUMS` of the release has to be signed with the key of haft's releases, and the tarball to be the one that it
names. The new haft is asked for its version before it takes the place of this one, together with `haft-confine`
beside it; whatever fails, both stay what they were. Where pip, npm, dpkg or another installer put haft, that one
updates it.")]
pub(super) struct SelfUpdate {
    /// Take this version, also where it is older or this one; the newest without it
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: Option<Version>,
    /// Only tell what there is
    #[arg(long)]
    check: bool,
    /// Take releases from this address or folder; `HAFT_UPDATE_FROM` does the same
    #[arg(long, value_name = "URL|FOLDER")]
    from: Option<String>,
    /// The minisign key that must have signed the release, in place of haft's own: itself or its file
    #[arg(long, value_name = "FILE|KEY")]
    key: Option<String>,
}

fn version(text: &str) -> Result<Version, semver::Error> {
    text.strip_prefix('v').unwrap_or(text).parse()
}

/// What there is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Install,
    /// The version is this one.
    Same,
    /// The newest release is older, and nobody asked for it.
    Older,
}

impl SelfUpdate {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let own = std::env::current_exe();
        let own = own.map_err(|error| failed(&ReleaseError::Nowhere(error.to_string())))?;
        // Refused before anything is fetched, and first of all: whose haft this is says more than what it does not know.
        let installation =
            if self.check { None } else { Some(Installation::open(&own).map_err(|e| failed(&e))?) };
        let (releases, trust) = (self.releases()?, self.trust()?);
        let confiner = common.options(terminal, false)?.confiner.unwrap_or_default();
        let progress = terminal.progress();
        let updater =
            Updater { releases: &releases, trust: &trust, progress: &progress, confiner: &confiner };
        let directory = tempfile::tempdir()?;
        let release = updater.find(self.version.as_ref(), directory.path()).await.map_err(|e| failed(&e))?;
        let current: Version = env!("CARGO_PKG_VERSION").parse()?;
        let step = self.step(&current, release.version());
        if let (Some(installation), Step::Install) = (&installation, step) {
            updater.install(&release, installation).await.map_err(|e| failed(&e))?;
        }
        self.tell(&current, &release, step, terminal)?;
        if self.check && step == Step::Install {
            terminal.hint(&way(&own));
        }
        Ok(Exit::Success)
    }

    fn step(&self, current: &Version, found: &Version) -> Step {
        match found.cmp_precedence(current) {
            std::cmp::Ordering::Equal if self.version.is_none() => Step::Same,
            std::cmp::Ordering::Less if self.version.is_none() => Step::Older,
            _ => Step::Install,
        }
    }

    fn tell(
        &self,
        current: &Version,
        release: &Release,
        step: Step,
        terminal: Terminal,
    ) -> anyhow::Result<()> {
        let found = release.version();
        if terminal.json {
            return terminal.json(&json!({
                "current": current.to_string(),
                "found": found.to_string(),
                "newer": step == Step::Install,
                "installed": step == Step::Install && !self.check,
            }));
        }
        terminal.data(&match step {
            Step::Install if self.check => format!("haft {found} is there; this is {current}\n"),
            Step::Install => format!("updated haft {current} to {found}\n"),
            Step::Same => format!("haft {current} is what there is\n"),
            Step::Older => {
                format!("haft {found} is older than this one, {current}; `--version {found}` takes it all the same\n")
            }
        })?;
        Ok(())
    }

    fn releases(&self) -> anyhow::Result<Releases> {
        let from = self.from.clone().or_else(|| std::env::var(FROM).ok()).filter(|from| !from.is_empty());
        let own = || REPOSITORY.filter(|own| !own.is_empty()).map(|own| Releases::Repository(own.to_owned()));
        from.map(|from| Releases::from_argument(&from)).or_else(own).ok_or_else(|| {
            Hinted::new(
                "this haft knows no address of releases: it was built from the sources",
                format!("build the newer sources, or name a place with `--from URL|FOLDER` or `{FROM}`"),
            )
            .into()
        })
    }

    /// The given key, else haft's own: without one nothing can be verified, and so nothing is taken.
    fn trust(&self) -> anyhow::Result<Trust> {
        if let Some(key) = public_key(self.key.as_deref())? {
            return Ok(Trust::Named(key));
        }
        let own = KEY.filter(|key| !key.is_empty()).ok_or_else(|| failed(&ReleaseError::NoKey))?;
        Ok(Trust::Release(PublicKey::parse(own)?))
    }
}

/// How this haft is brought to what was found.
fn way(own: &Path) -> String {
    match own.canonicalize().ok().and_then(|own| Owner::of(&own)) {
        Some(owner) => format!("{} installed this haft: {}", owner.who, owner.command),
        None => "`haft self-update` installs it".to_owned(),
    }
}

fn failed(error: &ReleaseError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => Hinted::new(error.to_string(), hint).into(),
        None => anyhow::anyhow!("{error}"),
    }
}
