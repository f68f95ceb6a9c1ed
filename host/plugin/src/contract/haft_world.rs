//! The `haft:plugin` world: the component lists its tools itself and gets arguments as JSON text. It is the only
//! contract whose components can import haft's own host functions.

use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use crate::component::listing::ListedTool;
use crate::contract::Request;
use crate::contract::answer::{Output, Piece, Structured};
use crate::contract::bindings::exports::haft::plugin::tools;
use crate::contract::bindings::{Plugin as Bindings, PluginPre};
use crate::contract::version::exported_version;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::{Attachment, Hints};
use haft_core::tool::ToolError;

/// The interface that makes a component one of this world; its version follows.
const INTERFACE: &str = "haft:plugin/tools@";

/// The interface of a hook; its version follows.
const HOOKS: &str = "haft:plugin/hooks@";

/// The version of `wit/` that is spoken here.
const SUPPORTED: &str = "0.1.0";

/// Whether the world is among `exports`.
///
/// # Errors
/// It is exported in an unsupported version only.
pub(crate) fn is_exported(exports: &[&str]) -> Result<bool, LoadError> {
    exported_version(exports, INTERFACE, "haft:plugin", SUPPORTED, |version| version == SUPPORTED)
}

/// Whether the interface of hooks is among `exports`.
///
/// # Errors
/// It is exported in an unsupported version only.
pub(crate) fn is_hook_exported(exports: &[&str]) -> Result<bool, LoadError> {
    exported_version(exports, HOOKS, "haft:plugin", SUPPORTED, |version| version == SUPPORTED)
}

/// A linked component of the world, with its two functions resolved.
#[derive(Clone)]
pub(crate) struct HaftComponent {
    tools: PluginPre<GuestState>,
    has_offers: bool,
}

/// One instance of it, and itself where it offers something beside its tools.
pub(crate) struct HaftGuest(Bindings, Option<Instance>);

impl HaftComponent {
    pub(crate) fn new(linked: InstancePre<GuestState>, has_offers: bool) -> Result<Self, LoadError> {
        let tools = PluginPre::new(linked).map_err(|error| LoadError::link(&error))?;
        Ok(Self { tools, has_offers })
    }

    pub(crate) fn component(&self) -> &Component {
        self.tools.instance_pre().component()
    }

    pub(crate) fn has_offers(&self) -> bool {
        self.has_offers
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<HaftGuest> {
        if self.has_offers {
            // On the heap: the future of every call would have room for it.
            return Box::pin(self.instantiate_offering(store)).await;
        }
        self.tools.instantiate_async(store).await.map(|tools| HaftGuest(tools, None))
    }

    async fn instantiate_offering(&self, store: &mut Store<GuestState>) -> wasmtime::Result<HaftGuest> {
        let instance = self.tools.instance_pre().instantiate_async(&mut *store).await?;
        Ok(HaftGuest(Bindings::new(store, &instance)?, Some(instance)))
    }
}

impl HaftGuest {
    /// The instance, where it offers something beside its tools.
    pub(crate) fn offering(&self) -> Option<Instance> {
        self.1
    }

    pub(crate) async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Vec<ListedTool>> {
        let listed = self.0.haft_plugin_tools().call_list_tools(store).await?;
        Ok(listed.into_iter().map(listed_tool).collect())
    }

    pub(crate) async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        let call =
            tools::ToolCall { id: &request.id, tool: &request.tool, arguments: &request.arguments.text() };
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
