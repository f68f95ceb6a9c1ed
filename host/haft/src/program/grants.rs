//! From what program.toml and the command line say to grants. Nothing is granted here that is
//! not written in one of the two; what a path means is settled now, once.

use std::path::{Path, PathBuf};

use super::allow::Allow;
use super::{Dirs, start_up};
use haft_core::grant::{Closed, CredentialStore, Grant, Reach, Right, Root, SandboxMode, Why};
use haft_core::report::{Problem, Report, nearest};
use haft_core::tool::Widening;
use haft_manifest::{GrantTable, Located, Manifest, Package, Plugin, Seal};
use haft_package::{Bundle, lock_path};

/// Adds a right; relative paths start where the program is run, as on any command line.
fn with_right(right: &Right, grant: Grant, dirs: &Dirs) -> anyhow::Result<Grant> {
    let root = |path: &str| -> anyhow::Result<Root> {
        let path = path.strip_prefix("~/").map_or_else(|| path.into(), |rest| dirs.home.join(rest));
        let root = root(&dirs.here, &path)?;
        match refusal(&root, dirs)? {
            Some(refusal) => anyhow::bail!("{refusal}"),
            None => Ok(root),
        }
    };
    Ok(match right {
        Right::Read(path) => grant.with_read(root(path)?),
        Right::Write(path) => grant.with_write(root(path)?),
        Right::Host(host) => grant.with_host(host.clone()),
        Right::Env(name) => grant.with_env(name),
        Right::Credentials(store) => grant.with_credentials(*store),
        Right::State(bytes) => grant.with_state(*bytes),
        Right::Cache(bytes) => grant.with_cache(*bytes),
    })
}

/// What a person at hand may give to calls that are refused something, where `dirs` are haft's own.
pub fn widening(dirs: &Dirs) -> Widening {
    let dirs = dirs.clone();
    Widening::by(move |grant, rights| widened(grant, rights, &dirs))
}

/// `grant` with rights that a person gives while the program runs. What stays closed does; `None` where one of them cannot
/// be had.
fn widened(grant: &Grant, rights: &[Right], dirs: &Dirs) -> Option<Grant> {
    let wider = rights.iter().try_fold(grant.clone(), |grant, right| with_right(right, grant, dirs));
    wider.ok().map(start_up::fixing)
}

/// What belongs to the program itself may do.
pub(super) struct Sandbox {
    /// The built-in tools but the next, `bash` and commands.
    pub(super) tools: Grant,
    /// `read`, `write` and `edit`: the same, and reading the whole of long answers.
    pub(super) files: Grant,
}

/// What the built-in tools, `bash` and commands may do. `caller` has the program that this one works for.
pub(super) fn sandbox(
    manifest: &Manifest,
    dirs: &Dirs,
    (allow, caller): (&[Allow], Option<&Grant>),
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Sandbox> {
    let sandbox = &manifest.sandbox;
    dirs.create()?;
    let own = |path| root(Path::new("/"), path);
    let grant = Grant::sandbox(sandbox.mode, own(&dirs.data)?, [own(&dirs.temporary)?]);
    let mut grant = if let Some(written) = &sandbox.workspace {
        let workspace = written_root(manifest, dirs, written, problems)?;
        grant.with_write(workspace.clone()).with_workspace(workspace)
    } else {
        with_default_workspace(grant, manifest, dirs, caller)?
    };
    if let Some(read) = &sandbox.read {
        grant = narrowed(&grant, &written_roots(manifest, dirs, read, problems)?);
    }
    for written in &sandbox.write {
        grant = grant.with_write(written_root(manifest, dirs, written, problems)?);
    }
    grant = with_caches(grant.with_network(sandbox.network), sandbox.mode, dirs, None)?;
    if sandbox.unix_sockets {
        grant = grant.with_unix_sockets(true);
    }
    let grant = denied(with_credentials(grant, manifest), manifest, dirs, &sandbox.deny, problems)?;
    let (grant, closed) = (start_up::fixing(allowed(grant, allow, None, dirs)?), closed(manifest, dirs)?);
    check_workspace(&grant.clone().with_protected_paths_of(&closed))?;
    let Some(answers) = dirs.answers_for_read()? else {
        let tools = grant.with_protected_paths_of(&closed);
        return Ok(Sandbox { files: tools.clone(), tools });
    };
    let files = grant.clone().with_read(answers.clone()).with_fixed(answers.clone());
    Ok(Sandbox {
        tools: grant.with_protected_paths_of(&closed.clone().with_hidden(answers)),
        files: files.with_protected_paths_of(&closed),
    })
}

/// `grant` with the caches of commands, or of an MCP server: its name and command. Where everything may be written they use
/// the person's own.
pub(super) fn with_caches(
    grant: Grant,
    mode: SandboxMode,
    dirs: &Dirs,
    server: Option<(&str, &[String])>,
) -> anyhow::Result<Grant> {
    match grant.base() {
        Some(workspace) if mode != SandboxMode::Rwx => {
            let caches = root(Path::new("/"), &dirs.caches_of(workspace, server))?;
            Ok(grant.with_caches(caches))
        }
        _ => Ok(grant),
    }
}

/// `grant`, where program.toml names no workspace: tools work where those of the caller do, else in the folder of
/// program.toml, else in the current one. A person's home directory, or one around it, is not written unless it is named.
fn with_default_workspace(
    grant: Grant,
    manifest: &Manifest,
    dirs: &Dirs,
    caller: Option<&Grant>,
) -> anyhow::Result<Grant> {
    let folder = if manifest.folder.as_os_str().is_empty() { &dirs.here } else { &manifest.folder };
    let workspace = match caller.and_then(Grant::base) {
        Some(workspace) => workspace.clone(),
        None => root(Path::new("/"), folder)?,
    };
    let holds_home = workspace.contains(&root(Path::new("/"), &dirs.home)?);
    let grant = if holds_home { grant } else { grant.with_write(workspace.clone()) };
    Ok(grant.with_workspace(workspace))
}

/// `grant` with the credential stores that `[sandbox]` opens: all, where it asks for no limit.
fn with_credentials(grant: Grant, manifest: &Manifest) -> Grant {
    match manifest.sandbox.mode {
        SandboxMode::Rwx => CredentialStore::all().fold(grant, Grant::with_credentials),
        SandboxMode::Sandbox | SandboxMode::Rx => {
            manifest.sandbox.credentials.iter().copied().fold(grant, Grant::with_credentials)
        }
    }
}

/// Fails where tools would work in what is closed to them.
fn check_workspace(grant: &Grant) -> anyhow::Result<()> {
    let Some(workspace) = grant.base() else { return Ok(()) };
    let Some(closed) = grant.closed_at(workspace.real()).filter(|_| grant.hides(workspace)) else {
        return Ok(());
    };
    let problem = Problem::new(format!("tools cannot work in `{}`", workspace.path().display()));
    let hint = closed.hint("`[sandbox]`").unwrap_or_else(|| "name another `[sandbox] workspace`".to_owned());
    Err(Report::new(vec![problem.hint(hint)]).into())
}

/// What is closed to every tool of a program but the built-in ones for files: the following, and the whole of long
/// answers.
fn protected(manifest: &Manifest, dirs: &Dirs) -> anyhow::Result<Grant> {
    let closed = closed(manifest, dirs)?;
    Ok(dirs.answers_for_read()?.into_iter().fold(closed, Grant::with_hidden))
}

/// What is closed to every tool of a program: credential stores that its grant does not open, haft's own directories and,
/// with what else it names and is sealed, program.toml itself: a tool that could write it would grant itself what it likes
/// for the next run. Allows nothing.
fn closed(manifest: &Manifest, dirs: &Dirs) -> anyhow::Result<Grant> {
    let base = std::env::current_dir()?;
    let mut grant = dirs.own()?.iter().cloned().fold(Grant::none(), Grant::with_hidden);
    for (store, root) in dirs.credentials() {
        grant = grant.with_store(*store, root.clone());
    }
    for (seal, path) in manifest.sealed(&dirs.home) {
        grant = closing(grant, seal, root(&base, &path)?);
    }
    if let Some(kept) = dirs.store_for_tools()? {
        grant = grant.with_fixed(root(&base, kept)?);
    }
    if !manifest.path.as_os_str().is_empty() {
        grant = grant.with_fixed(root(&base, &manifest.path)?);
        grant = grant.with_fixed(root(&base, &lock_path(&manifest.path))?);
    }
    Ok(grant)
}

/// `grant`, closed to a file.
pub(super) fn closing(grant: Grant, seal: Seal, root: Root) -> Grant {
    match seal {
        Seal::Hidden => grant.with_hidden(root),
        Seal::Fixed => grant.with_fixed(root),
    }
}

/// Fails where a tool with `grant` could put another file in the place of a sealed one: a link on the way to it stands
/// in a directory that the tool may write, and nothing can be mounted over a link.
pub(super) fn refuse_links(grant: &Grant) -> anyhow::Result<()> {
    let Reach::Roots(writable) = grant.writable() else { return Ok(()) };
    // What is found, and not named, is closed where it really is: that `~/.npmrc` is a link keeps nobody from working in `~`.
    for sealed in grant.closed().filter(|closed| matches!(closed.why, Why::Own | Why::Denied)) {
        let replaceable = |link: &PathBuf| writable.iter().any(|root| link.starts_with(root.real()));
        if let Some(link) = sealed.root.links().into_iter().find(replaceable) {
            let (link, real) = (link.display(), sealed.root.real().display());
            let problem = Problem::new(format!(
                "`{link}` is a link in a directory that tools may write, and leads to `{real}`: a tool could put another \
                 one in the place of {}",
                replaced(sealed)
            ));
            let way_out = format!("name `{real}` itself, or let tools work elsewhere: `[sandbox] workspace`");
            return Err(Report::new(vec![problem.hint(way_out)]).into());
        }
    }
    Ok(())
}

/// What a link leads to that a tool could replace.
fn replaced(sealed: &Closed) -> &'static str {
    if sealed.why == Why::Denied { "what `deny` closes" } else { "the file that says what tools may do" }
}

/// What `git` may do while a package is fetched, besides writing where it is fetched to: it has the credentials that the
/// program's tools have.
pub(super) fn git(manifest: &Manifest, dirs: &Dirs, allow: &[Allow]) -> anyhow::Result<Grant> {
    let grant = with_credentials(Grant::none().with_read_anywhere().with_network(true), manifest);
    let opened = allow.iter().filter(|allow| allow.plugin.is_none()).filter_map(|allow| match allow.right {
        Right::Credentials(store) => Some(store),
        _ => None,
    });
    let grant = opened.fold(grant, Grant::with_credentials);
    Ok(grant.with_protected_paths_of(&protected(&Manifest::default(), dirs)?))
}

/// What each enabled plugin of the package `declared` may do: what it asks for and the program allows. Relative paths
/// start at the program's folder, also those that the package wrote.
pub(super) fn package(
    manifest: &Manifest,
    dirs: &Dirs,
    (sandbox, allow): (&Grant, &[Allow]),
    package: (&Package, &Bundle),
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Vec<Grant>> {
    let (declared, bundle) = package;
    let granted = table(manifest, dirs, &declared.grant, problems)?;
    let protected = protected(manifest, dirs)?;
    let grant = |(plugin, _, _): (&Plugin, _, _)| {
        let grant = asked(manifest, dirs, &plugin.grant.rights())?.intersect(&granted);
        let mut grant = denied(grant, manifest, dirs, &plugin.grant.deny, &mut Vec::new())?;
        if let Some(workspace) = sandbox.workspace() {
            grant = grant.with_workspace(workspace.clone());
        }
        let grant = start_up::fixing(allowed(grant, allow, Some(plugin.name.as_str()), dirs)?);
        Ok(grant.with_protected_paths_of(&protected))
    };
    bundle.components().map(grant).collect()
}

/// Rights that a package's program.toml asks for, without those that no program can grant.
fn asked(manifest: &Manifest, dirs: &Dirs, rights: &[Right]) -> anyhow::Result<Grant> {
    let base = std::env::current_dir()?;
    let mut grant = Grant::none();
    for right in rights {
        grant = match right {
            Right::Read(path) | Right::Write(path) => {
                let root = root(&base, &manifest.resolve(Path::new(path), &dirs.home))?;
                match (refusal(&root, dirs)?, right) {
                    (Some(_), _) => grant,
                    (None, Right::Write(_)) => grant.with_write(root),
                    (None, _) => grant.with_read(root),
                }
            }
            Right::Host(host) => grant.with_host(host.clone()),
            Right::Env(name) => grant.with_env(name),
            Right::Credentials(store) => grant.with_credentials(*store),
            Right::State(bytes) => grant.with_state(*bytes),
            Right::Cache(bytes) => grant.with_cache(*bytes),
        };
    }
    Ok(grant)
}

/// The rights that the program gives to a package and no part of it asks for.
pub(super) fn unasked(
    manifest: &Manifest,
    dirs: &Dirs,
    declared: &Package,
    bundle: &Bundle,
) -> anyhow::Result<Vec<Right>> {
    let plugins = bundle.manifest.plugins.iter().filter(|plugin| plugin.enabled);
    let mut all = Vec::new();
    for plugin in plugins {
        all.push(asked(manifest, dirs, &plugin.grant.rights())?);
    }
    let commands = bundle.manifest.tools.iter().flat_map(|tool| &tool.env);
    all.push(commands.fold(Grant::none(), Grant::with_env));
    let mut unasked = Vec::new();
    for right in declared.grant.rights() {
        let alone = asked(manifest, dirs, std::slice::from_ref(&right))?;
        if !all.iter().any(|asked| asked.intersect(&alone) != Grant::none()) {
            unasked.push(right);
        }
    }
    Ok(unasked)
}

/// The same rights, but reading only `read` and what may be written.
fn narrowed(grant: &Grant, read: &[Root]) -> Grant {
    let readable = read.iter().cloned().fold(Grant::none(), Grant::with_read);
    let all = grant.writable().roots().into_iter().fold(readable, Grant::with_write);
    grant.intersect(&all)
}

/// What each declared plugin may do, in the order of the file.
pub(super) fn plugins(
    manifest: &Manifest,
    dirs: &Dirs,
    allow: &[Allow],
    sandbox: &Grant,
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Vec<Grant>> {
    let protected = protected(manifest, dirs)?;
    let grant = |plugin: &Plugin| {
        let mut grant = table(manifest, dirs, &plugin.grant, problems)?;
        if let Some(workspace) = sandbox.workspace() {
            grant = grant.with_workspace(workspace.clone());
        }
        let grant = start_up::fixing(allowed(grant, allow, Some(plugin.name.as_str()), dirs)?);
        Ok(grant.with_protected_paths_of(&protected))
    };
    manifest.plugins.iter().map(grant).collect()
}

/// Fails where `allow` names a plugin that is none of the program's nor `of_packages`.
pub(super) fn unknown_plugins(
    manifest: &Manifest,
    allow: &[Allow],
    of_packages: &[&str],
) -> anyhow::Result<()> {
    let own = |name: &str| manifest.plugins.iter().any(|plugin| plugin.name.as_str() == name);
    let known = |name: &str| own(name) || of_packages.contains(&name);
    match allow.iter().filter_map(|allow| allow.plugin.as_deref()).find(|name| !known(name)) {
        Some(name) => {
            let declared = manifest.plugins.iter().map(|plugin| plugin.name.as_str());
            let near = nearest(name, declared.chain(of_packages.iter().copied()));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            anyhow::bail!("`--allow` names the plugin `{name}`, which this program does not have{near}")
        }
        None => Ok(()),
    }
}

/// What a table of rights allows.
pub(super) fn table(
    manifest: &Manifest,
    dirs: &Dirs,
    table: &GrantTable,
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Grant> {
    let read = written_roots(manifest, dirs, &table.read, problems)?;
    let write = written_roots(manifest, dirs, &table.write, problems)?;
    let grant = read.into_iter().fold(Grant::none(), Grant::with_read);
    let grant = write.into_iter().fold(grant, Grant::with_write);
    let grant = table.hosts.iter().cloned().fold(grant, Grant::with_host);
    let grant = table.env.iter().fold(grant, Grant::with_env);
    let grant = table.credentials.iter().copied().fold(grant, Grant::with_credentials);
    let grant = denied(grant, manifest, dirs, &table.deny, problems)?;
    let grant = table.state.into_iter().fold(grant, Grant::with_state);
    Ok(table.cache.into_iter().fold(grant, Grant::with_cache))
}

fn allowed(grant: Grant, allow: &[Allow], plugin: Option<&str>, dirs: &Dirs) -> anyhow::Result<Grant> {
    let own = allow.iter().filter(|allow| allow.plugin.as_deref() == plugin);
    own.map(|allow| &allow.right).try_fold(grant, |grant, right| with_right(right, grant, dirs))
}

fn written_roots(
    manifest: &Manifest,
    dirs: &Dirs,
    written: &[Located<PathBuf>],
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Vec<Root>> {
    written.iter().map(|path| written_root(manifest, dirs, path, problems)).collect()
}

/// `grant`, closed to what `deny` names. What is not there may be a slip of the pen, and is closed once it is.
fn denied(
    grant: Grant,
    manifest: &Manifest,
    dirs: &Dirs,
    deny: &[Located<PathBuf>],
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Grant> {
    deny.iter().try_fold(grant, |grant, written| {
        let root = root(&std::env::current_dir()?, &manifest.resolve(&written.value, &dirs.home))?;
        if !root.real().exists() {
            let problem =
                Problem::new(format!("`{}`, which `deny` names, is not there", root.path().display()));
            problems.push(problem.warning().at(written.span, "closed once it is"));
        }
        Ok(grant.with_denied(root))
    })
}

/// A directory that program.toml names. One that cannot be opened is a problem, not the end:
/// it may be made before the first call.
fn written_root(
    manifest: &Manifest,
    dirs: &Dirs,
    written: &Located<PathBuf>,
    problems: &mut Vec<Problem>,
) -> anyhow::Result<Root> {
    let root = root(&std::env::current_dir()?, &manifest.resolve(&written.value, &dirs.home))?;
    if let Some(refusal) = refusal(&root, dirs)? {
        let problem = Problem::new(refusal).at(written.span, "granted here");
        return Err(manifest.report(vec![problem.hint("name a directory outside of it")]).into());
    }
    if let Err(error) = root.open()
        && !start_up::is_file(&root)
    {
        let path = root.path().display();
        let problem = Problem::new(format!("granted directory `{path}` cannot be opened: {error}"));
        let problem = problem.at(written.span, "granted here").hint(format!("`mkdir -p {path}` makes it"));
        // A missing directory is no error where it may be written: a tool can make it first, since it is opened for
        // every use.
        let is_absent = error.kind() == std::io::ErrorKind::NotFound;
        problems.push(if is_absent { problem.warning() } else { problem });
    }
    Ok(root)
}

/// Why a directory can never be granted: it is one of haft's own, or inside one. A directory that contains one can
/// be; tools get all of it but that.
fn refusal(root: &Root, dirs: &Dirs) -> anyhow::Result<Option<String>> {
    let answers = dirs.answers_for_read()?;
    for own in dirs.own()?.iter().chain(&answers) {
        if own.contains(root) {
            let (path, own) = (root.path().display(), own.path().display());
            return Ok(Some(format!("`{path}` cannot be granted: `{own}` belongs to haft itself")));
        }
    }
    Ok(None)
}

fn root(base: &Path, path: &Path) -> anyhow::Result<Root> {
    Root::resolve(base, path)
        .map_err(|error| anyhow::anyhow!("cannot resolve directory `{}`: {error}", path.display()))
}

/// How a mode is called in messages.
pub fn mode_name(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Sandbox => "sandbox",
        SandboxMode::Rx => "rx",
        SandboxMode::Rwx => "rwx",
    }
}
