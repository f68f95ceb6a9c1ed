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

/// Bytes of the first line of a script: what the kernel reads of it.
const MAX_SHEBANG: u64 = 256;

/// Interpreters of interpreters that are followed, as the kernel does.
const MAX_INTERPRETERS: usize = 4;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// Characters of a key that make it one of its own.
const KEY: usize = 32;

#[derive(Clone)]
pub(super) struct Wrapping {
    /// What it is called in messages.
    pub(super) name: String,
    /// The executable, as it was found: what is a link stays one, which interpreters look at.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// The same in full, paths absolute.
    pub(super) words: Vec<String>,
    /// What its words name and the system does not have, without links: files, whose contents are compared.
    pub(super) files: Vec<PathBuf>,
    /// What has to be read to start it: the program, its interpreters, and the first file among the arguments, its script.
    pub(super) started_from: Vec<PathBuf>,
    /// The first file among the arguments.
    pub(super) script: Option<PathBuf>,
    /// Other files and directories among the arguments, which it gets no right to by being started.
    pub(super) named: Vec<PathBuf>,
    /// What makes it this command: the name of its record and of its home.
    pub(super) key: String,
}

impl Wrapping {
    /// `command` as it is written, called `name`.
    ///
    /// # Errors
    /// There is no such program, or a word is not UTF-8.
    pub(super) fn new(name: Option<String>, command: &[OsString], here: &Path) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("the command after `--` is missing")?;
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
        Ok(Self { name, program, arguments, words, files, started_from, script, named, key })
    }

    /// What a record says of its files, where they are as they were; `None` where one is another. What the server itself
    /// may write (`is_written`) is not compared.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn unchanged(
        &self,
        noted: &[String],
        is_written: impl Fn(&Path) -> bool,
    ) -> io::Result<Option<Vec<String>>> {
        let noted: BTreeMap<&str, (&str, &str)> = noted.iter().filter_map(|line| parts(line)).collect();
        let mut lines = Vec::new();
        for file in self.files.iter().filter(|file| !is_written(file)) {
            let stamp = stamp(file)?;
            let Some((digest, known)) = file.to_str().and_then(|path| noted.get(path)) else {
                return Ok(None);
            };
            // A file with an unchanged stamp is unchanged; otherwise its content decides.
            if *known != stamp && *digest != self::digest(file)? {
                return Ok(None);
            }
            lines.push(format!("{digest} {stamp} {}", file.display()));
        }
        Ok(Some(lines))
    }

    /// What its files are now, for a record.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn noted(&self) -> io::Result<Vec<String>> {
        let line = |file: &PathBuf| Ok(format!("{} {} {}", digest(file)?, stamp(file)?, file.display()));
        self.files.iter().map(line).collect()
    }
}

/// Digest, stamp and path of a line of a record.
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

/// What the kernel changes with a file, and only the administrator sets back.
fn stamp(file: &Path) -> io::Result<String> {
    let found = fs::metadata(file)?;
    let (device, inode, size) = (found.dev(), found.ino(), found.size());
    Ok(format!("{device}:{inode}:{size}:{}.{}", found.ctime(), found.ctime_nsec()))
}

fn real(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// The interpreters that the first lines of scripts name, each by its real path.
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

/// A word; one that names something here in full.
fn whole(word: &OsStr, here: &Path) -> anyhow::Result<String> {
    let place = here.join(word);
    let is_path = !word.is_empty() && place.exists();
    text(if is_path { real(&place)?.into_os_string() } else { word.to_owned() }.as_os_str())
}

fn text(word: &OsStr) -> anyhow::Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.with_context(|| format!("`{}` is not UTF-8", word.to_string_lossy()))
}

/// What a server is called that has no name: after its package or its script.
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
