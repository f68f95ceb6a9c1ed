//! Questions of haft to a client, which shows them to its user (elicitation), and the meaning of the answers.

use anyhow::Context;
use serde_json::{Value, json};

use haft_core::encoding::hex;
use haft_core::random;

/// The field of the form.
const APPROVE: &str = "approve";

pub(super) enum Said {
    Yes,
    No,
    /// No answer: the user dismissed the question, or the client is gone.
    Nothing,
}

/// Returns the id and the line of the request that asks the user to agree to `text`.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn new(text: &str) -> anyhow::Result<(String, Vec<u8>)> {
    // No server can guess the id, so that no server's question can have it.
    let id = format!("haft-{}", hex(&random::bytes::<16>().context("a question cannot be encoded")?));
    let approve = json!({ "type": "boolean", "title": "Agree to this", "default": false });
    let schema = json!({ "type": "object", "properties": { APPROVE: approve }, "required": [APPROVE] });
    let parameters = json!({ "message": text, "requestedSchema": schema });
    let question =
        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": parameters });
    Ok((id, format!("{question}\n").into_bytes()))
}

/// Returns whether the client that sends this request can show forms, by its declaration in `initialize`.
pub(super) fn shows_forms(request: &Value) -> bool {
    let elicitation = request.pointer("/params/capabilities/elicitation").and_then(Value::as_object);
    let shows_forms = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
    request.get("method").is_some_and(|method| method == "initialize") && shows_forms
}

/// Returns the meaning of an answer. Only a completed form is an answer of the user.
pub(super) fn said(answer: &Value) -> Said {
    let action = answer.pointer("/result/action").and_then(Value::as_str);
    let approves = answer.pointer("/result/content").and_then(|content| content.get(APPROVE)?.as_bool());
    match (action, approves) {
        (Some("accept"), Some(true)) => Said::Yes,
        (Some("accept" | "decline"), _) => Said::No,
        _ => Said::Nothing,
    }
}
