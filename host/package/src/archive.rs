//! Unpacks a package's archive: tar, or tar compressed by gzip. Writes nothing but new regular files and
//! folders below one new folder; whatever else an archive can hold is refused, and what it holds too
//! much of too. Reads the format itself where a library would remember what an archive tells it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use tar::{Archive, EntryType};

use super::MAX_SIZE;
use super::folder::write;
use super::inventory::{Inventory, MANIFEST, Unfit};
use super::listing::TreeError;

/// Bytes of an archive after decompression: the files, and what stands between them.
const MAX_UNPACKED: u64 = MAX_SIZE + (32 << 20);

/// Bytes of what describes the next entry: a path of the greatest length many times over.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// Parts that are compressed by themselves, one after another: some tools make one for each file or 64 KiB. An empty one
/// takes 20 bytes and some microseconds, and counts for no byte of what is unpacked.
const MAX_MEMBERS: u32 = 65_536;

/// What bytes are, by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Component,
    Tar,
    Gzip,
}

/// Why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is damaged, or ends too early.
    #[error("the archive cannot be read: {0}")]
    Damaged(io::Error),
    /// It has more in it than is let out.
    #[error("the archive has more than {} MiB in it, or {MAX_MEMBERS} parts", MAX_UNPACKED >> 20)]
    Bomb,
    /// It holds what no package may hold.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// Something in it cannot be written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file of it cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No program.toml where one is looked for.
    #[error("no `{MANIFEST}` at the top of the archive, nor in the one folder there")]
    NoManifest,
}

/// What the file at `path` is; `None` for anything else.
pub(super) fn form(path: &Path) -> io::Result<Option<Form>> {
    // A tar archive says so in the first header alone.
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    let is_tar = head.get(257..262) == Some(b"ustar");
    Ok(match head.as_slice() {
        [0, b'a', b's', b'm', ..] => Some(Form::Component),
        [0x1f, 0x8b, ..] => Some(Form::Gzip),
        _ if is_tar => Some(Form::Tar),
        _ => None,
    })
}

/// Unpacks the archive at `file`, of this form, into the new folder `to`. Returns the folder in it that
/// has the program.toml.
pub(super) fn unpack(file: &Path, form: Form, to: &Path) -> Result<PathBuf, ArchiveError> {
    // Checked whole before any of it is written: the entry that is refused may be the last of ten thousand, which
    // would have to be made and removed again.
    pass(file, form, None)?;
    fs::create_dir(to).map_err(written(to))?;
    pass(file, form, Some(to))?;
    top(to)
}

/// Reads the archive once: checks every entry, and writes it where there is a folder to write `to`.
fn pass(file: &Path, form: Form, to: Option<&Path>) -> Result<(), ArchiveError> {
    let reader = BufReader::new(File::open(file).map_err(ArchiveError::Damaged)?);
    match form {
        Form::Gzip => unpack_tar(Bounded::new(Members::new(reader)), to),
        Form::Tar | Form::Component => unpack_tar(Bounded::new(reader), to),
    }
}

/// Where the package is: at the top, or in the only folder there.
fn top(to: &Path) -> Result<PathBuf, ArchiveError> {
    if to.join(MANIFEST).is_file() {
        return Ok(to.to_owned());
    }
    let entries = fs::read_dir(to).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    match entries.map_err(written(to))?.as_slice() {
        [only] if only.path().join(MANIFEST).is_file() => Ok(only.path()),
        _ => Err(ArchiveError::NoManifest),
    }
}

fn unpack_tar(reader: Bounded<impl Read>, to: Option<&Path>) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(reader);
    let mut unpacking = Unpacking { to, inventory: Inventory::default(), path: None };
    // Raw: otherwise the library would hold names of any length in memory before they can be checked.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        unpacking.entry(&mut entry)?;
    }
    // What follows the end is no part of it, but a checksum may be.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
    Ok(())
}

/// An archive on its way out.
struct Unpacking<'a> {
    /// Where to; without it entries are checked and nothing is written.
    to: Option<&'a Path>,
    inventory: Inventory,
    /// What an entry said of the path of the next one.
    path: Option<String>,
}

impl Unpacking<'_> {
    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), ArchiveError> {
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => description(entry).map(|_| ()),
            EntryType::XHeader => self.pax(entry),
            EntryType::GNULongName => {
                let bytes = description(entry)?;
                let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                self.path = Some(text(name)?);
                Ok(())
            }
            EntryType::Regular => self.file(entry),
            EntryType::Directory => self.folder(entry),
            kind => {
                let kind = kind_name(kind);
                Err(Unfit::Kind { path: haft_core::report::plain(&self.next_path(entry)?), kind }.into())
            }
        }
    }

    /// What POSIX has for paths that do not fit. Only the path is of interest; a size that is not
    /// the header's would make this reader see other files than the next one.
    fn pax<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), ArchiveError> {
        let bytes = description(entry)?;
        for extension in tar::PaxExtensions::new(&bytes) {
            let extension = extension.map_err(damaged)?;
            match extension.key_bytes() {
                b"path" => self.path = Some(text(extension.value_bytes())?),
                b"size" => return Err(sparse()),
                key if key.starts_with(b"GNU.sparse") => return Err(sparse()),
                _ => {}
            }
        }
        Ok(())
    }

    fn next_path<R: Read>(&mut self, entry: &tar::Entry<'_, R>) -> Result<String, ArchiveError> {
        let path = match self.path.take() {
            Some(path) => path,
            None => text(&entry.header().path_bytes())?,
        };
        let path = path.strip_suffix('/').unwrap_or(&path);
        // `.` leads nowhere; `tar -C folder .` begins every path with it.
        Ok(path.split('/').filter(|name| *name != ".").collect::<Vec<_>>().join("/"))
    }

    fn folder<R: Read>(&mut self, entry: &tar::Entry<'_, R>) -> Result<(), ArchiveError> {
        let path = self.next_path(entry)?;
        if path.is_empty() {
            return Ok(());
        }
        self.inventory.folder(&path)?;
        let Some(to) = self.to else { return Ok(()) };
        let full = to.join(path);
        fs::create_dir_all(&full).map_err(written(&full))
    }

    fn file<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), ArchiveError> {
        let path = self.next_path(entry)?;
        let size = entry.header().size().map_err(damaged)?;
        self.inventory.file(&path, size)?;
        let mode = entry.header().mode().map_err(damaged)?;
        let Some(to) = self.to else { return Ok(()) };
        let full = to.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(written(parent))?;
        }
        let mut read = ErrorCapture::new(entry);
        let done = write(&mut read, &full, size, mode & 0o100 != 0);
        // A library turns the end of a cut-off archive into the end of the file.
        match (read.failure, done) {
            (Some(failure), _) => Err(damaged(failure)),
            (None, Ok(done)) if done == size => Ok(()),
            (None, Ok(_)) => Err(ArchiveError::Damaged(io::ErrorKind::UnexpectedEof.into())),
            (None, Err(error)) => Err(written(&full)(error)),
        }
    }
}

/// What describes another entry.
fn description<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    entry.take(MAX_DESCRIPTION + 1).read_to_end(&mut bytes).map_err(damaged)?;
    if bytes.len() as u64 > MAX_DESCRIPTION {
        let text = String::from_utf8_lossy(bytes.get(..80).unwrap_or_default());
        return Err(Unfit::Length(haft_core::report::plain(&text)).into());
    }
    Ok(bytes)
}

fn text(bytes: &[u8]) -> Result<String, ArchiveError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Unfit::Encoding(haft_core::report::plain(&String::from_utf8_lossy(bytes))).into()),
    }
}

fn kind_name(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a named pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "of a kind that no package has",
    }
}

fn sparse() -> ArchiveError {
    Unfit::Kind { path: "a file".into(), kind: "a sparse file" }.into()
}

/// An error while reading; the bound of [`Bounded`] shows itself as one.
fn damaged(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ArchiveError::Bomb,
        _ => ArchiveError::Damaged(error),
    }
}

fn written(path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
    let path = path.to_owned();
    move |source| ArchiveError::Write { path, source }
}

/// What gzip compressed, in one or more parts; fails beyond [`MAX_MEMBERS`].
struct Members<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
    left: u32,
}

impl<R: BufRead> Members<R> {
    fn new(reader: R) -> Self {
        Self { member: Some(GzDecoder::new(reader)), left: MAX_MEMBERS }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::FileTooLarge)?;
            let mut rest = self.member.take().map(GzDecoder::into_inner);
            let is_over = rest.as_mut().map_or(Ok(true), |rest| rest.fill_buf().map(<[u8]>::is_empty))?;
            self.member = rest.filter(|_| !is_over).map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// A reader that fails beyond [`MAX_UNPACKED`] bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R> Bounded<R> {
    fn new(inner: R) -> Self {
        Self { inner, left: MAX_UNPACKED }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

/// A reader that keeps its error, to tell a failed read from a failed write.
struct ErrorCapture<R> {
    inner: R,
    failure: Option<io::Error>,
}

impl<R> ErrorCapture<R> {
    fn new(inner: R) -> Self {
        Self { inner, failure: None }
    }
}

impl<R: Read> Read for ErrorCapture<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let kind = error.kind();
            self.failure = Some(error);
            kind.into()
        })
    }
}

#[cfg(test)]
mod tests;
