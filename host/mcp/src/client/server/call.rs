//! The requests of callers. A request that a server refuses because it has forgotten the session is repeated once, in a
//! new session, after the tools were listed and compared with the agreed ones again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};

use super::{Connection, Endpoint, RequestLimits, Server, ServerError};
use crate::client::calls::Listener;
use haft_core::tool::Context;
use haft_core::trace::{Ended, Operation, Wire};

/// A method and its parameters.
type Request = (&'static str, Map<String, Value>);

impl Server {
    /// Makes a request of a caller, and starts the server if necessary. Returns the unmodified result. `tool` is the
    /// called tool, if any.
    pub(in crate::client) async fn call(
        self: &Arc<Self>,
        request: Request,
        tool: Option<&str>,
        call: &str,
        context: &Context<'_>,
    ) -> Result<Answer, ServerError> {
        match self.call_once(&request, tool, call, context).await {
            Err(ServerError::Forgotten) => self.call_once(&request, tool, call, context).await,
            result => result,
        }
    }

    async fn call_once(
        self: &Arc<Self>,
        request: &Request,
        tool: Option<&str>,
        call: &str,
        context: &Context<'_>,
    ) -> Result<Answer, ServerError> {
        let connection = tokio::select! {
            connection = self.connection() => connection?,
            () = context.cancel.cancelled() => return Err(ServerError::Cancelled),
        };
        let result = self.call_on(&connection, request, tool, call, context).await;
        self.unless_lost(&connection, result).await
    }

    async fn call_on(
        &self,
        connection: &Connection,
        (method, params): &Request,
        tool: Option<&str>,
        call: &str,
        context: &Context<'_>,
    ) -> Result<Answer, ServerError> {
        if let Some(tool) = tool {
            self.refuse_held(tool, connection).await?;
        }
        let tool = tool.unwrap_or(method);
        let over = match self.config.endpoint {
            Endpoint::Stdio { .. } => Wire::Streams,
            Endpoint::Http { .. } => Wire::Http,
        };
        let span =
            context.caller.trace().begin(|| Operation::Remote { tool, server: &self.config.name, over });
        let trace = span.inside().parent().cloned();
        let listener = Listener {
            call: call.to_owned(),
            events: context.events.clone(),
            trace,
            client: context.client,
            person: context.caller.person().cloned(),
            meta: context.caller.meta().cloned(),
        };
        let limits = RequestLimits { timeout: self.config.timeout, cancel: context.cancel };
        let known = connection.refused().len();
        let result = connection.call(method, params.clone(), &listener, limits).await;
        span.end(&told(&result));
        connection.caught_up().await;
        for decision in connection.noted(known) {
            context.notes.decision(|| decision);
        }
        let value = result?;
        let hints = connection.hints_for(known, &value);
        Ok(Answer { value, hints })
    }

    /// Reads the file `uri` of the skill `skill`, unless the skill is held back.
    pub(in crate::client) async fn read_skill(
        self: &Arc<Self>,
        skill: &str,
        uri: &str,
    ) -> Result<Value, ServerError> {
        match self.read_skill_once(skill, uri).await {
            Err(ServerError::Forgotten) => self.read_skill_once(skill, uri).await,
            result => result,
        }
    }

    async fn read_skill_once(self: &Arc<Self>, skill: &str, uri: &str) -> Result<Value, ServerError> {
        let connection = self.connection().await?;
        let limits = RequestLimits { timeout: self.config.timeout, cancel: &self.closing };
        let params = Map::from_iter([("uri".to_owned(), uri.into())]);
        let read = async {
            self.refuse_held(skill, &connection).await?;
            connection.read("resources/read", &params, limits).await
        };
        let result = read.await;
        self.unless_lost(&connection, result).await
    }

    /// Returns `result`. If it shows that the session of `connection` is over, the next use opens a new connection.
    pub(super) async fn unless_lost<T>(
        &self,
        connection: &Arc<Connection>,
        result: Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let is_http = matches!(self.config.endpoint, Endpoint::Http { .. });
        if is_http && matches!(result, Err(ServerError::Lost(_) | ServerError::Forgotten)) {
            let mut slot = self.slot.lock().await;
            if slot.connection.take_if(|own| Arc::ptr_eq(own, connection)).is_some() {
                slot.note_end(connection.answered.load(Ordering::Relaxed));
            }
        }
        result
    }
}

/// A server's answer to a tool call.
pub(in crate::client) struct Answer {
    /// The result of `tools/call`.
    pub(in crate::client) value: Value,
    /// If the answer is an error, the lines that would allow the accesses that the sandbox refused during the call.
    pub(in crate::client) hints: Vec<String>,
}

/// Returns the end of a call of a server's tool, for a trace.
fn told(result: &Result<Value, ServerError>) -> Ended<'static> {
    let error = match result {
        Ok(result) => return (result.get("isError") == Some(&Value::Bool(true))).into(),
        Err(ServerError::TimedOut { .. }) => "timeout",
        Err(ServerError::Cancelled) => "cancelled",
        Err(_) => "server_error",
    };
    Ended { error: Some(error), ..Ended::default() }
}
