use proptest::prelude::*;

use super::*;

/// A custom section.
fn custom(name: &str, data: &[u8]) -> Vec<u8> {
    let mut inner = leb(name.len());
    inner.extend(name.as_bytes());
    inner.extend(data);
    section(0, &inner)
}

fn section(id: u8, inner: &[u8]) -> Vec<u8> {
    [vec![id], leb(inner.len()), inner.to_vec()].concat()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 127).unwrap();
        number >>= 7;
        bytes.push(if number > 0 { low | 128 } else { low });
        if number == 0 {
            return bytes;
        }
    }
}

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

fn component(parts: &[Vec<u8>]) -> Vec<u8> {
    [COMPONENT.to_vec(), parts.concat()].concat()
}

#[test]
fn the_outermost_sections_count_and_of_equals_the_last() {
    let module = section(
        1,
        &[MODULE.to_vec(), custom(WIT_SECTION, b"inner"), custom(PROGRAM_SECTION, b"inner")].concat(),
    );
    let sections = read(&component(&[
        module,
        custom(WIT_SECTION, b"first"),
        custom(PROGRAM_SECTION, b"first"),
        custom(WIT_SECTION, b"last"),
        custom(PROGRAM_SECTION, b"last"),
        custom("version", b"1.2.3"),
    ]))
    .unwrap();
    assert_eq!(sections.wit, [b"last".to_vec(), b"first".to_vec(), b"inner".to_vec()]);
    assert_eq!(sections.program.as_deref(), Some("last"));
    assert_eq!(sections.labels, [("version".to_owned(), "1.2.3".to_owned())]);
    assert_eq!((sections.modules, sections.components), (1, 0));
    assert_eq!(sections.custom.iter().filter(|custom| custom.depth == 1).count(), 2);
}

#[test]
fn a_real_component_is_seen_through() {
    let bytes = include_bytes!("../../../../../tests/guests/built/hostile.wasm");
    let sections = read(bytes).unwrap();
    let named = |list: &[Extern], name: &str| list.iter().any(|other| other.name.starts_with(name));
    assert!(
        named(&sections.exports, "haft:plugin/tools@")
            && named(&sections.imports, "wasi:filesystem/types@0.2")
    );
    assert!(sections.exports.iter().chain(&sections.imports).all(|one| one.kind == ExternKind::Interface));
    assert!(sections.producers.iter().any(|producer| producer.name == "wit-component"));
    assert!(sections.code > 100_000 && sections.data > 1000 && sections.modules > 1, "{sections:?}");
}

/// PR08: a section that is too large or malformed is omitted, and the problem is reported.
#[test]
fn what_is_too_large_or_malformed_is_left_out_and_told() {
    let sections = read(&component(&[
        custom(WIT_SECTION, &vec![0; MAX_WIT + 1]),
        custom(PROGRAM_SECTION, &vec![b'x'; MAX_OUTERMOST + 1]),
        custom(PROGRAM_SECTION, b"\xff"),
        custom(ACT_SECTION, b"\xff"),
        custom("producers", b"\xff\xff"),
        custom("description", b"\xff"),
    ]))
    .unwrap();
    assert_eq!(
        (sections.wit.len(), sections.program, sections.act, sections.labels.len()),
        (0, None, None, 0)
    );
    assert_eq!(
        sections.problems,
        [
            "its section `haft:wit` cannot be used: larger than 2048 KiB",
            "its section `haft:program` cannot be used: larger than 256 KiB",
            "its section `haft:program` cannot be used: not UTF-8",
            "its section `act:component` cannot be used: not CBOR",
        ]
    );
}

/// PR08: the number of sections is limited; sections beyond the other limits are omitted.
#[test]
fn a_file_of_nothing_but_sections_is_refused() {
    let nothing = custom("", b"").repeat(MAX_SECTIONS);
    assert!(matches!(read(&component(&[nothing])), Err(LoadError::TooMany(MAX_SECTIONS))));
    let many = custom("x", b"").repeat(10_000);
    assert_eq!(read(&component(&[many])).unwrap().custom.len(), MAX_CUSTOM);
    let wits = custom(WIT_SECTION, b"x").repeat(1000);
    assert_eq!(read(&component(&[wits])).unwrap().wit.len(), MAX_WITS);
    let nested = (0..2000).fold(COMPONENT.to_vec(), |inner, _| component(&[section(4, &inner)]));
    assert_eq!(read(&nested).unwrap().components, 2000);
}

#[test]
fn what_is_no_component_is_named() {
    assert_eq!(read(b"").unwrap_err().to_string(), "not a WebAssembly component: the file is empty");
    assert!(matches!(read(MODULE), Err(LoadError::CoreModule)));
    let script = read(b"#!/bin/sh").unwrap_err().to_string();
    assert_eq!(script, "not a WebAssembly component: it does not begin with the bytes `\\0asm`");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// WA04: no file crashes haft, regardless of its damage.
    #[test]
    fn damaged_files_are_refused_or_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let wit = component(&[custom(ACT_SECTION, b"\xa1cstd\xa0"), custom("producers", b"\x01\x03sdk\x01\x01a\x01b")]);
        let whole = include_bytes!("../../../../../plugins/built/hello.wasm");
        for bytes in [wit.as_slice(), whole] {
            let mut bytes = bytes.to_vec();
            for (index, byte) in &changes {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            let _ = read(&bytes);
            let _ = read(&bytes[..cut.index(bytes.len())]);
        }
    }
}
