//! MCP servers of a program, as tools. A server whose tools are cached is not started for listing; the others are
//! started at once, and none is waited for longer than [`WAIT`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::task::JoinSet;

use super::assembly::Assembly;
use super::options::{Ask, Options};
use super::packages::Installed;
use super::pending_plugin::offers;
use super::server_set::{Servers, Tracked, is_unknown};
use super::{Dirs, grants, patterns};
use haft_core::grant::{Grant, Root};
use haft_core::report::{Problem, Span};
use haft_core::secret::Redactor;
use haft_manifest::Secrets;
use haft_manifest::{Manifest, McpServer, Package, SecretSource, TextOrSecret, Transport};
use haft_mcp::client::{
    self, Config, Endpoint, Host, Rejected, RemoteTool, Server, ServerError, ServerTool, ToolList, Values,
};
use haft_sandbox::confine::Confiner;

/// How long servers that were never asked what they have are waited for, all together. One that
/// takes longer goes on starting, and is there the next time.
const WAIT: Duration = Duration::from_secs(30);

/// A declared server, and what it may do.
pub(super) struct Declared<'a> {
    pub(super) server: &'a McpServer,
    /// The program.toml that declares it.
    pub(super) manifest: Arc<Manifest>,
    /// What holds it, where it is a child.
    pub(super) grant: Grant,
    /// Where the program names it, or the package that it comes with.
    pub(super) span: Span,
    /// The package that it comes with, if it does.
    pub(super) package: Option<&'a Package>,
}

/// The servers that a program.toml declares and has not switched off.
pub(super) fn declared<'a>(manifest: &'a Manifest, grant: &Grant) -> Vec<Declared<'a>> {
    let shared = Arc::new(manifest.clone());
    let enabled = manifest.mcp_servers.iter().filter(|server| server.enabled);
    let declared = enabled.map(|server| Declared {
        server,
        manifest: shared.clone(),
        grant: grant.clone(),
        span: server.name.span,
        package: None,
    });
    declared.collect()
}

/// Those of installed packages: installing one included consent to each of its servers. They have the rights of the
/// program's commands, and read the package's files.
pub(super) fn of_packages<'a>(
    installed: &'a [Installed<'_>],
    grant: &Grant,
) -> anyhow::Result<Vec<Declared<'a>>> {
    let mut all = Vec::new();
    for Installed { declared: package, bundle, .. } in installed {
        let folder = Root::resolve(Path::new("/"), &bundle.folder)?;
        let reads = grant.readable().covers(&folder);
        let grant = if reads { grant.clone() } else { grant.clone().with_read(folder) };
        let enabled = declared(&bundle.manifest, &grant);
        let span = package.name.span;
        all.extend(enabled.into_iter().map(|server| Declared { span, package: Some(package), ..server }));
    }
    Ok(all)
}

/// Puts the tools of `declared` into the toolbox.
pub(super) async fn start(
    assembly: &mut Assembly<'_>,
    declared: Vec<Declared<'_>>,
    options: &Options,
    dirs: &Dirs,
    confiner: &Confiner,
) -> anyhow::Result<Servers> {
    let mut declared = without_duplicates(assembly, declared);
    for one in &mut declared {
        if let Transport::Stdio { command, .. } = &one.server.transport {
            let own = Some((one.server.name.as_str(), command.value.as_slice()));
            one.grant = grants::with_caches(one.grant.clone(), assembly.manifest.sandbox.mode, dirs, own)?;
        }
    }
    let host = |declared: &Declared<'_>| Host {
        confiner: confiner.clone(),
        grant: declared.grant.clone(),
        elicitor: options.person.clone(),
        cache: Some(dirs.cache.join("servers")),
    };
    let config = |declared: &Declared<'_>| declared.config(&dirs.home, &options.redactor);
    assembly.problems.extend(declared.iter().flat_map(Declared::withheld));
    let own = |declared: &Declared<'_>| {
        let (config, host) = (config(declared), host(declared));
        let running = options.servers.same(&config, &host);
        let server = running.unwrap_or_else(|| Server::new(config, host));
        Tracked { changes: server.changes(), server }
    };
    let mut servers = Servers(declared.iter().map(own).collect());
    let lists = lists(&servers, options).await;
    // Before what is known is read: a list that comes later than it was waited for is a change.
    servers.0.iter_mut().for_each(|own| own.changes.mark_unchanged());
    for ((declared, server), list) in declared.iter().zip(servers.iter()).zip(lists) {
        let problems = assembly.problems.len();
        let may_have_more = list.is_none() && server.config().problem().is_none();
        if let Some(problem) = server.config().problem() {
            assembly.problems.push(problem.at(declared.span, "this server"));
        } else if let Some(Err(error)) = &list {
            assembly.problems.push(declared.problem(error));
        }
        // What it had is better than nothing, where it cannot be asked now.
        if let Some((listed, _)) = server.remembered() {
            add_tools(assembly, declared, server, &listed)?;
        } else {
            assembly.is_complete &= !may_have_more;
            let why = format!("it is not known which tools MCP server `{}` has", declared.name());
            assembly.unseen.note(patterns::server_prefix(declared.name()), why);
        }
        if options.only.as_ref().is_some_and(|tool| !client::owns(declared.name(), tool)) {
            // Nothing is said of what is not used.
            assembly.problems.truncate(problems);
        }
    }
    Ok(servers)
}

/// Those whose names are their own; of two the first, and the other is a problem.
fn without_duplicates<'d>(assembly: &mut Assembly<'_>, declared: Vec<Declared<'d>>) -> Vec<Declared<'d>> {
    let mut kept: Vec<Declared<'d>> = Vec::new();
    for server in declared {
        if kept.iter().any(|other| other.name() == server.name()) {
            let text = format!("MCP server `{}` is left out: another one is called so", server.name());
            assembly.problems.push(Problem::new(text).at(server.span, "this server"));
        } else {
            kept.push(server);
        }
    }
    kept
}

fn add_tools(
    assembly: &mut Assembly<'_>,
    declared: &Declared<'_>,
    server: &Arc<Server>,
    listed: &ToolList,
) -> anyhow::Result<()> {
    let place = assembly.manifest.source.place(declared.span);
    let origin = match declared.package {
        None => format!("MCP server `{}` at {place}", declared.name()),
        Some(package) => {
            format!("MCP server `{}` of package `{}` at {place}", declared.name(), package.name.as_str())
        }
    };
    for tool in listed.tools.iter().filter(|tool| declared.offers(&tool.name)) {
        let tool = ServerTool::new(server, tool);
        let limits = client::limits(server.config());
        let on = &declared.server.on;
        assembly.insert_on(on, (Arc::new(tool), &declared.grant), limits, origin.clone(), None)?;
    }
    assembly.problems.extend(listed.rejected.iter().map(|rejected| declared.rejection(rejected)));
    assembly.problems.extend(declared.idle_patterns(listed));
    Ok(())
}

impl Declared<'_> {
    /// What its tools' names begin with, after `mcp__`.
    fn name(&self) -> &str {
        self.server.name.as_str()
    }

    fn config(&self, home: &Path, redactor: &Redactor) -> Config {
        let values = |pairs: &[(String, TextOrSecret)]| -> Arc<dyn Values> {
            Arc::new(Written {
                pairs: pairs.iter().filter(|(_, value)| self.may_have(value)).cloned().collect(),
                manifest: self.manifest.clone(),
                home: home.to_owned(),
                redactor: redactor.clone(),
            })
        };
        let endpoint = match &self.server.transport {
            Transport::Stdio { command, env } => Endpoint::Stdio {
                command: command.value.clone(),
                folder: self.manifest.folder.clone(),
                home: home.to_owned(),
                environment: values(env),
            },
            Transport::Http { url, headers } => {
                Endpoint::Http { url: url.value.clone(), headers: values(headers) }
            }
        };
        Config {
            name: self.name().to_owned(),
            endpoint,
            timeout: self.server.timeout,
            max_result: self.server.max_result.try_into().unwrap_or(usize::MAX),
            redactor: redactor.clone(),
        }
    }

    /// Whether the server may have a value. A package's gets of the host's what it was granted, and its
    /// own program.toml is no grant.
    fn may_have(&self, value: &TextOrSecret) -> bool {
        match (self.package, value) {
            (None, _) | (_, TextOrSecret::Text(_)) => true,
            (Some(package), TextOrSecret::Secret(SecretSource::Env(name))) => {
                package.grant.env.iter().any(|granted| granted == name.as_str())
            }
            (Some(_), TextOrSecret::Secret(_)) => false,
        }
    }

    /// What it asks for and does not get.
    fn withheld(&self) -> Vec<Problem> {
        let values = match &self.server.transport {
            Transport::Stdio { env, .. } => env,
            Transport::Http { headers, .. } => headers,
        };
        let withheld = values.iter().filter(|(_, value)| !self.may_have(value));
        let problem = |(name, value): &(String, TextOrSecret)| {
            let text = format!("MCP server `{}` does not get `{name}`", self.name());
            let problem = Problem::new(text).at(self.span, "not granted to this package");
            match value {
                TextOrSecret::Secret(SecretSource::Env(name)) => {
                    problem.hint(format!("`env = [\"{name}\"]` in `[packages.grant]` allows it"))
                }
                _ => problem.hint("a package gets no secrets but from variables"),
            }
        };
        withheld.map(problem).collect()
    }

    fn offers(&self, tool: &str) -> bool {
        let patterns = self.server.tools.as_ref();
        let is_offered = patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)));
        let exposed = client::exposed(self.name(), tool);
        is_offered && self.package.is_none_or(|package| offers(package, &exposed))
    }

    fn problem(&self, error: &ServerError) -> Problem {
        let problem = Problem::new(format!("MCP server `{}` {error}", self.name()));
        let problem = problem.at(self.span, "its tools are left out");
        error.hints().into_iter().fold(problem, Problem::hint)
    }

    fn rejection(&self, rejected: &Rejected) -> Problem {
        let Rejected { tool, why } = rejected;
        let what = match tool {
            Some(tool) => format!("tool `{tool}` of MCP server `{}` is left out: {why}", self.name()),
            None => format!("MCP server `{}`: {why}", self.name()),
        };
        Problem::new(what).at(self.span, "this server")
    }

    /// Patterns of `tools` that no tool has.
    fn idle_patterns(&self, listed: &ToolList) -> Vec<Problem> {
        let names: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_ref()).collect();
        let owner = format!("MCP server `{}`", self.name());
        patterns::problems(&owner, ("tools", self.span), &names, self.server.tools.iter().flatten())
    }
}

/// The tools of each server that was asked; `None` where the cached list will do, or none is needed.
async fn lists(servers: &Servers, options: &Options) -> Vec<Option<Result<Arc<ToolList>, ServerError>>> {
    let mut asking = JoinSet::new();
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| must_ask(server, options)) {
        let server = server.clone();
        asking.spawn(async move {
            let late = |_| ServerError::TimedOut { method: "tools/list", limit: WAIT, noise: String::new() };
            (index, tokio::time::timeout(WAIT, server.list()).await.unwrap_or_else(|e| Err(late(e))))
        });
    }
    let mut lists: Vec<_> = servers.iter().map(|_| None).collect();
    for (index, list) in asking.join_all().await {
        if let Some(place) = lists.get_mut(index) {
            *place = Some(list);
        }
    }
    lists
}

/// Whether `server` has to be asked what it has. Where only one tool is called, its server is, if it
/// is not known to have it; a list of any age will do.
fn must_ask(server: &Server, options: &Options) -> bool {
    if server.config().problem().is_some() {
        return false;
    }
    match (&options.ask, &options.only) {
        (Ask::Never, _) => false,
        (Ask::Always, _) => true,
        (Ask::WhereUnknown, None) => is_unknown(server),
        (Ask::WhereUnknown, Some(tool)) => {
            let name = &server.config().name;
            let is_it = |own: &RemoteTool| client::exposed(name, &own.name).eq_ignore_ascii_case(tool);
            let has = |listed: &ToolList| listed.tools.iter().any(is_it);
            client::owns(name, tool) && server.remembered().is_none_or(|(listed, _)| !has(&listed))
        }
    }
}

/// Variables or headers, as program.toml has them.
#[derive(Debug)]
struct Written {
    pairs: Vec<(String, TextOrSecret)>,
    manifest: Arc<Manifest>,
    home: std::path::PathBuf,
    redactor: Redactor,
}

#[async_trait]
impl Values for Written {
    fn identity(&self) -> String {
        // Of secrets only where they are kept.
        format!("{:?}", self.pairs)
    }

    async fn read(&self) -> Result<Vec<(String, SecretString)>, String> {
        let secrets = Secrets::new(&self.manifest, &self.home, &self.redactor);
        let mut values = Vec::with_capacity(self.pairs.len());
        for (name, value) in &self.pairs {
            let value = match value {
                TextOrSecret::Text(text) => SecretString::from(text.clone()),
                TextOrSecret::Secret(source) => secrets.read(source).await.map_err(|error| {
                    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                    format!("`{name}` cannot be had: {error}{hint}")
                })?,
            };
            values.push((name.clone(), value));
        }
        Ok(values)
    }
}
