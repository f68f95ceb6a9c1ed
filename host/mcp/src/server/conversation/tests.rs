use super::*;

fn request(id: i64) -> JsonRpcRequest<ClientRequest> {
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).unwrap()
}

#[tokio::test]
async fn waiting_ends_with_the_last_call() {
    let calls = RunningCalls::default();
    calls.wait_until_idle(Duration::from_millis(50)).await;
    let (first, second) = (calls.running.token(), calls.running.token());
    drop(first);
    let waiting = tokio::spawn({
        let calls = calls.clone();
        async move { calls.wait_until_idle(Duration::from_mins(1)).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(second);
    waiting.await.unwrap();
}

#[tokio::test]
async fn waiting_has_an_end() {
    let calls = RunningCalls::default();
    let _call = calls.running.token();
    calls.wait_until_idle(Duration::from_millis(50)).await;
}

/// S15: a client with too many open requests gets an error. A cancelled request is stopped and no longer
/// counts.
#[test]
fn requests_under_way_are_bounded() {
    let conversation = Arc::<Conversation>::default();
    let begin = |id, bytes| conversation.begin(&request(id), bytes);
    let running: Vec<_> = (0..i64::try_from(MAX_RUNNING).unwrap()).map(|id| begin(id, 0).unwrap()).collect();
    let refused = |id, bytes| begin(id, bytes).err().map(|error| error.code);
    assert_eq!((refused(1000, 0), refused(7, 0)), (Some(BUSY), Some(ErrorCode::INVALID_REQUEST)));
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    let said = conversation.take(serde_json::from_value(cancelled).unwrap());
    assert!(matches!(said, Some(Said::TakenBack(3))) && running[3].cancel.is_cancelled());
    // Another request may reuse the id, and continues after the first one ends.
    let again = begin(3, 0).unwrap();
    assert!(again.claim_answer() && !running[3].claim_answer() && running[4].claim_answer());
    drop(running);
    assert!(again.claim_answer());
    // The client has read the answer before haft forgets the request.
    let after = begin(3, 0).unwrap();
    drop(again);
    assert!(after.claim_answer());
    drop(after);
    let _large = begin(1, MAX_BYTES + 1).unwrap();
    assert_eq!(refused(2, 1), Some(BUSY));
}
