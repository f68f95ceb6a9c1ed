//! `haft check`: everything that can be found out without calling a tool.

use clap::Args;
use serde_json::json;

use super::terminal::Terminal;
use super::{Common, Exit};
use crate::backend::lookup::find_on_path;
use crate::program::Program;
use crate::report::Problem;
use crate::tool::{bytes, tokens};

#[derive(Debug, Args)]
pub(super) struct Check {}

impl Check {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut program = Program::load(&common.options(terminal, false)?).await?;
        let (missing, crowded) = (missing(&program), crowded(&program));
        program.problems.extend(missing.into_iter().chain(crowded));
        let report = program.report();
        if terminal.json {
            let problems: Vec<_> =
                program.problems.iter().map(|problem| described(&program, problem)).collect();
            terminal.json(&json!({ "tools": program.toolbox.entries().len(), "problems": problems }))?;
        } else if let Some(report) = &report {
            terminal.say(report.styled());
        } else {
            terminal.data(&summary(&program))?;
        }
        Ok(if report.is_some() { Exit::Program } else { Exit::Success })
    }
}

/// `[host_requirements]` that are not on PATH. Looked up, never run.
fn missing(program: &Program) -> Vec<Problem> {
    let required = program.manifest.host_requirements.required.iter();
    let missing = required.filter(|name| find_on_path(name).is_none());
    let problem = |name: &crate::manifest::Located<String>| {
        let problem = Problem::new(format!("`{}` is not installed, and this program needs it", name.value));
        problem.at(name.span, "not found on PATH").hint("install it, or put the directory it is in on PATH")
    };
    missing.map(problem).collect()
}

/// A `tool_budget` that not even the two tools fit that stand for all others.
fn crowded(program: &Program) -> Option<Problem> {
    let budget = program.manifest.agent.tool_budget?;
    let tools = program.agent_tools(&[]);
    let cost = tokens(tools.defs().into_iter().map(bytes).sum());
    let is_met = usize::try_from(budget).is_ok_and(|budget| cost <= budget);
    let problem = || {
        Problem::new(format!("`tool_budget = {budget}` in `[agent]` is too small for any tool"))
            .hint(format!("the two tools that find and run the others take some {cost} tokens by themselves"))
    };
    (!is_met).then(problem)
}

fn described(program: &Program, problem: &Problem) -> serde_json::Value {
    let place = problem.span().map(|span| program.manifest.source.place(span));
    json!({ "message": problem.message(), "place": place, "hints": problem.hints() })
}

fn summary(program: &Program) -> String {
    let file = match program.manifest.source.name() {
        "" => "no program.toml: the built-in tools only",
        name => name,
    };
    let (tools, plugins) = (program.toolbox.entries().len(), program.manifest.plugins.len());
    let mode = crate::program::mode_name(program.manifest.sandbox.mode);
    let write: Vec<_> =
        program.grant.writable().roots().iter().map(|root| root.path().display().to_string()).collect();
    format!(
        "{file}\n{tools} tools, {plugins} declared plugins\nsandbox mode `{mode}`: may write {}\nno problems found",
        write.join(", ")
    )
}
