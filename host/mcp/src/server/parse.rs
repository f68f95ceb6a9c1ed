//! Parsing the one message that is nearly all of what clients send.

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientRequest, GetMeta, JsonRpcRequest,
    JsonRpcVersion2_0, RequestId,
};
use serde::Deserialize;

/// A call, as nearly all messages are. rmcp tries every other method first, each on a copy of the whole.
#[derive(Deserialize)]
struct Call {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

/// The call that a message is, if it is one.
pub(super) fn call(message: &[u8]) -> Option<JsonRpcRequest<ClientRequest>> {
    let Call { jsonrpc, id, mut params, .. } = serde_json::from_slice(message).ok()?;
    let meta = params.meta.take();
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    if let Some(meta) = meta {
        *request.get_meta_mut() = meta;
    }
    Some(JsonRpcRequest { jsonrpc, id, request })
}
