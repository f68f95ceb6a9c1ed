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
        File::new(&self.directory())
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

#[test]
fn a_full_file_is_put_aside_and_few_are_kept() {
    let place = Place::new();
    let line = [vec![b'x'; MAX_LINE - 1], b"\n".to_vec()].concat();
    let mut file = place.file();
    let lines = (MAX_ASIDE + 3) * usize::try_from(MAX_FILE).unwrap() / MAX_LINE;
    for _ in 0..lines {
        file.append(&line).unwrap();
    }
    let aside = aside(&place.directory()).unwrap();
    assert_eq!(aside.len(), MAX_ASIDE);
    for path in &aside {
        let size = fs::metadata(path).unwrap().len();
        assert!(size <= MAX_FILE && size > MAX_FILE / 2, "{size}");
    }
    assert!(fs::metadata(place.directory().join(CURRENT)).unwrap().len() <= MAX_FILE);
}

/// Another process puts the file aside, or a person removes it: the next line is where it belongs.
#[test]
fn a_file_that_went_away_is_made_again() {
    let place = Place::new();
    let mut file = place.file();
    file.append(b"one\n").unwrap();
    fs::rename(place.directory().join(CURRENT), place.directory().join("journal-x.jsonl")).unwrap();
    // The next line may be too early to hear of it, and is not lost by that.
    std::thread::sleep(LOOK);
    file.append(b"two\n").unwrap();
    assert_eq!(place.text(), "two\n");
    // Of this it is heard at once.
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
    // A line that is being written looks torn to a process that opens the file then.
    let text = place.text();
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.len() == 20_000 && line.bytes().all(|b| b == line.as_bytes()[0])));
}

/// What cannot be the journal is not written to.
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

/// A write that the disk cut short: the rest of the line is lost, and the next one begins its own.
#[test]
fn a_write_that_was_cut_short_does_not_spoil_the_next() {
    use std::io::Read;
    let (mut reader, writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let file = fs::File::from(std::os::fd::OwnedFd::from(writer));
    let mut open = Open { file, torn: false };
    // More than the pipe holds.
    assert!(open.write(&vec![b'x'; 1 << 20]).is_err());
    let mut held = vec![0; 1 << 20];
    assert!(reader.read(&mut held).unwrap() > 0 && open.torn);
    open.write(b"next\n").unwrap();
    let count = reader.read(&mut held).unwrap();
    assert_eq!(held.get(..count).unwrap(), b"\nnext\n");
    assert!(!open.torn);
}
