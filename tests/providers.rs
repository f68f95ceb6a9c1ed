//! Every provider against a fake of its vendor's published format, which rejects every request that the vendor would
//! reject, answers in pieces or at once, and misbehaves on demand.

mod anthropic;
mod attached;
mod ended;
pub(crate) mod format;
mod gemini;
mod guidance;
pub(crate) mod long;
pub(crate) mod misbehaving;
mod models;
mod moved;
mod ollama;
mod openai;
pub(crate) mod recorded;
mod responses;
mod routing;
#[path = "../host/agent/src/provider/remote/tests/rules.rs"]
mod rules;
mod schemas;
mod server;
mod tasks;
mod typed;

use std::sync::Arc;
use std::time::Duration;

use haft::provider::{self, Patience, Provider, ProviderSettings, Retry};

use self::server::{Server, Vendor};

/// The key that every fake requires.
const KEY: &str = "sk-the-right-key-4711";

/// The vendors, by the names of their providers; OpenAI twice, with each of its formats.
const VENDORS: [&dyn Vendor; 6] = [
    &openai::OpenAi,
    &anthropic::Anthropic,
    &gemini::Gemini,
    &ollama::Ollama,
    &openai::OpenRouter,
    &responses::Responses,
];

/// Retry delays too short to slow a test.
pub(crate) fn quick() -> Patience {
    let retry = Retry { first_delay: Duration::from_millis(1), ..Retry::default() };
    Patience { retry, ..Patience::default() }
}

/// A single attempt.
pub(crate) fn once() -> Patience {
    Patience { retry: Retry { attempts: 1, ..Retry::default() }, in_task: None }
}

/// Settings for a fake, with short retry delays.
fn settings(server: &Server, stream: bool) -> ProviderSettings {
    ProviderSettings {
        base_url: Some(server.base_url()),
        api_key: Some(KEY.into()),
        patience: quick(),
        stream,
        format: server.vendor().format(),
        ..ProviderSettings::new(server.vendor().name(), "fake-model")
    }
}

fn provider(settings: ProviderSettings) -> Arc<dyn Provider> {
    provider::build(settings).unwrap()
}
