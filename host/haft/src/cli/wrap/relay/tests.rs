use std::io::BufReader;

use serde_json::json;

use super::listed::{may_list, read, without};
use super::received::Long;

fn is_other(id: &serde_json::Value) -> bool {
    *id == json!(7)
}

/// Returns the number of tools that a line lists. `None` if it may have several meanings.
fn listed(line: &str) -> Option<usize> {
    if !may_list(line.as_bytes()) {
        return Some(0);
    }
    read(line.as_bytes(), is_other).ok().map(|lists| lists.iter().map(|one| one.tools.len()).sum())
}

#[test]
fn a_list_is_found_in_every_form_or_is_unclear() {
    for (line, tools) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}"#, Some(2)),
        (r#" {"id":"1","result":{"nextCursor":"x","tools":[ {"name":"a"} ]}} "#, Some(1)),
        (r#"{"id":1.0,"result":{"tools":[{"name":"a"}]}}"#, Some(1)),
        (r#"{"\u0069d":1,"result":{"t\u006fols":[{"name":"a"}]}}"#, Some(1)),
        (r#"[{"id":3,"result":{}},{"id":1,"result":{"tools":[{"name":"a"}]}}]"#, Some(1)),
        // An invalid tool is listed without a name.
        (r#"{"id":1,"result":{"tools":[{"name":"a","description":"x","description":"y"}]}}"#, Some(1)),
        (r#"{"id":1,"result":{"tools":[{"name":"a","inputSchema":{"a":1,"a":2}}]}}"#, Some(1)),
        (r#"{"id":1,"result":{"tools":[{"name":"a","x":1e400},{"name":"\ud800"}]}}"#, Some(2)),
        // Lines without a list.
        (r#"{"id":7,"result":{"tools":[{"name":"a"}]}}"#, Some(0)),
        (r#"{"id":1,"result":{"capabilities":{"tools":{}}}}"#, Some(0)),
        (r#"{"id":1,"result":{"content":[{"text":"{\"tools\":[]}"}]}}"#, Some(0)),
        (r#"{"method":"x","params":{"tools":[]},"params":{}}"#, Some(0)),
        // Lines that clients read in different ways.
        (r#"{"id":7,"id":1,"result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":7,"\u0069d":1,"result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":7,"ID":1,"result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":1,"result":{},"result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":1,"result":{"tools":[],"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":1,"result":{"tools":[],"Tools":[{"name":"a"}]}}"#, None),
        ("{\"id\":1,\"re\u{17f}ult\":{\"tool\u{17f}\":[{\"name\":\"a\"}]}}", None),
        (r#"{"id":1,"method":"x","result":{"tools":[{"name":"a"}]}}"#, None),
        (r#"{"id":1,"result":{"tools":{"name":"a"}}}"#, None),
        (r"{id:1,result:{tools:[{name:a}]}}", None),
        (r#"{"id":1,"result":{"tools":[{"name":"a"}]}} x"#, None),
        (r#"{"id":1,"result":{"tools":[{"name":"a"}]}"#, None),
        ("{\"method\":\"x\",\"params\":\r{\"id\":1,\"result\":{\"tools\":[]}}\r}", None),
        ("{\"id\":1,\"result\":{\"tools\":[{\"name\":\"a\u{0}\"}]}}", None),
    ] {
        assert_eq!(listed(line), tools, "{line}");
    }
    assert!(may_list(b"TOOLS") && may_list(b"\\u0074ools") && !may_list(b"tool \\u2019 oolst"));
    assert!(read(b"{\"id\":1,\"result\":{\"tools\":[{\"name\":\"\xff\"}]}}", is_other).is_err());
}

#[test]
fn only_held_tools_are_taken_out() {
    let line = r#"{ "x" : [1, 2] ,"result":{"a":"tools","tools" : [ {"name":"a"} , {"name":"b"},{"name":"c"} ],"_meta":{"z":1.0}},"id":1}"#;
    let taken = |held: [bool; 3]| {
        let lists = read(line.as_bytes(), is_other).unwrap();
        let lists: Vec<_> = lists.into_iter().map(|list| (list, held.to_vec())).collect();
        String::from_utf8(without(line.as_bytes(), &lists)).unwrap()
    };
    assert_eq!(taken([false; 3]), line);
    let rest = |tools: &str| line.replace(r#"[ {"name":"a"} , {"name":"b"},{"name":"c"} ]"#, tools);
    assert_eq!(taken([false, true, false]), rest(r#"[{"name":"a"},{"name":"c"}]"#));
    assert_eq!(taken([true; 3]), rest("[]"));
}

/// Returns the part of a long line that passes, if it arrives in pieces of `size` bytes.
fn passed(line: &str, size: usize) -> (String, bool) {
    let mut output = Vec::new();
    let mut long = Long::new(&mut output, BufReader::with_capacity(size, line.as_bytes()));
    let mut values = serde_json::Deserializer::from_reader(&mut long);
    let whole =
        serde::Deserialize::deserialize(&mut values).and_then(|_: serde::de::IgnoredAny| values.end());
    let is_whole = whole.is_ok();
    (String::from_utf8(output).unwrap(), is_whole)
}

#[test]
fn a_long_line_passes_up_to_what_may_be_a_list() {
    let list = r#"{"id":2,"result":{"tools":[{"name":"evil"}]}}"#;
    for size in [1, 2, 7, 64, 1000] {
        for line in [
            "{\"a\":[1,{\"tools\":\"\u{e9}\u{1f600}\"}],\"b\":{\"c\":{\"tools\":[]}}} \r\n",
            "{\"id\":1,\"result\":{\"text\":\"tools\",\"a\":{\"tools\":1}}}",
        ] {
            assert_eq!(passed(line, size), (line.to_owned(), true), "{size}: {line}");
        }
        for line in [
            format!("{list}\n"),
            format!("{{}}{list}\n"),
            format!("{{}}\r{list}\n"),
            format!("{{\"a\":[[[[    \r{}{list}\r\n", " ".repeat(100)),
            format!("{{\"a\":[[\"tools\",\r{list}\r]]}}\n"),
            "{\"id\":2,\"result\":{\"x\":\"AAA\",\"tools\":1}}\n".to_owned(),
        ] {
            let (passed, is_whole) = passed(&line, size);
            assert!(!is_whole && !passed.contains("evil") && line.starts_with(&passed), "{size}: {passed}");
        }
        // The rest is never read: the session ends.
        let (passed, is_whole) = passed("{\"a\":1\n}\n", size);
        assert!(!is_whole && passed.len() <= 8, "{size}: {passed}");
    }
}
