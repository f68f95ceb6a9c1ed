//! Whom a program is served to: MCP clients, or gates by way of a worker. A gate waits for its workers before it serves
//! what they have to have too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Live, News, ToolChoice};
use crate::program::{Options, Program, Running};
use haft_author::watch::Moment;
use haft_mcp::server::{Publisher, ToolSnapshot};
use haft_nats::{Identity, Worker};

/// Whom it is served to.
pub(super) enum Audience {
    /// MCP clients.
    Clients(Publisher),
    /// Gates, by this worker.
    Gates(Arc<Worker>),
}

/// How often it is looked whether workers have the program as it is now.
const LOOK: Duration = Duration::from_millis(250);

/// How long nothing is said of workers that do not.
const AHEAD: Duration = Duration::from_secs(10);

impl Live {
    /// Keeps what `worker` runs calls with, which it began with `program`, read at `read`.
    pub fn of_worker(
        mut options: Options,
        program: &Program,
        read: Moment,
        worker: Arc<Worker>,
        on_news: impl Fn(News<'_>) + Send + Sync + 'static,
    ) -> Self {
        options.confiner.get_or_insert_with(|| program.confiner.clone());
        options.trust = program.trusted_from_now_on(&options.trust);
        let running = Running::default();
        running.put(program);
        Self {
            options,
            choice: ToolChoice::default(),
            audience: Audience::Gates(worker),
            files: program.files.clone(),
            read,
            started: read,
            agreements: program.dirs.trust(),
            is_complete: true,
            running,
            serve: program.manifest.serve.clone(),
            callers: None,
            is_without_pane: program.is_without_pane,
            begun: program.begun(),
            placement: program.placement.clone(),
            has_worker_servers: false,
            on_news: Box::new(on_news),
        }
    }

    /// Waits until workers have what `program` wants of them, whose tools were made since `mark`, as far as they have it of
    /// what is served: no call fails that would not have failed before. `false` where its files change meanwhile, or no
    /// client is served any more.
    pub(super) async fn workers_follow(&self, program: &Program, mark: u64) -> bool {
        let (Some(old), Some(new)) = (self.placement.gate(), program.placement.gate()) else { return true };
        let mark = if Arc::ptr_eq(old, new) { mark } else { 0 };
        let began = Instant::now();
        let mut was_told = false;
        while !(old.can_be_replaced() || new.connect().await.is_ok() && new.can_follow(old, mark)) {
            if began.elapsed() > AHEAD && !std::mem::replace(&mut was_told, true) {
                (self.on_news)(News::Ahead);
            }
            let is_over = tokio::time::timeout(LOOK, self.audience.closed()).await.is_ok();
            if is_over || self.read.is_before_a_change_of(&program.files) {
                return false;
            }
        }
        true
    }
}

impl Audience {
    /// Ends when nobody is served any more.
    pub(super) async fn closed(&self) {
        match self {
            Self::Clients(publisher) => publisher.closed().await,
            Self::Gates(_) => std::future::pending().await,
        }
    }

    /// The program, whose calls the journal says are a worker's, where it is one.
    pub(super) fn own(&self, program: Program) -> Program {
        match self {
            Self::Clients(_) => program,
            Self::Gates(worker) => program.of_worker(&worker.place().worker),
        }
    }

    /// Serves `program` from now on. Whether there are other tools.
    pub(super) fn publish(&self, snapshot: ToolSnapshot, program: &Program) -> anyhow::Result<bool> {
        match self {
            Self::Clients(publisher) => Ok(publisher.publish(snapshot)),
            Self::Gates(worker) => {
                let Identity { program: name, .. } = worker.place().identity;
                anyhow::ensure!(
                    name == program.identity.program,
                    "the program is called otherwise than `{name}`: start this worker again"
                );
                Ok(worker.read_again(program.reading()))
            }
        }
    }
}
