use proptest::prelude::*;

use super::*;
use crate::component::bounds::tests::nested;

const WIT: &str = "package a:b@1.0.0;\n/// I\ninterface c {\n/// R\nrecord r {\n/// X\nx: option<list<u8>> }\n\
    /// Does it.\n/// - r: the r\nf: func(r: r) -> result<r, string>; }\nworld w { export c;\n/// G\nexport g: func(); }";

fn binary() -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("made.wit", WIT).unwrap();
    wit_component::encode(&resolve, package, false).unwrap()
}

fn assert_docs(docs: &Docs) {
    let f = docs.function(Some("a:b/c@1.0.0"), "f").unwrap();
    assert_eq!(f.text(), "Does it.");
    assert_eq!(f.parameter("r").text().as_deref(), Some("the r"));
    assert_eq!(f.parameter("r").part("x").own_text().as_deref(), Some("X"));
    assert_eq!(f.returned().ok().text().as_deref(), Some("R"));
    assert_eq!(f.returned().error().text(), None);
    assert_eq!(docs.function(None, "g").unwrap().text(), "G");
    assert!(docs.function(Some("a:b/c@1.2.0"), "f").is_some() && docs.function(Some("a:b/d"), "f").is_none());
}

#[test]
fn words_are_the_same_in_text_and_in_binary() {
    assert_docs(&Docs::decode(&[binary()]).0);
    assert_docs(&Docs::parse(WIT).unwrap());
}

/// WA04: too deep nesting is refused, on a stack as small as a thread's.
#[test]
fn nothing_nests_deeper_than_the_stack() {
    let read = || {
        let text = format!("package a:b; interface c {{ f: func(x: {}", "list<".repeat(400_000));
        assert_eq!(Docs::parse(&text).err().as_deref(), Some("it nests too deep"));
        let bytes = nested(200_000);
        assert_eq!(Docs::decode(&[bytes]).1.len(), 1);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(read).unwrap().join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// WA04: a damaged package is read or refused.
    #[test]
    fn damaged_packages_bring_nothing_down(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = binary();
        for (index, byte) in &changes {
            let index = index.index(bytes.len());
            bytes[index] = *byte;
        }
        let (docs, problems) = Docs::decode(&[bytes]);
        if let Some(f) = docs.function(Some("a:b/c@1.0.0"), "f") {
            let _ = (f.text(), f.parameter("r").part("x").text(), problems);
        }
    }
}

#[test]
fn only_what_is_nested_counts() {
    assert!(!is_too_deep(&"interface a { f: func(x: list<u8>) -> list<u8>; }\n".repeat(1000)));
    assert!(!is_too_deep(&"/// a < b, (or {\n".repeat(1000)));
    assert!(!is_too_deep(&"/* < */ // ü <\n".repeat(1000)));
    assert!(is_too_deep(&"list<".repeat(101)));
    assert!(is_too_deep(&"/*".repeat(101)));
    assert!(!is_too_deep("//"));
}
