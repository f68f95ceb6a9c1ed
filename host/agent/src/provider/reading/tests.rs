//! Tests of six formats, each with every form of streamed responses that servers send.

mod ends;
mod wire;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use self::wire::{Call, FORMATS, Format, May, Part};
use super::*;
use crate::provider::{Ask, Stop, Turn};

const NO: May = May::Absent;
const NULL: May = May::Null;

const fn is(text: &'static str) -> May {
    May::Is(text)
}

const fn call(index: Option<u64>, id: May, name: May, arguments: May) -> Part {
    Part::Call(Call { index, id, name, arguments })
}

const fn text(text: May) -> Part {
    Part::Text(text)
}

const A: &str = "{\"a\":1}";
const B: &str = "{\"b\":2}";
const ONE: &[(&str, &str)] = &[("read", A)];
const TWO: &[(&str, &str)] = &[("read", A), ("read", B)];
const EMPTY: &[(&str, &str)] = &[("read", "{}")];
const I0: Option<u64> = Some(0);
const I1: Option<u64> = Some(1);

/// A name, the pieces of a response, and the resulting text and calls.
type Form = (&'static str, &'static [Part], &'static str, &'static [(&'static str, &'static str)]);

/// (B02, B03, B04, A11, A17): forms in which servers split a response.
const FORMS: &[Form] = &[
    (
        "as usual",
        &[
            call(I0, is("c1"), is("read"), is("")),
            call(I0, NO, NO, is("{\"a\"")),
            call(I0, NO, NO, is(":1}")),
        ],
        "",
        ONE,
    ),
    ("all at once", &[call(I0, is("c1"), is("read"), is(A))], "", ONE),
    ("no arguments", &[call(I0, is("c1"), is("read"), NO)], "", EMPTY),
    ("arguments null", &[call(I0, is("c1"), is("read"), NULL)], "", EMPTY),
    (
        "arguments null, then their text",
        &[call(I0, is("c1"), is("read"), NULL), call(I0, NO, NO, is("{\"a\"")), call(I0, NO, NO, is(":1}"))],
        "",
        ONE,
    ),
    (
        "name null, then the name",
        &[call(I0, is("c1"), NULL, is("")), call(I0, NO, is("read"), NO), call(I0, NO, NO, is(A))],
        "",
        ONE,
    ),
    (
        "name empty, then the name",
        &[call(I0, is("c1"), is(""), is("")), call(I0, NO, is("read"), is(A))],
        "",
        ONE,
    ),
    ("name absent, then the name", &[call(I0, is("c1"), NO, NO), call(I0, NO, is("read"), is(A))], "", ONE),
    ("id null, then the id", &[call(I0, NULL, is("read"), is("")), call(I0, is("c1"), NO, is(A))], "", ONE),
    (
        "nulls in each piece",
        &[
            call(I0, is("c1"), is("read"), is("{\"a\"")),
            call(I0, NULL, NULL, is(":1}")),
            call(I0, NULL, NULL, NULL),
        ],
        "",
        ONE,
    ),
    (
        "another id with the arguments",
        &[
            call(I0, is("x1"), is("read"), is("")),
            call(I0, is("x2"), NO, is("{\"a\"")),
            call(I0, is("x2"), NO, is(":1}")),
        ],
        "",
        ONE,
    ),
    (
        "a new id in each piece",
        &[
            call(I0, is("x1"), is("read"), is("{\"a")),
            call(I0, is("x2"), NO, is("\":")),
            call(I0, is("x3"), NO, is("1}")),
        ],
        "",
        ONE,
    ),
    (
        "another id, name null",
        &[call(I0, is("x1"), is("read"), is("")), call(I0, is("x2"), NULL, is(A))],
        "",
        ONE,
    ),
    (
        "another id, name empty",
        &[call(I0, is("x1"), is("read"), is("")), call(I0, is("x2"), is(""), is(A))],
        "",
        ONE,
    ),
    (
        "another id and the name in each piece",
        &[call(I0, is("x1"), is("read"), is("{\"a\"")), call(I0, is("x2"), is("read"), is(":1}"))],
        "",
        ONE,
    ),
    (
        "another number in each piece",
        &[call(I0, is("c1"), is("read"), is("{\"a\"")), call(I1, NO, NO, is(":1}"))],
        "",
        ONE,
    ),
    (
        "another number and the name in each piece",
        &[call(I0, is("c1"), is("read"), is("{\"a\"")), call(I1, is("c1"), is("read"), is(":1}"))],
        "",
        ONE,
    ),
    (
        "the name with each piece",
        &[call(I0, is("c1"), is("read"), is("{\"a\"")), call(I0, is("c1"), is("read"), is(":1}"))],
        "",
        ONE,
    ),
    ("the name in pieces", &[call(I0, is("c1"), is("re"), is("")), call(I0, NO, is("ad"), is(A))], "", ONE),
    ("an empty object first", &[call(I0, is("c1"), is("read"), is("{}")), call(I0, NO, NO, is(A))], "", ONE),
    (
        "an empty object first, then pieces",
        &[
            call(I0, is("c1"), is("read"), is("{}")),
            call(I0, NO, NO, is("{\"a\"")),
            call(I0, NO, NO, is(":1}")),
        ],
        "",
        ONE,
    ),
    ("an empty object last", &[call(I0, is("c1"), is("read"), is(A)), call(I0, NO, NO, is("{}"))], "", ONE),
    (
        "all arguments once more at the end",
        &[call(I0, is("c1"), is("read"), is("{\"a\"")), call(I0, NO, NO, is(":1}")), call(I0, NO, NO, is(A))],
        "",
        ONE,
    ),
    (
        "the whole call twice",
        &[call(I0, is("c1"), is("read"), is(A)), call(I0, is("c1"), is("read"), is(A))],
        "",
        ONE,
    ),
    (
        "spaces and line breaks around",
        &[call(I0, is("c1"), is("read"), is(" \n{\"a\"")), call(I0, NO, NO, is(": 1}\n"))],
        "",
        ONE,
    ),
    ("two calls", &[call(I0, is("c1"), is("read"), is(A)), call(I1, is("c2"), is("read"), is(B))], "", TWO),
    (
        "two calls at the same time",
        &[
            call(I0, is("c1"), is("read"), is("")),
            call(I1, is("c2"), is("read"), is("")),
            call(I0, NO, NO, is(A)),
            call(I1, NO, NO, is(B)),
        ],
        "",
        TWO,
    ),
    (
        "two calls that are numbered 0",
        &[call(I0, is("c1"), is("read"), is(A)), call(I0, is("c2"), is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls that are numbered 0, in pieces",
        &[
            call(I0, is("c1"), is("read"), is("{\"a\"")),
            call(I0, is("c1"), NO, is(":1}")),
            call(I0, is("c2"), is("read"), is("{\"b\"")),
            call(I0, is("c2"), NO, is(":2}")),
        ],
        "",
        TWO,
    ),
    (
        "two calls that are numbered 0, with one id",
        &[call(I0, is("c"), is("read"), is(A)), call(I0, is("c"), is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls that are numbered 0, without ids",
        &[call(I0, NO, is("read"), is(A)), call(I0, NO, is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls with one id",
        &[call(I0, is("c"), is("read"), is(A)), call(I1, is("c"), is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls with one id, in pieces",
        &[
            call(I0, is("c"), is("read"), is("")),
            call(I0, NO, NO, is(A)),
            call(I1, is("c"), is("read"), is("")),
            call(I1, NO, NO, is(B)),
        ],
        "",
        TWO,
    ),
    (
        "two calls without numbers",
        &[call(None, is("c1"), is("read"), is(A)), call(None, is("c2"), is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls without numbers and ids",
        &[call(None, NO, is("read"), is(A)), call(None, NO, is("read"), is(B))],
        "",
        TWO,
    ),
    (
        "two calls without numbers and ids, in pieces",
        &[
            call(None, NO, is("read"), is("{\"a\"")),
            call(None, NO, NO, is(":1}")),
            call(None, NO, is("read"), is(B)),
        ],
        "",
        TWO,
    ),
    (
        "the second has its name later",
        &[
            call(I0, is("c1"), is("read"), is(A)),
            call(I1, is("c2"), NULL, is("")),
            call(I1, NO, is("read"), is(B)),
        ],
        "",
        TWO,
    ),
    (
        "a piece that never becomes a call",
        &[call(I0, is("c1"), is("read"), is(A)), call(I1, is("c2"), NULL, NULL)],
        "",
        ONE,
    ),
    ("text", &[text(is("hel")), text(is("lo"))], "hello", &[]),
    ("text null first", &[text(NULL), text(is("hello"))], "hello", &[]),
    (
        "text null and empty between",
        &[text(is("hel")), text(NULL), text(is("")), text(NO), text(is("lo"))],
        "hello",
        &[],
    ),
    ("text before a call", &[text(is("hello")), call(I0, is("c1"), is("read"), is(A))], "hello", ONE),
    (
        "thoughts in the text",
        &[text(is("<thi")), text(is("nk>hm")), text(is("</think>\n\nhel")), text(is("lo"))],
        "hello",
        &[],
    ),
    (
        "thoughts in the text of a call",
        &[text(is("<think>hm</think>")), call(I0, is("c1"), is("read"), is(A))],
        "",
        ONE,
    ),
];

/// Returns a stream of frames as bytes.
fn stream(format: &Format, frames: &[Value], end: &str) -> Vec<u8> {
    let lines: Vec<String> = match format.dialect.api().framing {
        Framing::Lines => frames.iter().map(|frame| format!("{frame}\n")).collect(),
        Framing::Events => frames.iter().map(|frame| format!("data: {frame}\n\n")).collect(),
    };
    [lines.concat().as_bytes(), end.as_bytes()].concat()
}

/// Returns a turn, and the text that a user saw.
fn read(format: &Format, bytes: &[u8], size: usize) -> Result<(Turn, String), Failure> {
    let said = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sink = said.clone();
    let events = Events::to(move |event| {
        if let Event::Said(text) = event {
            sink.lock().unwrap().push_str(text);
        }
    });
    let redactor = Redactor::default();
    let mut reading = Reading::new(format.dialect, &redactor, &events);
    for piece in bytes.chunks(size.max(1)) {
        if reading.is_over() {
            break;
        }
        reading.take(piece)?;
    }
    reading.finish()?;
    let (body, is_whole) = reading.into_body();
    let turn = format.dialect.decode(&Ask::default(), body)?;
    let told = if is_whole { turn.reply.text.clone() } else { said.lock().unwrap().clone() };
    Ok((turn, told))
}

fn assert_read(format: &Format, what: &str, bytes: &[u8], size: usize, said: &str, calls: &[(&str, &str)]) {
    let (turn, told) =
        read(format, bytes, size).unwrap_or_else(|error| panic!("{}, {what}: {error}", format.name));
    let of_call =
        |(name, arguments): &(&str, &str)| (name.to_string(), serde_json::from_str(arguments).unwrap(), None);
    let got: Vec<(String, Value, Option<String>)> = turn
        .reply
        .calls
        .iter()
        .map(|requested| {
            let call = requested.call.clone();
            (call.tool, call.arguments, requested.problem.clone())
        })
        .collect();
    assert_eq!(got, calls.iter().map(of_call).collect::<Vec<_>>(), "{}, {what}", format.name);
    assert_eq!((turn.reply.text.trim(), told.trim()), (said, said), "{}, {what}", format.name);
    assert_eq!(turn.stop, Stop::Done, "{}, {what}", format.name);
}

#[test]
fn every_format_is_put_together_from_every_form_of_pieces() {
    for format in FORMATS {
        for (what, parts, said, calls) in FORMS {
            let bytes = stream(format, &(format.write)(parts), "");
            for size in [7, usize::MAX] {
                assert_read(format, what, &bytes, size, said, calls);
            }
        }
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// (A04, A12): framings of a body, regardless of its headers.
fn transports(format: &Format) -> Vec<(&'static str, Vec<u8>)> {
    let frames = (format.write)(&[text(is("hello")), call(I0, is("c1"), is("read"), is(A))]);
    let bytes = |end: &str| stream(format, &frames, end);
    let plain = String::from_utf8(bytes("")).unwrap();
    let events = |line: &dyn Fn(&Value) -> String| frames.iter().map(line).collect::<String>().into_bytes();
    let whole = (format.whole)();
    let late = stream(format, &[(format.error)()], "");
    let pretty = serde_json::to_string_pretty(&whole).unwrap();
    vec![
        ("as it is", bytes("")),
        ("with the mark of the end", bytes("data: [DONE]\n\n")),
        ("without the last line break", plain.trim_end().into()),
        ("with carriage returns", plain.replace('\n', "\r\n").into()),
        ("with a byte order mark", [b"\xEF\xBB\xBF", plain.as_bytes()].concat()),
        ("with empty lines first", [b"\n\n", plain.as_bytes()].concat()),
        ("with comments", events(&|frame| format!(": ping\n\ndata: {frame}\n\n"))),
        ("with the names of events", events(&|frame| format!("event: x\nid: 1\ndata: {frame}\n\n"))),
        (
            "with a time to wait first",
            [b"retry: 3000\n\n".to_vec(), events(&|frame| format!("data: {frame}\n\n"))].concat(),
        ),
        ("without a space", events(&|frame| format!("data:{frame}\n\n"))),
        (
            "over several lines",
            events(&|frame| {
                format!(
                    "data: {}\n\n",
                    serde_json::to_string_pretty(frame).unwrap().replace('\n', "\ndata: ")
                )
            }),
        ),
        ("a line each", events(&|frame| format!("{frame}\n"))),
        ("then something that is no JSON", bytes("data: {cut\n\n")),
        ("then a line that is no JSON", bytes("{cut\n")),
        ("then an error", [plain.as_bytes(), &late].concat()),
        ("then a list", bytes("data: [1]\n\n")),
        ("packed", packed(plain.as_bytes())),
        (
            "packed twice in a row",
            [packed(&plain.as_bytes()[..20]), packed(&plain.as_bytes()[20..])].concat(),
        ),
        ("as one body", whole.to_string().into()),
        ("as one body over many lines", pretty.clone().into()),
        ("as one body after empty lines", format!("\n\n{whole}\n").into()),
        ("as one body with a byte order mark", format!("\u{feff}{whole}").into()),
        ("as one body, packed", packed(pretty.as_bytes())),
    ]
}

#[test]
fn every_format_is_read_however_its_bytes_come() {
    for format in FORMATS {
        for (what, bytes) in transports(format) {
            for size in [1, 19, usize::MAX] {
                assert_read(format, what, &bytes, size, "hello", ONE);
            }
        }
    }
}

#[test]
fn there_are_sixty_forms() {
    assert!(FORMS.len() + transports(&FORMATS[0]).len() >= 60);
}

/// A body that ends early is an error, and so is one that needs too much memory.
#[test]
fn half_an_answer_is_none() {
    let frames = |format: &Format| (format.write)(&[text(is("hello"))]);
    for format in FORMATS {
        let all = frames(format);
        let ends = all.iter().filter(|frame| {
            ["usage\":{\"prompt", "message_stop"].iter().any(|end| frame.to_string().contains(end))
        });
        let most = all.len() - 1 - ends.count();
        for count in 0..most {
            let error = read(format, &stream(format, &all[..count], ""), 19).unwrap_err();
            assert!(error.passing().is_some(), "{}, {count}: {error}", format.name);
        }
    }
    let bomb = packed(&vec![b' '; MAX_STREAM + 1]);
    assert!(matches!(read(&FORMATS[0], &bomb, 1 << 14), Err(Failure::TooLarge(_))));
    let broken = [&packed(b"data: {}\n\n")[..12], b"xxxxxxxx"].concat();
    assert!(read(&FORMATS[0], &broken, 5).is_err());
}
