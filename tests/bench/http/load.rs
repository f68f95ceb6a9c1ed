//! Many clients on one thread; each calls again after each answer.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use serde_json::Value;

use crate::client::Client;

/// Longer than any answer takes.
const HANG: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Time limit of the calls: some servers keep a client waiting for a part of each answer.
const LIMIT: Duration = Duration::from_secs(3);

/// Events per wait.
const EVENTS: usize = 256;

/// The result of a load.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) answered: usize,
    /// Answers that are errors.
    pub(crate) wrong: usize,
    /// One of the errors.
    pub(crate) example: Option<String>,
    pub(crate) slowest: Duration,
}

/// Makes `calls` calls together, or as many as the time limit permits.
pub(crate) fn run(clients: Vec<Client>, echo: &Value, calls: usize) -> Done {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut clients: Vec<(Client, Instant)> =
        clients.into_iter().map(|client| (client, Instant::now())).collect();
    for (index, (client, asked)) in clients.iter_mut().enumerate() {
        client.stream.set_nonblocking(true).unwrap();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poll, &client.stream, data, epoll::EventFlags::IN).unwrap();
        client.ask("tools/call", echo);
        *asked = Instant::now();
    }
    let (mut done, mut asked, begun) = (Done::default(), clients.len(), Instant::now());
    while done.answered < asked {
        let mut events = Vec::with_capacity(EVENTS);
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&HANG)).unwrap();
        assert!(!events.is_empty(), "{} calls are not answered", asked - done.answered);
        for event in &events {
            let (client, since) = &mut clients[usize::try_from(event.data.u64()).unwrap()];
            let Some(answer) = client.receive() else { continue };
            done.count(&answer, since.elapsed());
            if asked < calls && begun.elapsed() < LIMIT {
                asked += 1;
                client.ask("tools/call", echo);
                *since = Instant::now();
            }
        }
    }
    done
}

impl Done {
    fn count(&mut self, answer: &str, took: Duration) {
        let is_right = answer.contains("\"result\":{") && !answer.contains("\"isError\":true");
        self.answered += 1;
        self.wrong += usize::from(!is_right);
        if !is_right {
            self.example.get_or_insert_with(|| answer.to_owned());
        }
        self.slowest = self.slowest.max(took);
    }
}
