//! The command behind `haft wrap`: its complete words, and the files from which it starts. The user agrees to the
//! contents of these files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::super::exec::found;
use haft::program::is_of_system;
use haft_core::encoding::hex;
use haft_core::lookup::find_on_path;

/// Maximum bytes of the first line of a script: the kernel's limit.
const MAX_SHEBANG: u64 = 256;

/// Maximum depth of interpreters of interpreters, as in the kernel.
const MAX_INTERPRETERS: usize = 4;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// Characters of a key, enough to be unique.
const KEY: usize = 32;

#[derive(Clone)]
pub(super) struct Wrapping {
    pub(super) name: String,
    /// The executable, as found. A symbolic link is not resolved, because interpreters inspect it.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Whether `PATH` decides which program this is.
    pub(super) is_on_path: bool,
    /// All words of the command, with absolute paths.
    pub(super) words: Vec<String>,
    /// The files that the words name and that do not belong to the system, without symbolic links. Their contents are
    /// compared.
    pub(super) files: Vec<PathBuf>,
    /// The files that a start reads: the program, its interpreters, and its script, which is the first file among the
    /// arguments.
    pub(super) started_from: Vec<PathBuf>,
    /// The first file among the arguments.
    pub(super) script: Option<PathBuf>,
    /// Other files and directories among the arguments. A start gives no right to them.
    pub(super) named: Vec<PathBuf>,
    /// The digest that identifies the command: the name of its record and of its home directory.
    pub(super) key: String,
}

impl Wrapping {
    /// Returns `command` with the name `name`.
    ///
    /// # Errors
    /// The program does not exist, or a word is not UTF-8.
    pub(super) fn new(name: Option<String>, command: &[OsString], here: &Path) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("the command after `--` is missing")?;
        let is_on_path = !program.as_encoded_bytes().contains(&b'/');
        let program = found(program)?;
        let real = real(&program).with_context(|| format!("`{}` cannot be found", program.display()))?;
        let places = arguments.iter().filter(|word| !word.is_empty()).map(|word| here.join(word));
        let mut named: Vec<PathBuf> = places.filter_map(|place| self::real(&place).ok()).collect();
        let mut started_from = vec![program.clone(), real.clone()];
        started_from.extend(interpreters(&real));
        let mut files: Vec<PathBuf> = started_from.iter().skip(1).chain(&named).cloned().collect();
        files.retain(|file| file.is_file() && !is_of_system(file));
        files.sort();
        files.dedup();
        let script = named.iter().position(|place| place.is_file()).map(|script| named.remove(script));
        started_from.extend(script.clone());
        named.retain(|place| !is_of_system(place));
        let mut words = vec![text(program.as_os_str())?];
        for word in arguments {
            words.push(whole(word, here)?);
        }
        let name = name.unwrap_or_else(|| own_name(&words));
        let key = key(&name, &real, &words);
        let arguments = arguments.to_vec();
        Ok(Self { name, program, arguments, is_on_path, words, files, started_from, script, named, key })
    }

    /// Compares the files with the lines `noted` of a record. Returns new lines of the unchanged files, and the files
    /// that have changed. Files that the server itself may write (`is_written`) are not compared.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn compared(
        &self,
        noted: &[String],
        is_written: impl Fn(&Path) -> bool,
    ) -> io::Result<(Vec<String>, Vec<PathBuf>)> {
        let noted: BTreeMap<&str, (&str, &str)> = noted.iter().filter_map(|line| parts(line)).collect();
        let (mut lines, mut changed) = (Vec::new(), Vec::new());
        for file in self.files.iter().filter(|file| !is_written(file)) {
            let stamp = stamp(file)?;
            // A file with an unchanged stamp is unchanged. Otherwise its content decides.
            match file.to_str().and_then(|path| noted.get(path)) {
                Some((digest, known)) if *known == stamp || *digest == self::digest(file)? => {
                    lines.push(format!("{digest} {stamp} {}", file.display()));
                }
                _ => changed.push(file.clone()),
            }
        }
        Ok((lines, changed))
    }

    /// Returns the present state of the files, for a record.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn noted(&self) -> io::Result<Vec<String>> {
        let line = |file: &PathBuf| Ok(format!("{} {} {}", digest(file)?, stamp(file)?, file.display()));
        self.files.iter().map(line).collect()
    }
}

/// Splits a line of a record into path, digest and stamp.
fn parts(line: &str) -> Option<(&str, (&str, &str))> {
    let (digest, rest) = line.split_once(' ')?;
    let (stamp, path) = rest.split_once(' ')?;
    Some((path, (digest, stamp)))
}

fn digest(file: &Path) -> io::Result<String> {
    let (mut digest, mut file) = (Sha256::new(), File::open(file)?);
    let mut chunk = vec![0; CHUNK].into_boxed_slice();
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&digest.finalize())),
            count => digest.update(chunk.get(..count).unwrap_or_default()),
        }
    }
}

/// Returns the metadata that the kernel changes with a file. Only the administrator can restore it.
fn stamp(file: &Path) -> io::Result<String> {
    let found = fs::metadata(file)?;
    let (device, inode, size) = (found.dev(), found.ino(), found.size());
    Ok(format!("{device}:{inode}:{size}:{}.{}", found.ctime(), found.ctime_nsec()))
}

fn real(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Returns the real paths of the interpreters in the first lines of scripts.
fn interpreters(program: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut script = program.to_owned();
    while let Some(next) = interpreter(&script).filter(|next| !all.contains(next)) {
        all.push(next.clone());
        script = next;
        if all.len() == MAX_INTERPRETERS {
            break;
        }
    }
    all
}

fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(File::open(script).ok()?.take(MAX_SHEBANG)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let program = Path::new(words.next()?);
    let named = words.find(|word| !word.starts_with('-'));
    let program = if program.ends_with("env") { find_on_path(named?)? } else { program.to_owned() };
    real(&program).ok()
}

/// Returns a word; a path that exists becomes absolute.
fn whole(word: &OsStr, here: &Path) -> anyhow::Result<String> {
    let place = here.join(word);
    let is_path = !word.is_empty() && place.exists();
    text(if is_path { real(&place)?.into_os_string() } else { word.to_owned() }.as_os_str())
}

fn text(word: &OsStr) -> anyhow::Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.with_context(|| format!("`{}` is not UTF-8", word.to_string_lossy()))
}

/// Returns the name of a server without a name: its package or its script.
fn own_name(words: &[String]) -> String {
    let [program, arguments @ ..] = words else { return String::new() };
    let meant = arguments.iter().find(|word| !word.starts_with('-')).unwrap_or(program);
    let name = Path::new(meant).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.is_empty() { program.clone() } else { name }
}

fn key(name: &str, real: &Path, words: &[String]) -> String {
    let parts = [name.as_bytes(), real.as_os_str().as_encoded_bytes()].into_iter();
    let parts = parts.chain(words.iter().map(String::as_bytes));
    let digest = parts.fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]));
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(safe).take(KEY).collect();
    let digest = hex(&digest.finalize());
    format!("{name}-{}", digest.get(..KEY).unwrap_or_default())
}
