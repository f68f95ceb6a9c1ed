//! Calls of clients that take a task for an answer.

use rmcp::model::{CallToolRequestParams, CallToolResponse, ConstString};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::Handler;
use super::protocol::is_sessionless;
use crate::server::tasks::Tasks;

impl Handler {
    /// The tasks, where replicas share them.
    pub(super) fn tasks<M: ConstString>(&self) -> Result<&Tasks, ErrorData> {
        self.shared.snapshots.tasks().ok_or_else(ErrorData::method_not_found::<M>)
    }

    /// The same where the client of `context` takes a task for an answer.
    fn tasks_for(&self, context: &RequestContext<RoleServer>) -> Option<&Tasks> {
        let tasks = self.shared.snapshots.tasks().filter(|_| is_sessionless(context))?;
        let knows = context.client_capabilities().is_some_and(|own| own.supports_tasks());
        knows.then_some(tasks)
    }

    /// Makes a call, which may become a task where its client takes one.
    pub(super) async fn call_or_begin_task(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tasks) = self.tasks_for(&context) else {
            return self.while_open(self.call(request, context)).await;
        };
        // It may outlive the request that this handler is for.
        let own = self.shared.handler();
        let call = |context| async move { own.while_open(own.call(request, context)).await };
        // On the heap: the future of every call would have room for it.
        Box::pin(tasks.run(&self.shared.caller, context, call)).await
    }
}
