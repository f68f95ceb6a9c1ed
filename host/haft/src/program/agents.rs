//! `[[agents]]`: agents that the model may call as tools, each a program of its own or a part of this one. Offers each as
//! one tool; loads none of them before it is called or looked at. No agent gets a right that its caller has not.

mod answer;
mod check;
mod part;
mod ready;
mod tool;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::tool::AgentTool;
use super::assembly::Assembly;
use super::loaded::Loaded;
use super::options::{Ask, Options};
use super::server_set::Servers;
use super::under::{self, Said, Under};
use super::{ModelChoice, backend, call_rules, family, patterns, watching};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::sync::Lock;
use haft_core::tool::{Toolbox, exposed_name};
use haft_manifest::{AgentKind, AgentTool as Declared, ToolPattern};

/// What the names of the tools begin with.
const PREFIX: &str = "agent";

/// The agents of a program.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    tools: Vec<Arc<AgentTool>>,
    /// What a person says of the model, for those that are a part of the program.
    choice: Arc<Lock<ModelChoice>>,
}

impl Agents {
    /// Has those that are a part of the program ask what `choice` says, where they say nothing themselves.
    pub fn use_model(&self, choice: &ModelChoice) {
        self.choice.lock().clone_from(choice);
    }

    /// Those with a program of their own: all that keeps something running. They hold no tools of this program.
    pub(super) fn programs(&self) -> Self {
        let own = self.tools.iter().filter(|tool| tool.is_program()).cloned();
        Self { tools: own.collect(), choice: self.choice.clone() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether something besides this list has one of them.
    pub(super) fn are_used(&self) -> bool {
        self.tools.iter().any(|tool| Arc::strong_count(tool) > 1)
    }

    /// Ends what the programs keep running that were loaded, all at the same time and within a few seconds.
    pub(super) async fn close(&self) {
        let mut closing = JoinSet::new();
        for tool in &self.tools {
            let tool = tool.clone();
            closing.spawn(async move { tool.close().await });
        }
        drop(closing.join_all().await);
    }
}

/// The name of an agent's tool.
fn exposed(name: &str) -> String {
    exposed_name(&[PREFIX, name])
}

/// Puts the agents in. Those that are a part of the program may use what is in by then, and the agents above them.
pub(super) fn add(
    assembly: &mut Assembly<'_>,
    options: &Options,
    loaded: &Loaded,
    files: &Grant,
) -> anyhow::Result<Agents> {
    assembly.problems.extend(loaded.family.problems().cloned());
    assembly.files.extend(loaded.family.files());
    let mut agents = Agents::default();
    let outer = options.under.as_ref();
    let hooks = outer.map(Under::hooks).unwrap_or_default();
    let hooks: Vec<_> = hooks.iter().chain(&assembly.hooks).cloned().collect();
    let rules = call_rules::of(assembly.manifest, &loaded.dirs.home);
    // A program of its own works in a folder of its own, where the same relative path is another file.
    let rules = files.base().map_or_else(|| rules.clone(), |base| rules.clone().based(base.path()));
    for declared in assembly.manifest.agents.iter().filter(|agent| agent.enabled) {
        if loaded.family.is_broken(declared) {
            continue;
        }
        let (tool, grant) = match &declared.kind {
            AgentKind::Program(program) => {
                let grant = under::most(files, &assembly.toolbox, assembly.manifest);
                let file = family::file(assembly.manifest, program, &loaded.dirs.home);
                let backend = backend::chosen(assembly.manifest, options, &loaded.dirs);
                let said = Said { manifest: assembly.manifest, rules: rules.clone(), under: outer };
                let chain = loaded.family.chain().to_vec();
                let under = Under::new(said, grant.clone(), backend, chain, hooks.clone());
                let options = for_agent(options, file, under);
                (AgentTool::of_program(declared, options, grant.clone()), grant)
            }
            AgentKind::Part { tools, .. } => {
                let toolbox =
                    selected(assembly, declared, tools.as_ref().map(|tools| tools.value.as_slice()), options);
                let grant = under::most(files, &toolbox, assembly.manifest);
                let toolbox = toolbox.ruled(&call_rules::of(assembly.manifest, &loaded.dirs.home));
                let toolbox = toolbox.bounded(outer.map(Under::bounds).unwrap_or_default());
                let toolbox = watching::on(&toolbox, &hooks);
                let part = part::Part::new(loaded, declared, toolbox, files, agents.choice.clone());
                (AgentTool::of_part(declared, part, grant.clone()), grant)
            }
        };
        let tool = match tool {
            Ok(tool) => Arc::new(tool),
            Err(problem) => {
                assembly.problems.push(problem);
                continue;
            }
        };
        let origin = format!("`[[agents]]` at {}", assembly.manifest.source.place(declared.name.span));
        let limits = Limits { time: declared.timeout, ..Limits::default() };
        assembly.insert(tool.clone(), &grant, limits, origin, None)?;
        agents.tools.push(tool);
    }
    Ok(agents)
}

/// The tools of the program that an agent may use which is a part of it. A pattern that names none is a problem, once
/// all tools are known.
fn selected(
    assembly: &mut Assembly<'_>,
    declared: &Declared,
    chosen: Option<&[ToolPattern]>,
    options: &Options,
) -> Toolbox {
    let Some(chosen) = chosen else {
        let is_agent =
            |name: &str| assembly.manifest.agents.iter().any(|agent| exposed(agent.name.as_str()) == name);
        let names = assembly.toolbox.entries().map(|entry| entry.def().name.as_str());
        let others: Vec<ToolPattern> =
            names.filter(|name| !is_agent(name)).filter_map(|name| name.parse().ok()).collect();
        return assembly.toolbox.select(&others, None);
    };
    if options.only.is_none() && assembly.is_complete {
        let names: Vec<&str> = assembly.toolbox.names().collect();
        let known = chosen.iter().filter(|pattern| assembly.unseen.reason_for(pattern).is_none());
        let owner = format!("the program of agent `{}`", declared.name.as_str());
        let problems = patterns::problems(&owner, ("tools", declared.name.span), &names, known);
        assembly.problems.extend(problems);
    }
    assembly.toolbox.select(chosen, None)
}

/// The options with which `program` is loaded as an agent of the one that was loaded with `options`.
fn for_agent(options: &Options, program: PathBuf, under: Under) -> Options {
    Options {
        program: Some(program),
        allow: Vec::new(),
        only: None,
        ask: Ask::WhereUnknown,
        known_only: false,
        further_servers: Vec::new(),
        servers: Servers::default(),
        under: Some(under),
        machines: options.machines.of_another(),
        ..options.clone()
    }
}
