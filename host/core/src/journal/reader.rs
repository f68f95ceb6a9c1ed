//! Reads the journal back: every call once, the first that ended first. What is no line of the
//! journal is counted and passed over; nothing is repaired and nothing written.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::{CURRENT, MAX_LINE, aside};
use super::{Outcome, Record};

/// The calls of a journal.
pub struct Lines {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<BufReader<File>>,
    /// Calls whose end has not come yet.
    begun: HashMap<String, Record>,
    /// Those whose end never came, once all lines are read.
    unended: Option<std::vec::IntoIter<Record>>,
    broken: usize,
}

/// The calls of the journal in `directory`. A journal that does not exist yet has none.
pub fn read(directory: &Path) -> io::Result<Lines> {
    let mut files = match aside(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        files => files?,
    };
    files.push(directory.join(CURRENT));
    Ok(Lines { files: files.into_iter(), open: None, begun: HashMap::new(), unended: None, broken: 0 })
}

impl Lines {
    /// How many lines could not be read so far.
    pub fn broken(&self) -> usize {
        self.broken
    }

    fn next_record(&mut self) -> io::Result<Option<Record>> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(path) = self.files.next() else { return Ok(None) };
                self.open = open_file(&path)?.map(BufReader::new);
                continue;
            };
            let line = next_line(open)?;
            match line.as_deref().map(parse) {
                None => self.open = None,
                Some(Parsed::Record(record)) => return Ok(Some(*record)),
                Some(Parsed::Blank) => {}
                Some(Parsed::Broken) => self.broken += 1,
            }
        }
    }

    fn next_call(&mut self) -> io::Result<Option<Record>> {
        while let Some(record) = self.next_record()? {
            if record.outcome == Outcome::Started {
                self.begun.insert(record.id.clone(), record);
            } else {
                self.begun.remove(&record.id);
                return Ok(Some(record));
            }
        }
        let unended = self.unended.get_or_insert_with(|| {
            let mut unended: Vec<_> = self.begun.drain().map(|(_, record)| record).collect();
            unended.sort_unstable_by(|a, b| (a.time, &a.id).cmp(&(b.time, &b.id)));
            unended.into_iter()
        });
        Ok(unended.next())
    }
}

impl Iterator for Lines {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_call().transpose()
    }
}

/// The calls that end from now on.
pub struct Followed {
    path: PathBuf,
    open: Option<(BufReader<File>, u64)>,
    /// The beginning of a line that is being written.
    partial: Vec<u8>,
}

impl Followed {
    /// Those of the journal in `directory`.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join(CURRENT);
        let open = open_file(&path)?.map(|mut file| {
            file.seek(SeekFrom::End(0))?;
            let inode = file.metadata()?.ino();
            io::Result::Ok((BufReader::new(file), inode))
        });
        Ok(Self { path, open: open.transpose()?, partial: Vec::new() })
    }

    /// Those that have ended since it was asked last.
    pub fn ended(&mut self) -> io::Result<Vec<Record>> {
        let mut ended = self.rest()?;
        let current = std::fs::metadata(&self.path).ok().map(|metadata| metadata.ino());
        if current.is_some() && current != self.open.as_ref().map(|(_, inode)| *inode) {
            // The file was put aside, or has just been made; what came to its end is read already.
            let file = open_file(&self.path)?;
            self.open = file.zip(current).map(|(file, inode)| (BufReader::new(file), inode));
            self.partial.clear();
            ended.extend(self.rest()?);
        }
        Ok(ended)
    }

    fn rest(&mut self) -> io::Result<Vec<Record>> {
        let mut ended = Vec::new();
        let Some((open, _)) = &mut self.open else { return Ok(ended) };
        loop {
            let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
            if open.take(room).read_until(b'\n', &mut self.partial)? == 0 && room > 0 {
                return Ok(ended);
            }
            if self.partial.ends_with(b"\n") || room == 0 {
                if let Parsed::Record(record) = parse(&self.partial)
                    && record.outcome != Outcome::Started
                {
                    ended.push(*record);
                }
                self.partial.clear();
            }
        }
    }
}

enum Parsed {
    Record(Box<Record>),
    Blank,
    Broken,
}

fn parse(line: &[u8]) -> Parsed {
    if line.trim_ascii().is_empty() {
        return Parsed::Blank;
    }
    match serde_json::from_slice::<Record>(line) {
        Ok(record) if !record.id.is_empty() => Parsed::Record(Box::new(record)),
        _ => Parsed::Broken,
    }
}

/// The next line; a longer one than any record comes in several, of which none is a record.
fn next_line(open: &mut BufReader<File>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = open.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    Ok((count > 0).then_some(line))
}

/// The file, if it is there: one that was put aside may be removed at any time.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot read the journal `{}`: {error}", path.display()),
        )),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(id: &str, outcome: &str) -> String {
        format!("{{\"id\":\"{id}\",\"time\":\"2026-08-02T00:00:00Z\",\"outcome\":\"{outcome}\"}}\n")
    }

    fn calls(directory: &Path) -> (Vec<String>, usize) {
        let mut lines = read(directory).unwrap();
        let mut calls = Vec::new();
        for record in &mut lines {
            let record = record.unwrap();
            calls.push(format!("{} {}", record.id, record.outcome.name()));
        }
        (calls, lines.broken())
    }

    #[test]
    fn every_call_comes_once_in_the_order_of_the_ends() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs::write(place.path().join(name), text).unwrap();
        write("journal-2026.jsonl", line("a", "started") + &line("b", "started") + &line("b", "ok"));
        write(CURRENT, line("c", "started") + "{\"id\":\"torn\n\nnot json\n" + &line("a", "timeout"));
        assert_eq!(calls(place.path()), (vec!["b ok".into(), "a timeout".into(), "c started".into()], 2));
    }

    #[test]
    fn no_journal_is_an_empty_one() {
        assert_eq!(calls(Path::new("/no/such/directory")), (vec![], 0));
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(CURRENT), "x".repeat(3 * MAX_LINE) + "\n" + &line("a", "ok")).unwrap();
        assert_eq!(calls(place.path()).0, ["a ok"]);
    }

    /// A reader that follows the journal sees new lines, also in the next file.
    #[test]
    fn a_journal_can_be_followed() {
        use std::io::Write;
        let place = tempfile::tempdir().unwrap();
        let current = place.path().join(CURRENT);
        fs::write(&current, line("old", "ok")).unwrap();
        let mut followed = Followed::new(place.path()).unwrap();
        let mut ids = || -> Vec<String> { followed.ended().unwrap().into_iter().map(|r| r.id).collect() };
        let mut file = File::options().append(true).open(&current).unwrap();
        let (start, end) = (line("a", "started"), line("a", "ok"));
        let (first, rest) = end.split_at(10);
        file.write_all(format!("{start}{first}").as_bytes()).unwrap();
        assert!(ids().is_empty());
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(ids(), ["a"]);
        file.write_all(line("b", "ok").as_bytes()).unwrap();
        fs::rename(&current, place.path().join("journal-1.jsonl")).unwrap();
        fs::write(&current, line("c", "ok")).unwrap();
        assert_eq!(ids(), ["b", "c"]);
        assert!(ids().is_empty());
    }
}
