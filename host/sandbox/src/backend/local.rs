//! This machine as a target. The kernel's sandbox confines a model's commands; haft's own transport processes,
//! which control panes, run outside of it. Never runs a model's command without the sandbox.

use async_trait::async_trait;

use crate::HostContext;
use crate::backend::transport::{Line, RunAs, Transport, shell, transport_line};
use crate::confine::Confiner;
use crate::error::BackendError;
use haft_core::lookup::HostPrograms;

/// This machine.
#[derive(Debug)]
pub(crate) struct Local {
    confiner: Confiner,
    transport_confiner: Confiner,
    programs: HostPrograms,
}

impl Local {
    pub(crate) fn new(host_context: &HostContext) -> Self {
        Self {
            confiner: host_context.confiner.clone(),
            transport_confiner: host_context.transport_confiner.clone(),
            programs: HostPrograms::of(&host_context.grant),
        }
    }
}

#[async_trait]
impl Transport for Local {
    fn name(&self) -> String {
        "local".into()
    }

    fn kind(&self) -> &'static str {
        "local"
    }

    fn confinement(&self) -> String {
        self.confiner.describe()
    }

    async fn line(&self, run_as: RunAs<'_>) -> Result<Line, BackendError> {
        let [name, arguments @ ..] = shell();
        let program = name.to_str().and_then(|name| self.programs.find(name));
        let program = program.ok_or_else(|| BackendError::Missing("`sh` is not on PATH".into()))?;
        let line = transport_line((&self.transport_confiner, &self.programs), program, arguments.into());
        Ok(match run_as {
            RunAs::Haft => line,
            RunAs::Model(grant) => Line {
                environment: Vec::new(),
                confiner: self.confiner.clone(),
                grant: grant.clone(),
                ..line
            },
        })
    }

    async fn lost(&self, words: &str) -> String {
        match words {
            "" => "the command ended before it could be told how".into(),
            words => format!("the command could not be run: {words}"),
        }
    }
}
