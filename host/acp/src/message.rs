//! JSON-RPC 2.0: parses a line as a message. Rejects batches, which the protocol does not have, and messages with
//! too many values, before parsing them.

use agent_client_protocol_schema::v1::{Error, RequestId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use haft_core::scan::{MAX_VALUES, Scan};

#[derive(Debug)]
pub(crate) enum Message {
    Request {
        id: RequestId,
        method: String,
        params: Params,
    },
    Notification {
        method: String,
        params: Params,
    },
    /// The response to a request of haft.
    Answer {
        id: RequestId,
        outcome: Result<Value, Error>,
    },
}

/// Unparsed parameters.
#[derive(Debug, Default)]
pub(crate) struct Params(Option<Box<RawValue>>);

/// The error for an invalid line.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: Error,
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Value>,
    error: Option<Value>,
}

impl Params {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let text = self.0.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(text).map_err(|error| told(Error::invalid_params(), &error.to_string()))
    }
}

/// Appends the details to the message of an error: editors show the message, and not all show the data.
pub(crate) fn told(mut error: Error, why: &str) -> Error {
    error.message = format!("{}: {why}", error.message);
    error
}

/// Parses a line; `None` for a response without id.
pub(crate) fn parse(line: &[u8]) -> Result<Option<Message>, Box<Refusal>> {
    // Some editors send a byte order mark first.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    let scan = Scan::from_message(line);
    let refusal = |error: Error, why: &str| {
        let id = scan.id().filter(|_| !scan.is_answer);
        Err(Box::new(Refusal { id, error: told(error, why) }))
    };
    if scan.is_batch() {
        return refusal(Error::invalid_request(), "the protocol has no batches");
    }
    if scan.values > MAX_VALUES {
        return refusal(Error::invalid_request(), &format!("more than {MAX_VALUES} values in one message"));
    }
    let envelope: Envelope = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return refusal(Error::invalid_request(), &error.to_string()),
        Err(error) => return refusal(Error::parse_error(), &error.to_string()),
    };
    let Envelope { id, method, params, result, error } = envelope;
    let params = Params(params);
    Ok(match (id, method) {
        (Some(id), Some(method)) => Some(Message::Request { id, method, params }),
        (None, Some(method)) => Some(Message::Notification { method, params }),
        // Also if the result is `null`, because haft waits for a response.
        (Some(id), None) if scan.is_answer => {
            let outcome = error.map_or_else(|| Ok(result.unwrap_or_default()), |error| Err(foreign(error)));
            Some(Message::Answer { id, outcome })
        }
        (None, None) if scan.is_answer => None,
        _ => return refusal(Error::invalid_request(), "neither a method nor a result"),
    })
}

/// Returns the error of the editor, or an internal error if it is malformed.
fn foreign(error: Value) -> Error {
    serde_json::from_value(error).unwrap_or_else(|_| Error::internal_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Option<RequestId>, i32) {
        let refusal = parse(line.as_bytes()).unwrap_err();
        (refusal.id, refusal.error.code.into())
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_where_it_has_one() {
        let seven = || Some(RequestId::Number(7));
        assert_eq!(refused("garbage"), (None, -32700));
        assert_eq!(refused(r#"{"id":7,"method":"x""#), (seven(), -32700));
        assert_eq!(refused(r#"{"id":7,"method":1}"#), (seven(), -32600));
        assert_eq!(refused(r#"{"id":7}"#), (seven(), -32600));
        assert_eq!(refused(r#"[{"id":7,"method":"x"}]"#), (None, -32600));
        assert_eq!(refused("1"), (None, -32600));
        let many = format!(r#"{{"id":7,"method":"x","params":[{}0]}}"#, "0,".repeat(MAX_VALUES + 1));
        assert_eq!(refused(&many), (seven(), -32600));
        assert!(parse(b"{\"id\":\"\xff\",\"method\":\"x\"}").is_err());
        assert!(parse(br#"{"result":1}"#).unwrap().is_none());
        let nothing = parse(br#"{"id":7,"result":null}"#).unwrap();
        assert!(matches!(nothing, Some(Message::Answer { outcome: Ok(Value::Null), .. })), "{nothing:?}");
    }
}
