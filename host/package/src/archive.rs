//! Unpacks a package's archive: tar, or tar compressed by gzip. Writes only new regular files and folders,
//! below one new folder; refuses every other kind of entry and every archive over the limits. Parses the tar
//! headers in raw mode: the library's own mode buffers names of any length.

mod zip;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use tar::{Archive, EntryType};

use super::MAX_SIZE;
use super::agent_plugin;
use super::folder::write;
use super::inventory::{Inventory, MANIFEST, Unfit};
use super::listing::{TreeError, io_error};

/// Limit on the bytes of a decompressed archive: the files, and the headers between them.
const MAX_UNPACKED: u64 = MAX_SIZE + (32 << 20);

/// Limit on the bytes of an extended header: a path of the greatest length many times over.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// Limit on the gzip members of one archive: some tools write one member per file or per 64 KiB. An empty
/// member takes 20 bytes and some microseconds, and adds nothing to the unpacked size.
const MAX_MEMBERS: u32 = 65_536;

/// The format of a fetched file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Component,
    Tar,
    Gzip,
    /// Read for MCP bundles only.
    Zip,
}

/// Reasons why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is damaged or truncated.
    #[error("the archive cannot be read: {0}")]
    Damaged(io::Error),
    /// The archive exceeds the limit on unpacked bytes or gzip members.
    #[error("the archive has more than {} MiB or {MAX_MEMBERS} members", MAX_UNPACKED >> 20)]
    Bomb,
    /// The archive has an entry that no package may contain.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The archive has no program.toml, neither at the top nor in its only folder.
    #[error("no `{MANIFEST}` or `plugin.json` at the top of the archive, nor in the one folder there")]
    NoManifest,
}

/// Detects the format of the file at `path`; `None` for an unknown format.
pub(super) fn form(path: &Path) -> io::Result<Option<Form>> {
    // Only the first header of a tar archive identifies the format.
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    let is_tar = head.get(257..262) == Some(b"ustar");
    Ok(match head.as_slice() {
        [0, b'a', b's', b'm', ..] => Some(Form::Component),
        [0x1f, 0x8b, ..] => Some(Form::Gzip),
        [b'P', b'K', 3, 4, ..] => Some(Form::Zip),
        _ if is_tar => Some(Form::Tar),
        _ => None,
    })
}

/// Unpacks the archive `file`, of format `form`, into the new folder `to`. Returns the folder that holds the
/// program.toml.
pub(super) fn unpack(file: &Path, form: Form, to: &Path) -> Result<PathBuf, ArchiveError> {
    unpack_whole(file, form, to)?;
    top(to)
}

/// Unpacks an archive that need not be a package's.
pub(super) fn unpack_whole(file: &Path, form: Form, to: &Path) -> Result<(), ArchiveError> {
    // The first pass checks the complete archive and writes nothing: the refused entry may be the last of ten
    // thousand entries, which would have to be written and removed again.
    pass(file, form, None)?;
    fs::create_dir(to).map_err(io_error("write", to))?;
    pass(file, form, Some(to))
}

/// Reads the archive once: checks every entry and, if `to` is given, writes the files.
fn pass(file: &Path, form: Form, to: Option<&Path>) -> Result<(), ArchiveError> {
    let file = File::open(file).map_err(ArchiveError::Damaged)?;
    match form {
        Form::Zip => zip::pass(file, to),
        Form::Gzip => unpack_tar(Bounded::new(Members::new(BufReader::new(file))), to),
        Form::Tar | Form::Component => unpack_tar(Bounded::new(BufReader::new(file)), to),
    }
}

/// Returns the folder of the package: `to` itself, or the only folder in it.
fn top(to: &Path) -> Result<PathBuf, ArchiveError> {
    if is_package(to) {
        return Ok(to.to_owned());
    }
    let entries = fs::read_dir(to).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    match entries.map_err(io_error("write", to))?.as_slice() {
        [only] if is_package(&only.path()) => Ok(only.path()),
        _ => Err(ArchiveError::NoManifest),
    }
}

fn is_package(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    has(MANIFEST) || agent_plugin::is_plugin(has)
}

fn unpack_tar(reader: Bounded<impl Read>, to: Option<&Path>) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(reader);
    let mut unpacking = Unpacking { to, inventory: Inventory::default(), path: None };
    // Raw mode: otherwise the library buffers names of any length before they can be checked.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        unpacking.entry(&mut entry)?;
    }
    // The bytes after the end marker are not part of the archive, but may include the checksum.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
    Ok(())
}

struct Unpacking<'a> {
    /// The target folder; `None` checks the entries and writes nothing.
    to: Option<&'a Path>,
    inventory: Inventory,
    /// The path that an extended header gave for the next entry.
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

    /// Reads a POSIX extended header. Only the path is used; a size that differs from the header's would make
    /// this reader see other files than another reader.
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
        // A `.` component changes nothing; `tar -C folder .` starts every path with it.
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
        Ok(fs::create_dir_all(&full).map_err(io_error("write", &full))?)
    }

    fn file<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), ArchiveError> {
        let path = self.next_path(entry)?;
        let size = entry.header().size().map_err(damaged)?;
        self.inventory.file(&path, size)?;
        let mode = entry.header().mode().map_err(damaged)?;
        let Some(to) = self.to else { return Ok(()) };
        put(entry, &to.join(path), size, mode & 0o100 != 0)
    }
}

/// Writes one file of `size` bytes, and reads its entry to the end, so that a zip archive's size and checksum are
/// compared. The tar library reports the end of a truncated archive as the end of the file.
fn put(from: impl Read, to: &Path, size: u64, is_executable: bool) -> Result<(), ArchiveError> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(io_error("write", parent))?;
    }
    let mut read = ErrorCapture { inner: from, failure: None };
    let done = write(&mut read, to, size, is_executable);
    let rest = io::copy(&mut read.by_ref().take(1), &mut io::sink());
    match (read.failure, done, rest) {
        (Some(failure), ..) => Err(damaged(failure)),
        (None, Ok(done), Ok(0)) if done == size => Ok(()),
        (None, Err(error), _) => Err(io_error("write", to)(error).into()),
        (None, Ok(_), _) => Err(ArchiveError::Damaged(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Reads the content of an extended header, which describes the next entry.
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
    let unfit = |_| Unfit::Encoding(haft_core::report::plain(&String::from_utf8_lossy(bytes)));
    Ok(std::str::from_utf8(bytes).map_err(unfit)?.to_owned())
}

fn kind_name(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a named pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "of a type that packages do not support",
    }
}

fn sparse() -> ArchiveError {
    Unfit::Kind { path: "a file".into(), kind: "a sparse file" }.into()
}

/// Converts a read error; [`Bounded`] reports its limit as `FileTooLarge`.
fn damaged(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ArchiveError::Bomb,
        _ => ArchiveError::Damaged(error),
    }
}

/// Decompresses one or more gzip members; fails beyond [`MAX_MEMBERS`].
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

/// A reader that stores its error, to distinguish a failed read from a failed write.
struct ErrorCapture<R> {
    inner: R,
    failure: Option<io::Error>,
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
