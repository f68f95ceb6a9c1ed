//! macOS: no events. Seatbelt denies by path, whichever file is there.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Events, which do not exist.
#[derive(Debug)]
pub(in super::super) enum Events {}

impl Events {
    pub(super) fn new<'a>(_: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn add<'a>(&self, _: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn add_again<'a>(&self, _: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn wait(&self, _: Duration) -> bool {
        match *self {}
    }
}
