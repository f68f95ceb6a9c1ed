//! The command-line options for the model and for the tools that it may use.

use clap::Args;

use super::terminal::{Hinted, Terminal};
use haft::program::{ModelChoice, Program};
use haft_agent::provider::{Cost, Provider};
use haft_agent::{AgentSettings, Budget};
use haft_core::tool::Toolbox;
use haft_manifest::{Route, ToolPattern};

/// Which model is asked, and what it may use.
#[derive(Clone, Debug, Args)]
pub(super) struct ModelArgs {
    /// The provider; overrides `[provider] name`
    #[arg(long)]
    provider: Option<String>,
    /// The model; overrides `[provider] model`. `fast`, `complex` and `auto` choose the program's models
    #[arg(short, long)]
    pub(super) model: Option<String>,
    /// The provider's URL; overrides `[provider] base_url`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The maximum number of model requests; overrides `[agent] max_turns`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// The cost limit of a task in US dollars; overrides `[agent] max_cost`
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_cost: Option<Cost>,
    /// The limit of input and output tokens of a task; overrides `[agent] max_tokens_total`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens_total: Option<u64>,
    /// Offer only tools with these names; overrides `[agent] tools`. `*` matches any characters
    #[arg(long, value_name = "PATTERN", add = super::completions::tools())]
    tools: Vec<ToolPattern>,
}

impl ModelArgs {
    pub(super) fn settings(&self, program: &Program, tools: &Toolbox) -> AgentSettings {
        let mut settings = program.agent_settings(tools, &self.tools);
        let budget = &mut settings.budget;
        budget.cost = self.max_cost.or(budget.cost);
        budget.tokens = self.max_tokens_total.or(budget.tokens);
        settings.max_turns = self.max_turns.unwrap_or(settings.max_turns);
        settings
    }

    /// Returns the tools for the agent. Refuses a name that no tool has.
    pub(super) fn tools(&self, program: &Program, terminal: Terminal) -> anyhow::Result<Toolbox> {
        Ok(program.chosen_tools(&self.tools, |text| terminal.warning(text))?)
    }

    /// Returns the patterns that choose the agent's tools instead of program.toml.
    pub(super) fn patterns(&self) -> &[ToolPattern] {
        &self.tools
    }

    /// Returns the options that choose the model, in the form of the command line.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let options =
            [("--provider", &self.provider), ("--model", &self.model), ("--base-url", &self.base_url)];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value.clone()?]));
        let tools = self.tools.iter().map(|pattern| ["--tools".to_owned(), pattern.to_string()]);
        given.chain(tools).flatten()
    }

    pub(super) fn model(&self) -> ModelChoice {
        ModelChoice {
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
        }
    }
}

fn dollars(text: &str) -> Result<Cost, &'static str> {
    let amount: Option<f64> = text.strip_prefix('$').unwrap_or(text).parse().ok();
    let amount = amount.filter(|dollars| dollars.is_finite() && *dollars >= 0.0);
    amount.map(Cost::of_dollars).ok_or("expected an amount of US dollars, such as `0.50`")
}

/// Refuses a limit in dollars if the price of a model that may be used is unknown.
pub(super) fn check_prices(budget: Budget, provider: &dyn Provider, way: Route) -> anyhow::Result<()> {
    let models: &[&str] = match way {
        Route::Complex => &[provider.model()],
        Route::Fast => &[provider.model_fast()],
        Route::Auto => &[provider.model(), provider.model_fast()],
    };
    let unpriced = models.iter().find(|model| budget.cost.is_some() && !provider.tells_cost(model));
    let Some(model) = unpriced else { return Ok(()) };
    let text = format!("`max_cost` needs the price of `{model}`, which is unknown");
    let hint = format!(
        "write `[provider.prices.\"{model}\"]` with `input = …` and `output = …` (US dollars per million \
         tokens) to program.toml; `max_tokens_total` needs no prices"
    );
    Err(Hinted::new(text, hint).into())
}
