//! Talks to a provider over HTTP: the only user of the HTTP client. Independent of the formats of vendors; lets no
//! key into an error, a log or a redirect.

mod answer;
mod client;
mod list;
mod refused_files;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Request, Url};
use serde_json::{Map, Value};

use self::answer::{Answer, Miss};
use self::client::{below, client, headers, parse_base};
use self::refused_files::{RefusedFiles, Search};
use super::conversation::Viewer;
use super::dialect::{Dialect, Terms};
use super::error::{Failure, ProviderError, SettingsError, excerpt};
use super::files::{Takes, fit};
use super::mend::mend;
use super::models::ModelList;
use super::output::Formats;
use super::patience::Attempts;
use super::reading::{Reading, parse};
use super::{Ask, Message, Provider, ProviderKind, ProviderSettings, Turn, Usage, settings};
use haft_core::call::{Attachment, ToolDef};
use haft_core::event::{Event, Events};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// A provider over HTTP with the dialect `D`.
pub(super) struct Remote<D> {
    kind: &'static ProviderKind,
    dialect: D,
    client: Client,
    base: Url,
    headers: HeaderMap,
    /// The secrets in the headers, to redact them in messages.
    redactor: Redactor,
    settings: ProviderSettings,
    terms: Terms,
    /// Models for which the server rejected a schema; a process uses a handful.
    formless: Lock<BTreeSet<String>>,
    refused_files: RefusedFiles,
}

impl<D: Dialect> Remote<D> {
    /// Checks the settings and prepares the client. Sends nothing.
    pub(super) fn new(
        kind: &'static ProviderKind,
        dialect: D,
        settings: ProviderSettings,
    ) -> Result<Self, SettingsError> {
        let mut models = std::iter::once(&settings.model).chain(&settings.model_fast);
        if models.any(|model| model.trim().is_empty()) {
            return Err(SettingsError::NoModel);
        }
        if let Some(key) = settings.extra.keys().find(|key| dialect.api().reserved.contains(&key.as_str())) {
            return Err(SettingsError::Extra(key.clone()));
        }
        let base = parse_base(settings.base_url.as_deref().unwrap_or(kind.base_url))?;
        let client = client(&base, settings.timeouts)?;
        let headers = headers(&dialect, &settings)?;
        let redactor = Redactor::default();
        redactor.add(settings.api_key.iter().chain(settings.headers.iter().map(|(_, value)| value)));
        let terms = Terms {
            stream: settings.stream,
            max_tokens: settings.max_tokens,
            effort: settings.effort,
            context_window: settings.context_window,
            is_vendor: is_own_host(kind, &base),
        };
        let (formless, refused_files) = (Lock::default(), RefusedFiles::default());
        Ok(Self { kind, dialect, client, base, headers, redactor, settings, terms, formless, refused_files })
    }

    /// Sends the request once, reads the response, and emits its events as they arrive.
    async fn ask_once(&self, request: Option<Request>, ask: &Ask<'_>, events: &Events) -> Result<Turn, Miss> {
        let mut answer = self.send(request).await?;
        let mut reading = Reading::new(&self.dialect, &self.redactor, events);
        let read = self.read(&mut answer, &mut reading).await;
        let (body, is_whole) = reading.into_body();
        let usage = self.used(ask, &body);
        let turn = read.and_then(|()| self.decode(ask, body));
        let turn = turn.map_err(|failure| Miss { usage, ..failure.into() })?;
        if is_whole && !turn.reply.text.is_empty() {
            events.emit(|| Event::Said(turn.reply.text.clone()));
        }
        Ok(turn)
    }

    async fn read(&self, answer: &mut Answer, reading: &mut Reading<'_>) -> Result<(), Failure> {
        while !reading.is_over() {
            match answer.piece(reading.is_complete()).await {
                Ok(Some(piece)) => reading.take(&piece)?,
                Ok(None) => break,
                // The answer is complete; an unclean end of the connection does not matter.
                Err(_) if reading.is_complete() => break,
                Err(failure) => return Err(self.cleaned(failure)),
            }
        }
        reading.finish()
    }

    /// Sends a request once; fails unless the response is a success.
    async fn send(&self, request: Option<Request>) -> Result<Answer, Miss> {
        // The body is in memory, so the request can always be cloned.
        let request = request.ok_or_else(|| Failure::Connect("the request cannot be repeated".into()))?;
        let answer = Answer::to(&self.client, request, self.settings.timeouts, self.terms.stream).await;
        let answer = answer.map_err(|failure| self.cleaned(failure))?;
        answer.refusal().await.map_err(|failure| self.cleaned(failure).into())
    }

    /// Waits after a failed attempt. Returns the error if there is no next attempt.
    async fn wait(
        &self,
        url: &Url,
        attempts: &mut Attempts,
        miss: Miss,
        events: &Events,
    ) -> Result<(), ProviderError> {
        let delay = attempts.next(&miss.failure, miss.failure.wait());
        let error = self.error(url, miss.failure, attempts.made);
        let Some(delay) = delay else { return Err(error) };
        tracing::info!("{error}; trying again in {delay:.1?}");
        events.emit(|| Event::Retrying { reason: error.to_string(), delay });
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Requests a turn until an attempt succeeds or no further attempt is allowed.
    async fn turn_of(&self, ask: &Ask<'_>, events: &Events) -> Result<Turn, ProviderError> {
        let in_task = ask.messages.iter().any(|message| matches!(message, Message::Turn(_)));
        let mut attempts = Attempts::new(self.settings.patience, in_task);
        let mut search = self.refused_files.search(ask.model, ask.messages, self.takes());
        let mut request = self.asking(ask, &search);
        let mut wasted = Usage::default();
        loop {
            let answer = self.ask_once(request.try_clone(), ask, events).await;
            wasted += answer.as_ref().err().map(|miss| miss.usage).unwrap_or_default();
            match answer {
                Ok(turn) => {
                    if let Some(reason) = self.refused_files.answered(&search) {
                        tracing::info!("{reason}");
                        events.emit(|| Event::NotShown { reason });
                    }
                    return Ok(Turn { wasted, ..self.completed(turn, ask) });
                }
                Err(miss) if self.refused_files.refuse(&mut search, &miss.failure) => {
                    let error = self.error(request.url(), miss.failure, 1);
                    let reason = format!("{error}; leaving out files");
                    request = self.asking(ask, &search);
                    tracing::info!("{reason}");
                    events.emit(|| Event::Retrying { reason, delay: Duration::ZERO });
                }
                Err(mut miss) => {
                    miss.failure = search.failure(miss.failure);
                    let again = self.wait(request.url(), &mut attempts, miss, events).await;
                    again.map_err(|error| ProviderError { wasted: Box::new(wasted), ..error })?;
                    request = self.asking(ask, &search);
                }
            }
        }
    }

    fn published_window(&self, model: &str) -> Option<u32> {
        settings::context_window(model).filter(|_| self.terms.is_vendor)
    }

    fn formats(&self, model: &str) -> Formats {
        if self.formless.lock().contains(model) {
            Formats::Never
        } else {
            self.dialect.formats(model, self.terms.is_vendor)
        }
    }

    fn sends_format(&self, ask: &Ask<'_>) -> bool {
        ask.format(self.formats(ask.model)).is_some()
    }

    /// Returns the files that the server accepts.
    fn takes(&self) -> &'static Takes {
        self.dialect.api().limits(self.terms.is_vendor).1
    }

    fn require_key(&self) -> Result<(), ProviderError> {
        let (name, _) = self.dialect.api().key;
        if self.kind.needs_key && self.terms.is_vendor && !self.headers.contains_key(name) {
            return Err(self.error(&self.base, Failure::MissingKey { variable: self.kind.key_variable }, 0));
        }
        Ok(())
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Request {
        let mut request = Request::new(method, below(&self.base, path));
        *request.headers_mut() = self.headers.clone();
        if let Some(body) = body {
            *request.body_mut() = Some(body.to_string().into());
        }
        request
    }

    fn asking(&self, ask: &Ask<'_>, search: &Search) -> Request {
        let api = self.dialect.api();
        let (id_bytes, takes) = api.limits(self.terms.is_vendor);
        let messages = fit(ask.messages, takes, &|file| search.leaves_out(file));
        let server = api.is_shared.then(|| self.server());
        let messages = Viewer { vendor: api.vendor, server: server.as_deref(), id_bytes }.view(messages);
        let mended: Vec<_> = ask.tools.iter().map(|def| mend(def)).collect();
        let tools = ask.tools.iter().zip(&mended);
        let tools: Vec<&ToolDef> =
            tools.map(|(def, mended)| mended.as_ref().map_or(*def, |mended| &mended.def)).collect();
        let output = ask.output.filter(|_| self.sends_format(ask));
        let sent = Ask { tools: &tools, messages: &messages, output, ..*ask };
        let mut body = self.dialect.request(&sent, &self.terms);
        lay_over(&mut body, &self.settings.extra);
        self.dialect.settle(&mut body, ask.model);
        let path = self.dialect.path(ask.model, self.terms.stream);
        let mut request = self.request(Method::POST, &path, Some(&Value::Object(body)));
        if let Some((key, value)) = self.dialect.query(self.terms.stream) {
            request.url_mut().query_pairs_mut().append_pair(key, value);
        }
        request
    }

    /// Restores the original argument names in the calls of a turn, and adds its cost if known.
    fn completed(&self, mut turn: Turn, ask: &Ask<'_>) -> Turn {
        for requested in turn.reply.calls.iter_mut().filter(|requested| requested.problem.is_none()) {
            let def = ask.tools.iter().find(|def| def.name == requested.call.tool);
            if let Some(mended) = def.and_then(|def| mend(def)) {
                requested.call.arguments = mended.restore(requested.call.arguments.take());
            }
        }
        if self.dialect.api().is_shared {
            turn.reply.server = self.server();
        }
        turn.usage = self.priced(turn.usage, ask.model, &turn.model);
        turn
    }

    /// Adds the cost to `usage` if the requested or the answering model has a price.
    fn priced(&self, usage: Usage, asked: &str, answered: &str) -> Usage {
        let prices = self.settings.prices.get(asked).or_else(|| self.settings.prices.get(answered));
        Usage { cost: prices.map(|prices| prices.cost(&usage)).or(usage.cost), ..usage }
    }

    /// Returns the usage in a body, with its cost; zero if the body has none.
    fn used(&self, ask: &Ask<'_>, body: &Value) -> Usage {
        match self.dialect.usage(body) {
            usage if usage.total() == 0 => Usage::default(),
            usage => self.priced(usage, ask.model, self.dialect.answering(body).unwrap_or_default()),
        }
    }

    /// Decodes a body without secrets in error messages.
    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        let text = body.to_string();
        let clean = self.redactor.redact(&text);
        if clean == text {
            return self.dialect.decode(ask, body);
        }
        // Error messages quote the start of the body: a part of a key would no longer be recognised, so the message
        // is made again from a redacted body.
        let again = || self.dialect.decode(ask, parse(clean.as_bytes())?);
        self.dialect.decode(ask, body).or_else(|_| again())
    }

    /// Redacts and shortens the outside text in a failure: some servers repeat the rejected key.
    fn cleaned(&self, failure: Failure) -> Failure {
        let clean = |text: String| excerpt(&self.redactor.redact(&text));
        match failure {
            Failure::Connect(text) => Failure::Connect(clean(text)),
            Failure::Untrusted(text) => Failure::Untrusted(clean(text)),
            Failure::Interrupted(text) => Failure::Interrupted(clean(text)),
            Failure::TooLong(text) => Failure::TooLong(clean(text)),
            Failure::Status { status, body, passing, wait } => {
                Failure::Status { status, body: clean(body), passing, wait }
            }
            other => other,
        }
    }

    /// Returns the origin of the server; empty for the vendor itself.
    fn server(&self) -> String {
        if self.terms.is_vendor { String::new() } else { self.base.origin().ascii_serialization() }
    }

    /// Returns the error of a request to `url`, without its query, which may hold a secret.
    fn error(&self, url: &Url, failure: Failure, attempts: u32) -> ProviderError {
        let mut endpoint = url.clone();
        endpoint.set_query(None);
        let (provider, endpoint, wasted) = (self.kind.name, endpoint.into(), Box::default());
        ProviderError { provider, endpoint, attempts, failure, wasted }
    }
}

/// Returns whether requests with `settings` go to the vendor itself.
pub(super) fn is_vendor(kind: &ProviderKind, settings: &ProviderSettings) -> bool {
    let base = settings.base_url.as_deref().map(Url::parse);
    base.is_none_or(|base| base.is_ok_and(|base| is_own_host(kind, &base)))
}

fn is_own_host(kind: &ProviderKind, base: &Url) -> bool {
    let vendor = Url::parse(kind.base_url).ok();
    vendor.is_some_and(|vendor| vendor.host_str() == base.host_str())
}

/// Merges `over` into `under`: objects key by key, other values by replacement. The recursion is as deep as the
/// values, whose depth is bounded by the parser.
fn lay_over(under: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => lay_over(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[async_trait]
impl<D: Dialect> Provider for Remote<D> {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn model_fast(&self) -> &str {
        self.settings.model_fast.as_ref().unwrap_or(&self.settings.model)
    }

    fn context_window(&self, model: &str) -> Option<u32> {
        self.terms.context_window.or_else(|| self.published_window(model))
    }

    fn max_tools(&self) -> usize {
        self.kind.max_tools.filter(|_| self.terms.is_vendor).unwrap_or(usize::MAX)
    }

    fn refusal(&self, file: &Attachment) -> Option<String> {
        self.takes().refusal(file)
    }

    fn formats_alone(&self, model: &str) -> bool {
        self.formats(model) == Formats::Alone
    }

    async fn turn(&self, ask: &Ask<'_>, events: &Events) -> Result<Turn, ProviderError> {
        self.require_key()?;
        match self.turn_of(ask, events).await {
            Err(error) if self.sends_format(ask) && error.failure.may_be_of_format() => {
                let again = self.turn_of(&Ask { output: None, ..*ask }, events).await;
                let mut turn = again.map_err(|mut later| {
                    *later.wasted += *error.wasted;
                    later
                })?;
                turn.wasted += *error.wasted;
                tracing::info!(
                    "{error}; the request without an output schema succeeded, so the schema is omitted from \
                     now on"
                );
                self.formless.lock().insert(ask.model.to_owned());
                Ok(turn)
            }
            done => done,
        }
    }

    async fn models(&self) -> Result<ModelList, ProviderError> {
        self.list().await
    }

    fn tells_cost(&self, model: &str) -> bool {
        // The vendor may report a more exact name than the requested one.
        self.dialect.api().tells_cost || self.settings.prices.keys().any(|name| name.starts_with(model))
    }

    async fn check(&self) -> Result<(), ProviderError> {
        self.require_key()?;
        let request = self.request(Method::GET, self.dialect.api().models_path, None);
        let mut attempts = Attempts::new(self.settings.patience, false);
        loop {
            match self.send(request.try_clone()).await {
                // A server without a list of models is still available.
                Ok(_) | Err(Miss { failure: Failure::Status { status: 404 | 405, .. }, .. }) => return Ok(()),
                Err(miss) => self.wait(request.url(), &mut attempts, miss, &Events::none()).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests;
