//! What was agreed to for a command: a file of its own below haft's configuration, which no tool reads or writes.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::command::Wrapping;
use super::given::{Given, distinct, shown};
use haft::program::Dirs;
use haft_core::grant::Right;
use haft_manifest::{Wrapped, read_bounded};

/// What a person agreed to for a command, as far as it still counts.
#[derive(Clone, Default)]
pub(super) struct Record {
    /// As it is written.
    pub(super) written: Wrapped,
    /// Whether its files are others than those that were agreed to, so that nothing of it counts.
    pub(super) is_outdated: bool,
}

/// The record of `command`; `None` where nothing was agreed to.
///
/// # Errors
/// It cannot be read, or says what cannot be understood.
pub(super) fn load(dirs: &Dirs, command: &Wrapping) -> anyhow::Result<Option<Record>> {
    let path = place(dirs, &command.key);
    let Some(written) = read(&path)? else { return Ok(None) };
    if (&written.name, &written.command) != (&command.name, &command.words) {
        return Ok(Some(Record { written: Wrapped::default(), is_outdated: true }));
    }
    let is_written = |file: &Path| written.grant.write.iter().any(|own| file.starts_with(&own.value));
    let files = command.unchanged(&written.files, is_written);
    let files = files.context("cannot compare the files of the command")?;
    match files {
        Some(files) => {
            // The stamps of the same files may be new ones.
            if files != written.files {
                let (rights, declined) = (written.grant.rights(), declined(&written));
                write(&path, &text((&command.name, &command.words), &files, (&rights, &declined)))?;
            }
            Ok(Some(Record { written, is_outdated: false }))
        }
        None => Ok(Some(Record { written, is_outdated: true })),
    }
}

/// Notes down that a person gave `command` these rights, and not the others. Gives the file.
///
/// # Errors
/// It cannot be written.
pub(super) fn save(
    dirs: &Dirs,
    command: &Wrapping,
    (rights, declined): (&[Right], &[Right]),
) -> anyhow::Result<PathBuf> {
    let path = place(dirs, &command.key);
    let files = command.noted().context("cannot read the files of the command")?;
    write(&path, &text((&command.name, &command.words), &files, (rights, declined)))?;
    Ok(path)
}

/// What a record would say that gives `command` these rights.
///
/// # Errors
/// One cannot be written down.
pub(super) fn of_rights(command: &Wrapping, rights: &[Right]) -> anyhow::Result<Wrapped> {
    let text = text((&command.name, &command.words), &[], (rights, &[]));
    Ok(Wrapped::parse(&text, Path::new("what you agreed to"))?)
}

/// The records of the commands of that name, each with its file.
///
/// # Errors
/// One cannot be read.
pub(super) fn named(dirs: &Dirs, name: &str) -> anyhow::Result<Vec<(PathBuf, Wrapped)>> {
    let entries = match fs::read_dir(dirs.wraps()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("cannot look for what was agreed to")?,
    };
    let mut named = Vec::new();
    for entry in entries {
        let path = entry?.path();
        named.extend(read(&path)?.filter(|written| written.name == name).map(|written| (path, written)));
    }
    Ok(named)
}

/// Gives the command of a record, which `path` holds, these rights too.
///
/// # Errors
/// It cannot be written.
pub(super) fn widen(path: &Path, written: &Wrapped, rights: &[Right]) -> anyhow::Result<()> {
    let all = distinct([written.grant.rights(), rights.to_vec()].concat());
    let declined = super::given::missing(&declined(written), &all);
    write(path, &text((&written.name, &written.command), &written.files, (&all, &declined)))
}

/// The rights that a person did not give.
pub(super) fn declined(written: &Wrapped) -> Vec<Right> {
    written.declined.iter().filter_map(|right| right.parse::<Given>().ok()).map(|given| given.0).collect()
}

fn place(dirs: &Dirs, key: &str) -> PathBuf {
    dirs.wraps().join(format!("{key}.toml"))
}

fn read(path: &Path) -> anyhow::Result<Option<Wrapped>> {
    let bytes = match read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("cannot read `{}`", path.display()))?,
    };
    Ok(Some(Wrapped::parse(&String::from_utf8_lossy(&bytes), path)?))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot note down in `{}` what was agreed to", path.display()))
}

/// The text of a record. TOML strings and arrays are written like those of JSON.
fn text(
    (name, command): (&str, &[String]),
    files: &[String],
    (rights, declined): (&[Right], &[Right]),
) -> String {
    let list = |all: &[String]| serde_json::Value::from(all).to_string();
    let declined: Vec<String> = declined.iter().map(shown).collect();
    let mut text = format!(
        "# What an MCP server behind `haft wrap` may do: you agreed to it. Without this file you are asked again.\n\
         name = {}\ncommand = {}\nfiles = {}\ndeclined = {}\n\n[grant]\n",
        serde_json::Value::from(name),
        list(command),
        list(files),
        list(&declined),
    );
    let mut keys: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in rights.iter().filter_map(Right::list_entry) {
        match keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => keys.push((key, vec![value])),
        }
    }
    for (key, values) in keys {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{key} = {}", list(&values));
    }
    text
}
