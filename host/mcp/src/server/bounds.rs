//! The bounds of one message of a client, checked before it is parsed into values, on standard input and over HTTP
//! alike. A message beyond them is refused with a JSON-RPC error.

use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

use haft_core::scan::{MAX_VALUES, Scan};

/// Bytes of one message on standard input: a file to be written, in JSON. What clients take from servers, too.
pub(super) const MAX_LINE: usize = 16 << 20;

/// Values of a message that is no call of a tool. Nothing that clients ask for otherwise has a hundredth
/// of it, and rmcp finds out which of its methods a message fits by trying one after the other on a copy.
const MAX_OTHER_VALUES: usize = 10_000;

/// Messages of a batch: as many as may be under way at once.
pub(super) const MAX_BATCH: usize = 256;

/// The method whose messages may be large.
pub(super) const CALL: &str = "tools/call";

/// Why a message is not read, where it is beyond the bounds.
pub(super) fn excess(scan: &Scan) -> Option<ErrorData> {
    if scan.method() == Some(CALL) || scan.is_batch() {
        beyond(scan, MAX_VALUES)
    } else {
        excess_of_other(scan)
    }
}

/// Why a message that is not a call is not read, where it is beyond the bounds.
pub(super) fn excess_of_other(scan: &Scan) -> Option<ErrorData> {
    beyond(scan, MAX_OTHER_VALUES)
}

fn beyond(scan: &Scan, most: usize) -> Option<ErrorData> {
    (scan.values() > most).then(|| {
        ErrorData::invalid_request(
            format!("a message with more than {most} values: send fewer at once"),
            None,
        )
    })
}

/// Why a message is not read that is longer than any that is.
pub(super) fn too_long() -> ErrorData {
    ErrorData::invalid_request(format!("a message longer than {} MiB", MAX_LINE >> 20), None)
}

/// The error as a message. Where the id could not be read it is null, as JSON-RPC 2.0 has it; 2026-07-28
/// leaves it out.
pub(super) fn refusal(id: Option<RequestId>, error: ErrorData, is_stateless: bool) -> Value {
    match id {
        None if !is_stateless => json!({"jsonrpc": "2.0", "id": null, "error": error}),
        id => {
            let message: ServerJsonRpcMessage = JsonRpcMessage::error(error, id);
            json!(message)
        }
    }
}
