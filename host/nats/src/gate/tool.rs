//! A tool that lives on workers, as the gate's toolbox has it: definition, rules and approval are here, the call is there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::Label;
use serde_json::Value;

use super::Gate;
use super::fleet::Wanted;
use super::outgoing::Outgoing;
use crate::identity::definition;
use crate::message::Known;

/// How much longer a call may take here than there: for a place, and for what is between.
const MARGIN: Duration = Duration::from_secs(30);

/// A tool that lives on workers.
pub struct NatsTool {
    gate: Arc<Gate>,
    def: ToolDef,
    component: Option<String>,
    /// The same tool as this machine has it, which says what its calls are about. It is never called.
    own: Option<Arc<dyn Tool>>,
    wanted: Arc<Wanted>,
}

impl NatsTool {
    /// The tool `own`, which lives on workers with one of the labels `on`: on those that have it with the same definition
    /// and, where it is a component, the same bytes.
    pub fn new(gate: &Arc<Gate>, own: Arc<dyn Tool>, on: &[Label]) -> Self {
        let (def, component) = (own.def().clone(), own.digest().map(str::to_owned));
        Self { own: Some(own), ..Self::of(gate, def, component, on) }
    }

    /// A tool that only workers know.
    pub fn known(gate: &Arc<Gate>, known: &Known, on: &[Label]) -> Self {
        Self::of(gate, known.definition_of(), known.component.clone(), on)
    }

    fn of(gate: &Arc<Gate>, def: ToolDef, component: Option<String>, on: &[Label]) -> Self {
        let definition = definition(&def, component.as_deref());
        let wanted = gate.wants(Wanted { tool: def.name.clone(), definition, on: on.into() });
        Self { gate: gate.clone(), def, component, own: None, wanted }
    }

    /// What a call may use here, where it may use `limits` there.
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
        self.own.as_ref()?.refusal(arguments)
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.own.as_ref().map_or_else(|| Subject::arguments(arguments), |own| own.subject(arguments))
    }

    fn may_have_effects(&self, grant: &Grant) -> bool {
        // What it may do there is that machine's to say; here only the journal asks.
        self.own.as_ref().is_none_or(|own| own.may_have_effects(grant))
    }

    fn has_fixed_rights(&self) -> bool {
        // Those of the worker.
        true
    }

    fn digest(&self) -> Option<&str> {
        self.component.as_deref()
    }
}
