//! The host functions of `act:tools` components besides WASI: consent to an action (`act:consent`) and secrets
//! (`act:credentials`). Both return only what program.toml granted already:
//!
//! | class | consent |
//! |---|---|
//! | not declared by the component, or bound by it to other actions | no |
//! | `wasi:filesystem` | if the call has any right to write or, with `mode: ro`, to read; the access itself is checked later |
//! | `wasi:http`, `wasi:sockets` | if the call has a host or an address; the access itself is checked later |
//! | any other | if the user approved this call (`confirm`, or a rule that asks) |
//!
//! A secret is a value of `[plugins.config]`. Every answer is in the journal, and no refusal states its reason to
//! the component.

use std::sync::Arc;

use ciborium::Value;
use tracing::Level;
use wasmtime::component::{Accessor, ComponentType, Lift, Linker, Lower};

use super::cbor::{self, field};
use super::metadata::DeclaredClass;
use super::shapes::Metadata;
use crate::call::Call;
use crate::options::{Belongings, Config};
use crate::wasi::capability::{Capability, HasCapability, NewGuest, View};
use haft_core::grant::Reach;
use haft_core::report::plain;

const CONSENT: &str = "act:consent/consent-authority@0.1.0";

const CREDENTIALS: &str = "act:credentials/store@0.1.0";

/// The classes of WASI, which haft checks at each access.
const FILES: &str = "wasi:filesystem";
const HTTP: &str = "wasi:http";
const SOCKETS: &str = "wasi:sockets";

/// The class of actions for requests for secrets.
const CLASS_OF_SECRETS: &str = "act:credentials";

/// The kind of a secret with one value, and the name of the value (ACT-CONSTANTS, section 8).
const OPAQUE: &str = "std:opaque";
const VALUE: &str = "std:value";

/// Maximum number of recorded answers of one call, which bounds a guest in a loop.
const MAX_NOTED: usize = 100;

/// Maximum number of characters of the component's text in a question.
const MAX_SUBJECT: usize = 200;

#[derive(ComponentType, Lift)]
#[component(record)]
struct ConsentRequest {
    class: String,
    key: String,
    #[expect(dead_code, reason = "the component's own words, which decide nothing")]
    summary: String,
    args: Vec<u8>,
}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
enum Decision {
    #[component(name = "allow")]
    Allow,
    #[component(name = "deny")]
    Deny,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct SecretInfo {
    key: String,
    kind: String,
    description: Option<String>,
    #[component(name = "expires-at")]
    expires_at: Option<u64>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct SecretRequest {
    key: String,
    #[expect(dead_code, reason = "part of the shape")]
    kind: Option<String>,
    #[expect(dead_code, reason = "part of the shape")]
    resource: Option<String>,
    #[expect(dead_code, reason = "part of the shape")]
    scopes: Vec<String>,
    #[expect(dead_code, reason = "part of the shape")]
    hint: Option<String>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Secret {
    kind: String,
    fields: Metadata,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
#[expect(dead_code, reason = "the shape of all of them")]
enum SecretError {
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "denied")]
    Denied,
    #[component(name = "invalid-session")]
    InvalidSession,
    #[component(name = "unavailable")]
    Unavailable(String),
}

/// The declarations of a guest's component, and its configuration.
pub(crate) struct Consent {
    classes: Arc<[DeclaredClass]>,
    pub(super) config: Option<Config>,
}

impl Capability for Consent {
    fn new(guest: &NewGuest<'_>) -> Self {
        let Belongings { options, classes } = guest.belongings;
        Self { classes: classes.clone(), config: options.config.clone() }
    }

    fn has_later(interface: &str) -> bool {
        [CONSENT, CREDENTIALS].contains(&interface)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        linker.instance(CONSENT)?.func_wrap_concurrent(
            "request",
            |store: &Accessor<S>, (request, _): (ConsentRequest, Metadata)| {
                let decision = store.with(|mut access| access.data_mut().view().decide(&request));
                Box::pin(async move { Ok((decision,)) })
            },
        )?;
        let mut credentials = linker.instance(CREDENTIALS)?;
        credentials.func_wrap_concurrent("list-secrets", |store: &Accessor<S>, _: (Option<String>,)| {
            let listed = store.with(|mut access| access.data_mut().view().listed());
            Box::pin(async move { Ok((Ok::<_, SecretError>(listed),)) })
        })?;
        credentials.func_wrap_concurrent(
            "get-secret",
            |store: &Accessor<S>, (_, request): (String, SecretRequest)| {
                let secret = store.with(|mut access| access.data_mut().view().secret(&request.key));
                Box::pin(async move { Ok((secret,)) })
            },
        )
    }
}

impl View<'_, Consent> {
    /// Answers a request for consent, in the order of the specification: an undeclared class is refused first.
    fn decide(&mut self, request: &ConsentRequest) -> Decision {
        let ConsentRequest { class, key, args, .. } = request;
        let declared = self.own.classes.iter().find(|declared| declared.class == *class);
        let leave = match declared {
            None => Err("its component does not declare the class"),
            Some(declared) if !declared.admits(key, args) => {
                Err("its component declares the class for other actions")
            }
            Some(_) => granted(&self.shared.call, class, args),
        };
        self.note_asked("consent for", &format!("{class} {key}"), leave);
        if leave.is_ok() { Decision::Allow } else { Decision::Deny }
    }

    fn listed(&self) -> Vec<SecretInfo> {
        let config = self.own.config.iter().filter(|_| self.has_secrets());
        let info = |key: &str| SecretInfo {
            key: key.to_owned(),
            kind: OPAQUE.into(),
            description: None,
            expires_at: None,
        };
        config.flat_map(Config::keys).map(info).collect()
    }

    /// Returns the value of `[plugins.config]` that is called `key`.
    fn secret(&mut self, key: &str) -> Result<Secret, SecretError> {
        let found = match &self.own.config {
            _ if !self.has_secrets() => {
                Err(("its component does not declare `act:credentials`", SecretError::Denied))
            }
            None => {
                self.shared.denied.config = true;
                Err(("no configuration is granted", SecretError::Denied))
            }
            Some(config) => {
                config.get(key).ok_or(("`[plugins.config]` has no such key", SecretError::NotFound))
            }
        };
        let why = found.as_ref().map(|_| "`[plugins.config]` has it").map_err(|(why, _)| *why);
        self.note_asked("the secret", key, why);
        let value = cbor::encode(&serde_json::Value::String(found.map_err(|(_, error)| error)?));
        Ok(Secret { kind: OPAQUE.into(), fields: vec![(VALUE.into(), value)] })
    }

    fn has_secrets(&self) -> bool {
        self.own.classes.iter().any(|declared| declared.class == CLASS_OF_SECRETS)
    }

    /// Records a component's request and the answer, with the reason, for the journal and, if refused, for the log.
    fn note_asked(&mut self, what: &str, subject: &str, answer: Result<&str, &str>) {
        let subject: String = plain(subject).chars().take(MAX_SUBJECT).collect();
        let (word, why) = match answer {
            Ok(why) => ("given", why),
            Err(why) => ("refused", why),
        };
        let call = &mut self.shared.call;
        if answer.is_err() {
            call.tell(Level::WARN, &format!("requested {what} `{subject}`: refused: {why}"));
        }
        if call.asked.len() < MAX_NOTED {
            call.asked.push(format!("{word}: {what} `{subject}`: {why}"));
        }
    }
}

/// Returns the reason why an action of a declared class is granted, by program.toml or by the user's approval. The
/// error is the reason for a refusal.
fn granted(call: &Call, class: &str, args: &[u8]) -> Result<&'static str, &'static str> {
    let has_any = |reach: &Reach| !matches!(reach, Reach::Roots(roots) if roots.is_empty());
    let only_reads = || {
        let args = cbor::read(args);
        args.as_ref().and_then(|args| field(args, "mode")).and_then(Value::as_text) == Some("ro")
    };
    let (is_so, why) = match class {
        FILES if only_reads() => (has_any(&call.grant.readable()), "what may be read is granted"),
        FILES => (has_any(call.grant.writable()), "what may be written is granted"),
        HTTP | SOCKETS => (!call.grant.hosts().is_empty(), "hosts are granted"),
        _ => (call.approved, "a person approved the call"),
    };
    match (is_so, class) {
        (true, _) => Ok(why),
        (false, FILES | HTTP | SOCKETS) => Err("no such right is granted"),
        (false, _) => Err("no person approved the call; set `confirm` to ask a person"),
    }
}
