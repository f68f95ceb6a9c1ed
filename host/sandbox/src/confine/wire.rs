//! What the host and its helper say to each other: short messages over a pair of sockets, with
//! whatever is long in a file in memory. It refuses messages it does not know; both ends are the
//! same program, so one would mean that they are not.
//!
//! Two sockets: *control* belongs to the helper that watches, *job* to the process that becomes
//! the command. The host holds the other ends and nothing else: when it is gone, however it
//! ended, both close, and the helper ends everything.

#[cfg_attr(target_os = "linux", path = "wire/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "wire/platform/macos.rs")]
mod platform;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage};

pub(crate) use self::platform::memory_file;

/// Bytes of one message; what is longer goes into a file.
const MAX_MESSAGE: usize = 4096;
/// Descriptors of one message.
const MAX_DESCRIPTORS: usize = 4;
/// Bytes of a file in memory: the kernel starts no program with more arguments and environment
/// than a quarter of its stack, of which few are larger than 64 MiB.
const MAX_FILE: u64 = 16 << 20;

/// From the host, on *control*: make everything ready. With the policy and the other socket.
pub(super) const SETUP: u8 = b'S';
/// From the host, on *control*: stop what runs, TERM first. Followed by nothing.
pub(super) const STOP: u8 = b'T';
/// From the host, on *job*: become this command. With the command and its three streams.
pub(super) const JOB: u8 = b'J';
/// From the helper, on *control* or *job*: it cannot be done, and why.
pub(super) const FAILED: u8 = b'F';
/// From the helper, on *control*: there are no namespaces to be had, and why.
pub(super) const LACKING: u8 = b'L';
/// From the helper, on *job*: everything is ready.
pub(super) const READY: u8 = b'R';
/// From the helper, on *control*: the command has ended.
pub(super) const ENDED: u8 = b'E';
/// From the helper, on *control*: what the sandbox refused it; from the command, to the helper: what listens to it.
pub(super) const REFUSED: u8 = b'D';
/// From the helper, on *control*: nothing of it is left. Followed by how many were stopped.
pub(super) const GONE: u8 = b'G';

/// One message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// How the command ended, as [`ENDED`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitReport {
    /// As `wait` gives it.
    pub(crate) status: i32,
    /// Whether it left processes behind.
    pub(crate) left: bool,
    /// The most memory one process of it had, bytes.
    pub(crate) peak: u64,
}

impl ExitReport {
    pub(super) fn encode(self) -> Vec<u8> {
        let parts = [&self.status.to_le_bytes()[..], &[u8::from(self.left)], &self.peak.to_le_bytes()];
        parts.concat()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (status, rest) = body.split_first_chunk()?;
        let (left, rest) = rest.split_first()?;
        let peak = rest.first_chunk()?;
        let (status, peak) = (i32::from_le_bytes(*status), u64::from_le_bytes(*peak));
        Some(Self { status, left: *left != 0, peak })
    }
}

/// A pair of connected sockets; messages keep their borders.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    platform::pair()
}

/// Sends one message without waiting. Only a peer that does not read can keep it from being sent,
/// and there are never more than a few.
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

/// Sends one message with `text` in its body where it fits, else in a file ahead of `descriptors`.
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
    let all: Vec<_> = std::iter::once(&file).chain(descriptors.iter().copied()).collect();
    send(socket, kind, &[], &all)
}

/// Receives one message; `None` when the other end is closed. Waits only for blocking sockets.
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

impl Message {
    /// What [`send_text`] sent, and the descriptors without the file it may have been in.
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

/// What is to be run, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The working directory, without links.
    pub(crate) directory: PathBuf,
    /// Device and inode of the directory that is meant.
    pub(crate) identity: (u64, u64),
}

impl Command {
    /// The parts one after the other, each ended by the byte that none of them can hold.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (device, inode) = self.identity;
        let head = [
            self.program.as_os_str().to_owned(),
            self.directory.as_os_str().to_owned(),
            device.to_string().into(),
            inode.to_string().into(),
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
        let count: usize = number(&next()?)?;
        let arguments = (0..count).map(|_| next()).collect::<Option<_>>()?;
        let mut environment = Vec::new();
        while let (Some(name), Some(value)) = (next(), next()) {
            environment.push((name, value));
        }
        Some(Self { program, arguments, environment, directory, identity })
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
        };
        assert_eq!(Command::decode(&command.encode()), Some(command.clone()));
        let bare = Command { arguments: Vec::new(), environment: Vec::new(), ..command };
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
