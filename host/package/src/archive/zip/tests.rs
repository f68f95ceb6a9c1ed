use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::path::EntryPath;
use rawzip::{ZipArchiveWriter, ZipDataWriter};

use super::super::{Form, unpack_whole};
use super::*;

/// Creates an archive of files: path, mode and content; content of more than ten bytes is compressed.
fn archive(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (path, mode, content) in files {
        let is_long = content.len() > 10;
        let method = if is_long { CompressionMethod::DEFLATE } else { CompressionMethod::STORE };
        let file = archive.new_file(EntryPath::verbatim(path.as_bytes())).compression_method(method);
        let (mut entry, config) = file.unix_permissions(*mode).start().unwrap();
        let descriptor = if is_long {
            let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
            writer.write_all(content).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        } else {
            let mut writer: ZipDataWriter<_> = config.wrap(&mut entry);
            writer.write_all(content).unwrap();
            writer.finish().unwrap().1
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

fn unpacked(bytes: &[u8]) -> (tempfile::TempDir, Result<(), String>) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("archive");
    fs::write(&file, bytes).unwrap();
    let done = unpack_whole(&file, Form::Zip, &place.path().join("to")).map_err(|error| error.to_string());
    (place, done)
}

#[test]
fn files_are_written_with_their_content_and_nothing_else() {
    let long = "long ".repeat(10_000);
    let bytes = archive(&[("a.txt", 0o644, b"short"), ("bin/run", 0o104_755, long.as_bytes())]);
    let (place, done) = unpacked(&bytes);
    done.unwrap();
    let read = |path: &str| fs::read_to_string(place.path().join("to").join(path)).unwrap();
    assert_eq!((read("a.txt").as_str(), read("bin/run") == long), ("short", true));
    let mode = |path: &str| fs::metadata(place.path().join("to").join(path)).unwrap().permissions().mode();
    assert_eq!((mode("a.txt") & 0o7777, mode("bin/run") & 0o7777), (0o444, 0o555));
}

/// PR08: a refused entry leaves nothing, at any position in the archive.
#[test]
fn what_no_package_has_is_refused_before_anything_is_written() {
    let many: Vec<String> = (0..10_001).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), 0o644, b"".as_slice())).collect();
    for (bytes, expected) in [
        (archive(&[("a", 0o644, b""), ("../x", 0o644, b"")]), "is outside"),
        (archive(&[("a", 0o644, b""), ("/etc/x", 0o644, b"")]), "absolute"),
        (archive(&[("a", 0o644, b""), ("link", 0o120_777, b"/etc")]), "symbolic link"),
        (archive(&[("a", 0o644, b""), ("device", 0o020_644, b"")]), "not a regular file"),
        (archive(&[("a", 0o644, b""), ("A", 0o644, b"")]), "occurs twice"),
        (archive(&[("a\\b", 0o644, b"")]), "characters"),
        (archive(&[("program.lock", 0o644, b"")]), "haft writes"),
        (archive(&many), "more than 10000 files"),
    ] {
        let (place, done) = unpacked(&bytes);
        let error = done.unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!place.path().join("to").exists(), "{expected}");
    }
}

/// PR08: damage is reported, in the middle of a file as well as at its end.
#[test]
fn a_damaged_archive_is_told() {
    let content = "content of a file ".repeat(100);
    let whole = archive(&[("a.txt", 0o644, content.as_bytes())]);
    let (mut middle, mut size) = (whole.clone(), whole.clone());
    middle[60] ^= 0xff;
    // The size in the central directory, which has the signature `PK\x01\x02`.
    let entry = whole.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    size[entry + 24] ^= 0x0f;
    for bytes in [&middle, &size, &whole[..whole.len() - 30].to_vec(), &b"PK\x03\x04".to_vec()] {
        let (_place, done) = unpacked(bytes);
        assert!(done.unwrap_err().contains("cannot be read"));
    }
}
