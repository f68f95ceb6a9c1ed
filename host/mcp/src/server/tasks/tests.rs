use rmcp::model::{
    CallToolResult, ContentBlock, CustomResult, ElicitRequestParams, ElicitationAction, TaskPayload,
};
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::server::replicas::Memory;

const KEY: Fingerprint = [7; 32];

/// The answer to a call comes when `end` is used.
fn call() -> (Call, oneshot::Sender<Answer>) {
    let (end, answer) = oneshot::channel();
    let (board, stop) = (Arc::new(Board::default()), CancellationToken::new());
    let stopped = stop.clone();
    let future = Box::pin(async move {
        tokio::select! {
            answer = answer => answer.unwrap(),
            () = stopped.cancelled() => Err(ErrorData::internal_error("stopped", None)),
        }
    });
    (Call { future, board, stop }, end)
}

/// Returns two replicas, and a task of `ada` that the first runs.
async fn begun(shared: &Arc<dyn Replicas>, call: &Call) -> (Tasks, Tasks, String, Running) {
    let [one, two] = [(); 2].map(|()| Tasks::new(shared.clone(), b"program"));
    let (task, running) = one.begin("ada", call.board.clone(), call.stop.clone()).await.unwrap();
    (one, two, task.task_id, running)
}

fn answer(text: &str) -> ServerResult {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

async fn payload(tasks: &Tasks, id: &str) -> TaskPayload {
    tasks.get("ada", id).await.unwrap().task.payload
}

fn shared() -> Arc<dyn Replicas> {
    Arc::new(Memory::default())
}

/// RP03: every replica reports a task of another replica, only to the task's caller.
#[tokio::test]
async fn a_task_is_told_of_by_every_replica() {
    let (shared, (call, end)) = (shared(), call());
    let (one, two, id, running) = begun(&shared, &call).await;
    assert_eq!(payload(&two, &id).await, TaskPayload::Working);
    for caller in ["bob", "", "ad"] {
        assert!(two.get(caller, &id).await.is_err() && two.cancel(caller, &id).await.is_err());
    }
    assert!(Tasks::new(shared.clone(), b"other").get("ada", &id).await.is_err());
    end.send(Ok(answer("done"))).unwrap();
    running.finish(call).await;
    for replica in [&one, &two] {
        let TaskPayload::Completed { result } = payload(replica, &id).await else { panic!() };
        assert_eq!(result["content"][0]["text"], "done");
    }
}

/// RP03: any replica stops a task.
#[tokio::test]
async fn a_task_is_stopped_by_every_replica() {
    let (shared, (call, _end)) = (shared(), call());
    let (_, two, id, running) = begun(&shared, &call).await;
    let finishing = tokio::spawn(running.finish(call));
    two.cancel("ada", &id).await.unwrap();
    finishing.await.unwrap();
    assert_eq!(payload(&two, &id).await, TaskPayload::Cancelled);
}

/// RP03: the death of a replica during a call is reported, and not before it is certain.
#[tokio::test]
async fn a_task_whose_replica_died_is_lost() {
    let (shared, (call, _end)) = (shared(), call());
    let (_, two, id, running) = begun(&shared, &call).await;
    assert_eq!(payload(&two, &id).await, TaskPayload::Working);
    drop((running, call));
    let TaskPayload::Failed { error } = payload(&two, &id).await else { panic!() };
    assert!(error["message"].as_str().unwrap().contains("the outcome is unknown"), "{error:?}");
}

fn form(message: &str) -> ElicitRequestParams {
    serde_json::from_value(json!({
        "message": message, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }))
    .unwrap()
}

fn accepted(name: &str) -> serde_json::Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// RP03: a task has its questions and its progress, and any replica passes on the answers.
#[tokio::test]
async fn a_task_asks_its_client() {
    let (shared, (call, end)) = (shared(), call());
    let (_, two, id, running) = begun(&shared, &call).await;
    let board = call.board.clone();
    let finishing = tokio::spawn(running.finish(call));
    let asking = tokio::spawn({
        let board = board.clone();
        async move { tokio::join!(board.ask(Some("a"), form("A?")), board.ask(Some("b"), form("B?"))) }
    });
    board.set_progress("half");
    board.asked().await;
    let open = async |keys: &[&str]| loop {
        let task = two.get("ada", &id).await.unwrap().task;
        match task.payload {
            TaskPayload::InputRequired { input_requests } if input_requests.keys().eq(keys) => {
                break task.task.status_message;
            }
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(open(&["a", "b"]).await.as_deref(), Some("half"));
    two.update("ada", &id, [("a".into(), accepted("Ada")), ("other".into(), json!(1))].into()).await.unwrap();
    open(&["b"]).await;
    two.update("ada", &id, [("b".into(), json!({"action": "decline"}))].into()).await.unwrap();
    assert_eq!(payload(&two, &id).await, TaskPayload::Working);
    let (a, b) = asking.await.unwrap();
    assert_eq!(
        (a.unwrap().content.unwrap()["name"].clone(), b.unwrap().action),
        (json!("Ada"), ElicitationAction::Decline)
    );
    end.send(Ok(answer("done"))).unwrap();
    finishing.await.unwrap();
    assert!(matches!(payload(&two, &id).await, TaskPayload::Completed { .. }));
}

/// A call with a question is answered with it, and goes on once with the answer: for the same call alone.
#[tokio::test]
async fn a_call_goes_on_with_its_answer() {
    let tasks = Tasks::new(shared(), b"program");
    let ((call, end), asked) = (call(), CancellationToken::new());
    let board = call.board.clone();
    let asking = tokio::spawn(async move { board.ask(Some("name"), form("Who?")).await });
    call.board.asked().await;
    let required = tasks.follow("ada", (None, KEY), call, (asked.clone(), None)).await.unwrap();
    let ServerResult::InputRequiredResult(required) = required else { panic!("{required:?}") };
    assert!(required.input_requests.unwrap().contains_key("name"));
    let state = required.request_state.unwrap();
    let answers = || InputResponses::from([("name".to_owned(), accepted("Ada"))]);
    assert!(state.starts_with(STATE) && tasks.kept.take(&state, &[8; 32], answers()).is_err());
    let call = tasks.kept.take(&state, &KEY, answers()).unwrap();
    assert!(tasks.kept.take(&state, &KEY, answers()).is_err(), "it was used");
    assert_eq!(asking.await.unwrap().unwrap().content.unwrap()["name"], "Ada");
    end.send(Ok(answer("done"))).unwrap();
    let answer = tasks.follow("ada", (None, KEY), call, (asked, None)).await.unwrap();
    assert!(matches!(answer, ServerResult::CallToolResult(_)));
}

/// An identified caller has an eighth of the places, and others have the rest. A caller has a place again after an
/// answer.
#[tokio::test]
async fn no_caller_takes_the_places_of_others() {
    let (kept, mut ends) = (KeptCalls::default(), Vec::new());
    let mut keep = |caller: &str| {
        let (call, end) = call();
        ends.push(end);
        kept.keep((!caller.is_empty()).then(|| caller.into()), KEY, call)
    };
    let first = keep("ada").unwrap();
    for _ in 1..MAX_OF_CALLER {
        keep("ada").unwrap();
    }
    let refused = keep("ada").unwrap_err();
    assert!(refused.message.contains("too many calls wait"), "{refused:?}");
    keep("bob").unwrap();
    for _ in 0..=MAX_OF_CALLER {
        keep("").unwrap();
    }
    let ServerResult::InputRequiredResult(first) = first else { panic!("{first:?}") };
    kept.take(&first.request_state.unwrap(), &KEY, InputResponses::new()).unwrap();
    keep("ada").unwrap();
}

/// A question that its server has withdrawn is not asked.
#[tokio::test]
async fn a_question_that_nobody_waits_for_is_not_open() {
    let board = Board::default();
    let mut asking = Box::pin(board.ask(Some("a"), form("A?")));
    tokio::select! {
        biased;
        _ = &mut asking => panic!("nobody has answered"),
        () = board.asked() => {}
    }
    assert_eq!(board.open().len(), 1);
    drop(asking);
    assert!(board.open().is_empty());
}

fn ended(answer: serde_json::Value, is_cancelled: bool) -> TaskPayload {
    let state = State::ended(Ok(ServerResult::CustomResult(CustomResult(answer))), is_cancelled, 1000);
    let record = Record::decode(&Record::since(0, state, None).encode()).unwrap();
    record.detailed("x").payload
}

/// A task has its server's answer unmodified, with fields and blocks of later revisions.
#[test]
fn an_answer_of_another_form_is_kept_whole() {
    for answer in [
        json!({"content": [{"type": "hologram", "data": "x"}], "more": 1}),
        json!({"content": [{"type": "resource_link", "uri": "a://b"}]}),
        json!({}),
    ] {
        let TaskPayload::Completed { result } = ended(answer.clone(), false) else { panic!("{answer}") };
        assert_eq!(json!(result), answer);
    }
    let refused = json!({"content": [], "isError": true});
    assert!(matches!(ended(refused, true), TaskPayload::Cancelled));
    assert!(matches!(ended(json!({"content": []}), true), TaskPayload::Completed { .. }));
    let TaskPayload::Failed { error } = ended(json!(1), false) else { panic!() };
    assert!(error["message"].as_str().unwrap().contains("the call has ended"), "{error:?}");
}

/// RP03: an answer that is too large to store is reported, and no answer is truncated.
#[test]
fn an_answer_beyond_the_bound_is_not_kept() {
    let ended =
        |most| Record::since(0, State::ended(Ok(answer("done")), false, most), None).detailed("x").payload;
    assert!(matches!(ended(1000), TaskPayload::Completed { .. }));
    let TaskPayload::Failed { error } = ended(10) else { panic!() };
    assert!(error["message"].as_str().unwrap().contains("the call has ended"), "{error:?}");
}
