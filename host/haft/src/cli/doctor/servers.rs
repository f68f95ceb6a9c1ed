//! The program's MCP servers, as far as can be said without starting one: that is what a call is
//! for.

use serde::Serialize;

use super::page::{Line, Mark};
use haft::program::Program;
use haft_mcp::client::{Endpoint, MAX_AGE, Server as Declared};

/// A server as it was found.
#[derive(Serialize)]
pub(super) struct Server {
    name: String,
    /// The program that is started, or the URL.
    at: Option<String>,
    /// What keeps it from being used.
    problem: Option<String>,
    /// How many tools it had when it was last asked.
    tools: Option<usize>,
    /// Hours since then.
    hours: Option<u64>,
}

/// Those that are switched on.
pub(super) fn list_servers(program: Option<&Program>) -> Vec<Server> {
    program
        .into_iter()
        .flat_map(|program| program.servers.iter())
        .map(|server| Server::from_declared(server))
        .collect()
}

impl Server {
    fn from_declared(server: &Declared) -> Self {
        let config = server.config();
        let at = match &config.endpoint {
            Endpoint::Stdio { .. } => config.program().ok().map(|path| path.display().to_string()),
            Endpoint::Http { url, .. } => Some(url.clone()),
        };
        let remembered = server.remembered();
        Self {
            name: config.name.clone(),
            at,
            problem: config.problem().map(|problem| problem.message().to_owned()),
            tools: remembered.as_ref().map(|(listed, _)| listed.tools.len()),
            hours: remembered.map(|(_, age)| age.as_secs() / 3600),
        }
    }

    pub(super) fn line(&self) -> Line {
        if let Some(problem) = &self.problem {
            return Line::new(Mark::Bad, &self.name, problem);
        }
        let at = self.at.as_deref().unwrap_or_default();
        let known = match (self.tools, self.hours) {
            (Some(1), _) => "1 tool when it was last asked".to_owned(),
            (Some(count), Some(hours)) if hours < MAX_AGE.as_secs() / 3600 => {
                format!("{count} tools when it was last asked")
            }
            (Some(count), _) => format!("{count} tools when it was last asked, which is long ago"),
            (None, _) => "never asked which tools it has; `haft tools` asks".to_owned(),
        };
        Line::new(Mark::Good, &self.name, format!("{at}, {known}"))
    }
}
