use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("state/journal")
    }

    fn file(&self) -> File {
        self.file_of(KeptJournal::default())
    }

    fn file_of(&self, table: KeptJournal) -> File {
        File::new(&self.directory(), table)
    }

    /// Returns the sizes of the rotated files, oldest first.
    fn aside(&self) -> Vec<u64> {
        let aside = aside(&self.directory()).unwrap();
        aside.iter().map(|path| fs::metadata(path).unwrap().len()).collect()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.directory().join(CURRENT)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn only_the_user_can_look_into_it() {
    let place = Place::new();
    place.file().append(b"{}\n").unwrap();
    assert_eq!(mode(&place.directory()), 0o700);
    assert_eq!(mode(&place.directory().join(CURRENT)), 0o600);
    fs::set_permissions(place.directory(), Permissions::from_mode(0o755)).unwrap();
    place.file().append(b"{}\n").unwrap();
    assert_eq!(mode(&place.directory()), 0o700);
}

#[test]
fn a_torn_line_does_not_spoil_the_next() {
    let place = Place::new();
    place.file().append(b"{}\n").unwrap();
    fs::write(place.directory().join(CURRENT), b"{}\n{\"id\":\"to").unwrap();
    let mut file = place.file();
    file.append(b"{\"a\":1}\n").unwrap();
    file.append(b"{\"b\":1}\n").unwrap();
    assert_eq!(place.text(), "{}\n{\"id\":\"to\n{\"a\":1}\n{\"b\":1}\n");
}

/// Returns a line of this many bytes.
fn line(bytes: usize) -> Vec<u8> {
    [vec![b'x'; bytes - 1], b"\n".to_vec()].concat()
}

const KIB: u64 = 1 << 10;

#[test]
fn a_full_file_is_put_aside_and_few_are_kept() {
    let place = Place::new();
    let mut file = place.file_of(KeptJournal { size: 400 * KIB, keep: 1 << 20 });
    for _ in 0..100 {
        file.append(&line(100 << 10)).unwrap();
    }
    // The third is the first with enough bytes in newer files.
    assert_eq!(place.aside(), [400 * KIB; 3]);
    assert!(place.text().len() <= 400 << 10);
}

/// A program with a smaller limit removes its own files, and keeps those of another.
#[test]
fn a_program_that_keeps_less_leaves_what_another_keeps() {
    let place = Place::new();
    let fill = |keep: u64, files: usize| {
        let mut file = place.file_of(KeptJournal { size: 400 * KIB, keep });
        (0..files * 4).for_each(|_| file.append(&line(100 << 10)).unwrap());
    };
    let count = |kept: &str| {
        let names = aside(&place.directory()).unwrap();
        names.iter().filter(|path| path.to_str().unwrap().contains(kept)).count()
    };
    let (more, less) = (3 << 20, 1 << 20);
    fill(more, 5);
    fill(less, 40);
    assert_eq!((count("-3MiB"), count("-1MiB")), (4, 3));
    // The file is removed when newer files of any program have enough bytes.
    fill(more, 40);
    assert_eq!((count("-3MiB"), count("-1MiB")), (8, 0));
}

/// Files of earlier versions have no limit in their name, and get the default.
#[test]
fn the_name_of_a_file_says_how_much_is_kept() {
    assert_eq!(kept("journal-20260802T101112.123456-4711-4096MiB.jsonl"), 4096 << 20);
    for other in ["journal-20260802T101112.123456-4711.jsonl", "journal-x.jsonl", "journal-1-xMiB.jsonl"] {
        assert_eq!(kept(other), KeptJournal::DEFAULT_KEEP, "{other}");
    }
}

/// The largest limit counts, also if another program rotates the file.
#[test]
fn who_puts_a_file_aside_keeps_it_for_who_keeps_most() {
    let place = Place::new();
    let usual = KeptJournal { size: 400 * KIB, ..KeptJournal::default() };
    let (mut keeps, mut other) =
        (place.file_of(KeptJournal { size: 4 << 20, keep: 4 << 30 }), place.file_of(usual));
    for _ in 0..2 {
        keeps.append(b"{}\n").unwrap();
        (0..5).for_each(|_| other.append(&line(100 << 10)).unwrap());
        // Otherwise the next line may precede the detection of the rotation.
        (keeps.looked, other.looked) = (None, None);
    }
    let names = || aside(&place.directory()).unwrap();
    assert!(names().iter().all(|path| path.to_str().unwrap().ends_with("-4096MiB.jsonl")), "{:?}", names());
    // No program with a larger limit writes to the next file.
    drop(keeps);
    (0..10).for_each(|_| other.append(&line(100 << 10)).unwrap());
    assert!(names().last().unwrap().to_str().unwrap().ends_with("-512MiB.jsonl"), "{:?}", names());
}

/// A file that cannot be removed is skipped.
#[test]
fn what_cannot_be_removed_keeps_no_other() {
    let place = Place::new();
    let mut file = place.file_of(KeptJournal { size: 400 * KIB, keep: 1 << 20 });
    file.append(&line(100 << 10)).unwrap();
    fs::create_dir(place.directory().join("journal-0-1MiB.jsonl")).unwrap();
    fs::create_dir(place.directory().join("journal-20250101T000000-1-1MiB.jsonl")).unwrap();
    (0..40).for_each(|_| file.append(&line(100 << 10)).unwrap());
    let files = aside(&place.directory()).unwrap().iter().filter(|path| path.is_file()).count();
    assert_eq!(files, 3);
}

/// After a rotation by another process, or a removal by a user, the next line goes to the new file.
#[test]
fn a_file_that_went_away_is_made_again() {
    let place = Place::new();
    let mut file = place.file();
    file.append(b"one\n").unwrap();
    fs::rename(place.directory().join(CURRENT), place.directory().join("journal-x.jsonl")).unwrap();
    // Otherwise the next line may precede the detection of the rotation; the line is not lost.
    file.looked = None;
    file.append(b"two\n").unwrap();
    assert_eq!(place.text(), "two\n");
    // A removal is detected immediately.
    fs::remove_dir_all(place.directory()).unwrap();
    file.append(b"three\n").unwrap();
    assert_eq!(place.text(), "three\n");
}

#[test]
fn writers_do_not_mix_their_lines() {
    let place = Place::new();
    let line = |writer: u8| [vec![b'a' + writer; 20_000], b"\n".to_vec()].concat();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (mut file, line) = (place.file(), line(writer));
            scope.spawn(move || (0..50).for_each(|_| file.append(&line).unwrap()));
        }
    });
    // A line that is being written looks incomplete to a process that opens the file at that moment.
    let text = place.text();
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.len() == 20_000 && line.bytes().all(|b| b == line.as_bytes()[0])));
}

/// Files that cannot be the journal are not written.
#[test]
fn a_link_or_a_device_is_refused() {
    let place = Place::new();
    place.file().append(b"x\n").unwrap();
    let (current, other) = (place.directory().join(CURRENT), place.0.path().join("other"));
    fs::write(&other, "").unwrap();
    fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink(&other, &current).unwrap();
    assert!(place.file().append(b"x\n").is_err());
    assert_eq!(fs::read_to_string(&other).unwrap(), "");
}

/// After an incomplete write, the rest of the line is lost, and the next line begins on its own.
#[test]
fn a_write_that_was_cut_short_does_not_spoil_the_next() {
    use std::io::Read;
    let (mut reader, writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let file = fs::File::from(std::os::fd::OwnedFd::from(writer));
    let mut open = Open { file, torn: false };
    // More than the capacity of the pipe.
    assert!(open.write(&vec![b'x'; 1 << 20]).is_err());
    let mut held = vec![0; 1 << 20];
    assert!(reader.read(&mut held).unwrap() > 0 && open.torn);
    open.write(b"next\n").unwrap();
    let count = reader.read(&mut held).unwrap();
    assert_eq!(held.get(..count).unwrap(), b"\nnext\n");
    assert!(!open.torn);
}
