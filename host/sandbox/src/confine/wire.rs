//! The protocol between the host and its helper: short messages over socket pairs; long content is in a memory
//! file. Unknown messages are refused: both ends are of the same build, so one would mean that they are not.
//!
//! There are two sockets: *control* belongs to the watching helper, *job* to the process that becomes the
//! command. Only the host holds the other ends: when it is gone, for whatever reason, both close, and the
//! helper ends all processes. A third one, of the watcher, is for the *network* of a command with single hosts.

#[cfg_attr(target_os = "linux", path = "wire/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "wire/platform/macos.rs")]
mod platform;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) use self::platform::pair;
use haft_manifest::ProcessLimits;

/// Limit on the bytes of one message; longer content is in a file.
const MAX_MESSAGE: usize = 4096;
/// Limit on the descriptors of one message.
const MAX_DESCRIPTORS: usize = 4;
/// Limit on the bytes of a memory file: the kernel limits arguments and environment to a quarter of the stack,
/// and few stacks are larger than 64 MiB.
const MAX_FILE: u64 = 16 << 20;

/// From the host, on *control*: prepare. With the policy, the socket *job*, and that of the network if the policy has
/// hosts.
pub(super) const SETUP: u8 = b'S';
/// From the host, on *control*: stop all processes, TERM first. No message follows.
pub(super) const STOP: u8 = b'T';
/// From the host, on *job*: become this command. With the command and its three streams.
pub(super) const JOB: u8 = b'J';
/// From the helper, on *control* or *job*: an error, with its text.
pub(super) const FAILED: u8 = b'F';
/// From the helper, on *control*: namespaces are unavailable, with the reason.
pub(super) const LACKING: u8 = b'L';
/// From the helper, on *job*: ready.
pub(super) const READY: u8 = b'R';
/// From the helper, on *control*: the command has ended.
pub(super) const ENDED: u8 = b'E';
/// From the helper, on *control*: a refusal; from the command, to the helper: the seccomp listener.
pub(super) const REFUSED: u8 = b'D';
/// From the helper, on the socket of the network: the sockets of one name server, for datagrams and for connections.
pub(super) const NAMES: u8 = b'N';
/// From the watcher, on the socket of the network: a connection that is asked for; from the host: the reply.
pub(super) const CONNECT: u8 = b'C';
/// From the helper, on *control*: no process is left. With the number of stopped processes.
pub(super) const GONE: u8 = b'G';

#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// The end of the command, as [`ENDED`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitReport {
    /// The status of `wait`.
    pub(crate) status: i32,
    pub(crate) left: bool,
    /// The peak memory of one of its processes, in bytes.
    pub(crate) peak: u64,
}

impl ExitReport {
    pub(super) fn encode(self) -> Vec<u8> {
        // Numbers can always be written.
        serde_json::to_vec(&self).unwrap_or_default()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

/// Sends one message without blocking. It only fails if the peer does not read, and there are never more than a
/// few messages.
pub(super) fn send(socket: impl AsFd, kind: u8, body: &[u8], descriptors: &[impl AsFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let body = body.get(..MAX_MESSAGE - 1).unwrap_or(body);
    platform::send(socket, kind, body, &mut ancillary)
}

/// Sends one message with `text` in its body if it fits, else in a file before `descriptors`.
pub(super) fn send_text(
    socket: impl AsFd,
    kind: u8,
    text: &[u8],
    descriptors: &[&OwnedFd],
) -> io::Result<()> {
    if text.len() < MAX_MESSAGE {
        return send(socket, kind, text, descriptors);
    }
    let file = memory_file(text)?;
    let with_file: Vec<_> = std::iter::once(&file).chain(descriptors.iter().copied()).collect();
    send(socket, kind, &[], &with_file)
}

/// Returns a file without a name with `bytes`, positioned at its start.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = platform::new_file()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Receives one message; `None` if the other end is closed. Blocks only on blocking sockets.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<Message>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; MAX_MESSAGE];
    let received = platform::receive(socket, &mut buffer, &mut ancillary)?;
    buffer.truncate(received);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    platform::keep_from_children(&descriptors)?;
    if buffer.is_empty() {
        return Ok(None);
    }
    let kind = buffer.remove(0);
    Ok(Some(Message { kind, body: buffer, descriptors }))
}

/// Returns a socket that is not waited for by threads.
#[expect(
    deprecated,
    reason = "the successor is `unsafe` for descriptors that may close; an `OwnedFd` does not"
)]
pub(super) fn watched<T: AsFd + AsRawFd>(socket: T) -> io::Result<AsyncFd<T>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    AsyncFd::with_interest(socket, Interest::READABLE)
}

/// Receives one message without blocking the thread; `None` if the other end is closed.
pub(super) async fn received<T: AsFd + AsRawFd>(socket: &AsyncFd<T>) -> io::Result<Option<Message>> {
    loop {
        let mut guard = socket.readable().await?;
        if let Ok(message) = guard.try_io(|socket| receive(socket.get_ref())) {
            return message;
        }
    }
}

impl Message {
    /// Returns the text of [`send_text`], and the descriptors without its file.
    pub(super) fn text(mut self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        if !self.body.is_empty() {
            return Ok((self.body, self.descriptors));
        }
        if self.descriptors.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::new();
        File::from(self.descriptors.remove(0)).take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok((bytes, self.descriptors))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The working directory, without links.
    pub(crate) directory: PathBuf,
    /// Device and inode of the working directory.
    pub(crate) identity: (u64, u64),
    pub(crate) limits: ProcessLimits,
}

impl Command {
    /// Encodes the parts in order, each terminated by NUL, which no part can contain.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (device, inode) = self.identity;
        let head = [
            self.program.as_os_str().to_owned(),
            self.directory.as_os_str().to_owned(),
            device.to_string().into(),
            inode.to_string().into(),
            self.limits.memory.unwrap_or_default().to_string().into(),
            self.limits.processes.unwrap_or_default().to_string().into(),
            self.arguments.len().to_string().into(),
        ];
        let environment = self.environment.iter().flat_map(|(name, value)| [name, value]);
        let parts = head.iter().chain(&self.arguments).chain(environment);
        parts.flat_map(|part| part.as_bytes().iter().copied().chain([0])).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut next = || parts.next().map(|part| OsString::from_vec(part.to_owned()));
        let (program, directory) = (next()?.into(), next()?.into());
        let identity = (number(&next()?)?, number(&next()?)?);
        let (memory, processes) = (number(&next()?)?, number(&next()?)?);
        let limits = ProcessLimits {
            memory: Some(memory).filter(|bytes| *bytes > 0),
            processes: Some(processes).filter(|count| *count > 0),
        };
        let count: usize = number(&next()?)?;
        let arguments = (0..count).map(|_| next()).collect::<Option<_>>()?;
        let mut environment = Vec::new();
        while let (Some(name), Some(value)) = (next(), next()) {
            environment.push((name, value));
        }
        Some(Self { program, arguments, environment, directory, identity, limits })
    }
}

fn number<N: std::str::FromStr>(text: &OsStr) -> Option<N> {
    text.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_arrives_as_it_was_sent() {
        let command = Command {
            program: "/bin/sh".into(),
            arguments: vec!["".into(), OsString::from_vec(vec![0xff, b'\n']), "ж".into()],
            environment: vec![("A".into(), "".into()), ("B".into(), "=\n".into())],
            directory: "/tmp".into(),
            identity: (u64::MAX, 7),
            limits: ProcessLimits { memory: Some(1 << 40), processes: Some(9) },
        };
        assert_eq!(Command::decode(&command.encode()), Some(command.clone()));
        let limits = ProcessLimits::default();
        let bare = Command { arguments: Vec::new(), environment: Vec::new(), limits, ..command };
        assert_eq!(Command::decode(&bare.encode()), Some(bare));
        assert_eq!(Command::decode(b"/bin/sh\0"), None);
    }

    #[test]
    fn messages_carry_descriptors_and_keep_their_borders() {
        let (ours, theirs) = pair().unwrap();
        let (passed, _other) = pair().unwrap();
        for text in [vec![b'x'; 3], vec![b'x'; MAX_MESSAGE], vec![b'x'; 1 << 20]] {
            send_text(&ours, JOB, &text, &[&passed]).unwrap();
            let message = receive(&theirs).unwrap().unwrap();
            assert_eq!(message.kind, JOB);
            let (received, descriptors) = message.text().unwrap();
            assert!(received == text && descriptors.len() == 1);
        }
        send(&ours, STOP, b"", &[] as &[OwnedFd]).unwrap();
        assert_eq!(receive(&theirs).unwrap().unwrap().kind, STOP);
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn an_end_is_told_whole() {
        let ended = ExitReport { status: 0x8b, left: true, peak: 1 << 40 };
        assert_eq!(ExitReport::decode(&ended.encode()), Some(ended));
        assert_eq!(ExitReport::decode(&[1, 2]), None);
    }
}
