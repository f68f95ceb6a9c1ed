//! The preopened directories of a guest: exactly those of its grant, without haft's own.

use std::fs::File;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::relative;
use super::relative::HandedDirectory;
use super::view::Files;
use crate::denials::access::Protection;
use crate::wasi::files::resolve::Object;
use haft_core::grant::{Preopen, RightsTable};

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let preopens = self.grant.preopens();
        self.denied.open();
        let mut directories = Vec::with_capacity(preopens.len() + 1);
        if let Some((directory, is_workspace)) = self.relative_root(&preopens) {
            let descriptor = self.inner.table.push(Descriptor::Dir(directory))?;
            self.relative.add_handle(descriptor.rep(), HandedDirectory::Root { is_workspace });
            directories.push((descriptor, relative::NAME.to_owned()));
        }
        let stands_for_root = !directories.is_empty();
        for preopen in preopens.into_iter().filter(|one| !stands_for_root || one.name != relative::NAME) {
            match self.preopen(&preopen) {
                Ok(directory) => {
                    let descriptor = self.inner.table.push(Descriptor::Dir(directory))?;
                    self.relative
                        .add_handle(descriptor.rep(), HandedDirectory::Granted((&preopen.name).into()));
                    directories.push((descriptor, preopen.name));
                }
                Err(problem) => self.denied.unopened(&preopen.name, problem),
            }
        }
        directories.extend(self.open_private()?);
        Ok(directories)
    }
}

impl Files<'_> {
    pub(super) fn preopen(&self, preopen: &Preopen) -> Result<Dir, String> {
        let (directory, closed) = self.granted(preopen)?;
        let (permissions, mode) = rights(preopen.writable && closed.is_none());
        Ok(Dir::new(directory, permissions, mode, true))
    }

    /// A granted directory, and its protection, if any.
    fn granted(&self, preopen: &Preopen) -> Result<(File, Option<Protection>), String> {
        let Some(writable) = self.writable else {
            return Err("no call has begun".into());
        };
        let directory = if preopen.writable {
            writable.directory(&preopen.root)?
        } else {
            preopen.root.open().map_err(|error| error.to_string())?
        };
        let object = Object::from_file(directory).map_err(|error| error.to_string())?;
        match self.protected_paths.protection_of(&object).map_err(|error| error.to_string())? {
            Some(protection) if protection.level == Protection::Hidden => {
                let closed = self.grant.closed_at(preopen.root.real());
                let hint = closed.and_then(|closed| closed.hint(&RightsTable::Named("its grant".to_owned())));
                Err(hint.unwrap_or_else(|| "it belongs to haft itself".into()))
            }
            protection => Ok((object.file, protection.map(|protection| protection.level))),
        }
    }
}

/// What a descriptor made from a grant may do.
fn rights(writable: bool) -> (FsPerms, OpenMode) {
    if writable {
        (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE)
    } else {
        (FsPerms::ReadOnly, OpenMode::READ)
    }
}
