//! Commands in a new shell on the target each, without a terminal. A command leaves nothing for the next one:
//! its background processes are stopped with it.

mod files;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use self::files::Piece;
use crate::backend::remote_script::{self, Report};
use crate::backend::script::{PLAIN, Script, quoted, unguessable};
use crate::backend::transport::{RunAs, Transport};
use crate::backend::{BackendConfig, Place};
use crate::error::{BackendError, no_directory};
use crate::{Backend, CommandEnd, CommandOutcome, OutputSink};
use haft_core::tool::Context;

#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) transport: Arc<dyn Transport>,
    /// The initial directory; empty for the default.
    directory: String,
    /// The only directories whose files can be accessed; `None` permits all except system directories.
    allowed: Option<Vec<String>>,
    /// Whether the kernel's sandbox checks access.
    is_local: bool,
}

impl Plain {
    pub(crate) fn new(transport: Arc<dyn Transport>, choice: &BackendConfig) -> Self {
        let is_local = choice.place == Place::Local;
        let directory = choice.directory.clone().filter(|_| !is_local).unwrap_or_default();
        Self { transport, directory, allowed: choice.files.clone(), is_local }
    }

    async fn run_script(
        &self,
        command: &str,
        out: &dyn OutputSink,
        context: &Context<'_>,
        stop: &CancellationToken,
    ) -> Result<Report, BackendError> {
        let script = Script::new()?
            .with("mark", &unguessable()?)
            .with("command", command)
            .with("directory", &self.directory)
            .with("exec", &self.exec())
            .then(PLAIN);
        let run_as = RunAs::Model(context.grant);
        remote_script::run(&*self.transport, run_as, &script, None, out, stop).await
    }

    /// Returns the command prefix that confines a command on the target; empty without a haft there.
    fn exec(&self) -> String {
        match self.transport.wrapper() {
            "" => String::new(),
            wrapper => format!("{wrapper} --"),
        }
    }

    /// Returns the command with a change to the directory, for a shell that starts elsewhere.
    pub(crate) fn inside(&self, command: &str) -> String {
        match self.directory.as_str() {
            "" => command.to_owned(),
            directory => format!("cd -- {} || exit\n{command}", quoted(directory)),
        }
    }

    pub(crate) fn ended(&self, status: &str) -> Result<CommandOutcome, BackendError> {
        let mut words = status.split(' ');
        let first = words.next().unwrap_or_default();
        if first == "!directory" {
            return Err(no_directory(&self.directory, &self.transport.name()));
        }
        let how =
            first.parse().map_or_else(|_| CommandEnd::Lost("its shell was ended".into()), CommandEnd::Exited);
        let left = words.next().map(|_| "its background processes were stopped".to_owned());
        Ok(CommandOutcome { how, notices: left.into_iter().collect() })
    }
}

#[async_trait]
impl Backend for Plain {
    fn summary(&self) -> String {
        self.transport.name()
    }

    fn confinement(&self) -> String {
        self.transport.confinement()
    }

    async fn run(
        &self,
        command: &str,
        timeout: Duration,
        out: Arc<dyn OutputSink>,
        context: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError> {
        let stop = context.cancel.child_token();
        let mut script = std::pin::pin!(self.run_script(command, &*out, context, &stop));
        let (report, is_late) = tokio::select! {
            report = &mut script => (report, false),
            () = sleep(timeout) => {
                stop.cancel();
                (script.await, true)
            }
        };
        let notices = Vec::new();
        if is_late {
            context.notes.timed_out();
            return Ok(CommandOutcome { how: CommandEnd::TimedOut(self.transport.kind()), notices });
        }
        if context.cancel.is_cancelled() {
            return Ok(CommandOutcome { how: CommandEnd::Cancelled, notices });
        }
        match report {
            Ok(Report::Status(status)) => self.ended(&status),
            Ok(Report::Stopped) => Ok(CommandOutcome { how: CommandEnd::Cancelled, notices }),
            Err(BackendError::Unreachable(why)) => Ok(CommandOutcome { how: CommandEnd::Lost(why), notices }),
            Err(error) => Err(error),
        }
    }

    async fn read(
        &self,
        path: &str,
        offset: u64,
        limit: usize,
        context: &Context<'_>,
    ) -> Result<Piece, BackendError> {
        self.read_file(path, offset, limit, context).await
    }

    async fn write(&self, path: &str, bytes: Vec<u8>, context: &Context<'_>) -> Result<(), BackendError> {
        self.write_file(path, bytes, context).await
    }

    async fn close(&self) {
        self.transport.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::remote_script::Nowhere;
    use crate::backend::transport::Line;
    use haft_core::grant::Grant;
    use haft_core::tool::Own;

    /// Only a hanging test reaches this.
    const HANG: Duration = Duration::from_mins(5);

    /// A target all of whose slots are in use.
    #[derive(Debug)]
    struct Full;

    #[async_trait]
    impl Transport for Full {
        fn name(&self) -> String {
            "full".into()
        }

        fn kind(&self) -> &'static str {
            "full"
        }

        fn confinement(&self) -> String {
            String::new()
        }

        async fn line(&self, _: RunAs<'_>) -> Result<Line, BackendError> {
            std::future::pending().await
        }

        async fn lost(&self, words: &str) -> String {
            words.to_owned()
        }
    }

    /// A command that gets no slot is given up at its time limit, and is not started later.
    #[tokio::test]
    async fn a_command_waits_for_a_slot_within_its_time_limit() {
        let plain = Plain::new(Arc::new(Full), &BackendConfig::default());
        let (owner, grant) = (Own::default(), Grant::none());
        let context = owner.context(&grant);
        let ended = plain.run("true", Duration::ZERO, Arc::new(Nowhere), &context);
        let ended = tokio::time::timeout(HANG, ended).await.expect("it waits past its time limit").unwrap();
        assert_eq!(ended.how, CommandEnd::TimedOut("full"));
    }
}
