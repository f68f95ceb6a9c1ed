//! The files of a program: program.toml, its lock file, and the secrets that they name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Dirs;
use super::family::{FILE_NAME, Family};
use super::options::Options;
use super::skill_servers::skill_servers;
use super::trust::{Agreement, Known, LeftOut, Trust, Untrusted};
use super::upstream;
use haft_core::report::{Problem, Report, Span};
use haft_core::secret::Redactor;
use haft_manifest::{Located, Manifest, Secrets};
use haft_package::signature::Signer;
use haft_package::{Digest, Kind, Lock, PackageSource, Pin, Project, Store, lock_path};

/// The files of a program on this machine. Grants nothing.
pub(super) struct Loaded {
    pub(super) dirs: Dirs,
    pub(super) manifest: Manifest,
    pub(super) lock: Lock,
    pub(super) store: Store,
    pub(super) redactor: Redactor,
    /// The agent programs of the program.
    pub(super) family: Family,
    /// The requested permissions, and the user's agreement.
    pub(super) agreement: Agreement,
    pub(super) left_out: LeftOut,
    /// Problems of the servers that skills name in their heads.
    faults: Vec<Problem>,
}

impl Loaded {
    /// Reads program.toml and its lock file, and registers their secrets with the redactor.
    pub(super) async fn read(options: &Options) -> anyhow::Result<Self> {
        let mut dirs = Dirs::of_this_machine()?;
        let mut here = PathBuf::from(FILE_NAME);
        if let Some(folder) = &options.folder {
            dirs.here.clone_from(folder);
            here = folder.join(FILE_NAME);
        }
        let (mut manifest, lock) = read(options.program.as_deref(), &here).await?;
        // An agent of another program works in the workspace of its caller, and has the servers of its own files only.
        let declares = options.under.is_none();
        let faults = if declares { with_skill_servers(&mut manifest, &dirs) } else { Vec::new() };
        let (store, redactor) = (Store::new(&dirs.store), options.redactor.clone());
        let above = options.under.as_ref().map_or(&[][..], |under| under.chain.as_slice());
        let mut family = Family::read(&manifest, above, &dirs.home)?;
        let agreement = Agreement::new(&manifest, &lock, &family, &dirs);
        let left_out = trusted(&options.trust, &agreement, &mut manifest, &mut family)?;
        manifest.mcp_servers.extend(options.further_servers.iter().cloned());
        if let Some(name) = &options.learns {
            let servers =
                manifest.mcp_servers.iter_mut().map(|server| (server.name.as_str(), &mut server.grant));
            let tools = manifest.tools.iter_mut().map(|tool| (tool.name.as_str(), &mut tool.grant));
            for (_, grant) in servers.chain(tools).filter(|(own, _)| own == name) {
                grant.get_or_insert_default();
            }
        }
        family.learn(&dirs.home, &redactor);
        let loaded = Self { dirs, manifest, lock, store, redactor, family, agreement, left_out, faults };
        loaded.secrets().learn();
        // An agent has the proxy of the program that calls it.
        if options.under.is_none() || loaded.manifest.network.proxy.is_some() {
            upstream::choose(&loaded.manifest, &loaded.dirs.home, &loaded.secrets()).await?;
        }
        Ok(loaded)
    }

    /// Returns the problems of the files: omitted parts, unless a single tool is called, and unusable agents.
    pub(super) fn problems(&self, options: &Options) -> Vec<Problem> {
        let left_out = self.left_out.problem().filter(|_| options.only.is_none());
        let faults = self.faults.iter().filter(|_| options.only.is_none());
        left_out.into_iter().chain(self.family.problems().chain(faults).cloned()).collect()
    }

    /// Returns the files that define the program.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let program = self.manifest.file().unwrap_or(Path::new(FILE_NAME));
        let own = [program.to_owned(), lock_path(program)].into_iter();
        own.chain(self.family.files()).chain(self.agreement.files()).collect()
    }

    /// Returns the pin of the entry `name` with the source `source`; a problem if program.lock pins another
    /// source, or does not pin the required `signer`.
    pub(super) fn pin(
        &self,
        kind: Kind,
        name: &str,
        source: &Located<PackageSource>,
        signer: Option<&Located<String>>,
    ) -> Result<Option<&Pin>, Problem> {
        let required = signer.map(|signer| signer.value.parse::<Signer>());
        let is_signed = |pin: &Pin| match &required {
            Some(Ok(signer)) => pin.is_signed_by(signer),
            Some(Err(_)) => false,
            None => true,
        };
        match self.lock.find(kind, name) {
            Some(pin) if pin.source != source.value => {
                let problem =
                    Problem::new(format!("`{name}` is pinned from another source: `{}`", pin.source));
                let problem = problem.at(source.span, "differs from program.lock");
                Err(problem.hint(format!("`haft update {name}` installs this source")))
            }
            Some(pin) if is_signed(pin) => Ok(Some(pin)),
            None if required.is_none() => Ok(None),
            _ => {
                let text = format!("`{name}` is not installed with the signature that program.toml requires");
                let span = signer.map_or(source.span, |signer| signer.span);
                let problem = Problem::new(text).at(span, "program.lock does not pin this signer");
                Err(problem.hint("`haft add` checks the signature and pins the content"))
            }
        }
    }

    pub(super) fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.dirs.home, &self.redactor)
    }
}

/// Uses the proxy of the program, as far as the user agreed to it, without loading the program: for verbs that fetch.
///
/// # Errors
/// The proxy's login or certificate authorities cannot be read.
pub async fn use_network(options: &Options) -> anyhow::Result<()> {
    // The verb itself reports an invalid program.toml or program.lock.
    if read(options.program.as_deref(), Path::new(FILE_NAME)).await.is_err() {
        return Ok(());
    }
    let trust = match &options.trust {
        Trust::Agreed => Trust::LeftOut(Known::default()),
        trust => trust.clone(),
    };
    Loaded::read(&Options { trust, ..options.clone() }).await.map(drop)
}

impl Agreement {
    /// Returns the agreement of the program.toml at `path`, or of the one in the current directory.
    ///
    /// # Errors
    /// The file, or that of an agent, cannot be read.
    pub async fn of(path: Option<&Path>) -> anyhow::Result<Self> {
        let dirs = Dirs::of_this_machine()?;
        let (mut manifest, lock) = read(path, Path::new(FILE_NAME)).await?;
        with_skill_servers(&mut manifest, &dirs);
        let family = Family::read(&manifest, &[], &dirs.home)?;
        Ok(Self::new(&manifest, &lock, &family, &dirs))
    }
}

/// Adds the servers that skills name in their heads to `manifest`, so that consent, rights, seals and pins treat them as
/// entries of program.toml. Returns the problems of the heads.
fn with_skill_servers(manifest: &mut Manifest, dirs: &Dirs) -> Vec<Problem> {
    let (servers, problems) = skill_servers(manifest, dirs);
    manifest.mcp_servers.extend(servers);
    problems
}

/// Refuses `manifest`, or removes the parts without agreement, depending on `trust`.
fn trusted(
    trust: &Trust,
    agreement: &Agreement,
    manifest: &mut Manifest,
    family: &mut Family,
) -> anyhow::Result<LeftOut> {
    match trust {
        Trust::Everything => Ok(LeftOut::default()),
        Trust::Agreed if agreement.is_complete() => Ok(LeftOut::default()),
        Trust::Agreed => Err(Untrusted(Box::new(agreement.clone())).into()),
        Trust::LeftOut(known) => {
            let whole = manifest.clone();
            let left_out = agreement.leave_out(known, manifest);
            if !left_out.is_empty() {
                family.members.push(whole);
            }
            Ok(left_out)
        }
    }
}

/// Reads the named program.toml, or the one in the current directory, or none, and its program.lock. Both are read
/// between changes by other haft processes. Fails if haft may not search the current directory.
async fn read(named: Option<&Path>, here: &Path) -> anyhow::Result<(Manifest, Lock)> {
    let Some(path) = named.or_else(|| here.try_exists().unwrap_or(true).then_some(here)) else {
        return Ok((Manifest::default(), Lock::default()));
    };
    let _unchanged = Project::unchanged(path).await;
    let manifest = Manifest::load(path)?;
    let lock = Lock::load(&lock_path(path)).map_err(|error| {
        let problem = Problem::new(error.to_string());
        Report::from(error.hint().into_iter().fold(problem, Problem::hint))
    })?;
    Ok((manifest, lock.unwrap_or_default()))
}

/// Digests of the agreed definitions, by exposed names.
pub(super) type Agreed = Arc<BTreeMap<String, Digest>>;

/// Returns the agreed definitions in a pin; `None` if an earlier version of haft recorded none.
pub(super) fn agreed(pin: &Pin) -> Option<Agreed> {
    pin.disclosed.as_ref().map(|digests| Arc::new(digests.tools.clone()))
}

/// Returns the problem for an entry that is not installed.
pub(super) fn not_installed(name: &str, span: Span) -> Problem {
    Problem::new(format!("`{name}` is not installed on this machine"))
        .at(span, "this source was not fetched")
        .hint("`haft add` installs everything in program.toml and program.lock")
}
