//! Calls that a worker reports as unknown: lost on the way, or overtaken by the status request. The test plays the
//! worker.

use std::sync::mpsc::{Sender, TryRecvError, channel};

use async_nats::jetstream::kv;
use async_nats::{Client, ConnectOptions, Message};
use haft::call::ToolResult;
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use super::raw::Raw;
use super::world::World;
use crate::common::wait::{until, within};

/// The id of a call.
fn id_of(message: &Message) -> String {
    let request: Value = serde_json::from_slice(&message.payload).unwrap();
    request["id"].as_str().unwrap().to_owned()
}

/// A worker that the test plays, with the tools of a former worker.
pub(crate) struct Played {
    client: Client,
    calls: tokio_stream::adapters::Merge<async_nats::Subscriber, async_nats::Subscriber>,
    asks: async_nats::Subscriber,
    tools: bytes::Bytes,
    claims: kv::Store,
    /// Heartbeats continue until this field is dropped.
    _lives: Sender<()>,
}

impl Played {
    /// Replaces a worker `eu-1`, which ends.
    pub(crate) async fn instead_of_one(world: &World) -> Self {
        Self::instead_of_one_that_says(world, |_| ()).await
    }

    /// Replaces a worker `eu-1` with a heartbeat that `change` has modified.
    pub(crate) async fn instead_of_one_that_says(world: &World, change: impl FnOnce(&mut Value)) -> Self {
        let mut worker = world.worker("eu-1", &["--label", "eu"]);
        let (beats, beat) = Raw::login(world, "gate").first("haft.1.*.*.beat.>");
        let mut beat: Value = serde_json::from_str(&beat).unwrap();
        change(&mut beat);
        let beat = beat.to_string();
        let (calls, asks) = (beats.replace(".beat.", ".call."), beats.replace(".beat.", ".ask."));
        let gate = ConnectOptions::with_user_and_password("gate".into(), "gate-password".into());
        let gate = gate.custom_inbox_prefix("haft.1.inbox.eu-1.test").connect(world.url()).await.unwrap();
        let tools = gate.request(asks.clone(), "\"tools\"".into()).await.unwrap().payload;
        worker.kill();
        let client = ConnectOptions::with_user_and_password("eu-1".into(), "eu-1-password".into());
        let client =
            client.custom_inbox_prefix("_INBOX.haft.worker.eu-1").connect(world.url()).await.unwrap();
        let claims = async_nats::jetstream::new(client.clone()).get_key_value("haft-claims").await.unwrap();
        let subscribe = async |subject: String| client.subscribe(subject).await.unwrap();
        let calls = subscribe(format!("{calls}.*.eu")).await.merge(subscribe(format!("{calls}.*._")).await);
        let asks = subscribe(asks).await;
        let (lives, over) = channel();
        let (own, runtime) = (client.clone(), tokio::runtime::Handle::current());
        std::thread::spawn(move || {
            until("the test is over", || {
                let _ = runtime.block_on(own.publish(beats.clone(), beat.clone().into()));
                over.try_recv() == Err(TryRecvError::Disconnected)
            });
        });
        Self { client, calls, asks, tools, claims, _lives: lives }
    }

    async fn say(&self, message: &Message, said: Value) {
        self.client.publish(message.reply.clone().unwrap(), said.to_string().into()).await.unwrap();
    }

    /// The next call; other requests get their usual answers.
    pub(crate) async fn call(&mut self) -> Message {
        within("a call comes", self.next_call()).await
    }

    async fn next_call(&mut self) -> Message {
        loop {
            tokio::select! {
                // An empty message asks whether the worker has a place.
                call = self.calls.next() => match call.unwrap() {
                    asked if asked.payload.is_empty() && asked.headers.is_none() => self.say(&asked, json!("full")).await,
                    call => return call,
                },
                ask = self.asks.next() => {
                    let reply = ask.unwrap().reply.unwrap();
                    self.client.publish(reply, self.tools.clone()).await.unwrap();
                }
            }
        }
    }

    /// The status request for the call `id`.
    async fn status(&mut self, id: &str) -> Message {
        let wanted = json!({ "status": id });
        loop {
            let ask = within("it is asked after", self.asks.next()).await.unwrap();
            if serde_json::from_slice::<Value>(&ask.payload).unwrap() == wanted {
                return ask;
            }
        }
    }

    /// Claims the call `id`, as a worker that runs it.
    async fn claim(&self, id: &str) {
        let claim = json!({ "state": "running", "by": "eu-1", "tool": "mark", "time": 1 });
        self.claims.create(format!("eu-1.{id}"), claim.to_string().into()).await.unwrap();
    }

    pub(crate) async fn answer(&self, call: &Message, text: &str) {
        self.say(call, json!({ "answer": { "result": ToolResult::success(text), "busy": 0 } })).await;
    }
}

/// N11: a gate waits for a call that its worker does not know yet because the status request was faster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_behind_the_question_after_it_is_waited_for() {
    let Some(world) = World::start() else { return };
    let mut worker = Played::instead_of_one(&world).await;
    let call = world.gate().await.spawn("program__far__mark", json!({ "mark": "late" }));
    let request = worker.call().await;
    let id = id_of(&request);
    let question = worker.status(&id).await;
    worker.claim(&id).await;
    worker.say(&question, json!("unknown")).await;
    // A second status request: the gate still waits for the answer.
    worker.status(&id).await;
    worker.answer(&request, "here it is").await;
    assert_eq!(within("it is answered", call).await.unwrap().content, "here it is");
}

/// N11: if a worker has claimed a call and does not know it any more, the gate reports the outcome as unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_call_that_its_worker_forgot_is_told() {
    let Some(world) = World::start() else { return };
    let mut worker = Played::instead_of_one(&world).await;
    let mut call = world.gate().await.spawn("program__far__mark", json!({ "mark": "forgotten" }));
    let id = id_of(&worker.call().await);
    worker.claim(&id).await;
    let told = async {
        loop {
            tokio::select! {
                answer = &mut call => return answer.unwrap(),
                question = worker.status(&id) => worker.say(&question, json!("unknown")).await,
            }
        }
    };
    let answer = within("it is told", told).await;
    assert!(answer.is_error && answer.content.contains("the outcome is unknown"), "{}", answer.content);
}

/// N11: a gate gives up a call that its worker never got, so that the call never runs, and makes a new call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_lost_is_given_up_and_made_anew() {
    let Some(world) = World::start() else { return };
    let mut worker = Played::instead_of_one(&world).await;
    let call = world.gate().await.spawn("program__far__mark", json!({ "mark": "lost" }));
    let lost = id_of(&worker.call().await);
    let question = worker.status(&lost).await;
    worker.say(&question, json!("unknown")).await;
    let again = worker.call().await;
    assert_ne!(id_of(&again), lost);
    let claim = worker.claims.get(format!("eu-1.{lost}")).await.unwrap().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&claim).unwrap()["state"], "given_up");
    worker.answer(&again, "the second").await;
    assert_eq!(within("it is answered", call).await.unwrap().content, "the second");
}
