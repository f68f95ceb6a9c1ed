//! The network of a child that is granted single hosts. The child is in a network namespace with a loopback interface
//! alone. Its watcher asks here, outside of the namespace, for every connection that leaves it; the connected socket
//! takes the place of the child's. What the watcher does not ask for stays in the namespace, and reaches nothing.
//!
//! Names are answered on sockets that the helper opened in the namespace, at the addresses of the system's name
//! servers. A name leads to the addresses that it was answered with.

mod connect;
mod judge;
pub(super) mod message;
mod names;
mod record;
pub(super) mod secrets;
mod traffic;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use self::judge::Judge;
use self::message::{Reply, Request};
pub(super) use self::record::Record;
pub use self::record::{Bytes, Connection};
use self::secrets::Relay;
use self::traffic::Connections;
use super::policy::Policy;
use super::refusal::{MAX_REFUSALS, Refusal};
use super::wire::{self, CONNECT, Message, NAMES, received, watched};
use haft_core::sync::Lock;
use haft_core::upstream::Upstream;

/// Limit on the pending connections of one child, also in its watcher.
pub(super) const MAX_WAITING: usize = 256;
/// Limit on the names that are resolved at one time: each takes a thread that other tasks of haft wait for too.
const MAX_LOOK_UPS: usize = 16;
/// Time limit for the resolution of a name.
const LOOK_UP: Duration = Duration::from_secs(10);

type LookUp = fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

#[derive(Debug)]
pub(super) struct Egress {
    judge: Judge,
    look_up: LookUp,
    records: Records,
    /// The connections to the hosts of secrets, if there are secrets.
    relay: Option<Relay>,
}

/// The record of a child's connections and refusals, shared with its session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) refused: Arc<Lock<Vec<Refusal>>>,
    /// Notified of each refusal of a host.
    pub(super) news: Arc<Notify>,
    pub(crate) connections: Arc<Connections>,
    /// The connections for a proposal of rights, if the child's needs are learnt.
    pub(super) learnt: Arc<Record>,
    pub(super) learns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoAddress {
    /// It is not granted, does not exist, or has blocked addresses only.
    Unknown,
    /// The system's name servers do not answer.
    Failed,
}

impl Egress {
    /// Serves the watcher at the other end of `socket` until it or the returned handle is gone.
    ///
    /// # Errors
    /// The policy cannot be understood, or the socket cannot be used.
    pub(super) fn serve(
        policy: &Policy,
        socket: OwnedFd,
        records: Records,
        relay: Option<Relay>,
    ) -> io::Result<AbortOnDropHandle<()>> {
        let egress = Self {
            judge: Judge::new(&policy.hosts, &policy.blocked)?,
            look_up: |name| Box::pin(system(name)),
            records,
            relay,
        };
        let served = serve(Arc::new(egress), Arc::new(watched(socket)?));
        Ok(AbortOnDropHandle::new(tokio::spawn(served)))
    }

    /// Resolves a name in lower case, and returns the permitted ones of its addresses.
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NoAddress> {
        if !self.judge.rules.may_look_up(name) {
            if let Some(refusal) = Refusal::of_name(name) {
                self.records.refuse(refusal);
            }
            return Err(NoAddress::Unknown);
        }
        let found = timeout(LOOK_UP, (self.look_up)(name.to_owned())).await;
        let found = match found {
            Ok(Ok(found)) => found,
            // In a closed network only the proxy knows the name's addresses.
            _ if Upstream::of(name).is_some() => return Ok(vec![self.judge.stand_in(name)]),
            Ok(Err(_)) => return Err(NoAddress::Unknown),
            Err(_) => return Err(NoAddress::Failed),
        };
        let mut open = Vec::new();
        for address in found {
            match self.judge.learn(name, address) {
                Ok(()) => open.push(address),
                Err(refusal) => self.records.refuse(refusal),
            }
        }
        if open.is_empty() { Err(NoAddress::Unknown) } else { Ok(open) }
    }

    /// Opens the connection that the watcher requests. The socket, if there is one, replaces the child's socket.
    async fn open(&self, request: &Request) -> (Reply, Option<OwnedFd>) {
        let reply = |error: i32| Reply { id: request.id, error };
        match self.judge.judge(request.address) {
            Err(refusal) => {
                self.records.refuse(refusal);
                (reply(message::refused(request.address.ip())), None)
            }
            Ok(name) => {
                let new = self.connection(name.clone(), request.address);
                if self.records.learns {
                    // A host that does not answer is needed too.
                    self.records.learnt.add(&new);
                }
                let (error, socket) = self.connected(name.as_deref(), request).await;
                if let Some(socket) = &socket {
                    self.records.connections.add(&new);
                    self.records.connections.follow(socket, name, request.address);
                }
                (reply(error), socket)
            }
        }
    }

    /// Opens a permitted connection, which leads to haft if its host is one of a secret.
    async fn connected(&self, name: Option<&str>, request: &Request) -> (i32, Option<OwnedFd>) {
        if let Some(relay) = &self.relay {
            let hosts = self.judge.hosts(request.address);
            if relay.is_for(&hosts, request.address.port()) {
                return relay.intercept(hosts, name, request).await;
            }
        }
        connect::open_for(name, request).await
    }

    fn connection(&self, name: Option<String>, address: SocketAddr) -> Connection {
        let mut others = self.judge.names(address.ip());
        others.retain(|other| Some(other) != name.as_ref());
        let bytes = Some(Bytes::default());
        Connection { name, others, address, count: 1, secret: None, bytes }
    }
}

impl Records {
    fn refuse(&self, refusal: Refusal) {
        let mut refused = self.refused.lock();
        if refused.len() < MAX_REFUSALS && !refused.contains(&refusal) {
            refused.push(refusal);
            self.news.notify_one();
        }
    }
}

async fn serve(egress: Arc<Egress>, socket: Arc<AsyncFd<OwnedFd>>) {
    let mut tasks = JoinSet::new();
    while let Ok(Some(message)) = received(&socket).await {
        while tasks.try_join_next().is_some() {}
        match message {
            Message { kind: NAMES, descriptors, .. } => names::serve(&mut tasks, &egress, descriptors),
            Message { kind: CONNECT, body, .. } if tasks.len() < 2 * MAX_WAITING => {
                let Some(request) = Request::decode(&body) else { return };
                let (egress, socket) = (egress.clone(), socket.clone());
                let mut opening = Box::pin(async move {
                    let (reply, opened) = egress.open(&request).await;
                    let opened: Vec<OwnedFd> = opened.into_iter().collect();
                    // An error means that the watcher has ended.
                    let _ = wire::send(socket.get_ref(), CONNECT, &reply.encode(), &opened);
                });
                // Most need no task: a connection within this machine is there at once, and a call may not wait.
                if poll_fn(|context| Poll::Ready(opening.as_mut().poll(context))).await.is_pending() {
                    tasks.spawn(opening);
                }
            }
            _ => return,
        }
    }
}

/// Resolves a name as this system does.
async fn system(name: String) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
    Ok(found.map(|address| address.ip().to_canonical()).collect())
}

#[cfg(test)]
mod tests;
