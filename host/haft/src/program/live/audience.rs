//! The audience of a served program: MCP clients, or gates through a worker. A gate serves a tool only when its
//! workers have the tool. The description of the program that clients get before they list its tools.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Live, News, ToolChoice};
use crate::program::grants::Grants;
use crate::program::{Options, Program};
use haft_author::watch::Moment;
use haft_callers::{Proof, Rule};
use haft_core::report::Problem;
use haft_core::tool::{Toolbox, foreign};
use haft_manifest::{CallerProof, CallerTable, KeysAt};
use haft_mcp::server::{Publisher, ServerInfo, ToolSnapshot};
use haft_nats::{Identity, Worker};

pub(super) enum Audience {
    Clients(Publisher),
    Gates(Arc<Worker>),
}

/// Interval of checks whether workers have the current program.
const LOOK: Duration = Duration::from_millis(250);

/// Time before missing workers are reported.
const AHEAD: Duration = Duration::from_secs(10);

impl Live {
    /// Keeps the toolbox of `worker` current. The worker began with `program`, read at `read`.
    pub fn of_worker(
        mut options: Options,
        program: &Program,
        read: Moment,
        worker: Arc<Worker>,
        on_news: impl Fn(News<'_>) + Send + Sync + 'static,
    ) -> Self {
        options.confiner.get_or_insert_with(|| program.confiner.clone());
        Self::new(options, Audience::Gates(worker), program, read, Box::new(on_news))
    }

    /// Waits until the workers that have the served tools also have the tools of `program` for workers, made since
    /// `mark`: no call fails because of the change. Returns `false` if the files of the program change meanwhile,
    /// or if serving ends.
    pub(super) async fn workers_follow(&self, program: &Program, mark: u64) -> bool {
        let (Some(old), Some(new)) = (self.placement.gate(), program.placement.gate()) else { return true };
        let mark = if Arc::ptr_eq(old, new) { mark } else { 0 };
        let began = Instant::now();
        let mut was_told = false;
        while !(old.can_be_replaced() || new.connect().await.is_ok() && new.can_follow(old, mark)) {
            if began.elapsed() > AHEAD && !std::mem::replace(&mut was_told, true) {
                (self.on_news)(News::Ahead);
            }
            let is_over = tokio::time::timeout(LOOK, self.audience.closed()).await.is_ok();
            if is_over || self.read.is_before_a_change_of(&program.files) {
                return false;
            }
        }
        true
    }
}

impl Audience {
    /// Returns when serving has ended.
    pub(super) async fn closed(&self) {
        match self {
            Self::Clients(publisher) => publisher.closed().await,
            Self::Gates(_) => std::future::pending().await,
        }
    }

    /// Returns the program. If this process is a worker, the calls are journalled as the worker's.
    pub(super) fn own(&self, program: Program) -> Program {
        match self {
            Self::Clients(_) => program,
            Self::Gates(worker) => program.of_worker(&worker.place().worker),
        }
    }

    /// Serves `program` from now on. Returns whether the tools have changed.
    pub(super) fn publish(&self, snapshot: ToolSnapshot, program: &Program) -> anyhow::Result<bool> {
        match self {
            Self::Clients(publisher) => Ok(publisher.publish(snapshot)),
            Self::Gates(worker) => {
                let Identity { program: name, .. } = worker.place().identity;
                anyhow::ensure!(
                    name == program.identity.program,
                    "the program's name is no longer `{name}`: restart this worker"
                );
                Ok(worker.read_again(program.reading()))
            }
        }
    }
}

// `[[serve.callers]]`: the tools of each caller of a program that is served over HTTP. Each caller has its own list
// of tools, whose grants are narrowed once, when the program is read.

/// The part of the tools for each caller, by its name.
type Views = Vec<(String, Toolbox)>;

/// Returns the part of `served` for each caller, and problems for tools that a caller names and does not get.
pub(crate) fn views(program: &Program, served: &Toolbox) -> anyhow::Result<(Views, Vec<Problem>)> {
    let (mut views, mut problems) = (Vec::new(), Vec::new());
    let mut grants = Grants::new(&program.manifest, &program.dirs, &[])?;
    for caller in &program.manifest.serve.callers {
        let grant = caller.grant.as_ref().map(|table| grants.table(&table.value, false)).transpose()?;
        let tools = &caller.tools.value;
        let toolbox = match &grant {
            None => served.select(tools, None),
            Some(grant) => {
                let (bound, unbound) = served.bound_by(tools, grant);
                problems.extend(left_out(caller, &unbound));
                bound
            }
        };
        views.push((caller.name.as_str().to_owned(), toolbox));
    }
    problems.extend(grants.problems);
    Ok((views, problems))
}

fn left_out(caller: &CallerTable, unbound: &[String]) -> Option<Problem> {
    let named = unbound.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let text = format!("caller `{}` does not get {named}", caller.name.as_str());
    let span = caller.grant.as_ref().map_or(caller.tools.span, |grant| grant.span);
    let problem =
        Problem::new(text).warning().at(span, "it has the rights of a server, a target or a worker");
    (!unbound.is_empty()).then(|| problem.hint("a caller without a `grant` may have such tools"))
}

/// Returns the callers, with their tokens read.
pub(crate) async fn rules(program: &Program) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for caller in &program.manifest.serve.callers {
        let proof = match &caller.proof {
            CallerProof::Token(source) => {
                let token = program.secrets().read(source).await;
                Proof::Token(token.map_err(|error| of_caller(caller, &error))?)
            }
            CallerProof::Jwt(jwt) => {
                let mut jwt = jwt.clone();
                if let KeysAt::File(path) = &mut jwt.keys {
                    *path = program.manifest.resolve(path, &program.dirs.home);
                }
                Proof::Jwt(jwt)
            }
        };
        let (calls_per_minute, calls_at_once) = (caller.calls_per_minute, caller.calls_at_once);
        rules.push(Rule { name: caller.name.as_str().to_owned(), proof, calls_per_minute, calls_at_once });
    }
    Ok(rules)
}

fn of_caller(caller: &CallerTable, error: &haft_manifest::SecretError) -> anyhow::Error {
    let (name, error) = (caller.name.as_str(), error.with_hint());
    anyhow::anyhow!("the token of caller `{name}` is not available: {error}")
}

/// Returns the program's own description, and the workspace of its tools.
pub(super) fn about(program: &Program, choice: &ToolChoice) -> ServerInfo {
    let own = program.manifest.program.as_ref();
    let has_one_server = program.servers.iter().len() == 1;
    let mut instructions = own.and_then(|own| own.description.clone()).unwrap_or_default();
    if let Some(workspace) = program.grant.workspace() {
        // Writing to a `String` cannot fail.
        let _ = write!(
            instructions,
            "{}Relative paths are below `{}`. Files may be written in {} (sandbox mode `{}`).",
            if instructions.is_empty() { "" } else { "\n\n" },
            workspace.path().display(),
            writable(program),
            program.manifest.sandbox.mode.as_str(),
        );
    }
    instructions.push_str("\nIf a tool is denied access, the hint in its answer is for the user.");
    if !program.left_out.is_empty() {
        instructions
            .push_str(" Some tools are left out until the user runs `haft trust` in the program's folder.");
    }
    let (title, of_servers) = (own.map(|own| own.name.as_str().to_owned()), of_servers(program, choice));
    let awaits_servers = !program.servers.unknown().is_empty();
    ServerInfo { title, instructions, of_servers, has_one_server, awaits_servers }
}

/// Returns the instructions of MCP servers to models, each quoted so that it cannot pass for haft's text.
fn of_servers(program: &Program, choice: &ToolChoice) -> Vec<(String, String)> {
    let is_served = |name: &str| choice.server.as_deref().is_none_or(|server| server == name);
    let said = program.servers.iter().filter_map(|server| {
        let name = server.config().name.as_str();
        let (listed, _) = server.remembered().filter(|_| is_served(name) && choice.plugin.is_none())?;
        let words = foreign(listed.instructions()?.trim()).into_owned();
        let prefix = format!("mcp__{name}__");
        let words = format!("\n\nMCP server `{name}` (tools `{prefix}…`) says:\n{words}");
        Some((prefix, words))
    });
    said.collect()
}

fn writable(program: &Program) -> String {
    let roots = program.grant.writable().roots();
    let paths: Vec<_> = roots.iter().map(|root| format!("`{}`", root.path().display())).collect();
    if paths.is_empty() { "no directory".to_owned() } else { paths.join(", ") }
}
