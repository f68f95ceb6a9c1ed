//! MCP servers of a program, as tools. Whoever was asked before is not started for it; all others
//! are, at once, and none is waited for longer than [`WAIT`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::task::JoinSet;

use super::{Ask, Assembly, Options, Places};
use crate::backend::confine::Confiner;
use crate::grant::Grant;
use crate::manifest::{Manifest, McpServer, TextOrSecret, Transport};
use crate::mcp::client::{
    self, Config, Host, Listed, MAX_AGE, Reach, Rejected, Server, ServerError, ServerTool, Values,
};
use crate::report::Problem;
use crate::secret::{Redactor, Secrets};

/// How long servers that were never asked what they have are waited for, all together. One that
/// takes longer goes on starting, and is there the next time.
const WAIT: Duration = Duration::from_secs(30);

/// The servers of a program. Cheap to clone; the last one dropped kills what still runs.
#[derive(Clone, Debug, Default)]
pub struct Servers(Vec<Arc<Server>>);

impl Servers {
    /// All of them, started or not, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Server>> {
        self.0.iter()
    }

    /// Ends all that run, in order, at the same time and within a few seconds.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for server in &self.0 {
            let server = server.clone();
            closing.spawn(async move { server.close().await });
        }
        drop(closing.join_all().await);
    }
}

/// A server that somebody declared, and what it may do.
pub(super) struct Declared<'a> {
    pub(super) server: &'a McpServer,
    /// The program.toml that declares it.
    pub(super) manifest: Arc<Manifest>,
    /// What holds it, where it is a child.
    pub(super) grant: Grant,
    /// What its tools' names begin with, after `mcp__`.
    pub(super) name: String,
}

/// The servers that a program.toml declares and has not switched off.
pub(super) fn declared<'a>(manifest: &'a Manifest, grant: &Grant) -> Vec<Declared<'a>> {
    let shared = Arc::new(manifest.clone());
    let enabled = manifest.mcp_servers.iter().filter(|server| server.enabled);
    let declared = enabled.map(|server| Declared {
        server,
        manifest: shared.clone(),
        grant: grant.clone(),
        name: server.name.as_str().to_owned(),
    });
    declared.collect()
}

impl Assembly<'_> {
    /// Puts the tools of `declared` into the toolbox.
    pub(super) async fn servers(
        &mut self,
        declared: &[Declared<'_>],
        options: &Options,
        places: &Places,
        confiner: &Confiner,
    ) -> anyhow::Result<Servers> {
        let host = |declared: &Declared<'_>| Host {
            confiner: confiner.clone(),
            grant: declared.grant.clone(),
            person: options.person.clone(),
            memory: Some(places.cache.join("servers")),
        };
        let config = |declared: &Declared<'_>| declared.config(&places.home, &options.redactor);
        let servers: Vec<_> =
            declared.iter().map(|declared| Server::new(config(declared), host(declared))).collect();
        let lists = lists(&servers, &options.ask).await;
        for ((declared, server), list) in declared.iter().zip(&servers).zip(lists) {
            if let Some(problem) = server.config().problem() {
                self.problems.push(problem.at(declared.server.name.span, "this server"));
            } else if let Some(Err(error)) = &list {
                self.problems.push(declared.problem(error));
            }
            // What it had is better than nothing, where it cannot be asked now.
            let listed = match list {
                Some(Ok(listed)) => Some(listed),
                _ => server.remembered().map(|(listed, _)| listed),
            };
            if let Some(listed) = listed {
                self.server(declared, server, &listed)?;
            }
        }
        Ok(Servers(servers))
    }

    fn server(
        &mut self,
        declared: &Declared<'_>,
        server: &Arc<Server>,
        listed: &Listed,
    ) -> anyhow::Result<()> {
        let place = declared.manifest.source.place(declared.server.name.span);
        let origin = format!("MCP server `{}` at {place}", declared.name);
        for tool in listed.tools.iter().filter(|tool| declared.offers(&tool.name)) {
            let tool = ServerTool::new(server, tool);
            let limits = client::limits(server.config());
            self.toolbox.insert(Arc::new(tool), declared.grant.clone(), limits, origin.clone())?;
        }
        self.problems.extend(listed.rejected.iter().map(|rejected| declared.rejection(rejected)));
        self.problems.extend(declared.idle_patterns(listed));
        Ok(())
    }
}

impl Declared<'_> {
    fn config(&self, home: &Path, redactor: &Redactor) -> Config {
        let values = |pairs: &[(String, TextOrSecret)]| -> Arc<dyn Values> {
            Arc::new(Written {
                pairs: pairs.to_vec(),
                manifest: self.manifest.clone(),
                home: home.to_owned(),
                redactor: redactor.clone(),
            })
        };
        let folder = self.manifest.path.parent().unwrap_or(Path::new(""));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let reach = match &self.server.transport {
            Transport::Stdio { command, env } => Reach::Stdio {
                command: command.value.clone(),
                folder,
                home: home.to_owned(),
                environment: values(env),
            },
            Transport::Http { url, headers } => {
                Reach::Http { url: url.value.clone(), headers: values(headers) }
            }
        };
        Config {
            name: self.name.clone(),
            reach,
            timeout: self.server.timeout,
            max_result: self.server.max_result.try_into().unwrap_or(usize::MAX),
        }
    }

    fn offers(&self, tool: &str) -> bool {
        let patterns = self.server.tools.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
    }

    fn problem(&self, error: &ServerError) -> Problem {
        let problem = Problem::new(format!("MCP server `{}` {error}", self.name));
        let problem = problem.at(self.server.name.span, "its tools are left out");
        error.hint().into_iter().fold(problem, Problem::hint)
    }

    fn rejection(&self, rejected: &Rejected) -> Problem {
        let Rejected { tool, why } = rejected;
        let what = match tool {
            Some(tool) => format!("tool `{tool}` of MCP server `{}` is left out: {why}", self.name),
            None => format!("MCP server `{}`: {why}", self.name),
        };
        Problem::new(what).at(self.server.name.span, "this server")
    }

    /// Patterns of `tools` that no tool has.
    fn idle_patterns(&self, listed: &Listed) -> Vec<Problem> {
        let patterns = self.server.tools.iter().flatten();
        let idle = patterns.filter(|pattern| !listed.tools.iter().any(|tool| pattern.matches(&tool.name)));
        let problem = |pattern: &crate::manifest::ToolPattern| {
            let text = format!("MCP server `{}` has no tool `{pattern}`", self.name);
            Problem::new(text).at(self.server.name.span, "`tools` of this server name it")
        };
        idle.map(problem).collect()
    }
}

/// What each server has, where it was asked; `None` where what is remembered will do, or nobody
/// needs to know.
async fn lists(servers: &[Arc<Server>], ask: &Ask) -> Vec<Option<Result<Arc<Listed>, ServerError>>> {
    let mut asking = JoinSet::new();
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| must_ask(server, ask)) {
        let server = server.clone();
        asking.spawn(async move {
            let late = |_| ServerError::TimedOut { method: "tools/list", limit: WAIT };
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

fn must_ask(server: &Server, ask: &Ask) -> bool {
    if server.config().problem().is_some() {
        return false;
    }
    let remembered = server.remembered();
    match ask {
        Ask::Never => false,
        Ask::Always => true,
        Ask::WhereUnknown => remembered.is_none_or(|(_, age)| age > MAX_AGE),
        Ask::For(tool) => {
            let name = &server.config().name;
            let has = |tool: &str, listed: &Listed| {
                let exposed = |own: &str| crate::tool::exposed_name(&["mcp", name, own]);
                listed.tools.iter().any(|own| exposed(&own.name).eq_ignore_ascii_case(tool))
            };
            client::owns(name, tool) && remembered.is_none_or(|(listed, _)| !has(tool, &listed))
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
