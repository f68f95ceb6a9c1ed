//! A tool on workers, in the gate's toolbox: definition, rules and approval are local, the call is remote.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::Gate;
use super::attempt::Outgoing;
use super::fleet::Wanted;
use crate::identity::definition;
use crate::message::Known;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::Label;

/// The extra time of a call at the gate: for waiting for a place, and for the network.
const MARGIN: Duration = Duration::from_secs(30);

/// A tool on workers.
pub struct NatsTool {
    gate: Arc<Gate>,
    def: ToolDef,
    component: Option<String>,
    /// The local instance of the tool, which describes its calls. It is never called.
    local: Option<Arc<dyn Tool>>,
    wanted: Arc<Wanted>,
}

impl NatsTool {
    /// Makes the remote form of the tool `local`, on workers with one of the labels `on` that have the same
    /// definition and, for a component, the same bytes.
    pub fn new(gate: &Arc<Gate>, local: Arc<dyn Tool>, on: &[Label]) -> Self {
        let (def, component) = (local.def().clone(), local.digest().map(str::to_owned));
        Self { local: Some(local), ..Self::of(gate, def, component, on) }
    }

    /// Makes a tool that only workers have.
    pub fn known(gate: &Arc<Gate>, known: &Known, on: &[Label]) -> Self {
        Self::of(gate, known.definition_of(), known.component.clone(), on)
    }

    fn of(gate: &Arc<Gate>, def: ToolDef, component: Option<String>, on: &[Label]) -> Self {
        let definition = definition(&def, component.as_deref());
        let wanted = gate.wants(Wanted { tool: def.name.clone(), definition, on: on.into() });
        Self { gate: gate.clone(), def, component, local: None, wanted }
    }

    /// Returns the limits of a call at the gate for `limits` at the worker.
    pub fn limits(limits: Limits) -> Limits {
        Limits { time: limits.time.saturating_add(MARGIN), ..limits }
    }
}

#[async_trait]
impl Tool for NatsTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        Outgoing { gate: &self.gate, wanted: &self.wanted, call, context }.run().await
    }

    fn refusal(&self, arguments: &Value) -> Option<ToolError> {
        self.local.as_ref()?.refusal(arguments)
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.local.as_ref().map_or_else(|| Subject::arguments(arguments), |local| local.subject(arguments))
    }

    fn may_have_effects(&self, grant: &Grant) -> bool {
        // The effects at the worker depend on its grants; here only the journal uses this.
        self.local.as_ref().is_none_or(|local| local.may_have_effects(grant))
    }

    fn has_fixed_rights(&self) -> bool {
        // The rights of the worker.
        true
    }

    fn digest(&self) -> Option<&str> {
        self.component.as_deref()
    }
}
