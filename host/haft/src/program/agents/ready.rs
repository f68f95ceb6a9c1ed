//! A loaded agent: its model, tools and settings. Saves every conversation as a separate session, beside the
//! sessions of users.

use std::sync::Arc;

use crate::program::under::Under;
use crate::program::{ModelChoice, Program, chosen_tools};
use haft_agent::provider::Provider;
use haft_agent::{Agent, AgentSettings, Begun, History, Outcome, Routed, SessionError, Sessions, route};
use haft_core::grant::Grant;
use haft_core::tool::{Session, Toolbox};
use haft_journal::Journal;
use haft_manifest::{Route, ToolPattern};

/// An agent with everything that a request to its model needs.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) toolbox: Toolbox,
    pub(super) settings: AgentSettings,
    pub(super) route: Route,
    pub(super) begun: Begun,
    /// The storage of the agent's conversations.
    pub(super) sessions: Sessions,
    /// The journal of the agent's calls; `None` for that of the caller.
    pub(super) journal: Option<Journal>,
}

pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) session: Option<String>,
}

impl Ready {
    /// Creates the agent of `program` with the model `provider`.
    pub(super) fn of_program(
        program: &Program,
        under: Option<&Under>,
        provider: Arc<dyn Provider>,
    ) -> anyhow::Result<Self> {
        let toolbox = program.chosen_tools(&[], |text| tracing::warn!("{text}"))?;
        let toolbox = toolbox.ruled(&chosen_tools::rules(&program.manifest, &program.dirs.home));
        let toolbox = toolbox.bounded(under.map_or(&[], |under| &under.bounds));
        let toolbox = chosen_tools::hooked(&toolbox, under.map_or(&[], |under| &under.hooks));
        let output = program.output().map_err(|problem| program.manifest.report(vec![problem]))?;
        Ok(Self {
            provider,
            settings: AgentSettings { output, ..program.agent_settings(&toolbox, &[]) },
            toolbox,
            route: program.route(&ModelChoice::default()),
            begun: program.begun(),
            sessions: program.dirs.agent_sessions(),
            journal: Some(program.journal.clone()),
        })
    }

    /// Narrows the agent's tools to `grant`, and to plan mode if `grant` is planning.
    pub(super) fn narrow(&mut self, grant: &Grant) {
        let all: Vec<ToolPattern> = "*".parse().into_iter().collect();
        let planning = || self.toolbox.planning();
        self.toolbox = if grant.is_planning() { planning() } else { self.toolbox.clone() };
        (self.toolbox, _) = self.toolbox.bound_by(&all, grant);
    }

    pub(super) async fn run(
        self,
        task: String,
        mut session: Session,
        name: &str,
    ) -> Result<Done, SessionError> {
        let parent = session.lineage.parent().map(str::to_owned);
        if let Some(journal) = self.journal.filter(|_| session.journal.is_kept()) {
            session.journal = journal;
        }
        let begun = Begun { agent: Some(name.to_owned()), parent, ..self.begun };
        let mut history = if session.journal.is_kept() {
            let log = self.sessions.begin(begun, task.as_str(), &session.redactor)?;
            History::logged(log, task.as_str())
        } else {
            let mut history = History::default();
            history.push_prompt(task.as_str())?;
            history
        };
        let kept = history.log().map(|log| log.id().to_owned());
        let Routed { model, usage } = route(self.provider.as_ref(), self.route, &task, &session).await;
        let settings = AgentSettings { model: Some(model), ..self.settings };
        let agent = Agent::new(self.provider, self.toolbox, settings).having_spent(usage);
        let outcome = Box::pin(agent.go_on(&mut history, &session)).await?;
        Ok(Done { outcome, session: kept })
    }
}
