//! The subscriptions of a worker: calls, requests and greetings of gates, for each program that it runs calls of.

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::{Message, Subscriber};
use haft_manifest::Label;
use tokio::task::JoinSet;
use tokio_stream::{StreamExt, StreamMap};

use super::Worker;
use crate::subjects::{ANY, Subjects};
use crate::{LinkError, unusable};

/// The subscriptions of a worker.
#[derive(Default)]
pub(super) struct Listening {
    /// Calls, by prefix and subject.
    calls: StreamMap<(String, String), Subscriber>,
    /// The tasks for all other messages, by prefix; they end on drop.
    others: HashMap<String, JoinSet<()>>,
}

impl Listening {
    /// Subscribes for the programs that `worker` runs calls of now, and unsubscribes from others.
    pub(super) async fn follow(&mut self, worker: &Arc<Worker>) -> Result<(), LinkError> {
        let bases = worker.readings.bases();
        let is_over = |base: &str| !bases.iter().any(|subjects| subjects.base() == base);
        self.others.retain(|base, _| !is_over(base));
        let over: Vec<_> = self.calls.keys().filter(|(base, _)| is_over(base)).cloned().collect();
        for key in &over {
            self.calls.remove(key);
        }
        for subjects in bases {
            if !self.others.contains_key(subjects.base()) {
                self.add(worker, &subjects).await?;
            }
        }
        Ok(())
    }

    async fn add(&mut self, worker: &Arc<Worker>, subjects: &Subjects) -> Result<(), LinkError> {
        let subscribe = async |subject: String| {
            let what = "a worker cannot listen";
            worker.link.client.subscribe(subject).await.map_err(|error| unusable(what, &error))
        };
        for label in worker.settings.labels.iter().map(Label::as_str).chain([ANY]) {
            let calls = subscribe(subjects.call(&worker.id, "*", label)).await?;
            self.calls.insert((subjects.base().to_owned(), label.to_owned()), calls);
        }
        let (asks, hellos) = (subscribe(subjects.ask(&worker.id)).await?, subscribe(subjects.hello()).await?);
        let mut others = JoinSet::new();
        others.spawn(worker.clone().answer_asks(asks));
        others.spawn(worker.clone().hear(hellos));
        self.others.insert(subjects.base().to_owned(), others);
        Ok(())
    }

    /// Returns the next call. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Message> {
        self.calls.next().await.map(|(_, message)| message)
    }

    /// Unsubscribes from calls; messages already under way still arrive.
    pub(super) async fn end(&mut self) {
        for calls in self.calls.values_mut() {
            let _ = calls.unsubscribe().await;
        }
    }
}
