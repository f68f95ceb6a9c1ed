use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::listing::Listing;

/// Makes a header with any path: the library's setter refuses the paths that are tested here.
fn header(path: &[u8], kind: EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// Builds an archive.
#[derive(Default)]
struct Made(Vec<u8>);

impl Made {
    fn add(mut self, header: &tar::Header, data: &[u8]) -> Self {
        self.0.extend(header.as_bytes());
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, data: &[u8]) -> Self {
        self.add(&header(path.as_bytes(), EntryType::Regular, data.len() as u64), data)
    }

    fn kind(self, path: &str, kind: EntryType) -> Self {
        self.add(&header(path.as_bytes(), kind, 0), b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Unpacks `bytes`; returns the files of the package, or the error.
fn unpacked(bytes: &[u8]) -> Result<Vec<String>, String> {
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("archive"), directory.path().join("tree"));
    fs::write(&file, bytes).unwrap();
    let form = form(&file).unwrap().ok_or("no archive")?;
    let top = unpack(&file, form, &to).map_err(|error| error.to_string())?;
    let (listing, _) = Listing::from_folder(&top).unwrap();
    Ok(listing.paths().map(str::to_owned).collect())
}

fn program() -> Made {
    Made::default().file("program.toml", b"x")
}

/// PR07: flat and nested, plain and compressed, with and without entries for folders.
#[test]
fn both_layouts_are_unpacked() {
    let flat = program().file("bin/run", b"y").end();
    assert_eq!(unpacked(&flat).unwrap(), ["bin/run", "program.toml"]);
    assert_eq!(unpacked(&gzip(&flat)).unwrap(), ["bin/run", "program.toml"]);
    let dotted = Made::default()
        .kind("./", EntryType::Directory)
        .kind("./bin/", EntryType::Directory)
        .file("./bin/run", b"y")
        .file("./program.toml", b"x");
    assert_eq!(unpacked(&dotted.end()).unwrap(), ["bin/run", "program.toml"]);
    // C19: any number of `.` components is ignored.
    let dots = Made::default()
        .kind("./././", EntryType::Directory)
        .kind("././bin/./", EntryType::Directory)
        .file("./././bin/./run", b"y")
        .file("././program.toml", b"x");
    assert_eq!(unpacked(&dots.end()).unwrap(), ["bin/run", "program.toml"]);
    let nested = Made::default().file("words-1.0/program.toml", b"x").file("words-1.0/a", b"y").end();
    assert_eq!(unpacked(&nested).unwrap(), ["a", "program.toml"]);
    let two = Made::default().file("a/program.toml", b"x").file("b/program.toml", b"x").end();
    assert!(unpacked(&two).unwrap_err().starts_with("no `program.toml`"));
}

/// X12: several gzip members form one archive, and members without a byte are bounded too.
#[test]
fn compressed_parts_are_bounded() {
    let tar = program().file("a", &[b'y'; 5000]).end();
    let (first, last) = tar.split_at(1000);
    let parts = |count: usize| [gzip(first), gzip(b"").repeat(count), gzip(last)].concat();
    assert_eq!(unpacked(&parts(1000)).unwrap(), ["a", "program.toml"]);
    let refused = unpacked(&parts(70_000)).unwrap_err();
    assert!(refused.contains("65536 members"), "{refused}");
    assert!(unpacked(&[gzip(&tar), b"more".to_vec()].concat()).is_err());
}

/// C19: an archive is refused before any file of it is written.
#[test]
fn an_archive_is_refused_before_it_is_unpacked() {
    let many = (0..12_000).fold(program(), |made, number| made.file(&format!("f{number}"), b"x")).end();
    let last = program().file("good", b"x").kind("pipe", EntryType::Fifo).end();
    for (bytes, why) in [(many, "more than 10000 files"), (last, "a named pipe")] {
        let directory = tempfile::tempdir().unwrap();
        let (file, to) = (directory.path().join("archive"), directory.path().join("tree"));
        fs::write(&file, bytes).unwrap();
        let error = unpack(&file, Form::Tar, &to).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!to.exists());
    }
}

/// PR07: paths beyond the header's 100 bytes are read in GNU's and POSIX's form, with the additions of `git archive`.
#[test]
fn long_paths_are_understood() {
    let long = format!("{}/file", "folder".repeat(30));
    let gnu = program()
        .add(
            &header(b"././@LongLink", EntryType::GNULongName, long.len() as u64 + 1),
            format!("{long}\0").as_bytes(),
        )
        .file("short", b"y");
    assert_eq!(unpacked(&gnu.end()).unwrap(), [long.as_str(), "program.toml"]);
    let record = format!("{} path={long}\n", long.len() + 10);
    let pax = program()
        .add(&header(b"global", EntryType::XGlobalHeader, 13), b"13 comment=x\n")
        .add(&header(b"pax", EntryType::XHeader, record.len() as u64), record.as_bytes())
        .file("short", b"y");
    assert_eq!(unpacked(&pax.end()).unwrap(), [long.as_str(), "program.toml"]);
}

/// PR08: every hostile entry is refused with its reason.
#[test]
fn hostile_entries_are_refused() {
    let long = vec![b'x'; 70_000];
    let sized = b"12 size=999\n";
    for (reason, made) in [
        ("`/etc/x` is an absolute path", program().file("/etc/x", b"")),
        ("`../x` is outside", program().file("../x", b"")),
        ("`../x` is outside", program().file("./././../x", b"")),
        ("`/x` is an absolute path", program().file(".//x", b"")),
        ("`a//x` is outside", program().file("./a//x", b"")),
        ("`a/../../x` is outside", program().file("a/../../x", b"")),
        ("`..` is outside", program().kind("../", EntryType::Directory)),
        ("`l` is a symbolic link", program().kind("l", EntryType::Symlink)),
        ("`l` is a hard link", program().kind("l", EntryType::Link)),
        ("`d` is a device", program().kind("d", EntryType::Char)),
        ("`d` is a device", program().kind("d", EntryType::Block)),
        ("`p` is a named pipe", program().kind("p", EntryType::Fifo)),
        ("`s` is a sparse file", program().kind("s", EntryType::GNUSparse)),
        ("`o` is of a type that packages do not support", program().kind("o", EntryType::Continuous)),
        ("`program.toml` occurs twice", program().file("program.toml", b"y")),
        ("`PROGRAM.toml` occurs twice", program().file("PROGRAM.toml", b"y")),
        ("` has characters that are not allowed in file names", program().file("a\u{1b}[2Jb", b"")),
        ("haft writes `program.lock`", program().file("program.lock", b"")),
        ("is too long", program().add(&header(b"n", EntryType::GNULongName, 70_000), &long)),
        ("is too long", program().add(&header(b"n", EntryType::XHeader, 70_000), &long)),
        ("is a sparse file", program().add(&header(b"n", EntryType::XHeader, 12), sized)),
        ("is not UTF-8", program().add(&header(b"\xff", EntryType::Regular, 0), b"")),
        ("its files have more than 256 MiB", program().add(&header(b"b", EntryType::Regular, 1 << 40), b"")),
    ] {
        let error = unpacked(&made.end()).unwrap_err();
        assert!(error.contains(reason) && !error.contains('\u{1b}'), "{reason}: {error}");
    }
}

/// PR08: a small archive with a large content is stopped at the limit.
#[test]
fn a_bomb_is_counted_as_it_unfolds() {
    let zeros = vec![0; 1 << 20];
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Only end markers: no entry is counted.
    encoder.write_all(&program().end()).unwrap();
    for _ in 0..=(MAX_UNPACKED >> 20) {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert_eq!(unpacked(&bomb).unwrap_err(), ArchiveError::Bomb.to_string());
}

/// PR08: a truncated archive is refused.
#[test]
fn damaged_archives_are_refused() {
    let whole = program().file("a", &[7; 5000]).end();
    for cut in [600, 1500, 3000, 5000] {
        let error = unpacked(&whole[..cut]).unwrap_err();
        assert!(error.starts_with("the archive cannot be read"), "{cut}: {error}");
    }
    let packed = gzip(&whole);
    let error = unpacked(&packed[..packed.len() - 4]).unwrap_err();
    assert!(error.starts_with("the archive cannot be read"), "{error}");
    let mut flipped = packed;
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    assert!(unpacked(&flipped).unwrap_err().starts_with("the archive cannot be read"));
    assert_eq!(unpacked(b"#!/bin/sh\n"), Err("no archive".to_owned()));
}

/// PR08: no set-user-ID bit survives, and no file stays writable.
#[test]
fn modes_are_haft_s_own() {
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("archive"), directory.path().join("tree"));
    let mut run = header(b"run", EntryType::Regular, 0);
    run.set_mode(0o7777);
    run.set_cksum();
    fs::write(&file, program().add(&run, b"").end()).unwrap();
    unpack(&file, Form::Tar, &to).unwrap();
    let mode = |name| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("run"), mode("program.toml")), (0o555, 0o444));
}
