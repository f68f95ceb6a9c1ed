//! The audience of a served program: MCP clients, or gates through a worker. A gate serves a tool only when its
//! workers have the tool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Live, News, ToolChoice};
use crate::program::grants::Grants;
use crate::program::{Options, Program, Running};
use haft_author::watch::Moment;
use haft_callers::{JwtRule, KeySource, Proof, Rule};
use haft_core::report::Problem;
use haft_core::tool::Toolbox;
use haft_manifest::{CallerProof, CallerTable, JwtTable, KeysAt};
use haft_mcp::server::{Publisher, ToolSnapshot};
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
        options.trust = program.trusted_from_now_on(&options.trust);
        let running = Running::default();
        running.put(program);
        Self {
            options,
            choice: ToolChoice::default(),
            audience: Audience::Gates(worker),
            files: program.files.clone(),
            read,
            started: read,
            agreements: program.dirs.trust(),
            is_complete: true,
            running,
            serve: program.manifest.serve.clone(),
            callers: None,
            is_without_pane: program.is_without_pane,
            begun: program.begun(),
            placement: program.placement.clone(),
            has_worker_servers: false,
            on_news: Box::new(on_news),
        }
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

pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) toolbox: Toolbox,
}

/// Returns the part of `served` for each caller, and problems for tools that a caller names and does not get.
pub(crate) fn views(program: &Program, served: &Toolbox) -> anyhow::Result<(Vec<View>, Vec<Problem>)> {
    let (mut views, mut problems) = (Vec::new(), Vec::new());
    let mut grants = Grants::new(&program.manifest, &program.dirs, &[])?;
    for caller in &program.manifest.serve.callers {
        let grant = caller.grant.as_ref().map(|table| grants.table(&table.value)).transpose()?;
        let tools = &caller.tools.value;
        let toolbox = match &grant {
            None => served.select(tools, None),
            Some(grant) => {
                let (bound, unbound) = served.bound_by(tools, grant);
                problems.extend(left_out(caller, &unbound));
                bound
            }
        };
        views.push(View { name: caller.name.as_str().to_owned(), toolbox });
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
            CallerProof::Jwt(jwt) => Proof::Jwt(jwt_rule(program, jwt)),
        };
        let (calls_per_minute, calls_at_once) = (caller.calls_per_minute, caller.calls_at_once);
        rules.push(Rule { name: caller.name.as_str().to_owned(), proof, calls_per_minute, calls_at_once });
    }
    Ok(rules)
}

fn of_caller(caller: &CallerTable, error: &haft_manifest::SecretError) -> anyhow::Error {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    anyhow::anyhow!("the token of caller `{}` is not available: {error}{hint}", caller.name.as_str())
}

fn jwt_rule(program: &Program, jwt: &JwtTable) -> JwtRule {
    let keys = match &jwt.keys {
        KeysAt::Url(url) => KeySource::Url(url.clone()),
        KeysAt::File(path) => KeySource::File(program.manifest.resolve(path, &program.dirs.home)),
    };
    JwtRule {
        issuer: jwt.issuer.clone(),
        audience: jwt.audience.clone(),
        keys,
        algorithms: jwt.algorithms.clone(),
        subjects: jwt.subjects.clone(),
        scopes: jwt.scopes.clone(),
    }
}
