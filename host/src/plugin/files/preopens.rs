//! The directories a guest is handed when it asks for them: exactly those of its grant.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::Files;

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let preopens = self.grant.preopens();
        self.wanted.files = preopens.is_empty();
        self.wanted.opened = true;
        self.wanted.unopened.clear();
        let mut directories = Vec::with_capacity(preopens.len());
        for preopen in preopens {
            match preopen.root.open() {
                Ok(directory) => {
                    let (permissions, mode) = rights(preopen.writable);
                    let directory = Descriptor::Dir(Dir::new(directory, permissions, mode, true));
                    directories.push((self.inner.table.push(directory)?, preopen.name));
                }
                Err(error) => self.wanted.unopened.push(format!("`{}`: {error}", preopen.name)),
            }
        }
        Ok(directories)
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
