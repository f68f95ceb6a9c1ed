//! Checks the agents of a program without asking a model: loads each agent as for its first call.

use super::tool::AgentTool;
use crate::program::Program;
use haft_core::report::Problem;

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
