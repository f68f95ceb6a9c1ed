//! The rights of a program's processes: MCP servers and commands. Each has the grant of its entry and the paths
//! that any process needs to run, or without a grant the default of the program, without the rights that
//! `[sandbox]` adds for `bash`. A server, and a command with a grant, has a private directory. A command behind `haft wrap`
//! has one too, and the rights that the user gave: without such a right neither the network nor the folder in which it was
//! started.

mod plugin;

use std::path::{Path, PathBuf};

use super::{Grants, root};
use crate::program::{Dirs, start_up};
use haft_core::grant::{Grant, Proposal, RightsTable, Root, UsualRights};
use haft_core::lookup::{find_on_path, search_path};
use haft_manifest::{CommandTool, Manifest, McpServer, Package, ProcessGrant, Transport, Wrapped};
use haft_package::Bundle;
use haft_sandbox::process::private;
use haft_sandbox::start::ENVIRONMENT;

/// Locations of programs, their libraries and their data: none of a user's files.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/opt",
    "/nix/store",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/dotnet",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/pki",
    "/etc/profile",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    // Allocators ask for it.
    "/sys/kernel/mm/transparent_hugepage",
];

/// Directories in which packages that use each other are siblings.
const PACKAGES: &[&str] = &["node_modules", "site-packages"];

/// Directories that only the administrator of a system changes.
const ADMINISTERED: &[&str] = &["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr"];

/// The rights of one process.
#[derive(Clone, Debug)]
pub(in crate::program) struct ProcessRights {
    pub(in crate::program) grant: Grant,
    /// The table of program.toml with these rights.
    pub(in crate::program) table: RightsTable,
    /// The directory that it has to itself.
    private: Option<Root>,
}

/// The processes of a program.toml, in the order of the file.
#[derive(Debug, Default)]
pub(in crate::program) struct Processes {
    pub(in crate::program) servers: Vec<ProcessRights>,
    pub(in crate::program) commands: Vec<ProcessRights>,
}

/// A process, as a program.toml declares it.
struct Process<'a> {
    list: &'static str,
    name: &'a str,
    words: &'a [String],
    grant: Option<&'a ProcessGrant>,
    /// The folder of the skill whose head declares a server: the process starts there.
    skill: Option<&'a Path>,
    manifest: &'a Manifest,
}

impl<'a> Process<'a> {
    fn server(manifest: &'a Manifest, server: &'a McpServer) -> Self {
        let words = match &server.transport {
            Transport::Stdio { command, .. } => command.value.as_slice(),
            Transport::Http { .. } => &[],
        };
        let (name, grant) = (server.name.as_str(), server.grant.as_ref());
        Self { list: "mcp_servers", name, words, grant, skill: server.skill.as_deref(), manifest }
    }

    fn command(manifest: &'a Manifest, tool: &'a CommandTool) -> Self {
        let (name, grant) = (tool.name.as_str(), tool.grant.as_ref());
        Self { list: "tools", name, words: &tool.command.value, grant, skill: None, manifest }
    }

    fn is_server(&self) -> bool {
        self.list == "mcp_servers"
    }

    /// Returns `grant` of a process that starts in the folder of its skill, if it has one.
    fn placed(&self, grant: Grant) -> anyhow::Result<Grant> {
        Ok(match self.skill {
            Some(folder) => grant.with_workspace(root(folder)?),
            None => grant,
        })
    }
}

impl ProcessRights {
    /// Returns the rights with the grant reduced by `bound`, and its private directory.
    pub(in crate::program) fn bounded(self, bound: impl FnOnce(&Grant) -> Grant) -> anyhow::Result<Self> {
        let grant = bound(&self.grant);
        let grant = match &self.private {
            Some(own) => grant.with_caches(root(&private::caches(own.path()))?).with_private(own.clone()),
            None => self.grant.caches().cloned().into_iter().fold(grant, Grant::with_caches),
        };
        Ok(Self { grant, ..self })
    }
}

impl Processes {
    /// Returns all rights with the grants reduced by `bound`.
    pub(in crate::program) fn bounded(self, mut bound: impl FnMut(&Grant) -> Grant) -> anyhow::Result<Self> {
        let mut each = |all: Vec<ProcessRights>| {
            all.into_iter().map(|one| one.bounded(&mut bound)).collect::<anyhow::Result<_>>()
        };
        Ok(Self { servers: each(self.servers)?, commands: each(self.commands)? })
    }

    pub(in crate::program) fn iter(&self) -> impl Iterator<Item = &ProcessRights> {
        self.servers.iter().chain(&self.commands)
    }
}

impl Grants<'_> {
    /// Returns the rights of the program's processes. `sandbox` has those of `bash`.
    pub(in crate::program) fn processes(&mut self, sandbox: &Grant) -> anyhow::Result<Processes> {
        let manifest = self.manifest;
        let servers = manifest.mcp_servers.iter().map(|server| Process::server(manifest, server));
        let servers = servers.map(|process| self.process(&process, sandbox)).collect::<Result<_, _>>()?;
        let commands = manifest.tools.iter().map(|tool| Process::command(manifest, tool));
        let commands = commands.map(|process| self.process(&process, sandbox)).collect::<Result<_, _>>()?;
        Ok(Processes { servers, commands })
    }

    /// Returns the rights of a package's processes: those of a process without a grant, as far as the package asks
    /// for them, and to read the package's files. Plugins and servers in other formats have only `[packages.grant]`.
    pub(in crate::program) fn packaged(
        &mut self,
        (declared, package): (&Package, &Bundle),
        sandbox: &Grant,
    ) -> anyhow::Result<Processes> {
        if package.agent_plugin.is_some() {
            return self.agent_plugin((declared, package), sandbox);
        }
        if declared.source.value.is_foreign() {
            return self.foreign((declared, package), sandbox);
        }
        let (manifest, folder) = (&package.manifest, root(&package.folder)?);
        let mut rights = |process: Process<'_>| {
            let usual = self.usual(&process, sandbox)?;
            let asked = process.grant.map(|written| self.asked(declared, (&process, written), sandbox));
            // Paths in the package's own command lines are not rights.
            let is_usual = |need: &&Root| {
                folder.contains(need) || usual.readable().covers(need) || is_of_system(need.real())
            };
            let narrowed = |asked: Grant| {
                let needs = asked.needs().iter().filter(is_usual).cloned();
                asked.intersect(&usual).with_needs(needs)
            };
            let grant = asked.transpose()?.map_or_else(|| usual.clone(), narrowed);
            let reads = grant.readable().covers(&folder);
            let grant = process.placed(if reads { grant } else { grant.with_read(folder.clone()) })?;
            let private = self.private(&process, sandbox)?;
            anyhow::Ok(ProcessRights { grant, table: RightsTable::None, private })
        };
        let servers = manifest.mcp_servers.iter().map(|server| rights(Process::server(manifest, server)));
        let servers = servers.collect::<Result<_, _>>()?;
        let commands = manifest.tools.iter().map(|tool| rights(Process::command(manifest, tool)));
        Ok(Processes { servers, commands: commands.collect::<Result<_, _>>()? })
    }

    /// Returns the rights of the servers of `bundle` from npm, PyPI or a bundle, which the program has as `declared`:
    /// these formats request no rights, so nothing but `[packages.grant]` limits them.
    fn foreign(
        &mut self,
        (declared, bundle): (&Package, &Bundle),
        sandbox: &Grant,
    ) -> anyhow::Result<Processes> {
        let granted = self.table(&declared.grant, true)?;
        let (granted, _) = self.denied(granted, &self.manifest.sandbox.deny)?;
        let granted = sandbox.base().cloned().into_iter().fold(granted.of_process(), Grant::with_workspace);
        let rights = |server: &McpServer| -> anyhow::Result<ProcessRights> {
            let process = Process::server(&bundle.manifest, server);
            let grant = self.of_bundle(&process, granted.clone(), bundle)?;
            let name = declared.name.as_str().to_owned();
            let table = RightsTable::Entry { list: "packages", name, usual: None };
            Ok(ProcessRights { grant, table, private: self.private(&process, sandbox)? })
        };
        let servers = bundle.manifest.mcp_servers.iter().map(rights).collect::<anyhow::Result<_>>()?;
        Ok(Processes { servers, commands: Vec::new() })
    }

    fn process(&mut self, process: &Process<'_>, sandbox: &Grant) -> anyhow::Result<ProcessRights> {
        let grant = match process.grant {
            Some(written) => {
                let grant = self.table(&written.rights, true)?;
                self.granted(grant, (process, written), sandbox)?
            }
            None => self.usual(process, sandbox)?,
        };
        let usual = process.grant.is_none().then(|| usual_rights(self.manifest, &self.dirs.home));
        let table = RightsTable::Entry { list: process.list, name: process.name.to_owned(), usual };
        let grant = self.allowed(grant, Some(process.name))?;
        let grant = process.placed(grant.of_process())?;
        Ok(ProcessRights { grant, table, private: self.private(process, sandbox)? })
    }

    /// Returns the rights that a process of the package `declared` requests. Neither an impossible right nor an absent
    /// path is an error: the package's author wrote it.
    fn asked(
        &mut self,
        declared: &Package,
        (process, written): (&Process<'_>, &ProcessGrant),
        sandbox: &Grant,
    ) -> anyhow::Result<Grant> {
        let asked = self.asked_of(declared, (process.name, &written.rights));
        let (asked, _) = self.denied(asked, &written.rights.deny)?;
        self.granted(asked, (process, written), sandbox)
    }

    /// Returns `grant`, the rights in the table `written`, with the services of that table and the paths that a process
    /// needs to run.
    fn granted(
        &self,
        grant: Grant,
        (process, written): (&Process<'_>, &ProcessGrant),
        sandbox: &Grant,
    ) -> anyhow::Result<Grant> {
        // `[sandbox]` has reported absent paths.
        let (grant, _) = self.denied(grant, &self.manifest.sandbox.deny)?;
        let grant = self.with_services(grant.of_process(), &written.services);
        let grant = sandbox.base().cloned().into_iter().fold(grant, Grant::with_workspace);
        // The paths that any process reads, and the scripts among its arguments.
        let needs = needed(program(process, self.dirs).as_slice(), &process.manifest.folder, self.dirs);
        let scripts = process.manifest.scripts_of(process.words, &self.dirs.home);
        self.of_child(grant, needs.into_iter().chain(scripts))
    }

    /// Returns `grant` for a process of the package `bundle`, which may read the package's files. Paths among its
    /// arguments are not needs: `--set arg=DIR` is a setting, not a grant.
    fn of_bundle(&self, process: &Process<'_>, grant: Grant, bundle: &Bundle) -> anyhow::Result<Grant> {
        let needs = needed(program(process, self.dirs).as_slice(), &bundle.folder, self.dirs);
        Ok(self.of_child(grant, needs)?.with_read(root(&bundle.folder)?))
    }

    /// Returns `grant` for a process that reads those of `needs` that exist to run, with the paths closed to every tool.
    pub(in crate::program) fn of_child(
        &self,
        grant: Grant,
        needs: impl IntoIterator<Item = PathBuf>,
    ) -> anyhow::Result<Grant> {
        let needs = needs.into_iter().filter(|path| path.exists()).map(|path| root(&path));
        let needs: Vec<_> = needs.collect::<anyhow::Result<_>>()?;
        let grant = start_up::fixing(grant).with_needs(needs).with_protected_paths_of(&self.protected());
        // A store that is opened by its name is there to be read, unless haft sees only a directory above the store.
        let opened: Vec<Root> = grant.opened().filter(|root| root.path().exists()).cloned().collect();
        Ok(opened.into_iter().fold(grant, Grant::with_read))
    }

    /// Returns the rights of a process without a grant: of those of `bash`, the ones without a key in `[sandbox]`.
    fn usual(&self, process: &Process<'_>, sandbox: &Grant) -> anyhow::Result<Grant> {
        let Some(workspace) = sandbox.base().cloned() else { return Ok(Grant::none()) };
        let most = Grant::none().with_read_anywhere().with_network(true).with_workspace(workspace.clone());
        // The user's home directory is writable only if it is named.
        let is_written =
            self.manifest.sandbox.workspace.is_some() || !workspace.contains(&root(&self.dirs.home)?);
        let most = if is_written { most.with_write(workspace) } else { most };
        let most = if process.is_server() {
            most
        } else {
            most.with_write(root(&self.dirs.data)?).with_write(root(&self.dirs.temporary)?)
        };
        let grant = start_up::fixing(sandbox.intersect(&most));
        Ok(match sandbox.caches().filter(|_| !process.is_server()) {
            Some(caches) => grant.with_caches(caches.clone()),
            None => grant,
        })
    }

    /// Returns the directory that a process has to itself: a server, and a command with a grant.
    fn private(&self, process: &Process<'_>, sandbox: &Grant) -> anyhow::Result<Option<Root>> {
        let has_one = !process.words.is_empty() && (process.is_server() || process.grant.is_some());
        match sandbox.base().filter(|_| has_one) {
            Some(workspace) => root(&self.dirs.private_of(
                [workspace.real(), &process.manifest.folder],
                (process.list, process.name, process.words),
            ))
            .map(Some),
            None => Ok(None),
        }
    }
}

/// Returns the grant of `record` for a command that works in the current directory, even without the right to
/// read that directory. `key` names the private directory. The command reads `files`, from which it starts, and
/// the packages installed beside them.
///
/// # Errors
/// A right cannot be granted, or a directory cannot be created.
pub fn wrapped(dirs: &Dirs, key: &str, record: &Wrapped, files: &[PathBuf]) -> anyhow::Result<Grant> {
    let manifest = Manifest { source: record.source.clone(), ..Manifest::default() };
    let mut grants = Grants::new(&manifest, dirs, &[])?;
    let own = private::written(&dirs.processes.join(key));
    let grant = grants.table(&record.grant.rights, true)?.of_process();
    let grant = grants.with_services(grant, &record.grant.services).with_workspace(root(&dirs.here)?);
    // The files in a server's home belong to its user, as without haft. No other process removes them, so that
    // the size has no limit.
    let grant = grant.with_state(u64::MAX).with_private(root(&own)?);
    let grant = grant.with_caches(root(&private::caches(&own))?);
    let needs = needed(files, &dirs.here, dirs);
    let needs = needs.into_iter().chain(files.iter().filter_map(|file| packages(file)));
    let grant = grants.of_child(grant, needs)?;
    super::refuse_links(&grant)?;
    Ok(grant)
}

fn packages(file: &Path) -> Option<PathBuf> {
    let is_of_packages = |place: &&Path| PACKAGES.iter().any(|packages| place.ends_with(packages));
    file.ancestors().filter(is_of_packages).last().map(Path::to_owned)
}

/// Returns the rights of a process without a grant, as a user would write them.
pub fn usual_rights(manifest: &Manifest, home: &Path) -> UsualRights {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let sandbox = &manifest.sandbox;
    let read = sandbox.read.as_ref().map(|paths| paths.iter().map(|path| text(&path.value)).collect());
    let workspace = sandbox.workspace.as_ref().map(|path| text(&path.value));
    let holds_home =
        || root(&manifest.folder).is_ok_and(|folder| root(home).is_ok_and(|home| folder.contains(&home)));
    let written = workspace.or_else(|| (!holds_home()).then(|| ".".to_owned()));
    UsualRights {
        read: read.unwrap_or_else(|| vec!["/".to_owned()]),
        write: written.into_iter().collect(),
        network: sandbox.opens_network(),
        hosts: sandbox.single_hosts().to_vec(),
    }
}

/// Returns the system's programs and libraries, those in the user's home, and `files`, from which a process in
/// `folder` starts, with the packages installed beside them.
pub(in crate::program) fn needed(files: &[PathBuf], folder: &Path, dirs: &Dirs) -> Vec<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from);
    let programs = private::PROGRAMS.iter().map(|place| dirs.home.join(place));
    // Certificates and compilers.
    let places = ENVIRONMENT.iter().filter(|name| !["HOME", "TMPDIR"].contains(name));
    // A client's configuration may set them to anything: only what manages versions of programs counts.
    let places = places.filter_map(std::env::var_os).filter_map(|place| managed(Path::new(&place)));
    let path = search_path();
    let on_path = std::env::split_paths(&path).filter_map(|directory| {
        managed(&directory).or_else(|| Some(directory).filter(|directory| is_granted(directory)))
    });
    let mut all: Vec<PathBuf> = system.chain(programs).chain(places).chain(on_path).collect();
    for file in files {
        all.extend(file.canonicalize().ok().into_iter().flat_map(|real| installation(&real, folder)));
        all.extend(installation(file, folder));
    }
    all
}

/// Returns whether `path` belongs to the system, which only its administrator changes.
pub fn is_of_system(path: &Path) -> bool {
    ADMINISTERED.iter().any(|place| path.starts_with(place))
}

fn program(process: &Process<'_>, dirs: &Dirs) -> Option<PathBuf> {
    let word = process.words.first()?;
    if !word.contains('/') {
        return find_on_path(word);
    }
    Some(process.manifest.resolve(Path::new(word), &dirs.home))
}

/// Returns a program, and if it is in a `bin` the directories beside that: its libraries. Not the directories
/// beside the `bin` of the program's own folder.
fn installation(program: &Path, folder: &Path) -> Vec<PathBuf> {
    let bin = program.parent().filter(|bin| bin.file_name().is_some_and(|name| name == "bin"));
    let around =
        bin.and_then(Path::parent).filter(|around| is_granted(around) && !folder.starts_with(around));
    std::iter::once(program).chain(around).map(Path::to_owned).collect()
}

/// Returns the directory of a version manager, if `directory` on PATH belongs to one; it may be another user's.
fn managed(directory: &Path) -> Option<PathBuf> {
    let is_manager =
        |place: &&Path| private::PROGRAMS.iter().any(|known| !known.contains('/') && place.ends_with(known));
    directory.ancestors().find(is_manager).map(Path::to_owned)
}

/// Returns whether a directory could be proposed for a grant: it contains only deliberately placed files.
fn is_granted(directory: &Path) -> bool {
    directory.is_absolute() && matches!(Proposal::for_path(directory), Proposal::Grant(_))
}
