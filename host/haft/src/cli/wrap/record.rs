//! The user's consent for a command: a file below haft's configuration, which no tool reads or writes. The
//! definitions of the command's tools are stored beside the file, to show later changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::command::Wrapping;
use super::rights::{distinct, given, shown};
use crate::cli::terminal::Terminal;
use haft::program::Dirs;
use haft_core::grant::Right;
use haft_core::report::plain;
use haft_manifest::{MAX_FILE, Wrapped, read_bounded};
use haft_mcp::pins::ToolPins;

/// Maximum number of tools of one server. No model can use a fifth of them, and the record of more would be too large
/// to read.
pub(super) const MAX_TOOLS: usize = 500;
/// Maximum bytes of the definitions beside a record: the limit of one list.
pub(super) const MAX_COPIES: usize = 8 << 20;
/// Time limit for the lock of a record. A change by another process takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to lock a record.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The extension of a record's file.
const RECORD: &str = "toml";

/// The valid part of the user's consent for a command.
#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) written: Wrapped,
    /// Whether the command's files differ from the recorded files, so that none of the rights is valid. The tools are
    /// compared nevertheless.
    pub(super) is_outdated: bool,
    /// The files that differ.
    pub(super) changed: Vec<PathBuf>,
}

/// Definitions of tools beside a record.
#[derive(Clone, Copy)]
pub(super) enum Copies {
    /// Pinned definitions.
    Agreed,
    Held,
}

/// Returns the record of `command`. `None` without consent.
///
/// # Errors
/// The record cannot be read or parsed.
pub(super) fn load(dirs: &Dirs, command: &Wrapping) -> anyhow::Result<Option<Record>> {
    let path = place(dirs, command);
    if read(&path)?.is_none() {
        return Ok(None);
    }
    let _alone = locked(&path)?;
    let Some(written) = read(&path)? else { return Ok(None) };
    let (record, has_new_stamps) = compared(command, written)?;
    if has_new_stamps {
        write(&path, &as_written(&record.written))?;
    }
    Ok(Some(record))
}

/// Compares what is `written` with `command` and its files. Returns the valid part, and whether the same files have new
/// stamps.
fn compared(command: &Wrapping, written: Wrapped) -> anyhow::Result<(Record, bool)> {
    if (&written.name, &written.command) != (&command.name, &command.words) {
        return Ok((Record { is_outdated: true, ..Record::default() }, false));
    }
    let is_written = |file: &Path| written.grant.rights.write.iter().any(|own| file.starts_with(&own.value));
    let compared = command.compared(&written.files, is_written);
    let (files, changed) = compared.context("cannot compare the files of the command")?;
    if !changed.is_empty() {
        return Ok((Record { written, is_outdated: true, changed }, false));
    }
    let has_new_stamps = files != written.files;
    let written = Wrapped { files, ..written };
    Ok((Record { written, is_outdated: false, changed }, has_new_stamps))
}

/// Records that the user granted `command` these rights, and declined the others. Returns the file of the record.
///
/// # Errors
/// The record cannot be written.
pub(super) fn save(
    dirs: &Dirs,
    command: &Wrapping,
    (rights, declined): (&[Right], &[Right]),
) -> anyhow::Result<PathBuf> {
    let path = place(dirs, command);
    let files = command.noted().context("cannot read the files of the command")?;
    let _alone = locked(&path)?;
    let written = Wrapped { files, decided: true, ..of_command(&path, command)? };
    write(&path, &text(&written, (rights, declined)))?;
    Ok(path)
}

/// Returns a record that grants `command` these rights.
///
/// # Errors
/// A right cannot be recorded.
pub(super) fn of_rights(command: &Wrapping, rights: &[Right]) -> anyhow::Result<Wrapped> {
    let text = text(&nothing(command), (rights, &[]));
    Ok(Wrapped::parse(&text, Path::new("your consent"))?)
}

/// Returns the records of the commands with the name `name`, each with its file. Prints a warning about a record that
/// cannot be read, and omits it.
///
/// # Errors
/// The folder of the records cannot be read.
pub(super) fn named(dirs: &Dirs, name: &str, terminal: Terminal) -> anyhow::Result<Vec<(PathBuf, Wrapped)>> {
    let entries = match fs::read_dir(dirs.wraps()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("cannot read your consent")?,
    };
    let mut named = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != RECORD) {
            continue;
        }
        match read(&path) {
            Ok(written) => {
                named.extend(written.filter(|written| written.name == name).map(|written| (path, written)));
            }
            Err(error) => terminal.message(plain(&format!("haft: {error:#}"))),
        }
    }
    Ok(named)
}

/// Returns the files of the command of the record `shown` at `path` that changed since the consent. Empty if the
/// command cannot be found.
///
/// # Errors
/// The files cannot be compared.
pub(super) fn changed(dirs: &Dirs, path: &Path, shown: &Wrapped) -> anyhow::Result<Vec<PathBuf>> {
    let words: Vec<OsString> = shown.command.iter().map(OsString::from).collect();
    let command = Wrapping::new(Some(shown.name.clone()), &words, &dirs.here).ok();
    let Some(command) = command.filter(|command| place(dirs, command) == path) else { return Ok(Vec::new()) };
    let (record, _) = compared(&command, shown.clone())?;
    Ok(if record.written.decided { record.changed } else { Vec::new() })
}

/// Grants more rights to the command of the record `shown` at `path`.
///
/// # Errors
/// The record cannot be written, or belongs to another command meanwhile.
pub(super) fn widen(path: &Path, shown: &Wrapped, rights: &[Right]) -> anyhow::Result<()> {
    let _alone = locked(path)?;
    let written = again(path, shown)?;
    let all = distinct([written.grant.all(), rights.to_vec()].concat());
    let declined = super::rights::missing(&declined(&written), &all);
    write(path, &text(&written, (&all, &declined)))
}

/// Returns the pinned tools in the present record of `command`.
///
/// # Errors
/// The record cannot be read.
pub(super) fn pinned(path: &Path, command: &Wrapping) -> anyhow::Result<ToolPins> {
    Ok(pins(&of_command(path, command)?))
}

/// Pins `tools` of `command`. Each replaces the pin of the same name.
///
/// # Errors
/// The record cannot be written.
pub(super) fn pin(path: &Path, command: &Wrapping, tools: &[Value]) -> anyhow::Result<ToolPins> {
    let _alone = locked(path)?;
    add(path, of_command(path, command)?, tools)
}

/// Pins `tools` of the command in the record `shown`.
///
/// # Errors
/// The record cannot be written, or belongs to another command meanwhile.
pub(super) fn pin_for(path: &Path, shown: &Wrapped, tools: &[Value]) -> anyhow::Result<ToolPins> {
    let _alone = locked(path)?;
    add(path, again(path, shown)?, tools)
}

/// Pins `tools` as the first list of `command`, if the record has no other pins than `own`, which this session has
/// recorded. Returns the pins of the record, and whether they include `tools`.
///
/// # Errors
/// The record cannot be read or written.
pub(super) fn pin_first(
    path: &Path,
    command: &Wrapping,
    own: &ToolPins,
    tools: &[Value],
) -> anyhow::Result<(ToolPins, bool)> {
    let _alone = locked(path)?;
    let written = of_command(path, command)?;
    let now = pins(&written);
    if now != *own || written.tools.len() != own.names().len() || written.tools_asked {
        return Ok((now, false));
    }
    Ok((if tools.is_empty() { now } else { add(path, written, tools)? }, true))
}

/// Records that the user did not agree to `tools` of `command`, which are held back.
///
/// # Errors
/// The record cannot be written.
pub(super) fn refuse(path: &Path, command: &Wrapping, tools: &[Value]) -> anyhow::Result<()> {
    let _alone = locked(path)?;
    let written = Wrapped { tools_asked: true, ..of_command(path, command)? };
    write(path, &as_written(&written))?;
    let named = tools.iter().filter_map(|tool| Some((name_of(tool)?.to_owned(), tool.clone())));
    keep_copies(path, Copies::Held, &named.collect())
}

/// Returns whether the user has seen no tool of the command: its next list is its first one.
pub(super) fn has_no_tools(written: &Wrapped) -> bool {
    // An invalid line was also written for a tool.
    written.tools.is_empty() && !written.tools_asked
}

fn add(path: &Path, written: Wrapped, tools: &[Value]) -> anyhow::Result<ToolPins> {
    let mut lines = lines_by_name(&written.tools);
    lines.extend(digests(&ToolPins::of(tools)));
    if lines.len() > MAX_TOOLS {
        anyhow::bail!("cannot save more than {MAX_TOOLS} tools in `{}`", path.display());
    }
    let lines = lines.iter().map(|(name, digests)| format!("{digests} {name}")).collect();
    let written = Wrapped { tools: lines, ..written };
    write(path, &as_written(&written))?;
    let mut copies = copies(path, Copies::Agreed);
    copies.extend(tools.iter().filter_map(|tool| Some((name_of(tool)?.to_owned(), tool.clone()))));
    keep_copies(path, Copies::Agreed, &copies)?;
    Ok(pins(&written))
}

pub(super) fn digests(pins: &ToolPins) -> BTreeMap<String, String> {
    serde_json::to_value(pins).and_then(serde_json::from_value).unwrap_or_default()
}

/// Returns the pins with these digests. An invalid line pins nothing: its tool counts as new, and the user is asked.
pub(super) fn of_digests(digests: &BTreeMap<String, String>) -> ToolPins {
    let read = |digests: Value| serde_json::from_value::<ToolPins>(digests);
    let is_pin =
        |one: &(&String, &String)| serde_json::to_value(BTreeMap::from([*one])).and_then(read).is_ok();
    let pins: BTreeMap<_, _> = digests.iter().filter(is_pin).collect();
    serde_json::to_value(pins).and_then(read).unwrap_or_default()
}

/// Returns the tools that a command may offer.
pub(super) fn pins(written: &Wrapped) -> ToolPins {
    of_digests(&lines_by_name(&written.tools))
}

/// Returns the definitions beside the record at `path`, by the names of the tools. They decide no rights: without
/// them haft displays less.
pub(super) fn copies(path: &Path, which: Copies) -> BTreeMap<String, Value> {
    let mut text = Vec::new();
    // The limit includes the names and the punctuation.
    let bound = 2 * MAX_COPIES as u64;
    let read = File::open(which.place(path)).and_then(|file| file.take(bound).read_to_end(&mut text));
    read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Replaces the definitions by as many of `tools` as fit.
///
/// # Errors
/// The definitions cannot be written.
pub(super) fn keep_copies(path: &Path, which: Copies, tools: &BTreeMap<String, Value>) -> anyhow::Result<()> {
    let path = which.place(path);
    if tools.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error)
                .with_context(|| format!("cannot remove `{}`, the record of earlier tools", path.display())),
            _ => Ok(()),
        };
    }
    let mut room = MAX_COPIES;
    let mut fits = |tool: &Value| {
        let left = room.checked_sub(tool.to_string().len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    let kept: BTreeMap<&String, &Value> = tools.iter().filter(|(_, tool)| fits(tool)).collect();
    write_file(&path, &serde_json::to_string(&kept).unwrap_or_default())
}

impl Copies {
    fn place(self, record: &Path) -> PathBuf {
        record.with_extension(match self {
            Self::Agreed => "tools.json",
            Self::Held => "held.json",
        })
    }
}

pub(super) fn name_of(tool: &Value) -> Option<&str> {
    tool.get("name")?.as_str()
}

pub(super) fn declined(written: &Wrapped) -> Vec<Right> {
    written.declined.iter().filter_map(|right| given(right).ok()).collect()
}

pub(super) fn place(dirs: &Dirs, command: &Wrapping) -> PathBuf {
    dirs.wraps().join(format!("{}.{RECORD}", command.key))
}

/// Returns the digests of tools by their names. Each line ends with the name.
fn lines_by_name(lines: &[String]) -> BTreeMap<String, String> {
    let parts = |line: &String| {
        let (end, _) = line.match_indices(' ').nth(2)?;
        Some((line.get(end + 1..)?.to_owned(), line.get(..end)?.to_owned()))
    };
    lines.iter().filter_map(parts).collect()
}

/// Returns the present record of `command`, or an empty record without a decision.
fn of_command(path: &Path, command: &Wrapping) -> anyhow::Result<Wrapped> {
    let is_its = |written: &Wrapped| (&written.name, &written.command) == (&command.name, &command.words);
    Ok(read(path)?.filter(is_its).unwrap_or_else(|| nothing(command)))
}

fn nothing(command: &Wrapping) -> Wrapped {
    let (name, words) = (command.name.clone(), command.words.clone());
    Wrapped { name, command: words, decided: false, ..Wrapped::default() }
}

fn read(path: &Path) -> anyhow::Result<Option<Wrapped>> {
    let bytes = match read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("cannot read `{}`", path.display()))?,
    };
    Ok(Some(Wrapped::parse(&String::from_utf8_lossy(&bytes), path)?))
}

/// Returns the present record at `path`, which the user has seen as `shown`.
fn again(path: &Path, shown: &Wrapped) -> anyhow::Result<Wrapped> {
    let is_same = |now: &Wrapped| (&now.name, &now.command) == (&shown.name, &shown.command);
    let now = read(path)?.filter(is_same);
    now.with_context(|| format!("`{}` now has the consent for another command", path.display()))
}

/// Locks the records of the folder against changes by other processes, until the returned file is dropped.
fn locked(path: &Path) -> anyhow::Result<File> {
    let lock = || -> io::Result<File> {
        let folder = File::open(folder_of(path)?)?;
        let begun = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(folder),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    lock().with_context(|| format!("cannot lock the folder of `{}`", path.display()))
}

/// Returns the folder of a record, and creates it if it does not exist.
fn folder_of(path: &Path) -> io::Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    Ok(folder)
}

/// Writes a record; the caller holds the lock.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if text.len() > MAX_FILE {
        anyhow::bail!("`{}` would have more than {} KiB", path.display(), MAX_FILE >> 10);
    }
    write_file(path, text)
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let folder = folder_of(path)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot save your consent in `{}`", path.display()))
}

fn as_written(written: &Wrapped) -> String {
    text(written, (&written.grant.all(), &declined(written)))
}

/// Returns the text of a record with other rights than those of `written`. TOML strings and arrays have the syntax of
/// JSON.
fn text(written: &Wrapped, (rights, declined): (&[Right], &[Right])) -> String {
    let list = |all: &[String]| Value::from(all).to_string();
    let declined: Vec<String> = declined.iter().map(shown).collect();
    let mut text = format!(
        "# The rights of an MCP server behind `haft wrap`, with your consent. Without this file haft asks \
         again.\nname = {}\ncommand = {}\nfiles = {}\ndeclined = {}\n",
        Value::from(written.name.as_str()),
        list(&written.command),
        list(&written.files),
        list(&declined),
    );
    // Writing to a `String` cannot fail.
    if !written.decided {
        let _ = writeln!(text, "decided = false");
    }
    if written.tools_asked {
        let _ = writeln!(text, "tools_asked = true");
    }
    if written.tools_may_change {
        let _ = writeln!(text, "tools_may_change = true");
    }
    if !written.tools.is_empty() {
        let lines: String =
            written.tools.iter().map(|line| format!("  {},\n", Value::from(line.as_str()))).collect();
        let _ = writeln!(text, "tools = [\n{lines}]");
    }
    let _ = writeln!(text, "\n[grant]");
    let mut keys: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in rights.iter().filter_map(Right::list_entry) {
        match keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => keys.push((key, vec![value])),
        }
    }
    for (key, values) in keys {
        let _ = writeln!(text, "{key} = {}", list(&values));
    }
    text
}
