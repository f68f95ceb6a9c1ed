//! Every provider against a fake of its vendor's published format, which accepts no request that the
//! vendor would refuse, answers in pieces or at once, and misbehaves on demand.

mod aimock;
mod anthropic;
mod format;
mod gemini;
mod misbehaving;
mod ollama;
mod openai;
mod routing;
mod server;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use haft::provider::{self, Provider, ProviderSettings, Retry};

use self::server::{Server, Vendor};

/// The key that every fake wants.
const KEY: &str = "sk-the-right-key-4711";

/// The vendors, by the names of their providers.
const VENDORS: [&dyn Vendor; 5] =
    [&openai::OpenAi, &anthropic::Anthropic, &gemini::Gemini, &ollama::Ollama, &openai::OpenRouter];

/// Settings for a fake, with waits that no test notices.
fn settings(server: &Server, stream: bool) -> ProviderSettings {
    ProviderSettings {
        base_url: Some(server.base_url()),
        api_key: Some(KEY.into()),
        retry: Retry { first_delay: Duration::from_millis(1), ..Retry::default() },
        stream,
        ..ProviderSettings::new(server.vendor().name(), "fake-model")
    }
}

fn provider(settings: ProviderSettings) -> Arc<dyn Provider> {
    provider::build(settings).unwrap()
}
