//! Answers the child's DNS questions with the addresses of granted names. Other questions about a granted name get
//! no records, and other names are not looked up, so that neither can carry data out.

use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::judge::is_routed;
use super::{Egress, MAX_LOOK_UPS, NoAddress};

/// Bytes of a question: one name has 255.
const MAX_QUESTION: usize = 1024;
/// Limit on the addresses of an answer, so that it fits into the 512 bytes of a datagram without extensions.
const MAX_ADDRESSES: usize = 12;
/// Seconds that an answer may be kept.
const LIFE: u32 = 30;
/// Limit on the questions of one connection.
const MAX_QUESTIONS: usize = 64;
/// Time limit for one question of a connection.
const QUIET: Duration = Duration::from_secs(30);

/// Starts to answer on the sockets of one name server: for datagrams, and for connections.
pub(super) fn serve(tasks: &mut JoinSet<()>, egress: &Arc<Egress>, sockets: Vec<OwnedFd>) {
    let Ok([datagrams, connections]) = <[OwnedFd; 2]>::try_from(sockets) else { return };
    let limit = Arc::new(Semaphore::new(MAX_LOOK_UPS));
    tasks.spawn(ended(answer_datagrams(egress.clone(), datagrams, limit.clone())));
    tasks.spawn(ended(answer_connections(egress.clone(), connections, limit)));
}

/// Ends after an error of a socket: names are then no longer answered.
async fn ended(served: impl Future<Output = io::Result<()>>) {
    if let Err(error) = served.await {
        tracing::debug!(%error, "names are no longer answered");
    }
}

async fn answer_datagrams(egress: Arc<Egress>, socket: OwnedFd, limit: Arc<Semaphore>) -> io::Result<()> {
    let socket = UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    let socket = Arc::new(tokio::net::UdpSocket::from_std(socket)?);
    let mut answers = JoinSet::new();
    let mut question = [0; MAX_QUESTION];
    loop {
        let (length, asker) = socket.recv_from(&mut question).await?;
        while answers.try_join_next().is_some() {}
        // A question that is not answered is asked again.
        let Ok(permit) = limit.clone().try_acquire_owned() else { continue };
        let question = question.get(..length).unwrap_or_default().to_vec();
        let (egress, socket) = (egress.clone(), socket.clone());
        answers.spawn(async move {
            if let Some(answer) = answer(&egress, &question).await {
                // The asker may have ended.
                let _ = socket.send_to(&answer, asker).await;
            }
            drop(permit);
        });
    }
}

async fn answer_connections(egress: Arc<Egress>, socket: OwnedFd, limit: Arc<Semaphore>) -> io::Result<()> {
    let socket = TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let mut answers = JoinSet::new();
    loop {
        let (mut stream, _) = socket.accept().await?;
        while answers.try_join_next().is_some() {}
        let Ok(permit) = limit.clone().try_acquire_owned() else { continue };
        let egress = egress.clone();
        answers.spawn(async move {
            for _ in 0..MAX_QUESTIONS {
                if !matches!(timeout(QUIET, answer_one(&egress, &mut stream)).await, Ok(Ok(()))) {
                    break;
                }
            }
            drop(permit);
        });
    }
}

/// Answers one question of a connection, after which the next one may follow.
async fn answer_one(egress: &Egress, stream: &mut TcpStream) -> io::Result<()> {
    let length = usize::from(stream.read_u16().await?);
    let mut question = vec![0; length.min(MAX_QUESTION)];
    stream.read_exact(&mut question).await?;
    let answer = answer(egress, &question).await.ok_or(io::ErrorKind::InvalidData)?;
    let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
    // At once, as most programs expect it.
    stream.write_all(&[&length.to_be_bytes(), &answer[..]].concat()).await
}

/// Returns the answer to a question; none to what is no question.
pub(super) async fn answer(egress: &Egress, question: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(question).ok()?;
    let [asked] = packet.questions.as_slice() else { return None };
    if packet.has_flags(PacketFlag::RESPONSE) {
        return None;
    }
    let mut reply = Packet::new_reply(packet.id());
    reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
    reply.questions.push(asked.clone());
    match egress.addresses(&asked.qname.to_string().to_ascii_lowercase()).await {
        Ok(addresses) => reply.answers = records(asked, addresses),
        Err(NoAddress::Unknown) => *reply.rcode_mut() = RCODE::NameError,
        Err(NoAddress::Failed) => *reply.rcode_mut() = RCODE::ServerFailure,
    }
    reply.build_bytes_vec_compressed().ok()
}

/// Returns the addresses of the kind that is asked for. IPv6 addresses without a route are left out: few programs try
/// the next one.
fn records<'q>(asked: &Question<'q>, addresses: Vec<IpAddr>) -> Vec<ResourceRecord<'q>> {
    let data = |address: IpAddr| match address {
        IpAddr::V4(address) => RData::A(A { address: address.into() }),
        IpAddr::V6(address) => RData::AAAA(AAAA { address: address.into() }),
    };
    let is_asked = |address: &IpAddr| match asked.qtype {
        QTYPE::TYPE(TYPE::A) => address.is_ipv4(),
        QTYPE::TYPE(TYPE::AAAA) => address.is_ipv6() && is_routed(*address),
        _ => false,
    };
    let asked_for = addresses.into_iter().filter(is_asked).take(MAX_ADDRESSES);
    asked_for
        .map(|address| ResourceRecord::new(asked.qname.clone(), CLASS::IN, LIFE, data(address)))
        .collect()
}
