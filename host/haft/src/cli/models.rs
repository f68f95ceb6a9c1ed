//! `haft models`: the models of the configured providers, with context window, price if published, and use.
//! Requests the vendors' lists and no model.

use std::fmt::Write;
use std::future::ready;

use clap::Args;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Exit;
use super::common::Common;
use super::doctor::{is_ollama_there, is_set};
use super::terminal::{DIM, HEAD, Hinted, Terminal, counted, hint};
use haft::program::{Listed, ModelChoice, Program};
use haft_agent::provider::{ListedModel, ModelList, PROVIDERS, Prices};
use haft_core::report::plain;

#[derive(Debug, Args)]
#[command(after_help = "\
Lists the models of the provider in program.toml, of every provider whose key variable is set, and of a local \
Ollama.

Examples:
  haft models
  haft models claude
  haft models --provider openrouter free
  haft models --base-url http://localhost:8080/v1
  haft models --json | jq -r '.[].models[].name'")]
pub(super) struct Models {
    /// Only models with this text in their name
    text: Option<String>,
    /// Only this provider
    #[arg(long)]
    provider: Option<String>,
    /// The provider's URL; overrides `[provider] base_url`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

struct Answered {
    provider: String,
    /// The models in use, and their purposes.
    used: Vec<(String, &'static str)>,
    list: anyhow::Result<ModelList>,
}

impl Models {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let program = common.load(terminal, &common.options(terminal, false)?).await?;
        let choices = self.choices(&program).await;
        let mut asked = Vec::new();
        for choice in &choices {
            asked.push(ask(&program, choice).await);
        }
        let mut answers = Vec::new();
        for Asked { provider, used, list } in asked {
            let list = list.await.unwrap_or_else(|error| Err(error.into()));
            answers.push(Answered { provider, used, list }.only(self.text.as_deref()));
        }
        program.close().await;
        let keyless = if self.is_one() { Vec::new() } else { keyless(&choices) };
        if answers.is_empty() {
            let hint = format!("set one of {}, or choose one with `--provider`", keyless.join(", "));
            return Err(Hinted::new("no provider is configured", hint).into());
        }
        if terminal.json {
            terminal.json(&answers.iter().map(Answered::json).collect::<Vec<_>>())?;
        } else {
            self.show(&answers, &keyless, terminal)?;
        }
        let has_answered = answers.iter().any(|answer| answer.list.is_ok());
        Ok(if has_answered { Exit::Success } else { Exit::Failure })
    }

    fn is_one(&self) -> bool {
        self.provider.is_some() || self.base_url.is_some()
    }

    async fn choices(&self, program: &Program) -> Vec<ModelChoice> {
        let of =
            |provider: Option<String>| ModelChoice { provider, base_url: self.base_url.clone(), model: None };
        if self.is_one() {
            return vec![of(self.provider.clone())];
        }
        let own = program.manifest.provider.as_ref().map(|provider| provider.name.value.as_str());
        let mut names: Vec<&str> = own.into_iter().collect();
        for kind in PROVIDERS.iter().filter(|kind| Some(kind.name) != own) {
            let has_key = is_set(kind.key_variable);
            if has_key || (!kind.needs_key && is_ollama_there().await) {
                names.push(kind.name);
            }
        }
        names.into_iter().map(|name| of(Some(name.to_owned()))).collect()
    }

    fn show(&self, answers: &[Answered], keyless: &[String], terminal: Terminal) -> anyhow::Result<()> {
        for answer in answers {
            match &answer.list {
                Ok(list) => terminal.data(&answer.table(list))?,
                Err(error) => terminal.fail(error),
            }
        }
        if !keyless.is_empty() {
            terminal.message(format_args!("{DIM}skipped, no key: {}{DIM:#}", keyless.join(", ")));
        }
        Ok(())
    }
}

/// A provider with a pending request.
struct Asked {
    provider: String,
    used: Vec<(String, &'static str)>,
    list: JoinHandle<anyhow::Result<ModelList>>,
}

/// Sends the request to one provider. All requests are concurrent, so that a provider without an answer delays no
/// other.
async fn ask(program: &Program, choice: &ModelChoice) -> Asked {
    let Listed { provider, is_used, has_models } = match program.listed(choice).await {
        Ok(listed) => listed,
        Err(error) => {
            let provider = choice.provider.clone().unwrap_or_else(|| "openai".to_owned());
            return Asked { provider, used: Vec::new(), list: tokio::spawn(ready(Err(error))) };
        }
    };
    let mut used = Vec::new();
    if has_models {
        let (complex, fast) = (provider.model().to_owned(), provider.model_fast().to_owned());
        match (is_used, complex == fast) {
            (true, true) => used.push((complex, "in use")),
            (true, false) => used.extend([(complex, "complex"), (fast, "fast")]),
            (false, true) => used.push((complex, "default")),
            (false, false) => used.extend([(complex, "default"), (fast, "default fast")]),
        }
    }
    let name = provider.name().to_owned();
    let list = tokio::spawn(async move { provider.models().await.map_err(anyhow::Error::from) });
    Asked { provider: name, used, list }
}

/// Returns the providers without a key, with the variable to set.
fn keyless(choices: &[ModelChoice]) -> Vec<String> {
    let is_asked = |name: &str| choices.iter().any(|choice| choice.provider.as_deref() == Some(name));
    let kinds = PROVIDERS.iter().filter(|kind| kind.needs_key && !is_asked(kind.name));
    kinds.map(|kind| format!("{} (`{}`)", kind.name, kind.key_variable)).collect()
}

impl Answered {
    /// Keeps the models with `text` in their names, regardless of case.
    fn only(mut self, text: Option<&str>) -> Self {
        if let (Some(text), Ok(list)) = (text, &mut self.list) {
            let text = text.to_lowercase();
            list.models.retain(|model| model.name.to_lowercase().contains(&text));
        }
        self
    }

    fn uses(&self, model: &ListedModel) -> Vec<&'static str> {
        self.used.iter().filter(|(name, _)| *name == model.name).map(|(_, what)| *what).collect()
    }

    fn table(&self, list: &ModelList) -> String {
        let more = if list.is_cut { ", and more than are listed" } else { "" };
        let count = counted(list.models.len(), "model");
        let mut table = format!("{HEAD}{}{HEAD:#} {DIM}{count}{more}{DIM:#}\n", self.provider);
        let names: Vec<String> = list.models.iter().map(|model| plain(&model.name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("model".len());
        let has_prices = list.models.iter().any(|model| model.prices.is_some());
        if !names.is_empty() {
            let prices =
                if has_prices { format!("{:>9}  {:>9}", "$ read", "$ written") } else { String::new() };
            let head = format!("  {:width$}  {:>9}  {prices}", "model", "window");
            let _ = writeln!(table, "{DIM}{}{DIM:#}", head.trim_end());
        }
        for (model, name) in list.models.iter().zip(&names) {
            let window = model.context_window.map_or_else(String::new, |tokens| tokens.to_string());
            let prices = model.prices.filter(|_| has_prices);
            let price =
                |of: fn(&Prices) -> f64| prices.as_ref().map_or_else(String::new, |all| amount(of(all)));
            let prices = if has_prices {
                format!("{:>9}  {:>9}  ", price(|all| all.input), price(|all| all.output))
            } else {
                String::new()
            };
            let line = format!("  {name:width$}  {window:>9}  {prices}{}", self.uses(model).join(", "));
            let _ = writeln!(table, "{}", line.trim_end());
        }
        table
    }

    fn json(&self) -> Value {
        let (list, error) = match &self.list {
            Ok(list) => (list.clone(), None),
            Err(error) => (ModelList::default(), Some(error)),
        };
        let model = |model: &ListedModel| {
            json!({
                "name": model.name,
                "context_window": model.context_window,
                "prices": model.prices.map(|all| json!({
                    "input": all.input, "output": all.output, "cached": all.cached, "stored": all.stored,
                })),
                "used_as": self.uses(model),
            })
        };
        json!({
            "provider": self.provider,
            "models": list.models.iter().map(model).collect::<Vec<_>>(),
            "complete": self.list.is_ok() && !list.is_cut,
            "error": error.map(|error| format!("{error:#}")),
            "hint": error.and_then(hint),
        })
    }
}

/// Formats dollars for a million tokens, with up to four decimals and no trailing zeros.
fn amount(dollars: f64) -> String {
    let text = format!("{dollars:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered() -> Answered {
        let model =
            |name: &str, context_window, prices| ListedModel { name: name.into(), context_window, prices };
        let prices = Prices { input: 1.25, output: 10.0, cached: None, stored: None };
        let models = vec![model("a-large", Some(400_000), Some(prices)), model("B\u{1b}small", None, None)];
        let used = vec![("a-large".to_owned(), "complex"), ("a-large".to_owned(), "fast")];
        Answered { provider: "openai".into(), used, list: Ok(ModelList { models, is_cut: false }) }
    }

    #[test]
    fn a_table_shows_what_is_known_and_leaves_out_the_rest() {
        let answered = answered();
        let table = answered.table(answered.list.as_ref().unwrap());
        let table = super::super::terminal::written(&table, false);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "openai 2 models");
        assert!(lines[1].ends_with("window     $ read  $ written"), "{table}");
        assert!(lines[2].contains("400000       1.25         10  complex, fast"), "{table}");
        assert!(lines[3].trim_end().ends_with("small") && !table.contains('\u{1b}'), "{table:?}");
    }

    #[test]
    fn a_text_chooses_in_any_case() {
        let only = answered().only(Some("SMALL"));
        assert_eq!(only.list.as_ref().unwrap().models.len(), 1);
        assert_eq!(only.json()["models"][0]["used_as"], json!([]));
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!([0.0, 3.0, 0.075, 0.12345].map(amount), ["0", "3", "0.075", "0.1235"]);
    }
}
