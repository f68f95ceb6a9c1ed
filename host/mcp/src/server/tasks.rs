//! Long calls as tasks (MCP's extension `io.modelcontextprotocol/tasks`): the client gets a task id instead of an
//! answer, and queries any replica for the state of the call. Offered to stateless clients that declare support for
//! tasks. The processes of one machine are replicas too.

mod record;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResponse, CreateTaskResult, ErrorData, GetTaskResult, Task};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::record::{Record, State};
use super::conversation::Requester;
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::replicas::{KEPT, Replicas, RunningTask};

/// The duration of a call before it becomes a task: most calls are shorter, and no client has a shorter time
/// limit.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum number of concurrent tasks of this process. Further calls do not become tasks.
const MAX_RUNNING: usize = 256;

/// Interval of records that a task runs.
const BEAT: Duration = Duration::from_secs(15);

/// Interval at which a client should poll.
const POLL: Duration = Duration::from_secs(1);

/// Maximum size in bytes of a stored answer: several times the largest one of a plugin.
const MAX_ANSWER: usize = 64 << 20;

/// The waits before the end of a task is stored again after a failure.
const AGAIN: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];

/// The answer to a call.
pub(super) type CallAnswer = Result<CallToolResponse, ErrorData>;

/// The tasks of one program. Clones and replicas share the tasks.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    replicas: Arc<dyn Replicas>,
    /// Identifies the program.
    program: Arc<[u8]>,
    places: Arc<Semaphore>,
    patience: Duration,
}

/// A task that this process runs.
struct Running {
    page: Page,
    /// Stops the call, at the request of any replica.
    stop: CancellationToken,
    _running: RunningTask,
    _place: OwnedSemaphorePermit,
}

/// The stored state of a task.
struct Page {
    replicas: Arc<dyn Replicas>,
    name: String,
    created: u64,
}

impl Tasks {
    /// Returns the tasks of `program`, which `replicas` share.
    pub(super) fn new(replicas: Arc<dyn Replicas>, program: &[u8]) -> Self {
        let places = Arc::new(Semaphore::new(MAX_RUNNING));
        Self { replicas, program: program.into(), places, patience: PATIENCE }
    }

    /// Makes `call` of `caller`, and continues a long call as a task.
    pub(super) async fn run<F>(
        &self,
        caller: &str,
        mut requester: Requester,
        call: impl FnOnce(Requester) -> F,
    ) -> CallAnswer
    where
        F: Future<Output = CallAnswer> + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else { return call(requester).await };
        // The request ends with this answer; the task continues.
        let (asked, stop) = (requester.cancel.clone(), CancellationToken::new());
        requester.cancel = stop.clone();
        let mut call = Box::pin(call(requester));
        tokio::select! {
            biased;
            answer = &mut call => return answer,
            () = asked.cancelled() => {
                stop.cancel();
                return call.await;
            }
            () = tokio::time::sleep(self.patience) => {}
        }
        match self.begin(caller, stop.clone(), place).await {
            Ok((task, running)) => {
                tokio::spawn(running.finish(call));
                Ok(CreateTaskResult::new(task).into())
            }
            Err(error) => {
                tracing::warn!("a long call cannot become a task: {error}");
                tokio::select! {
                    biased;
                    answer = &mut call => answer,
                    () = asked.cancelled() => {
                        stop.cancel();
                        call.await
                    }
                }
            }
        }
    }

    /// Writes a new task down.
    async fn begin(
        &self,
        caller: &str,
        stop: CancellationToken,
        place: OwnedSemaphorePermit,
    ) -> io::Result<(Task, Running)> {
        let id = random::name::<{ random::KEY }>()?;
        let name = self.name(caller, &id);
        let running = self.replicas.run(&name, stop.clone()).await?;
        let record = Record::begun();
        self.replicas.store(&name, record.encode()).await?;
        let page = Page { replicas: self.replicas.clone(), name, created: record.created };
        Ok((record.task(&id), Running { page, stop, _running: running, _place: place }))
    }

    /// Returns the storage key of a caller's task, by the id that only this caller knows.
    fn name(&self, caller: &str, id: &str) -> String {
        let program: [u8; 32] = Sha256::digest(&self.program).into();
        let hash = Sha256::new().chain_update("haft task\0").chain_update(program);
        hex(&hash.chain_update(caller).chain_update([0]).chain_update(id).finalize())
    }

    /// Returns the state of the task `id` of `caller`.
    pub(super) async fn get(&self, caller: &str, id: &str) -> Result<GetTaskResult, ErrorData> {
        let name = self.name(caller, id);
        let record = self.load(&name).await?;
        let record = if record.is_older_than(self.replicas.silence()) {
            self.lost_or_ended(&name, record).await?
        } else {
            record
        };
        Ok(GetTaskResult::new(record.detailed(id)))
    }

    /// Returns the record of a task whose last sign of life is old.
    async fn lost_or_ended(&self, name: &str, record: Record) -> Result<Record, ErrorData> {
        if self.replicas.reach(name, false).await.map_err(|error| unreachable(&error))? {
            return Ok(record);
        }
        // The task may have ended meanwhile.
        let record = self.load(name).await?;
        if !record.is_older_than(self.replicas.silence()) {
            return Ok(record);
        }
        let why = "the process that made the call is gone: the outcome is unknown";
        Ok(record.followed_by(State::failed(&ErrorData::internal_error(why, None))))
    }

    /// Requests the replica that runs the task `id` of `caller` to stop it.
    pub(super) async fn cancel(&self, caller: &str, id: &str) -> Result<(), ErrorData> {
        let name = self.name(caller, id);
        if self.load(&name).await?.is_working() {
            self.replicas.reach(&name, true).await.map_err(|error| unreachable(&error))?;
        }
        Ok(())
    }

    /// Handles a client's input for a task, although no task requests input.
    pub(super) async fn update(&self, caller: &str, id: &str) -> Result<(), ErrorData> {
        self.load(&self.name(caller, id)).await?;
        Err(ErrorData::invalid_params("this task has no question", None))
    }

    async fn load(&self, name: &str) -> Result<Record, ErrorData> {
        let state = self.replicas.load(name).await.map_err(|error| unreachable(&error))?;
        state.and_then(|state| Record::decode(&state)).ok_or_else(|| {
            let hours = KEPT.as_secs() / 3600;
            let why = format!("you have no such task; results are stored for {hours} h");
            ErrorData::invalid_params(why, None)
        })
    }
}

impl Running {
    /// Runs the call to its end, and stores the result.
    async fn finish<F: Future<Output = CallAnswer> + Send>(self, mut call: Pin<Box<F>>) {
        // Other replicas see the task as running until its result is stored.
        let Self { page, stop, _running, _place } = self;
        let mut beat = tokio::time::interval(BEAT);
        beat.reset();
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer,
                _ = beat.tick() => {
                    if let Err(error) = page.write(State::Working).await {
                        tracing::debug!("the start of a task is not recorded: {error}");
                    }
                }
            }
        };
        let state = State::ended(answer, stop.is_cancelled(), MAX_ANSWER);
        for pause in AGAIN {
            tokio::time::sleep(pause).await;
            match page.write(state.clone()).await {
                Ok(()) => return,
                Err(error) => tracing::warn!("the end of a task is not recorded: {error}"),
            }
        }
    }
}

impl Page {
    async fn write(&self, state: State) -> io::Result<()> {
        self.replicas.store(&self.name, Record::since(self.created, state).encode()).await
    }
}

fn unreachable(error: &io::Error) -> ErrorData {
    ErrorData::internal_error(format!("the state of the task is not available now: {error}"), None)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock, TaskPayload};

    use super::*;
    use crate::server::replicas::Memory;

    /// Returns two replicas, and a task of `ada` that the first runs.
    async fn begun(shared: &Arc<dyn Replicas>) -> (Tasks, Tasks, String, Running) {
        let [one, two] = [(); 2].map(|()| Tasks::new(shared.clone(), b"program"));
        let place = one.places.clone().try_acquire_owned().unwrap();
        let (task, running) = one.begin("ada", CancellationToken::new(), place).await.unwrap();
        (one, two, task.task_id, running)
    }

    fn answer(text: &str) -> CallToolResponse {
        CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    async fn payload(tasks: &Tasks, id: &str) -> TaskPayload {
        tasks.get("ada", id).await.unwrap().task.payload
    }

    /// RP03: every replica reports a task of another replica, only to the task's caller.
    #[tokio::test]
    async fn a_task_is_told_of_by_every_replica() {
        let shared: Arc<dyn Replicas> = Arc::new(Memory::default());
        let (one, two, id, running) = begun(&shared).await;
        assert_eq!(payload(&two, &id).await, TaskPayload::Working);
        for caller in ["bob", "", "ad"] {
            assert!(two.get(caller, &id).await.is_err() && two.cancel(caller, &id).await.is_err());
        }
        assert!(Tasks::new(shared.clone(), b"other").get("ada", &id).await.is_err());
        running.finish(Box::pin(async { Ok(answer("done")) })).await;
        for replica in [&one, &two] {
            let TaskPayload::Completed { result } = payload(replica, &id).await else { panic!() };
            assert_eq!(result["content"][0]["text"], "done");
        }
        assert!(two.update("ada", &id).await.is_err());
    }

    /// RP03: any replica stops a task.
    #[tokio::test]
    async fn a_task_is_stopped_by_every_replica() {
        let shared: Arc<dyn Replicas> = Arc::new(Memory::default());
        let (_, two, id, running) = begun(&shared).await;
        let stop = running.stop.clone();
        let call = Box::pin(async move {
            stop.cancelled().await;
            Err(ErrorData::internal_error("stopped", None))
        });
        let finishing = tokio::spawn(running.finish(call));
        two.cancel("ada", &id).await.unwrap();
        finishing.await.unwrap();
        assert_eq!(payload(&two, &id).await, TaskPayload::Cancelled);
    }

    /// RP03: the death of a replica during a call is reported, and not before it is certain.
    #[tokio::test]
    async fn a_task_whose_replica_died_is_lost() {
        let shared: Arc<dyn Replicas> = Arc::new(Memory::default());
        let (_, two, id, running) = begun(&shared).await;
        assert_eq!(payload(&two, &id).await, TaskPayload::Working);
        drop(running);
        let TaskPayload::Failed { error } = payload(&two, &id).await else { panic!() };
        assert!(error["message"].as_str().unwrap().contains("the outcome is unknown"), "{error:?}");
    }

    /// RP03: an answer that is too large to store is reported, and no answer is truncated.
    #[test]
    fn an_answer_beyond_the_bound_is_not_kept() {
        let ended =
            |most| Record::since(0, State::ended(Ok(answer("done")), false, most)).detailed("x").payload;
        assert!(matches!(ended(1000), TaskPayload::Completed { .. }));
        let TaskPayload::Failed { error } = ended(10) else { panic!() };
        assert!(error["message"].as_str().unwrap().contains("the call has ended"), "{error:?}");
    }
}
