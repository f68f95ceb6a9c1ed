//! What the reader's thread makes of a line of standard input.

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};

/// What was read.
pub(super) enum Incoming {
    /// A message, and how long its line was.
    Message(Box<ClientJsonRpcMessage>, usize),
    /// No message; the answer to it.
    Invalid(Option<RequestId>, ErrorData),
}
