//! Attempts through the kernel and the services of this machine. Everything that an attempt opens is closed
//! again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountFlags, UnmountFlags, fsopen};
use rustix::thread::{UnshareFlags, capabilities, no_new_privs};

use super::processes::in_a_copy;
use super::tried::Brief;
use super::{fixture, raw};
use crate::confine::sys::platform as sys;
use crate::selftest::Outcome;

/// Checks this process's capabilities, and whether a started program could gain privileges.
pub(super) fn rights(_: &Brief) -> Outcome {
    let has_none = capabilities(None).is_ok_and(|sets| sets.permitted.is_empty());
    match (has_none, no_new_privs().unwrap_or(false)) {
        (true, true) => Outcome::Held("no capability, and no new privileges".to_owned()),
        (false, true) => Outcome::Escaped("it has capabilities".to_owned()),
        (true, false) => Outcome::Escaped("programs that it starts may get more".to_owned()),
        (false, false) => {
            Outcome::Escaped("it has capabilities, and programs that it starts may get more".to_owned())
        }
    }
}

pub(super) fn mount(brief: &Brief) -> Outcome {
    let place = brief.workspace.join("mounted");
    let mounted = fs::create_dir(&place).and_then(|()| {
        rustix::mount::mount("none", &place, "tmpfs", MountFlags::empty(), None)?;
        Ok(rustix::mount::unmount(&place, UnmountFlags::DETACH)?)
    });
    let opened = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map(drop).map_err(Into::into);
    Outcome::by_any([("a file system was mounted", mounted), ("one was prepared", opened)])
}

pub(super) fn namespaces(_: &Brief) -> Outcome {
    let unshared = |flags| in_a_copy(move || sys::unshare(flags));
    Outcome::by_any([
        ("a user namespace was entered", unshared(UnshareFlags::NEWUSER)),
        ("a namespace of mounts was entered", unshared(UnshareFlags::NEWNS)),
        ("a process was made in a user namespace", raw::clone_into_user_namespace()),
    ])
}

pub(super) fn interfaces(_: &Brief) -> Outcome {
    let closed = [Errno::PERM, Errno::ACCESS, Errno::NOSYS].map(Errno::raw_os_error);
    let results = raw::INTERFACES.iter().map(|(name, ask)| {
        let result = match ask() {
            Err(error) if error.raw_os_error().is_some_and(|code| closed.contains(&code)) => Err(error),
            // The interface is accessible, whatever its result.
            _ => Ok(()),
        };
        (*name, result)
    });
    Outcome::by_any(results)
}

pub(super) fn connect_by_path(brief: &Brief) -> Outcome {
    let Some(path) = &brief.socket else {
        return Outcome::Untried("the path is too long for a socket".to_owned());
    };
    Outcome::by("it was connected to", UnixStream::connect(path).map(drop))
}

pub(super) fn connect_by_name(brief: &Brief) -> Outcome {
    let address = SocketAddr::from_abstract_name(&brief.name);
    let connected = address.and_then(|address| UnixStream::connect_addr(&address));
    Outcome::by("it was connected to", connected.map(drop))
}

pub(super) fn write_to_terminal(brief: &Brief) -> Outcome {
    on_terminal(brief, "it was written to", |mut terminal| terminal.write_all(&[fixture::WRITTEN]))
}

pub(super) fn type_into_terminal(brief: &Brief) -> Outcome {
    on_terminal(brief, "a key was pressed", |terminal| raw::type_into(&terminal, fixture::TYPED))
}

/// Acts on the host's terminal. Opening it makes it the controlling terminal of this session, unless another
/// session has it.
fn on_terminal(brief: &Brief, what: &str, act: impl FnOnce(File) -> io::Result<()>) -> Outcome {
    let Some(path) = &brief.terminal else {
        return Outcome::Untried("there is no terminal".to_owned());
    };
    let terminal = File::options().read(true).write(true).open(path);
    Outcome::by(what, terminal.and_then(act))
}
