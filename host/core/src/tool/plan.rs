//! Plan mode: all tools, each with a grant that neither writes nor sends. A tool whose rights cannot be narrowed is
//! withheld.

use std::sync::Arc;

use super::entry::Entry;
use super::search;
use super::toolbox::{Offered, Toolbox};

/// Replaces hints about program.toml if a call in plan mode was refused.
pub const PLAN_HINT: &str = "plan mode: writing and sending are off until the user ends plan mode";

/// The reason why a tool does not exist.
const WITHHELD: &str = "it is not available in plan mode: its rights cannot be reduced to reading, because \
     it acts with the rights of a server, a target or a worker, or without a sandbox; the user can end plan \
     mode";

impl Toolbox {
    /// Returns these tools in plan mode: every call gets a grant without the right to write, store or send. Tools
    /// whose rights are fixed before a call are withheld, regardless of their hints.
    #[must_use]
    pub fn planning(&self) -> Self {
        let is_fixed = |name: &str| self.find(name).is_some_and(Entry::has_fixed_rights);
        let left = self.chosen(|name| !is_fixed(name), None).each(|entry, _| Arc::new(entry.planning()));
        let fixed = self.names().filter(|name| is_fixed(name));
        let fixed = fixed.map(|name| (name.to_owned(), WITHHELD.to_owned()));
        let withheld: Vec<_> = self.withheld.iter().cloned().chain(fixed).collect();
        let offered = self.offered.as_ref().map(|offered| Offered {
            first: self.entries().take(offered.first).filter(|entry| !entry.has_fixed_rights()).count(),
            search: Arc::new(search::entry(&left.entries)),
        });
        left.listing(offered).withholding(withheld)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Context, Session, Tool, ToolError};
    use super::*;
    use crate::call::{ToolCall, ToolDef, ToolResult};
    use crate::grant::{Grant, Root};
    use crate::limit::Limits;

    /// A tool that answers with its grant; its rights are fixed if it is called `server`.
    struct Told(ToolDef);

    #[async_trait::async_trait]
    impl Tool for Told {
        fn def(&self) -> &ToolDef {
            &self.0
        }

        fn has_fixed_rights(&self) -> bool {
            self.0.name == "server"
        }

        async fn call(&self, _: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
            let grant = context.grant;
            let nothing = Grant::none().writable() == grant.writable() && grant.hosts().is_empty();
            let is_closed = nothing && !grant.network() && !grant.unix_sockets() && grant.state().is_none();
            Ok(ToolResult::success(format!("{is_closed} {}", grant.readable().roots().len())))
        }
    }

    fn call(tool: &str) -> ToolCall {
        ToolCall { id: "1".into(), tool: tool.into(), arguments: json!({}) }
    }

    /// U11: the grant of a call neither writes nor sends, reading stays, and tools that cannot be narrowed are
    /// withheld by name, also from the tools that a budget leaves out.
    #[tokio::test]
    async fn every_call_of_plan_mode_is_handed_a_grant_that_only_reads() {
        let mut toolbox = Toolbox::default();
        let root = Root::resolve(std::path::Path::new("/"), "nowhere".as_ref()).unwrap();
        let grant = Grant::none().with_write(root).with_host("x.org".parse().unwrap()).with_state(9);
        let grant = grant.with_network(true).with_unix_sockets(true);
        for name in ["own", "server", "other"] {
            let parameters = json!({ "type": "object" });
            let def = ToolDef { name: name.into(), parameters, ..ToolDef::default() };
            toolbox.insert(Arc::new(Told(def)), grant.clone(), Limits::default(), "test").unwrap();
        }
        let session = Session::default();
        for toolbox in [toolbox.planning(), toolbox.within(1).planning(), toolbox.planning().planning()] {
            for name in ["own", "other"] {
                let answer = toolbox.dispatch(call(name), &session).await;
                assert_eq!(answer.content, "true 1", "{name}");
            }
            let answer = toolbox.dispatch(call("server"), &session).await;
            assert!(
                answer.is_error
                    && answer.content.contains("`server` cannot be called: it is not available in plan mode")
            );
            assert!(toolbox.entries().all(|entry| entry.grant().is_planning()));
        }
        let small = toolbox.within(1).planning();
        assert_eq!(small.unlisted(), 2, "what is not listed is still found");
        assert_eq!(toolbox.dispatch(call("server"), &session).await.content, "false 1");
    }
}
