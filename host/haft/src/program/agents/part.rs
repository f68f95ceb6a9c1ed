//! An agent that is a part of its program: it has a selection of the program's tools with their rights, and the
//! program's model unless it names another.

use std::path::PathBuf;
use std::sync::Arc;

use super::ready::Ready;
use crate::program::loaded::Loaded;
use crate::program::provider::Models;
use crate::program::{ModelChoice, Program};
use haft_agent::provider::Cost;
use haft_agent::{AgentSettings, Begun, Budget, Sessions};
use haft_core::grant::{Grant, Root};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;
use haft_core::tool::Toolbox;
use haft_manifest::{Agent, AgentKind, AgentTool as Declared, Manifest, ToolPattern};

pub(super) struct Part {
    manifest: Manifest,
    home: PathBuf,
    /// The current folder of the program.
    here: PathBuf,
    redactor: Redactor,
    toolbox: Toolbox,
    settings: AgentSettings,
    own: ModelChoice,
    /// The user's choice, which overrides the program's settings.
    choice: Arc<Lock<ModelChoice>>,
    sessions: Sessions,
}

impl Part {
    /// Creates the agent `declared` with the tools of `toolbox`, in the program `loaded` with the rights
    /// `sandbox`.
    pub(super) fn new(
        loaded: &Loaded,
        declared: &Declared,
        toolbox: Toolbox,
        sandbox: &Grant,
        choice: Arc<Lock<ModelChoice>>,
    ) -> Self {
        // Instructions to the program's own agent do not apply to the part.
        let mut settings = settings_of(&loaded.manifest.agent);
        settings.system = haft_agent::system_prompt(sandbox.workspace().map(Root::path));
        let mut own = ModelChoice::default();
        if let AgentKind::Part { system_prompt, provider, model, .. } = &declared.kind {
            if let Some(prompt) = system_prompt {
                settings.system.clone_from(prompt);
            }
            own = ModelChoice {
                provider: provider.map(|provider| provider.as_str().to_owned()),
                model: model.clone(),
                base_url: None,
            };
        }
        Self {
            manifest: loaded.manifest.clone(),
            home: loaded.dirs.home.clone(),
            redactor: loaded.redactor.clone(),
            toolbox,
            settings,
            own,
            choice,
            here: loaded.dirs.here.clone(),
            sessions: loaded.dirs.agent_sessions(),
        }
    }

    pub(super) fn only_reads(&self) -> bool {
        self.toolbox.entries().all(|entry| entry.def().hints.read_only)
    }

    /// Returns the agent, with its current model.
    pub(super) async fn ready(&self) -> anyhow::Result<Ready> {
        let choice = chosen(&self.own, self.choice.lock().clone());
        let models = Models { manifest: &self.manifest, home: &self.home, redactor: &self.redactor };
        let provider = models.provider(&choice).await?;
        let begun = Begun::new(self.manifest.name(), Some(&self.manifest.path), Some(&self.here));
        Ok(Ready {
            provider,
            toolbox: self.toolbox.clone(),
            settings: self.settings.clone(),
            route: models.route(&choice),
            begun,
            sessions: self.sessions.clone(),
            journal: None,
        })
    }
}

/// Returns the agent's choice `own`, completed by the user's choice `said`. If the user names another provider or
/// URL, the agent's model does not apply.
fn chosen(own: &ModelChoice, said: ModelChoice) -> ModelChoice {
    if own.provider.is_some() {
        return own.clone();
    }
    let is_elsewhere = said.provider.is_some() || said.base_url.is_some();
    if is_elsewhere && own.named_model().is_some() {
        return said;
    }
    ModelChoice { model: own.model.clone().or(said.model), ..said }
}

// The settings of the agent in program.toml, independent of the command line.

impl Program {
    /// Returns the settings in `[agent]`, with the prompt for an agent with `tools`.
    pub fn agent_settings(&self, tools: &Toolbox, patterns: &[ToolPattern]) -> AgentSettings {
        AgentSettings { system: self.system_prompt(tools, patterns), ..settings_of(&self.manifest.agent) }
    }
}

/// Returns the settings in `agent`, without the system prompt.
pub(crate) fn settings_of(agent: &Agent) -> AgentSettings {
    AgentSettings {
        max_turns: agent.max_turns,
        max_repeats: agent.max_repeats,
        history_budget: Some(agent.history_budget),
        summarise: agent.summarise,
        budget: Budget {
            cost: agent.max_cost.map(Cost::of_dollars),
            tokens: agent.max_tokens_total.map(u64::from),
        },
        ..AgentSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(provider: Option<&str>, model: Option<&str>, base_url: Option<&str>) -> ModelChoice {
        let [provider, model, base_url] = [provider, model, base_url].map(|text| text.map(str::to_owned));
        ModelChoice { provider, model, base_url }
    }

    #[test]
    fn a_model_is_asked_for_only_at_its_own_provider() {
        let (named, fast) = (choice(None, Some("gpt-5-mini"), None), choice(None, Some("fast"), None));
        let said = choice(None, Some("other"), None);
        assert_eq!(chosen(&named, said.clone()), named, "its own model first");
        assert_eq!(chosen(&ModelChoice::default(), said.clone()), said);
        for said in [
            choice(Some("anthropic"), None, None),
            choice(Some("anthropic"), Some("claude"), None),
            choice(None, None, Some("http://127.0.0.1:8080/v1")),
        ] {
            assert_eq!(chosen(&named, said.clone()), said, "a person's choice counts whole");
            let both = ModelChoice { model: Some("fast".into()), ..said.clone() };
            assert_eq!(chosen(&fast, said.clone()), both, "`fast` is a model of any provider");
            let own = choice(Some("openai"), Some("gpt-5-mini"), None);
            assert_eq!(chosen(&own, said), own, "who names a provider means it");
        }
    }
}
