//! `[[agents]]`: agents that the model may call as tools, each a separate program or a part of this one. Each agent
//! is offered as one tool, and loaded when it is first called or inspected. No agent has a right that its caller
//! lacks.

mod part;
mod ready;
mod tool;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::part::Part;
use self::tool::{AgentTool, Kind, Own};
use super::contribution::{Contribution, Merged, NewTool};
use super::options::{Ask, Options};
use super::rights::Rights;
use super::server_set::Servers;
use super::under::{self, Under};
use super::{ModelChoice, Program, chosen_tools, family, patterns};
use haft_core::limit::Limits;
use haft_core::report::Problem;
use haft_core::sync::Lock;
use haft_core::tool::{Toolbox, exposed_name};
use haft_manifest::{AgentKind, AgentTool as Declared, ToolPattern};

/// The prefix of the tools' names.
const PREFIX: &str = "agent";

/// The agents of a program.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    tools: Vec<Arc<AgentTool>>,
    /// The user's choice of the model, for agents that are parts of the program.
    choice: Arc<Lock<ModelChoice>>,
}

impl Agents {
    /// Sets the model for agents that are parts of the program and name no model.
    pub fn use_model(&self, choice: &ModelChoice) {
        self.choice.lock().clone_from(choice);
    }

    /// Returns the agents with programs of their own, which have running resources and hold no tools of this
    /// program.
    pub(super) fn programs(&self) -> Self {
        let own = self.tools.iter().filter(|tool| tool.is_program()).cloned();
        Self { tools: own.collect(), choice: self.choice.clone() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns whether one of the agents has another owner.
    pub(super) fn are_used(&self) -> bool {
        self.tools.iter().any(|tool| Arc::strong_count(tool) > 1)
    }

    /// Ends the processes of the loaded programs, concurrently and within a few seconds.
    pub(super) async fn close(&self) {
        let closing = self.tools.iter().cloned().map(|tool| async move { tool.close().await });
        drop(closing.collect::<JoinSet<_>>().join_all().await);
    }
}

fn exposed(name: &str) -> String {
    exposed_name(&[PREFIX, name])
}

impl Agents {
    /// Returns the tool of the agent `declared`. An agent that is a part of the program may use the tools `merged`
    /// so far, which are those of all other sources and of the agents before it.
    pub(super) fn contribution(
        &mut self,
        rights: &Rights<'_>,
        declared: &Declared,
        merged: &Merged,
    ) -> Contribution {
        let Rights { options, loaded, manifest, dirs, files, .. } = rights;
        let outer = options.under.as_ref();
        let hooks = outer.iter().flat_map(|outer| &outer.hooks).chain(&merged.rest.hooks);
        let hooks: Vec<_> = hooks.cloned().collect();
        let (rules, mut found) = (chosen_tools::rules(manifest, &dirs.home), Contribution::default());
        let (kind, grant) = match &declared.kind {
            AgentKind::Program(program) => {
                let grant = under::most(files, &merged.toolbox, manifest);
                // The agent works in its own folder, where a relative path names another file.
                let rules =
                    files.base().map_or_else(|| rules.clone(), |base| rules.clone().based(base.path()));
                let under = Under {
                    most: grant.clone(),
                    backend: rights.target.clone(),
                    chain: loaded.family.chain.clone(),
                    bounds: under::bounds(manifest, rules, outer),
                    denied: under::denied(manifest, outer),
                    hooks,
                };
                let options = for_agent(options, family::file(manifest, program, &dirs.home), under);
                (Kind::Program(Box::new(Own::new(options))), grant)
            }
            AgentKind::Part { tools, .. } => {
                let chosen = tools.as_ref().map(|tools| tools.value.as_slice());
                let (toolbox, misnamed) = selected(rights, declared, chosen, merged);
                found.problems.extend(misnamed);
                let grant = under::most(files, &toolbox, manifest);
                let toolbox = toolbox.ruled(&rules);
                let toolbox = toolbox.bounded(outer.map_or(&[], |outer| &outer.bounds));
                let toolbox = chosen_tools::hooked(&toolbox, &hooks);
                let part = Part::new(loaded, declared, toolbox, files, self.choice.clone());
                (Kind::Part(Box::new(part)), grant)
            }
        };
        match AgentTool::new(declared, kind, grant.clone()).map(Arc::new) {
            Ok(tool) => {
                let origin = format!("`[[agents]]` at {}", manifest.source.place(declared.name.span));
                let limits = Limits { time: declared.timeout, ..Limits::default() };
                self.tools.push(tool.clone());
                found.tools.push(NewTool::new(tool, grant, limits, origin));
            }
            Err(problem) => found.problems.push(problem),
        }
        found
    }
}

/// Returns the tools that the agent `declared`, a part of the program, may use, and a problem for each pattern
/// without a tool if all tools are known.
fn selected(
    rights: &Rights<'_>,
    declared: &Declared,
    chosen: Option<&[ToolPattern]>,
    merged: &Merged,
) -> (Toolbox, Vec<Problem>) {
    let Merged { toolbox, rest } = merged;
    let Some(chosen) = chosen else {
        let is_agent =
            |name: &str| rights.manifest.agents.iter().any(|agent| exposed(agent.name.as_str()) == name);
        let names = toolbox.entries().map(|entry| entry.def().name.as_str());
        let others: Vec<ToolPattern> =
            names.filter(|name| !is_agent(name)).filter_map(|name| name.parse().ok()).collect();
        return (chosen_tools::of_agent(toolbox, Some(&others)), Vec::new());
    };
    let mut problems = Vec::new();
    if rights.options.only.is_none() && !rest.is_partial {
        let names: Vec<&str> = toolbox.names().collect();
        let known = chosen.iter().filter(|pattern| rest.unseen.reason_for(pattern).is_none());
        let owner = format!("the program of agent `{}`", declared.name.as_str());
        problems = patterns::problems(&owner, ("tools", declared.name.span), &names, known);
    }
    (chosen_tools::of_agent(toolbox, Some(chosen)), problems)
}

/// Returns the options for the agent's `program`, called by the program loaded with `options`.
fn for_agent(options: &Options, program: PathBuf, under: Under) -> Options {
    Options {
        program: Some(program),
        allow: Vec::new(),
        only: None,
        ask: Ask::WhereUnknown,
        known_only: false,
        pins_first_lists: true,
        further_servers: Vec::new(),
        servers: Servers::default(),
        under: Some(under),
        machines: options.machines.of_another(),
        ..options.clone()
    }
}

// Checks the agents of a program without asking a model: loads each agent as for its first call.

impl Program {
    /// Returns the errors of the agents, and the permissions that they request and do not get.
    pub async fn agent_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for tool in &self.agents.tools {
            problems.extend(of_agent(tool).await);
        }
        problems
    }

    /// Returns the agents by their names, each with its provider and model, or the error.
    pub async fn agent_models(&self) -> Vec<(String, Result<(String, String), String>)> {
        let mut models = Vec::new();
        for tool in &self.agents.tools {
            let ready = tool.ready().await;
            let model =
                ready.map(|ready| (ready.provider.name().to_owned(), ready.provider.model().to_owned()));
            models.push((tool.place().0.to_owned(), model.map_err(|error| format!("{error:#}"))));
        }
        models
    }
}

async fn of_agent(tool: &AgentTool) -> Vec<Problem> {
    let (name, span) = tool.place();
    let at = |text: String| Problem::new(format!("agent `{name}`: {text}")).at(span, "this agent");
    let mut problems = Vec::new();
    match tool.program().await {
        Err(error) => return vec![at(first_line(&error))],
        Ok(Some(program)) => {
            let told = |problem: &Problem| {
                let own = at(problem.message().to_owned());
                let own = problem.hints().iter().fold(own, Problem::hint);
                if problem.is_warning() { own.warning() } else { own }
            };
            problems.extend(program.problems.iter().map(told));
            problems.extend(program.misnamed_agent_tools(false).0.iter().map(told));
        }
        Ok(None) => {}
    }
    // A missing part may exist at the time of the call.
    let model = tool.ready().await.err().filter(|_| problems.iter().all(Problem::is_warning));
    problems
        .extend(model.map(|error| at(format!("it cannot ask its model: {}", first_line(&error))).warning()));
    problems
}

/// Returns the first line of a report, which is the error.
fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
