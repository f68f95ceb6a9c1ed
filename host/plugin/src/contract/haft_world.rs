//! The `haft:plugin` world: the component lists its tools itself and gets arguments as JSON text. It is the only
//! contract whose components can import haft's own host functions.

use std::sync::Arc;

use async_trait::async_trait;
use wasmtime::Store;

use crate::call::Call;
use crate::component::listing::{Listed, ListedTool};
use crate::contract::Contract;
use crate::contract::bindings::exports::haft::plugin::tools;
use crate::contract::bindings::{Plugin as Bindings, PluginIndices};
use crate::contract::guest::{
    Answer, Guest, Kind, Linked, MakeGuest, Output, Piece, Structured, exported_version,
};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::{Attachment, Hints};
use haft_core::tool::ToolError;

/// The interface that identifies this world; its version follows.
const INTERFACE: &str = "haft:plugin/tools@";

const SUPPORTED: &str = "0.1.0";

pub(super) fn has(exports: &[&str], interface: &str) -> Result<bool, LoadError> {
    exported_version(exports, interface, "haft:plugin", SUPPORTED, |version| version == SUPPORTED)
}

pub(crate) const KIND: Kind = Kind {
    contract: Contract::Plugin,
    is_exported: |exports| has(exports, INTERFACE),
    link,
    listing: None,
    may_offer: true,
    result_cost: 0,
};

fn link(Linked { pre, .. }: &Linked<'_>) -> Result<MakeGuest, LoadError> {
    let tools = PluginIndices::new(pre).map_err(|error| LoadError::link(&error))?;
    Ok(Arc::new(move |store, instance| Ok(Box::new(HaftGuest(tools.load(store, &instance)?)))))
}

struct HaftGuest(Bindings);

#[async_trait]
impl Guest for HaftGuest {
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        let listed = self.0.haft_plugin_tools().call_list_tools(store).await?;
        Ok(Ok(Listed::tools(listed.into_iter().map(listed_tool).collect())))
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let Call { id, tool, arguments, .. } = call;
        let call = tools::ToolCall { id, tool, arguments: &arguments.text() };
        let called = self.0.haft_plugin_tools().call_call_tool(store, call).await?;
        Ok(called.map(output).map_err(|error| match error {
            tools::ToolError::InvalidArguments(message) => ToolError::InvalidArguments(message),
            tools::ToolError::ExecutionFailed(message) => ToolError::ExecutionFailed(message),
        }))
    }
}

fn listed_tool(tool: tools::ToolDef) -> ListedTool {
    let tools::Hints { read_only, destructive, idempotent, open_world } = tool.hints;
    ListedTool {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        title: None,
        output: tool.output_schema,
        hints: Hints { read_only, destructive, idempotent, open_world },
    }
}

fn output(output: tools::ToolOutput) -> Output {
    let pieces = output.content.into_iter().map(|content| match content {
        tools::Content::Text(text) => Piece::Text(text),
        tools::Content::Binary(tools::Blob { media_type, data }) => {
            Piece::Binary(Attachment::new(media_type, data))
        }
    });
    Output { pieces: pieces.collect(), structured: output.structured.map(Structured::Text) }
}
