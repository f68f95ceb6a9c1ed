//! What components of `act:tools` may ask their host for beside WASI: leave for an action (`act:consent`) and secrets
//! (`act:credentials`). Both give what program.toml gave already, and no more:
//!
//! | class | leave |
//! |---|---|
//! | not declared by the component, or bound by it to other actions | no |
//! | `wasi:filesystem` | where the call has any right to write or, with `mode: ro`, to read; which is judged when it does |
//! | `wasi:http`, `wasi:sockets` | where the call has a host or an address; which is judged when it does |
//! | any other | where a person approved of this very call (`confirm`, or a rule that asks) |
//!
//! A secret is a value of `[plugins.config]`. Every answer is in the journal, and no refusal says why to the component.

use ciborium::Value;
use wasmtime::component::{Accessor, ComponentType, Lift, Linker, Lower};

use super::cbor::{self, field};
use super::shapes::Metadata;
use crate::contract::bindings::haft::plugin::host::Level;
use crate::instance::state::GuestState;
use crate::wasi::config::Config;
use haft_core::grant::Reach;
use haft_core::report::plain;

/// The interface of leave.
const CONSENT: &str = "act:consent/consent-authority@0.1.0";

/// The interface of secrets.
const CREDENTIALS: &str = "act:credentials/store@0.1.0";

/// The classes that WASI has, which haft judges where they are used.
const FILES: &str = "wasi:filesystem";
const HTTP: &str = "wasi:http";
const SOCKETS: &str = "wasi:sockets";

/// The class that a component declares which asks for secrets.
const CLASS_OF_SECRETS: &str = "act:credentials";

/// A secret that is one value, and the name of that (ACT-CONSTANTS, section 8).
const OPAQUE: &str = "std:opaque";
const VALUE: &str = "std:value";

/// Answers of one call that are noted; a guest in a loop could ask for ever.
const MAX_NOTED: usize = 100;

/// Characters of what was asked for, which the component writes.
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

/// Whether an interface is one of these.
pub(crate) fn is_interface(name: &str) -> bool {
    [CONSENT, CREDENTIALS].contains(&name)
}

/// Links both interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance(CONSENT)?.func_wrap_concurrent(
        "request",
        |store: &Accessor<GuestState>, (request, _): (ConsentRequest, Metadata)| {
            let decision = store.with(|mut access| decide(access.data_mut(), &request));
            Box::pin(async move { Ok((decision,)) })
        },
    )?;
    let mut credentials = linker.instance(CREDENTIALS)?;
    credentials.func_wrap_concurrent(
        "list-secrets",
        |store: &Accessor<GuestState>, _: (Option<String>,)| {
            let listed = store.with(|mut access| listed(access.data_mut()));
            Box::pin(async move { Ok((Ok::<_, SecretError>(listed),)) })
        },
    )?;
    credentials.func_wrap_concurrent(
        "get-secret",
        |store: &Accessor<GuestState>, (_, request): (String, SecretRequest)| {
            let secret = store.with(|mut access| secret(access.data_mut(), &request.key));
            Box::pin(async move { Ok((secret,)) })
        },
    )
}

/// Answers a question for leave, in the order of the specification: what is not declared is never looked at further.
fn decide(state: &mut GuestState, request: &ConsentRequest) -> Decision {
    let ConsentRequest { class, key, args, .. } = request;
    let declared = state.belongings.classes.iter().find(|declared| declared.class == *class);
    let leave = match declared {
        None => Err("its component does not declare the class"),
        Some(declared) if !declared.admits(key, args) => {
            Err("its component declares the class for other actions")
        }
        Some(_) => granted(state, class, args),
    };
    state.note_asked("leave for", &format!("{class} {key}"), leave);
    if leave.is_ok() { Decision::Allow } else { Decision::Deny }
}

/// What program.toml and whoever approved of the call say of an action of a declared class; the reason.
fn granted(state: &GuestState, class: &str, args: &[u8]) -> Result<&'static str, &'static str> {
    let has_any = |reach: &Reach| !matches!(reach, Reach::Roots(roots) if roots.is_empty());
    let only_reads = || {
        let args = cbor::read(args);
        args.as_ref().and_then(|args| field(args, "mode")).and_then(Value::as_text) == Some("ro")
    };
    let (is_so, why) = match class {
        FILES if only_reads() => (has_any(&state.grant.readable()), "what may be read is granted"),
        FILES => (has_any(state.grant.writable()), "what may be written is granted"),
        HTTP | SOCKETS => (!state.grant.hosts().is_empty(), "hosts are granted"),
        _ => (state.run.approved, "a person approved of the call"),
    };
    match (is_so, class) {
        (true, _) => Ok(why),
        (false, FILES | HTTP | SOCKETS) => Err("nothing of the kind is granted"),
        (false, _) => Err("nobody approved of the call; `confirm` has a person asked"),
    }
}

/// The names of what the component may ask for.
fn listed(state: &mut GuestState) -> Vec<SecretInfo> {
    if !has_secrets(state) {
        return Vec::new();
    }
    let config = state.belongings.options.config.iter();
    let info = |key: &str| SecretInfo {
        key: key.to_owned(),
        kind: OPAQUE.into(),
        description: None,
        expires_at: None,
    };
    config.flat_map(Config::keys).map(info).collect()
}

/// The value of `[plugins.config]` that is called `key`.
fn secret(state: &mut GuestState, key: &str) -> Result<Secret, SecretError> {
    if !has_secrets(state) {
        state.note_asked("the secret", key, Err("its component does not declare `act:credentials`"));
        return Err(SecretError::Denied);
    }
    let Some(config) = &state.belongings.options.config else {
        state.denied.config = true;
        state.note_asked("the secret", key, Err("no configuration is granted"));
        return Err(SecretError::Denied);
    };
    let Some(value) = config.get(key) else {
        state.note_asked("the secret", key, Err("`[plugins.config]` has no such key"));
        return Err(SecretError::NotFound);
    };
    state.note_asked("the secret", key, Ok("`[plugins.config]` has it"));
    let value = cbor::encode(&serde_json::Value::String(value));
    Ok(Secret { kind: OPAQUE.into(), fields: vec![(VALUE.into(), value)] })
}

/// Whether the component says that it asks for secrets.
fn has_secrets(state: &GuestState) -> bool {
    state.belongings.classes.iter().any(|declared| declared.class == CLASS_OF_SECRETS)
}

impl GuestState {
    /// Notes what a component asked for and what it was answered, with the reason, for the journal and, where that is no,
    /// for the log.
    fn note_asked(&mut self, what: &str, subject: &str, answer: Result<&str, &str>) {
        let subject: String = plain(subject).chars().take(MAX_SUBJECT).collect();
        let (word, why) = match answer {
            Ok(why) => ("given", why),
            Err(why) => ("refused", why),
        };
        if answer.is_err() {
            self.tell(Level::Warn, &format!("asked for {what} `{subject}`, which is refused: {why}"));
        }
        if self.run.asked.len() < MAX_NOTED {
            self.run.asked.push(format!("{word}: {what} `{subject}`: {why}"));
        }
    }
}
