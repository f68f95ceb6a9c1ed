//! The settings of a provider: plain values with defaults. Reads no file and no environment variable.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::patience::Patience;
use super::prices::Prices;
use haft_core::model::{ApiFormat, Effort};

/// The settings of a provider. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// A name of [`PROVIDERS`](super::PROVIDERS).
    pub kind: String,
    /// The base URL of requests: `http` or `https`, including the API version (`http://127.0.0.1:8080/v1`). A query
    /// is kept. `None`: the base URL of the kind.
    pub base_url: Option<String>,
    /// The API key; local servers need none.
    pub api_key: Option<SecretString>,
    /// The default model.
    pub model: String,
    /// The model for small decisions; `None`: `model`.
    pub model_fast: Option<String>,
    /// Whether responses are streamed.
    pub stream: bool,
    /// Which API of OpenAI, or of a compatible server, is used. `None`: `Responses` at the base URL of the kind,
    /// `Chat` elsewhere. Other kinds ignore it.
    pub format: Option<ApiFormat>,
    /// How much the model thinks; `None`: the vendor's default.
    pub effort: Option<Effort>,
    /// The maximum number of output tokens of one answer; `None`: the vendor's default.
    pub max_tokens: Option<u32>,
    /// The context window in tokens, read and written, which limits the conversation that is sent. `None`: the
    /// published value, or the one in an error message of the vendor. Ollama allocates this size.
    pub context_window: Option<u32>,
    /// The prices of models, by their names in requests.
    pub prices: BTreeMap<String, Prices>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// When a request is repeated.
    pub patience: Patience,
    /// Headers of every request; they replace haft's headers of the same name. The values are handled as secrets:
    /// some gateways take their key in a header.
    pub headers: Vec<(String, SecretString)>,
    /// Merged into the body of every request (`temperature`, `max_completion_tokens`, …), object by object.
    pub extra: Map<String, Value>,
}

impl ProviderSettings {
    /// Returns the settings of `kind` with its base URL, no key and the default limits.
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

/// The timeouts of a request. Each attempt has the full times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, including TLS.
    pub connect: Duration,
    /// For the start of a streamed response.
    pub first_byte: Duration,
    /// Between two pieces of a streamed response.
    pub idle: Duration,
    /// For the complete response.
    pub total: Duration,
}

impl Timeouts {
    /// 10 s: a server that has not accepted by then is unavailable.
    pub(crate) const DEFAULT_CONNECT: Duration = Duration::from_secs(10);
    /// 5 minutes: a small model on two cores takes minutes to read a long prompt for the first time.
    pub(crate) const DEFAULT_FIRST_BYTE: Duration = Duration::from_mins(5);
    /// 2 minutes: vendors send a keep-alive every few seconds, small models a word every second.
    pub(crate) const DEFAULT_IDLE: Duration = Duration::from_mins(2);
    /// 10 minutes: the timeout of the vendors' own clients for one response.
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
