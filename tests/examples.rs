//! The examples of `plugins/examples`, one for each language, as components of the real toolchains: their results,
//! their metadata, and errors that a model can read. `.ci/steps/examples` builds them; without that step these tests
//! report that they were skipped.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};

/// The variable with the folder of the built components.
const FOLDER: &str = "HAFT_TEST_EXAMPLES";

/// An example in a temporary home: it can read the folder `granted`, which contains the test's files, but not the
/// file `closed` beside that folder.
struct Example {
    home: Home,
    name: &'static str,
}

impl Example {
    /// `None` with a `SKIPPED` message if the example was not built.
    fn new(name: &'static str) -> Option<Self> {
        let Some(folder) = std::env::var_os(FOLDER) else {
            eprintln!(
                "SKIPPED: the example `{name}` was not built; `.ci/steps/examples` builds and tests it"
            );
            return None;
        };
        let component = PathBuf::from(folder).join(name).with_extension("wasm");
        if !component.is_file() {
            eprintln!("SKIPPED: the example `{name}`: no `{}`", component.display());
            return None;
        }
        let home = Home::new();
        fs::create_dir(home.work().join("granted")).unwrap();
        home.write("closed", "[{\"a\": 1}]");
        home.write(
            "program.toml",
            &format!(
                "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \"granted\"\n\
                 [[plugins]]\nname = \"{name}\"\ncomponent = \"{}\"\n[plugins.grant]\nread = [\"granted\"]\n\
                 [plugins.limits]\nmemory = \"256MiB\"\n",
                component.display()
            ),
        );
        Some(Self { home, name })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.home.work().join("granted").join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn answer(&self, tool: &str, arguments: &Value) -> Answer {
        self.home.call(&format!("{}__{tool}", self.name), arguments)
    }

    /// The string result of a tool.
    fn text(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.answer(tool, arguments);
        assert_eq!(answer.code, 0, "{tool} {arguments}: {}", answer.stderr);
        answer.stdout.trim_end().to_owned()
    }

    /// The result of a tool, parsed as JSON.
    fn says(&self, tool: &str, arguments: &Value) -> Value {
        serde_json::from_str(&self.text(tool, arguments)).unwrap()
    }

    /// The error of a tool that fails without a trap.
    fn fails(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.answer(tool, arguments);
        assert_eq!(answer.code, 1, "{tool} {arguments}: {}{}", answer.stdout, answer.stderr);
        assert!(answer.stderr.starts_with("Tool error"), "{tool} {arguments}: {}", answer.stderr);
        assert!(!answer.stderr.contains("unreachable"), "{tool} {arguments}: {}", answer.stderr);
        answer.stderr
    }

    /// The tool cannot read a file beside the granted folder, and haft names the grant that would allow it.
    fn is_closed_to(&self, tool: &str, arguments: impl Fn(&str) -> Value) {
        for path in [self.home.work().join("closed"), self.home.work().join("granted/../closed")] {
            let refused = self.fails(tool, &arguments(&path.to_string_lossy()));
            assert!(refused.contains("read = ["), "{refused}");
        }
    }

    /// The example has exactly these tools; the descriptions of each tool and of one parameter are the comments of
    /// its WIT.
    fn is_documented(&self, tools: &[(&str, &str, &str, &str)]) {
        let answer = self.home.haft(&["tools", "--json"]);
        let all: Vec<Value> = serde_json::from_str(&answer.stdout).unwrap();
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        let own: Vec<_> = all.iter().filter(|tool| name(tool).starts_with(self.name)).collect();
        let names: Vec<_> = own.iter().map(|tool| name(tool)).collect();
        let expected: Vec<_> = tools.iter().map(|(tool, ..)| format!("{}__{tool}", self.name)).collect();
        assert_eq!(names, expected);
        for (tool, (_, description, parameter, meaning)) in own.iter().zip(tools) {
            assert!(tool["description"].as_str().unwrap().starts_with(description), "{tool}");
            let described = &tool["parameters"]["properties"][*parameter]["description"];
            assert!(described.as_str().unwrap().starts_with(meaning), "{described}");
        }
    }
}

/// The forms in which a model writes a path: absolute, or relative to the workspace.
fn as_written(path: &str) -> [String; 3] {
    let name = path.rsplit('/').next().unwrap();
    [path.to_owned(), name.to_owned(), format!("./{name}")]
}

#[test]
fn rust_finds_what_matches() {
    let Some(example) = Example::new("matches") else { return };
    example.is_documented(&[
        ("find", "Finds every match of a regular expression", "paths", "files and folders"),
        ("replace", "Says what a text would be", "replacement", "what stands in its place"),
    ]);
    let find =
        |pattern: &str, path: &str| json!({ "pattern": pattern, "paths": [path], "how": ["ignore-case"] });
    let path = example.write("a.txt", "none\né One 1, two\n".as_bytes());
    for written in as_written(&path) {
        let found = example.says("find", &find(r"(\w+) (\d)|(two)", &written));
        let first =
            json!({ "file": path, "line": 2, "column": 3, "text": "One 1", "groups": ["One", "1", null] });
        assert_eq!((&found["places"][0], &found["places"][1]["column"]), (&first, &json!(10)));
    }
    let closed = example.says("find", &find("a", &example.home.work().join("closed").to_string_lossy()));
    assert_eq!(closed["places"], json!([]));
    assert!(closed["skipped"][0][1].as_str().unwrap().starts_with("No such file"), "{closed}");
    example.write("bytes", b"one\0\xff");
    let skipped = example.says("find", &find("one", "."));
    assert_eq!(skipped["skipped"][0][1], "no text");
    for (pattern, expected) in
        [("(", "unclosed group"), (r"(\w{100}){100}", "size limit"), ("(?=a)", "look-around")]
    {
        assert!(example.fails("find", &find(pattern, ".")).contains(expected), "{pattern}");
    }
    // A backtracking engine would not finish this search in practice.
    example.write("slow.txt", "a".repeat(10_000).as_bytes());
    assert_eq!(example.says("find", &find("(a*)*b", "slow.txt"))["places"], json!([]));
    let arguments = json!({ "pattern": "(o)", "replacement": "[$1]", "text": "foo", "how": [] });
    assert_eq!(example.text("replace", &arguments), "f[o][o]");
}

#[test]
fn c_calculates_checksums() {
    let Some(example) = Example::new("checksum") else { return };
    example.is_documented(&[
        ("sums", "Calculates checksums of a file", "kinds", "which checksums"),
        ("lines", "Counts the lines of a file", "file", "path of the file"),
    ]);
    let path = example.write("a.txt", b"123456789");
    let sums = example.says("sums", &json!({ "file": path, "kinds": ["crc32", "fnv1a"] }));
    // Above 2^53 JSON numbers are not exact.
    assert_eq!(sums, json!({ "size": 9, "crc32": "cbf43926", "fnv1a": "492395637191921148" }));
    let large = example.write("large", &vec![0; 3 << 20]);
    let sums = example.says("sums", &json!({ "file": large, "kinds": ["sha256"] }));
    assert_eq!(sums["sha256"], "bbd05cf6097ac9b1f89ea29d2542c1b7b67ee46848393895f5a9e43fa1f621e5");
    let path = example.write("b.txt", b"one \r\n\ntwo\xff");
    let lines = example.says("lines", &json!({ "file": path }));
    let expected = json!({
        "count": 3, "blank": 1, "trailing": 1, "longest": 4, "ends": "mixed", "complete": false, "not-text": 10,
    });
    assert_eq!(lines, expected);
    example.is_closed_to("lines", |path| json!({ "file": path }));
    for file in ["", ".", "none", "a\0b", &"x/".repeat(3000)] {
        example.fails("sums", &json!({ "file": file, "kinds": [] }));
    }
}

#[test]
fn go_looks_into_archives() {
    let Some(example) = Example::new("archive") else { return };
    example.is_documented(&[
        ("entries", "Lists what is in an archive", "pattern", "only names that match it"),
        ("read", "Gives the content of one file", "limit", "bytes to give at most"),
    ]);
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let path = example.write("a.tar.gz", &packed(&archive(&[("docs/a.txt", b"abc"), ("bytes", b"\0\xff")])));
    for written in as_written(&path) {
        let entries =
            example.says("entries", &json!({ "path": written, "pattern": "docs/*", "details": ["digests"] }));
        assert_eq!(entries.as_array().unwrap().len(), 1);
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((&entries[0]["name"], &entries[0]["sha256"]), (&json!("docs/a.txt"), &json!(sum)));
    }
    let read = |name: &str| json!({ "path": path, "name": name });
    assert_eq!(example.says("read", &read("docs/a.txt")), json!({ "tag": "text", "val": "abc" }));
    assert_eq!(example.says("read", &read("bytes")), json!({ "tag": "bytes", "val": { "base64": "AP8=" } }));
    assert!(example.fails("read", &read("none")).contains("`entries` lists what there is"));
    example.is_closed_to("entries", |path| json!({ "path": path, "details": [] }));
    for (name, bytes) in [
        ("text", b"no archive".repeat(100)),
        ("cut", packed(&archive(&[("a", b"abc")]))[..40].to_vec()),
        ("zip", b"PK\x03\x04 and no more".to_vec()),
    ] {
        let path = example.write(name, &bytes);
        example.fails("entries", &json!({ "path": path, "details": [] }));
    }
    example.fails("entries", &json!({ "path": path, "pattern": "[", "details": [] }));
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn python_describes_tables() {
    let Some(example) = Example::new("table") else { return };
    example.is_documented(&[
        ("describe", "Describes every column of a table", "frequent", "how many of the most frequent"),
        ("rows", "Finds rows of a table", "conditions", "what a row has to meet"),
    ]);
    let path = example.write("a.csv", "name,age\nAda,36\nZoë,9\nCy,\n".as_bytes());
    for written in as_written(&path) {
        let columns = example.says("describe", &json!({ "file": written, "frequent": 1 }));
        assert_eq!(
            columns[0],
            json!({
                "name": "name", "kind": "text", "filled": 3, "distinct": 3, "frequent": [["Ada", 1]],
            })
        );
        assert_eq!(columns[1]["numbers"]["mean"], 22.5);
    }
    let older = json!({ "column": "age", "comparison": "greater", "value": "10" });
    let rows = |conditions: Value| json!({ "file": path, "conditions": conditions, "columns": ["name"] });
    assert_eq!(example.says("rows", &rows(json!([older]))), json!([[["name", "Ada"]]]));
    let unknown = json!([{ "column": "height", "comparison": "less", "value": "10" }]);
    assert!(example.fails("rows", &rows(unknown)).contains("unknown-column: [\"name\",\"age\"]"));
    example.is_closed_to("describe", |path| json!({ "file": path }));
    // Here the interpreter itself ends, and the call with it.
    let deep = example.write("deep", "[".repeat(50_000).as_bytes());
    example.fails("describe", &json!({ "file": deep }));
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("bytes", b"a,b\n\xff,1\n"),
        ("short", b"a,b\n1\n"),
        ("quoted", b"a,b\n\"1,2\n"),
        ("list", b"[1]"),
    ] {
        let path = example.write(name, bytes);
        let refused = example.fails("describe", &json!({ "file": path }));
        assert!(refused.contains("malformed: "), "{name}: {refused}");
    }
}

#[test]
fn javascript_compares_json() {
    let Some(example) = Example::new("json") else { return };
    example.is_documented(&[
        ("get", "Gets one value out of JSON", "pointer", "which value: a JSON pointer"),
        ("changes", "Compares two JSON values", "after", "the later one"),
        ("table", "Writes an array of objects as a table", "columns", "which members to show"),
    ]);
    let text = |text: &str| json!({ "tag": "text", "val": text });
    let file = |path: &str| json!({ "tag": "file", "val": path });
    let path = example.write("a.json", "{\"a\": [{\"b\": \"é€😀\"}]}".as_bytes());
    for written in as_written(&path) {
        let found = example.text("get", &json!({ "source": file(&written), "pointer": "/a/0/b" }));
        assert_eq!(found, "\"é€😀\"");
    }
    let changes = json!({ "before": file(&path), "after": text("{\"a\":[],\"c\":1}") });
    assert_eq!(
        example.says("changes", &changes),
        json!([
            { "tag": "removed", "val": { "pointer": "/a/0", "value": "{\"b\":\"é€😀\"}" } },
            { "tag": "added", "val": { "pointer": "/c", "value": "1" } },
        ])
    );
    let table = json!({ "source": text("[{\"a\":1}]") });
    assert_eq!(example.text("table", &table), "| a |\n| --- |\n| 1 |");
    example.is_closed_to("get", |path| json!({ "source": file(path), "pointer": "" }));
    let bytes = example.write("bytes", b"\"\xff\"");
    let deep = "[".repeat(50_000);
    for source in [text(""), text("{]"), text(&deep), file(""), file("."), file(&bytes), file("none")] {
        example.fails("get", &json!({ "source": source, "pointer": "" }));
    }
    assert!(example.fails("table", &json!({ "source": text("[1]") })).contains("an array of objects"));
}
