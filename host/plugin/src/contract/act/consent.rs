//! What components of `act:tools` may ask their host for beside WASI: leave for an action (`act:consent`) and secrets
//! (`act:credentials`). Nobody can give either here, so that each question is answered with no, as the specification has
//! it for hosts without anybody to ask; the component says so in its answer, and the log names what was asked for.

use wasmtime::component::{Accessor, ComponentType, Lift, Linker, Lower};

use super::shapes::Metadata;
use crate::contract::bindings::haft::plugin::host::Level;
use crate::instance::state::GuestState;

/// The interface of leave.
const CONSENT: &str = "act:consent/consent-authority@0.1.0";

/// The interface of secrets.
const CREDENTIALS: &str = "act:credentials/store@0.1.0";

#[derive(ComponentType, Lift)]
#[component(record)]
struct ConsentRequest {
    class: String,
    key: String,
    #[expect(dead_code, reason = "part of the shape")]
    summary: String,
    #[expect(dead_code, reason = "part of the shape")]
    args: Vec<u8>,
}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
enum Decision {
    #[component(name = "allow")]
    #[expect(dead_code, reason = "part of the shape")]
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
            store.with(|mut access| refuse(access.data_mut(), "leave", &request.class, &request.key));
            Box::pin(async { Ok((Decision::Deny,)) })
        },
    )?;
    let mut credentials = linker.instance(CREDENTIALS)?;
    credentials.func_wrap_concurrent("list-secrets", |_: &Accessor<GuestState>, _: (Option<String>,)| {
        Box::pin(async { Ok((Result::<Vec<SecretInfo>, SecretError>::Ok(Vec::new()),)) })
    })?;
    credentials.func_wrap_concurrent(
        "get-secret",
        |store: &Accessor<GuestState>, (_, request): (String, SecretRequest)| {
            store.with(|mut access| refuse(access.data_mut(), "the secret", &request.key, ""));
            Box::pin(async { Ok((Result::<Secret, SecretError>::Err(SecretError::Denied),)) })
        },
    )
}

fn refuse(state: &mut GuestState, what: &str, class: &str, key: &str) {
    state
        .tell(Level::Warn, &format!("asked for {what} `{class}` {key}, which nothing in program.toml gives"));
}
