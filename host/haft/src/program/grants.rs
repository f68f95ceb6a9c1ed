//! Converts the rights in program.toml and on the command line to grants. Grants only rights that are written in
//! one of the two; paths are resolved here, once.

mod links;
mod process;

use std::path::{Path, PathBuf};

pub(super) use self::links::refuse_links;
use self::process::needed;
pub(super) use self::process::{ProcessRights, Processes};
pub use self::process::{is_of_system, usual_rights, wrapped};
use super::allow::Allow;
use super::{Dirs, start_up};
use haft_core::grant::{
    CredentialStore, Grant, Right, RightsTable, Root, SandboxMode, Service, Why, in_home,
};
use haft_core::report::{Problem, Report, Span, nearest};
use haft_core::tool::Widening;
use haft_manifest::{GrantTable, Located, Manifest, Package, Plugin, Seal};
use haft_package::{Bundle, FetchGrants, lock_path};

/// Returns `grant` with a written right: from a program.toml, the command line, or the answer to a refused call. No
/// other function makes a grant of a [`Right`]. `directory` resolves a path.
fn with_right<E>(
    grant: Grant,
    right: &Right,
    directory: impl FnOnce(&Path) -> Result<Root, E>,
) -> Result<Grant, E> {
    Ok(match right {
        Right::Read(path) => grant.with_read(directory(Path::new(path))?),
        Right::Write(path) => grant.with_write(directory(Path::new(path))?),
        Right::Host(host) => grant.with_host(host.clone()),
        Right::Env(name) => grant.with_env(name),
        Right::Credentials(store) => grant.with_credentials(*store),
        Right::Service(service) => grant.with_service(service.clone()),
        Right::State(bytes) => grant.with_state(*bytes),
        Right::Cache(bytes) => grant.with_cache(*bytes),
    })
}

/// Resolves a written path to a directory; a relative path starts in the absolute directory `base`. haft's own
/// directories, and paths below them, can never be granted. A directory that contains one can be: tools get all of
/// it except that one.
fn directory(path: &Path, base: &Path, dirs: &Dirs) -> Result<Root, Problem> {
    let root =
        root(&base.join(in_home(path, &dirs.home))).map_err(|error| Problem::new(error.to_string()))?;
    let of_haft = dirs.own_and_answers().map_err(|error| Problem::new(error.to_string()))?;
    match of_haft.iter().find(|own| own.contains(&root)).map(Root::path) {
        None => Ok(root),
        Some(own) => {
            let is_unsearchable = own != root.path() && own.starts_with(root.path());
            let (path, own) = (root.path().display(), own.display());
            let problem = Problem::new(format!("`{path}` cannot be granted: `{own}` belongs to haft"));
            Err(problem.hint(if is_unsearchable {
                format!("haft may not search `{path}`; run `chmod u+x {path}`")
            } else {
                "choose a directory outside it".to_owned()
            }))
        }
    }
}

/// Returns the rights that a present user may give to refused calls, where `dirs` are haft's own.
pub fn widening(dirs: &Dirs) -> Widening {
    let dirs = dirs.clone();
    Widening::by(move |grant, rights| widened(grant, rights, &dirs))
}

/// Returns `grant` with rights that a user gives while the program runs. Closed paths stay closed; `None` if a
/// right cannot be granted.
fn widened(grant: &Grant, rights: &[Right], dirs: &Dirs) -> Option<Grant> {
    let wider = |grant: Grant, right: &Right| {
        let grant = match right {
            // A child process that is held to hosts.
            Right::Host(host) if !grant.child_hosts().is_empty() => grant.with_child_host(host.clone()),
            _ => grant,
        };
        with_right(grant, right, |path| directory(path, &dirs.here, dirs))
    };
    rights.iter().try_fold(grant.clone(), wider).ok().map(start_up::fixing)
}

/// The rights of the program's own tools.
pub(super) struct Sandbox {
    /// The built-in tools but the next, `bash` and commands.
    pub(super) tools: Grant,
    /// `read`, `write` and `edit`: the same, and reading the whole of long answers.
    pub(super) files: Grant,
}

/// Converts the written rights to the grants of one program.
pub(super) struct Grants<'a> {
    manifest: &'a Manifest,
    dirs: &'a Dirs,
    allow: &'a [Allow],
    /// The paths closed to every tool.
    closed: Grant,
    /// The whole of long answers, closed to every tool but the built-in ones for files.
    answers: Option<Root>,
    /// Problems of the written rights that do not affect the rest.
    pub(super) problems: Vec<Problem>,
}

impl<'a> Grants<'a> {
    /// Creates the grants of `manifest`, with the additions `allow` for one run.
    pub(super) fn new(manifest: &'a Manifest, dirs: &'a Dirs, allow: &'a [Allow]) -> anyhow::Result<Self> {
        let (closed, answers) = (closed(manifest, dirs)?, dirs.answers_for_read()?);
        Ok(Self { manifest, dirs, allow, closed, answers, problems: Vec::new() })
    }

    /// Returns the rights of the built-in tools and `bash`. `caller` has those of the calling program.
    pub(super) fn sandbox(&mut self, caller: Option<&Grant>) -> anyhow::Result<Sandbox> {
        let (sandbox, dirs) = (&self.manifest.sandbox, self.dirs);
        dirs.create()?;
        let grant = Grant::sandbox(sandbox.mode, root(&dirs.data)?, [root(&dirs.temporary)?]);
        let mut grant = if let Some(written) = &sandbox.workspace {
            let workspace = self.written(&written.value, Some(written.span), false)?;
            grant.with_write(workspace.clone()).with_workspace(workspace)
        } else {
            self.with_default_workspace(grant, caller)?
        };
        if let Some(read) = &sandbox.read {
            let roots = read.iter().map(|written| self.written(&written.value, Some(written.span), false));
            grant = narrowed(&grant, &roots.collect::<anyhow::Result<Vec<_>>>()?);
        }
        for written in &sandbox.write {
            grant = grant.with_write(self.written(&written.value, Some(written.span), false)?);
        }
        grant = with_caches(grant.with_network(sandbox.opens_network()), sandbox.mode, dirs)?;
        grant = sandbox.single_hosts().iter().cloned().fold(grant, Grant::with_child_host);
        grant = self.with_services(grant, &sandbox.services);
        let (grant, absent) = self.denied(with_credentials(grant, self.manifest), &sandbox.deny)?;
        self.problems.extend(absent);
        let grant = self.allowed(grant, None)?;
        check_workspace(&grant.clone().with_protected_paths_of(&self.closed))?;
        let files = self
            .answers
            .iter()
            .cloned()
            .fold(grant.clone(), |grant, answers| grant.with_read(answers.clone()).with_fixed(answers));
        Ok(Sandbox {
            tools: grant.with_protected_paths_of(&self.protected()),
            files: files.with_protected_paths_of(&self.closed),
        })
    }

    /// Returns `grant` with services, whose relative paths start in the program's folder.
    pub(super) fn with_services(&self, grant: Grant, services: &[Service]) -> Grant {
        let resolved =
            |service: &Service| service.clone().resolved(|path| self.manifest.resolve(path, &self.dirs.home));
        services.iter().map(resolved).fold(grant, Grant::with_service)
    }

    /// Returns `grant` with the default workspace, if program.toml names none: that of the caller, otherwise the
    /// folder of program.toml, otherwise the current one. The user's home directory, or a parent of it, is writable
    /// only if it is named.
    fn with_default_workspace(&self, grant: Grant, caller: Option<&Grant>) -> anyhow::Result<Grant> {
        let workspace = match caller.and_then(Grant::base) {
            Some(workspace) => workspace.clone(),
            None => root(self.base())?,
        };
        let holds_home = workspace.contains(&root(&self.dirs.home)?);
        let grant = if holds_home { grant } else { grant.with_write(workspace.clone()) };
        Ok(grant.with_workspace(workspace))
    }

    /// Returns the rights of each declared plugin, in the order of the file. Plugins work in the workspace of the
    /// tools with `sandbox`.
    pub(super) fn plugins(&mut self, sandbox: &Grant) -> anyhow::Result<Vec<Grant>> {
        let manifest = self.manifest;
        let grant = |plugin: &Plugin| {
            let grant = self.table(&plugin.grant, false)?;
            self.of_plugin(plugin, grant, sandbox)
        };
        manifest.plugins.iter().map(grant).collect()
    }

    /// Returns the rights of each enabled plugin of the package `declared`: those that it requests and the program
    /// allows. Relative paths start at the program's folder, also those in the package.
    pub(super) fn package(
        &mut self,
        (declared, bundle): (&Package, &Bundle),
        sandbox: &Grant,
    ) -> anyhow::Result<Vec<Grant>> {
        let is_of_processes = declared.source.value.is_foreign() || bundle.agent_plugin.is_some();
        let granted = self.table(&declared.grant, is_of_processes)?;
        let (mut grants, mut all_asked) = (Vec::new(), Vec::new());
        for (plugin, _, _) in bundle.components() {
            let asked = self.asked_of(declared, (plugin.name.as_str(), &plugin.grant));
            // An absent path that a package denies is for its author to correct.
            let (grant, _) = self.denied(asked.intersect(&granted), &plugin.grant.deny)?;
            grants.push(self.of_plugin(plugin, grant, sandbox)?);
            all_asked.push(asked);
        }
        all_asked
            .extend(bundle.process_grants().map(|part| self.asked_of(declared, part)).collect::<Vec<_>>());
        let variables = bundle.manifest.tools.iter().flat_map(|tool| &tool.env);
        all_asked.push(variables.fold(Grant::none(), Grant::with_env));
        let takes_any = bundle.takes_any_grant() || declared.source.value.is_foreign();
        for right in declared.grant.rights().into_iter().filter(|_| !takes_any) {
            let alone = with_right(Grant::none(), &right, |path| directory(path, self.base(), self.dirs));
            let is_asked =
                |asked: &Grant| alone.as_ref().is_ok_and(|alone| asked.intersect(alone) != Grant::none());
            if !all_asked.iter().any(is_asked) {
                let name = declared.name.as_str();
                let text = format!(
                    "`{right}` in `[packages.grant]` has no effect: `{name}` does not request this right"
                );
                let problem = Problem::new(text).at(declared.name.span, "this package");
                self.problems.push(problem.hint("remove it"));
            }
        }
        Ok(grants)
    }

    /// Returns the rights that a part of the package `declared` requests. An impossible right is a warning, and
    /// does not affect the rest: the package's author wrote it.
    fn asked_of(&mut self, declared: &Package, (name, table): (&str, &GrantTable)) -> Grant {
        let mut grant = Grant::none();
        for right in table.rights() {
            match with_right(grant.clone(), &right, |path| directory(path, self.base(), self.dirs)) {
                Ok(wider) => grant = wider,
                Err(problem) => {
                    let why = problem.message();
                    let problem = Problem::new(format!("`{name}` requests `{right}`: {why}")).warning();
                    self.problems.push(problem.at(declared.name.span, "this package is not granted it"));
                }
            }
        }
        grant
    }

    /// Returns `grant` of a declared plugin with the rights that all plugins share.
    fn of_plugin(&self, plugin: &Plugin, grant: Grant, sandbox: &Grant) -> anyhow::Result<Grant> {
        let grant = sandbox.workspace().cloned().into_iter().fold(grant, Grant::with_workspace);
        let grant = self.allowed(grant, Some(plugin.name.as_str()))?;
        Ok(grant.with_protected_paths_of(&self.protected()))
    }

    /// Returns the grant in a table of rights, which may name files if it is that of a process.
    pub(super) fn table(&mut self, table: &GrantTable, is_of_process: bool) -> anyhow::Result<Grant> {
        let mut grant = Grant::none();
        for right in table.rights() {
            let written = if matches!(right, Right::Read(_)) { &table.read } else { &table.write };
            grant = with_right(grant, &right, |path| {
                let located = written.iter().find(|located| located.value == path);
                self.written(path, located.map(|located| located.span), is_of_process)
            })?;
        }
        let (grant, absent) = self.denied(grant, &table.deny)?;
        self.problems.extend(absent);
        Ok(grant)
    }

    /// Returns `grant` with the additions of the command line for `plugin`, or for the program's own tools.
    /// Start-up files stay unwritable.
    fn allowed(&self, grant: Grant, plugin: Option<&str>) -> anyhow::Result<Grant> {
        let mut own = self.allow.iter().filter(|allow| allow.plugin.as_deref() == plugin);
        let wider = |grant: Grant, allow: &Allow| {
            with_right(grant, &allow.right, |path| directory(path, &self.dirs.here, self.dirs))
        };
        Ok(start_up::fixing(own.try_fold(grant, wider).map_err(Report::from)?))
    }

    /// Returns `grant`, closed to the paths in `deny`. An absent path may be a typing error, which is a problem,
    /// and is closed once it exists.
    fn denied(&self, grant: Grant, deny: &[Located<PathBuf>]) -> anyhow::Result<(Grant, Vec<Problem>)> {
        let (mut grant, mut problems) = (grant, Vec::new());
        for written in deny {
            let root = root(&self.manifest.resolve(&written.value, &self.dirs.home))?;
            if !root.real().exists() {
                let text = format!("`{}` in `deny` does not exist", root.path().display());
                problems.push(Problem::new(text).warning().at(written.span, "blocked once it exists"));
            }
            grant = grant.with_hidden_because(Why::Denied, root);
        }
        Ok((grant, problems))
    }

    /// Resolves a directory that program.toml names at `span`, a start-up file or, if `takes_files`, any file. A
    /// directory that cannot be opened is a problem, not an error: it may be created before the first call.
    fn written(&mut self, path: &Path, span: Option<Span>, takes_files: bool) -> anyhow::Result<Root> {
        let granted_here =
            |problem: Problem| span.into_iter().fold(problem, |it, span| it.at(span, "granted here"));
        let root = directory(path, self.base(), self.dirs)
            .map_err(|problem| self.manifest.report(vec![granted_here(problem)]))?;
        if let Err(error) = root.open()
            && !(start_up::is_file(&root) || takes_files && root.path().is_file())
        {
            let path = root.path().display();
            let problem = Problem::new(format!("granted directory `{path}` cannot be opened: {error}"));
            let problem = granted_here(problem).hint(format!("run `mkdir -p {path}`"));
            // A missing directory is no problem if it may be written: a tool can create it, since it is opened for
            // every use.
            let is_absent = error.kind() == std::io::ErrorKind::NotFound;
            self.problems.push(if is_absent { problem.warning() } else { problem });
        }
        Ok(root)
    }

    fn base(&self) -> &'a Path {
        self.dirs.base(self.manifest)
    }

    /// Returns the paths closed to every tool of the program except the built-in file tools.
    fn protected(&self) -> Grant {
        self.answers.iter().cloned().fold(self.closed.clone(), Grant::with_hidden)
    }
}

/// Returns `grant` with the caches of commands. If everything may be written they use the user's own.
fn with_caches(grant: Grant, mode: SandboxMode, dirs: &Dirs) -> anyhow::Result<Grant> {
    match grant.base() {
        Some(workspace) if mode != SandboxMode::Rwx => {
            let caches = root(&dirs.caches_of(workspace))?;
            Ok(grant.with_caches(caches))
        }
        _ => Ok(grant),
    }
}

/// Returns `grant` with the credential stores that `[sandbox]` opens: all, if it sets no limit.
fn with_credentials(grant: Grant, manifest: &Manifest) -> Grant {
    match manifest.sandbox.mode {
        SandboxMode::Rwx => CredentialStore::all().fold(grant, Grant::with_credentials),
        SandboxMode::Sandbox | SandboxMode::Rx => {
            manifest.sandbox.credentials.iter().copied().fold(grant, Grant::with_credentials)
        }
    }
}

/// Returns the rights with reading restricted to `read` and the writable paths.
fn narrowed(grant: &Grant, read: &[Root]) -> Grant {
    let readable = read.iter().cloned().fold(Grant::none(), Grant::with_read);
    let all = grant.writable().roots().into_iter().fold(readable, Grant::with_write);
    grant.intersect(&all)
}

fn check_workspace(grant: &Grant) -> anyhow::Result<()> {
    let Some(workspace) = grant.base() else { return Ok(()) };
    let Some(closed) = grant.closed_at(workspace.real()).filter(|_| grant.hides(workspace)) else {
        return Ok(());
    };
    let problem = Problem::new(format!("tools cannot work in `{}`", workspace.path().display()));
    let hint =
        closed.hint(&RightsTable::Sandbox).unwrap_or_else(|| "set another `[sandbox] workspace`".to_owned());
    Err(Report::new(vec![problem.hint(hint)]).into())
}

/// Returns the paths closed to every tool of a program: credential stores that its grant does not open, haft's own
/// directories and, with the other sealed files that it names, program.toml itself, in which a tool could grant
/// itself rights for the next run. Grants nothing.
fn closed(manifest: &Manifest, dirs: &Dirs) -> anyhow::Result<Grant> {
    let mut grant = dirs.closed()?;
    let absolute = |path: &Path| root(&std::path::absolute(path)?);
    for (seal, path) in manifest.sealed(&dirs.home) {
        // A path that a client adds outside program.toml is relative to the current directory.
        grant = closing(grant, seal, &std::path::absolute(path)?)?;
    }
    if let Some(file) = manifest.file() {
        grant = grant.with_fixed(absolute(file)?).with_fixed(absolute(&lock_path(file))?);
    }
    Ok(grant)
}

/// Returns `grant`, closed to the sealed file at the absolute `path`.
pub(super) fn closing(grant: Grant, seal: Seal, path: &Path) -> anyhow::Result<Grant> {
    let root = Root::protecting(Path::new("/"), path).map_err(|error| unresolved(path, &error))?;
    Ok(match seal {
        Seal::Hidden => grant.with_hidden(root),
        Seal::Fixed => grant.with_fixed(root),
    })
}

/// Returns the rights of `git`, `npm` and `uv` during a fetch, besides writing to its target: they have the
/// credentials of the program's tools, and caches that no tool writes. Builds of fetched packages read none of the
/// user's files, since their output could contain them.
pub(super) fn fetch(manifest: &Manifest, dirs: &Dirs, allow: &[Allow]) -> anyhow::Result<FetchGrants> {
    let grant = with_credentials(Grant::none().with_read_anywhere().with_network(true), manifest);
    let grant = grant.with_caches(root(&dirs.caches_of_fetches())?);
    let opened = allow.iter().filter(|allow| allow.plugin.is_none()).filter_map(|allow| match allow.right {
        Right::Credentials(store) => Some(store),
        _ => None,
    });
    let grant = opened.fold(grant, Grant::with_credentials);
    let nothing = Manifest::default();
    let grants = Grants::new(&nothing, dirs, allow)?;
    let build = grants.of_child(Grant::none(), needed(&[], &dirs.here, dirs))?;
    Ok(FetchGrants { fetch: grant.with_protected_paths_of(&grants.protected()), build })
}

/// Fails if `allow` names a plugin, server or command that neither the program nor `of_packages` has.
pub(super) fn unknown_names(
    manifest: &Manifest,
    allow: &[Allow],
    of_packages: &[&str],
) -> anyhow::Result<()> {
    let plugins = manifest.plugins.iter().map(|plugin| plugin.name.as_str());
    let servers = manifest.mcp_servers.iter().map(|server| server.name.as_str());
    let commands = manifest.tools.iter().map(|tool| tool.name.as_str());
    let own = plugins.chain(servers).chain(commands);
    let known = |name: &str| own.clone().any(|own| own == name) || of_packages.contains(&name);
    match allow.iter().filter_map(|allow| allow.plugin.as_deref()).find(|name| !known(name)) {
        Some(name) => {
            let near = nearest(name, own.chain(of_packages.iter().copied()));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            anyhow::bail!(
                "`--allow` has the plugin, server or command `{name}`, which this program does not have{near}"
            )
        }
        None => Ok(()),
    }
}

pub(super) fn root(path: &Path) -> anyhow::Result<Root> {
    Root::resolve(Path::new("/"), path).map_err(|error| unresolved(path, &error))
}

fn unresolved(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot resolve directory `{}`: {error}", path.display())
}
