//! Calls that outlive a request of a stateless client. A call that asks the client is answered with the questions,
//! and goes on with the client's next request; it stays in the memory of this process. A long call becomes a task
//! (MCP's extension `io.modelcontextprotocol/tasks`), if the client declares support: the client gets a task id
//! instead of an answer, and queries any replica for the state of the call. The processes of one machine are replicas
//! too.

mod record;

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CreateTaskResult, ErrorData, GetTaskResult, InputRequiredResult, InputResponses, ServerResult, Task,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::record::{Record, State};
use super::board::Board;
use super::conversation::{Answer, BUSY, Requester};
use super::questions::{Fingerprint, LIFE, UnusableAnswer};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::replicas::{KEPT, Replicas, RunningTask};
use haft_core::sync::Lock;

/// The duration of a call before it becomes a task: most calls are shorter, and no client has a shorter time
/// limit.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum number of concurrent tasks of this process. Further calls do not become tasks.
const MAX_RUNNING: usize = 256;

/// Interval at which the progress of a task is recorded.
const PROGRESS: Duration = Duration::from_secs(1);

/// Intervals of [`PROGRESS`] after which it is recorded that a task without progress runs.
const BEAT: u32 = 15;

/// Interval at which a client should poll.
const POLL: Duration = Duration::from_secs(1);

/// Maximum size in bytes of a stored answer: several times the largest one of a plugin.
const MAX_ANSWER: usize = 64 << 20;

/// The waits before the end of a task is stored again after a failure.
const AGAIN: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];

/// Maximum wait for a replica to record the client's answers to the questions of a task.
const UPDATED: Duration = Duration::from_secs(5);

/// Interval at which that record is read.
const READ: Duration = Duration::from_millis(50);

/// The beginning of the state of every call that waits. No signed state contains its last character.
const STATE: &str = "call.";

/// Time for a call to end after its questions have expired.
const MARGIN: Duration = Duration::from_mins(1);

/// Maximum number of calls that wait.
const MAX_KEPT: usize = 256;

/// Maximum number of these calls of one caller, if callers are identified: no caller takes the places of all others.
const MAX_OF_CALLER: usize = MAX_KEPT / 8;

/// A call that may outlive the request of its client.
pub(super) struct Call {
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
    board: Arc<Board>,
    /// Stops the call.
    stop: CancellationToken,
}

/// The request that a client makes, or continues.
pub(super) struct Turn {
    /// The caller, if callers are identified.
    pub(super) known: Option<Arc<str>>,
    /// Identifies the call and its caller.
    pub(super) call: Fingerprint,
    /// The state that haft gave with its questions, if the client continues a call.
    pub(super) state: Option<String>,
    pub(super) answers: InputResponses,
    /// The time after which the call becomes a task; `None`: never.
    pub(super) task_after: Option<Duration>,
}

/// A message to the process that runs a task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Cancel,
    Answers(InputResponses),
}

/// The tasks of one program. Clones and replicas share the tasks.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    replicas: Arc<dyn Replicas>,
    /// Identifies the program.
    program: Arc<[u8]>,
    places: Arc<Semaphore>,
    kept: KeptCalls,
}

/// A task that this process runs.
struct Running {
    page: Page,
    _registered: RunningTask,
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
        let kept = KeptCalls::default();
        Self { replicas, program: program.into(), places, kept }
    }

    /// Makes a call of `caller`, or continues the one that waits for the answers in `turn`.
    pub(super) async fn run<F>(
        &self,
        caller: &str,
        turn: Turn,
        mut requester: Requester,
        call: impl FnOnce(Requester) -> F,
    ) -> Answer
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let asked = requester.cancel.clone();
        let kept = turn.state.as_deref().filter(|state| state.starts_with(STATE));
        let call = if let Some(state) = kept {
            self.kept.take(state, &turn.call, turn.answers)?
        } else {
            // With a signed state the answer is to haft's own question, and to no server's.
            let early = if turn.state.is_none() { turn.answers } else { InputResponses::new() };
            let (board, stop) = (Arc::new(Board::with_answers(early)), CancellationToken::new());
            // The request ends with its answer; the call may continue.
            requester.cancel = stop.clone();
            requester.board = Some(board.clone());
            Call { future: Box::pin(call(requester)), board, stop }
        };
        self.follow(caller, (turn.known, turn.call), call, (asked, turn.task_after)).await
    }

    /// Returns the answer to a call, its questions, or the task that it has become.
    async fn follow(
        &self,
        caller: &str,
        (known, key): (Option<Arc<str>>, Fingerprint),
        mut call: Call,
        (asked, mut task_after): (CancellationToken, Option<Duration>),
    ) -> Answer {
        let patience = tokio::time::sleep(task_after.unwrap_or_default());
        tokio::pin!(patience);
        loop {
            tokio::select! {
                biased;
                answer = &mut call.future => return answer,
                () = asked.cancelled() => {
                    call.stop.cancel();
                    return call.future.await;
                }
                () = call.board.asked() => return self.kept.keep(known, key, call),
                () = &mut patience, if task_after.is_some() => {}
            }
            match self.begin(caller, call.board.clone(), call.stop.clone()).await {
                Ok((task, running)) => {
                    tokio::spawn(running.finish(call));
                    return Ok(ServerResult::CreateTaskResult(CreateTaskResult::new(task)));
                }
                Err(error) => tracing::warn!("a long call cannot become a task: {error}"),
            }
            task_after = None;
        }
    }

    /// Writes a new task down.
    async fn begin(
        &self,
        caller: &str,
        board: Arc<Board>,
        stop: CancellationToken,
    ) -> io::Result<(Task, Running)> {
        let place = self.places.clone().try_acquire_owned().map_err(io::Error::other)?;
        let id = random::name::<{ random::KEY }>()?;
        let name = self.name(caller, &id);
        let inbox = move |message: &[u8]| match serde_json::from_slice(message) {
            Ok(Message::Cancel) => stop.cancel(),
            Ok(Message::Answers(answers)) => board.answer(answers),
            Err(error) => tracing::warn!("a message to a task cannot be read: {error}"),
        };
        let running = self.replicas.run(&name, Box::new(inbox)).await?;
        let record = Record::since(record::now(), State::Working, None);
        self.replicas.store(&name, record.encode()).await?;
        let page = Page { replicas: self.replicas.clone(), name, created: record.created };
        Ok((record.task(&id), Running { page, _registered: running, _place: place }))
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
        if self.replicas.reach(name, &[]).await.map_err(|error| unreachable(&error))? {
            return Ok(record);
        }
        // The task may have ended meanwhile.
        let record = self.load(name).await?;
        if !record.is_older_than(self.replicas.silence()) {
            return Ok(record);
        }
        let why = "the process that made the call is gone: the outcome is unknown";
        Ok(Record::since(record.created, State::failed(&ErrorData::internal_error(why, None)), None))
    }

    /// Requests the replica that runs the task `id` of `caller` to stop it.
    pub(super) async fn cancel(&self, caller: &str, id: &str) -> Result<(), ErrorData> {
        let name = self.name(caller, id);
        if self.load(&name).await?.is_working() {
            self.send(&name, &Message::Cancel).await?;
        }
        Ok(())
    }

    /// Answers questions of the task `id` of `caller`. Returns when the task has recorded the answers. Answers to other
    /// questions have no effect.
    pub(super) async fn update(
        &self,
        caller: &str,
        id: &str,
        answers: InputResponses,
    ) -> Result<(), ErrorData> {
        let name = self.name(caller, id);
        let keys: Vec<String> = answers.keys().cloned().collect();
        let is_open = |record: &Record| keys.iter().any(|key| record.asks(key));
        if !is_open(&self.load(&name).await?) {
            return Ok(());
        }
        self.send(&name, &Message::Answers(answers)).await?;
        let recorded = async {
            while is_open(&self.load(&name).await?) {
                tokio::time::sleep(READ).await;
            }
            Ok(())
        };
        // An answer of another form leaves its question open.
        tokio::time::timeout(UPDATED, recorded).await.unwrap_or(Ok(()))
    }

    async fn send(&self, name: &str, message: &Message) -> Result<(), ErrorData> {
        let message = serde_json::to_vec(message).unwrap_or_default();
        self.replicas.reach(name, &message).await.map(drop).map_err(|error| unreachable(&error))
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
    /// Runs the call to its end, and stores its progress, its questions and its result.
    async fn finish(self, call: Call) {
        // Other replicas see the task as running until its result is stored.
        let Self { page, _registered, _place } = self;
        let Call { mut future, board, stop } = call;
        let mut tick = tokio::time::interval(PROGRESS);
        let (mut told, mut quiet) = (None, 0);
        let answer = loop {
            let changed = board.changed();
            tokio::select! {
                answer = &mut future => break answer,
                () = changed => {}
                _ = tick.tick() => {
                    quiet += 1;
                    if board.progress() == told && quiet < BEAT {
                        continue;
                    }
                }
            }
            (told, quiet) = (board.progress(), 0);
            if let Err(error) = page.write(State::of(&board), told.clone()).await {
                tracing::debug!("the state of a task is not recorded: {error}");
            }
        };
        let state = State::ended(answer, stop.is_cancelled(), MAX_ANSWER);
        for pause in AGAIN {
            tokio::time::sleep(pause).await;
            match page.write(state.clone(), None).await {
                Ok(()) => return,
                Err(error) => tracing::warn!("the end of a task is not recorded: {error}"),
            }
        }
    }
}

impl Page {
    async fn write(&self, state: State, progress: Option<String>) -> io::Result<()> {
        let record = Record::since(self.created, state, progress);
        self.replicas.store(&self.name, record.encode()).await
    }
}

fn unreachable(error: &io::Error) -> ErrorData {
    ErrorData::internal_error(format!("the state of the task is not available now: {error}"), None)
}

/// The waiting calls, by the state that their clients have. Clones share the calls.
#[derive(Clone, Debug, Default)]
struct KeptCalls(Arc<Lock<HashMap<String, KeptCall>>>);

struct KeptCall {
    /// The caller, if callers are identified.
    caller: Option<Arc<str>>,
    key: Fingerprint,
    since: Instant,
    call: Call,
}

impl std::fmt::Debug for KeptCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptCall").field("since", &self.since).finish_non_exhaustive()
    }
}

impl KeptCalls {
    /// Keeps a call of `caller` with open questions, and returns the questions.
    fn keep(&self, caller: Option<Arc<str>>, key: Fingerprint, call: Call) -> Answer {
        let Call { future, board, stop } = call;
        let questions = board.open();
        let internal = |error: io::Error| ErrorData::internal_error(error.to_string(), None);
        let state = format!("{STATE}{}", random::name::<{ random::KEY }>().map_err(internal)?);
        let mut kept = self.0.lock();
        for (_, expired) in kept.extract_if(|_, call| call.since.elapsed() > LIFE + MARGIN) {
            expired.call.stop.cancel();
        }
        let of_caller = || kept.values().filter(|own| own.caller == caller).count();
        if kept.len() >= MAX_KEPT || (caller.is_some() && of_caller() >= MAX_OF_CALLER) {
            stop.cancel();
            return Err(ErrorData::new(BUSY, "too many calls wait for answers: call again later", None));
        }
        // The call goes on by itself: its server may give up, and its time limits count.
        let running = tokio::spawn(future);
        let future = async move {
            running.await.unwrap_or_else(|error| Err(ErrorData::internal_error(error.to_string(), None)))
        };
        let call = Call { future: Box::pin(future), board, stop };
        kept.insert(state.clone(), KeptCall { caller, key, since: Instant::now(), call });
        Ok(ServerResult::InputRequiredResult(InputRequiredResult::new(Some(questions), Some(state))))
    }

    /// Returns the call that waits with `state`, and gives it the answers.
    ///
    /// # Errors
    /// No call of this caller, tool and arguments has the state, or the state was used.
    fn take(&self, state: &str, key: &Fingerprint, answers: InputResponses) -> Result<Call, ErrorData> {
        let mut kept = self.0.lock();
        let is_own = kept.get(state).is_some_and(|call| call.key == *key);
        let call = is_own.then(|| kept.remove(state)).flatten();
        let foreign = || ErrorData::invalid_params(UnusableAnswer::Foreign.to_string(), None);
        let call = call.ok_or_else(foreign)?.call;
        drop(kept);
        call.board.answer(answers);
        Ok(call)
    }
}

#[cfg(test)]
mod tests;
