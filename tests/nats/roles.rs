//! A worker's password gives no access to another worker. The server enforces this by the permissions of the guide;
//! gates enforce the rest.

use serde_json::{Value, json};

use super::lost::Played;
use super::raw::Raw;
use super::setup::Setup;
use super::world::World;
use crate::common::wait::{eventually, eventually_some, within};

/// Subjects to which the user `eu-1` may publish.
const OWN: &[&str] = &[
    "haft.1.inbox.eu-1.gate.token",
    "haft.1.inbox.eu-1.gate.token.t",
    "haft.1.far.digest.beat.eu-1.instance",
    "haft.1.journal.far.eu-1",
    "$KV.haft-claims.eu-1.id",
    "$O.haft-payloads.eu-1.name.0",
    "$JS.API.DIRECT.GET.KV_haft-claims.$KV.haft-claims.eu-1.id",
];

/// Subjects to which it must not publish.
const NOT_TO_SAY: &[&str] = &[
    "haft.1.inbox.us-1.gate.token",
    "haft.1.inbox.us-1.gate.token.t",
    "haft.1.inbox.gate.1",
    "_INBOX.haft.gate.x",
    "_INBOX.haft.worker.us-1.x",
    "haft.1.far.digest.beat.us-1.instance",
    "haft.1.far.digest.call.us-1.instance.tool.us",
    "haft.1.far.digest.ask.us-1.instance",
    "haft.1.far.digest.hello",
    "haft.1.journal.far.us-1",
    "$KV.haft-claims.us-1.id",
    "$KV.haft-claims.id",
    "$O.haft-payloads.us-1.name.0",
    "$O.haft-payloads.C.name",
    "$JS.API.DIRECT.GET.KV_haft-claims.$KV.haft-claims.us-1.id",
    "$JS.API.DIRECT.GET.OBJ_haft-payloads.$O.haft-payloads.us-1.name.0",
    "$JS.API.DIRECT.GET.OBJ_haft-payloads",
    "$JS.API.STREAM.MSG.GET.KV_haft-claims",
    "$JS.API.STREAM.MSG.GET.OBJ_haft-payloads",
    "$JS.API.STREAM.MSG.DELETE.OBJ_haft-payloads",
    "$JS.API.STREAM.PURGE.OBJ_haft-payloads",
    "$JS.API.STREAM.UPDATE.OBJ_haft-payloads",
    "$JS.API.STREAM.DELETE.haft-journal",
    "$JS.API.CONSUMER.CREATE.OBJ_haft-payloads",
    "$JS.API.CONSUMER.CREATE.haft-journal",
    "$JS.ACK.haft-journal.x",
];

/// Subjects to which it must not subscribe.
const NOT_TO_HEAR: &[&str] = &[
    ">",
    "_INBOX.>",
    "_INBOX.haft.gate.>",
    "_INBOX.haft.worker.us-1.>",
    "haft.1.inbox.>",
    "haft.1.*.*.beat.>",
    "haft.1.*.*.call.us-1.>",
    "haft.1.*.*.call.eu-1.>",
    "haft.1.*.*.call.eu-1.*.*.us",
    "haft.1.*.*.ask.us-1.*",
    "haft.1.journal.>",
    "$KV.>",
    "$O.>",
];

/// N20: the permissions of a worker's user: one row for each way to answer, read or forge data of another worker (Y1,
/// Y2, Y3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_the_guide_hold_a_worker_to_its_name() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("us-1", &["--label", "us"]);
    world.gate().await.until_answered("program__far__mark_us", json!({ "mark": "one" })).await;
    let may_say = |subject: &str| Raw::login(&world, "eu-1").may_say(subject);
    for own in OWN {
        assert!(may_say(own), "{own}");
    }
    for foreign in NOT_TO_SAY {
        assert!(!may_say(foreign), "{foreign}");
    }
    for foreign in NOT_TO_HEAR {
        assert!(!Raw::login(&world, "eu-1").hears(foreign), "{foreign}");
    }
}

/// N20: if a worker announces a label that its user does not have, it gets no call for this label, and its tools do
/// not count there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_that_the_server_does_not_let_a_worker_have_is_none() {
    let Some(world) = World::start() else { return };
    let mut worker =
        Played::instead_of_one_that_says(&world, |beat| beat["labels"] = json!(["us", "eu"])).await;
    let gate = world.gate().await;
    let call = gate.spawn("program__far__mark", json!({ "mark": "own" }));
    let request = worker.call().await;
    worker.answer(&request, "here").await;
    assert_eq!(within("its own label counts", call).await.unwrap().content, "here");
    let answer = gate.call("program__far__mark_us", json!({ "mark": "not its own" })).await;
    assert!(answer.is_error && answer.content.contains("no worker labelled `us`"), "{}", answer.content);
}

/// N20: a worker ends if the server forbids its subjects or its name, and its error names the subject (N4).
#[test]
fn a_worker_without_its_subjects_ends() {
    let Some(world) = World::start() else { return };
    for arguments in [["--label", "us"], ["--label", "eu,us"]] {
        let (status, said) = world.worker_that_ends("eu-1", &arguments, &[]);
        assert!(!status.success() && said.contains(".call.eu-1.") && said.contains(".*.us"), "{said}");
        assert!(!said.contains("takes calls"), "{said}");
    }
    let (status, said) = world.worker_that_ends("eu-1", &["--label", "eu"], &["--name", "eu-2"]);
    assert!(!status.success() && said.contains("eu-2"), "{said}");
}

/// N20: data too large for a message are encrypted at the server; the key is in the message alone (Y2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_arguments_cannot_be_read_at_the_server() {
    let Some(world) = World::start() else { return };
    let mut worker = Played::instead_of_one(&world).await;
    let gate = world.gate().await;
    let secret = "the-secret-of-this-call ";
    let _call = gate.spawn("write", json!({ "file_path": "a", "content": secret.repeat(100_000) }));
    let call = worker.call().await;
    assert!(call.payload.is_empty() && call.headers.is_some());
    let (pieces, bytes) = world.stored_pieces().await;
    assert!(bytes.len() > 100_000 * secret.len() && pieces.iter().all(|subject| subject.contains(".eu-1.")));
    let found = bytes.windows(secret.len()).filter(|part| *part == secret.as_bytes()).count();
    assert_eq!(found, 0, "pieces of what the call says are at the server as it says them");
}

/// N20: `haft log` omits and counts a line that a worker sends under another worker's name (Y3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_worker_writes_in_the_journal_of_another() {
    let Some(world) = World::start() else { return };
    let _worker = world.worker("us-1", &["--label", "us"]);
    let gate = world.gate().await;
    gate.until_answered("program__far__mark_us", json!({ "mark": "plain" })).await;
    let line = eventually_some("the line is there", async || {
        let output = world.command(&["log", "--json"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().last().map(str::to_owned)
    })
    .await;
    let mut forged: Value = serde_json::from_str(&line).unwrap();
    (forged["id"], forged["tool"]) = (json!("abcdefabcdef"), json!("forged"));
    let forged = format!("{forged}\n");
    let mut thief = Raw::login(&world, "eu-1");
    thief.say(&format!("PUB haft.1.journal.far.eu-1 {}\r\n{forged}\r\n", forged.len()));
    eventually("it is told", || {
        let output = world.command(&["log"]).output().unwrap();
        let (shown, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(shown.contains("mark=plain") && !shown.contains("forged"), "{shown}");
        said.contains("under another worker's name: 1")
    })
    .await;
}

/// N20: with users without permissions, a gate ignores answers at wrong subjects and takes the right worker's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_whom_was_not_asked_is_none() {
    let Some(world) = World::with(Setup::Open, "") else { return };
    let mut worker = Played::instead_of_one(&world).await;
    let gate = world.gate().await;
    let call = gate.spawn("program__far__mark", json!({ "mark": "one" }));
    let request = worker.call().await;
    let own = request.reply.clone().unwrap();
    let forged =
        json!({ "answer": { "result": { "content": "forged", "is_error": false }, "busy": 0 } }).to_string();
    let (base, token) = own.rsplit_once('.').unwrap();
    let mut thief = Raw::login(&world, "us-1");
    let others = (0..200).map(|number| format!("{base}.{number}"));
    for subject in others.chain([own.replace(".eu-1.", ".us-1."), format!("haft.1.inbox.{token}")]) {
        thief.say(&format!("PUB {subject} {}\r\n{forged}\r\n", forged.len()));
    }
    assert!(thief.may_say("x"), "all of it has come to the server, before the answer");
    worker.answer(&request, "true").await;
    assert_eq!(within("it is answered", call).await.unwrap().content, "true");
}
