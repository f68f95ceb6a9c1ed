//! Requests of clients without a session that may take several turns: haft answers with questions or a task, and continues the
//! call later.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, InputResponses, JsonObject, ReadResourceRequestParams,
};

use super::{Answer, Handler};
use crate::server::conversation::Requester;
use crate::server::questions::fingerprint;
use crate::server::tasks::{PATIENCE, Turn};

impl Handler {
    /// Calls a tool; a long call becomes a task if its client supports tasks.
    pub(super) async fn call_in_turns(&self, request: CallToolRequestParams, requester: Requester) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.call(request, requester)).await;
        }
        let CallToolRequestParams { name, arguments, request_state, input_responses, .. } = &request;
        let turn = self.turn(name, arguments.as_ref(), (request_state, input_responses));
        let is_required = || self.shared.snapshots.now().requires_task(name);
        let patience = || if is_required() { Duration::ZERO } else { PATIENCE };
        let turn = Turn { task_after: requester.takes_tasks().then(patience), ..turn };
        let call = |own: Self, requester| async move { own.while_open(own.call(request, requester)).await };
        // Boxed: otherwise the future of every call would have its size.
        Box::pin(self.in_turns(turn, requester, call)).await
    }

    /// Returns a prompt.
    pub(super) async fn get_in_turns(&self, request: GetPromptRequestParams, requester: Requester) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.get(request, requester)).await;
        }
        let GetPromptRequestParams { name, arguments, request_state, input_responses, .. } = &request;
        let name = format!("prompts/get {name}");
        let turn = self.turn(&name, arguments.as_ref(), (request_state, input_responses));
        let call = |own: Self, requester| async move { own.while_open(own.get(request, requester)).await };
        self.in_turns(turn, requester, call).await
    }

    /// Reads a resource.
    pub(super) async fn read_in_turns(
        &self,
        request: ReadResourceRequestParams,
        requester: Requester,
    ) -> Answer {
        if !requester.may_take_turns() {
            return self.while_open(self.read(request, requester)).await;
        }
        let ReadResourceRequestParams { uri, request_state, input_responses, .. } = &request;
        let name = format!("resources/read {uri}");
        let turn = self.turn(&name, None, (request_state, input_responses));
        let call = |own: Self, requester| async move { own.while_open(own.read(request, requester)).await };
        self.in_turns(turn, requester, call).await
    }

    fn turn(
        &self,
        name: &str,
        arguments: Option<&JsonObject>,
        (state, answers): (&Option<String>, &Option<InputResponses>),
    ) -> Turn {
        Turn {
            known: self.shared.known().map(|caller| caller.id().clone()),
            call: fingerprint(self.shared.caller(), name, arguments),
            state: state.clone(),
            answers: answers.clone().unwrap_or_default(),
            task_after: None,
        }
    }

    /// Makes a call that may outlive the request of this handler, or continues it.
    async fn in_turns<F>(
        &self,
        turn: Turn,
        requester: Requester,
        call: impl FnOnce(Self, Requester) -> F,
    ) -> Answer
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let own = self.shared.handler();
        let tasks = self.shared.snapshots.tasks();
        tasks.run(self.shared.caller(), turn, requester, |requester| call(own, requester)).await
    }
}
