//! What a provider is made from: plain values with defaults. Reads no file and no environment.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::patience::Patience;
use super::prices::Prices;
use haft_core::model::{ApiFormat, Effort};

/// Everything that can be said about a provider. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// A name of [`PROVIDERS`](super::PROVIDERS).
    pub kind: String,
    /// Where requests go: `http` or `https`, up to and with the version (`http://127.0.0.1:8080/v1`).
    /// A query is kept. The kind's own when `None`.
    pub base_url: Option<String>,
    /// The API key; local servers need none.
    pub api_key: Option<SecretString>,
    /// The model used unless another is named.
    pub model: String,
    /// The model for small decisions; `None`: `model`.
    pub model_fast: Option<String>,
    /// Whether answers are asked for in pieces, as they are written.
    pub stream: bool,
    /// Which of its two formats OpenAI is asked in, or a server that is compatible with it. `None`: `Responses` at
    /// the kind's own base URL, `Chat` elsewhere. Nothing to other kinds.
    pub format: Option<ApiFormat>,
    /// How much the model is to think; `None`: what the vendor thinks right.
    pub effort: Option<Effort>,
    /// Tokens of one answer at most; `None`: what the vendor thinks right.
    pub max_tokens: Option<u32>,
    /// Tokens that the model reads and writes at once, which bounds what it is shown. `None`: what is published of it,
    /// or what the vendor's refusal says. Ollama makes room for as much.
    pub context_window: Option<u32>,
    /// What models cost, by their names as sent.
    pub prices: BTreeMap<String, Prices>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// When to try again.
    pub patience: Patience,
    /// Headers sent with every request, replacing haft's own of the same name. The values are
    /// treated as secrets: for some gateways they are the key.
    pub headers: Vec<(String, SecretString)>,
    /// Laid over every request's body (`temperature`, `max_completion_tokens`, …): objects key by key.
    pub extra: Map<String, Value>,
}

impl ProviderSettings {
    /// `kind` with its own base URL, no key and the default bounds.
    pub fn new(kind: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            base_url: None,
            api_key: None,
            model: model.into(),
            model_fast: None,
            stream: true,
            format: None,
            effort: None,
            max_tokens: None,
            context_window: None,
            prices: BTreeMap::new(),
            timeouts: Timeouts::default(),
            patience: Patience::default(),
            headers: Vec::new(),
            extra: Map::new(),
        }
    }
}

/// How long to wait for a provider. Each attempt has these anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// Until a streamed answer begins.
    pub first_byte: Duration,
    /// Between two pieces of a streamed answer.
    pub idle: Duration,
    /// Until the answer is complete.
    pub total: Duration,
}

impl Timeouts {
    /// 10 s: a server that does not accept by then is not there.
    pub(crate) const DEFAULT_CONNECT: Duration = Duration::from_secs(10);
    /// 5 minutes: a small model on two cores takes minutes to read a long prompt for the first time.
    pub(crate) const DEFAULT_FIRST_BYTE: Duration = Duration::from_mins(5);
    /// 2 minutes: vendors send a sign of life every few seconds, small models a word every second.
    pub(crate) const DEFAULT_IDLE: Duration = Duration::from_mins(2);
    /// 10 minutes: what the vendors' own clients wait for one answer.
    pub(crate) const DEFAULT_TOTAL: Duration = Duration::from_mins(10);
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Self::DEFAULT_CONNECT,
            first_byte: Self::DEFAULT_FIRST_BYTE,
            idle: Self::DEFAULT_IDLE,
            total: Self::DEFAULT_TOTAL,
        }
    }
}
