//! `haft plugin pack`: components with the sections that they lacked, and packages as one file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haft::manifest::Manifest;
use haft::plugin::inspect::read_sections;

use crate::cli::Home;
use crate::common::repository;

fn wordcount(home: &Home) {
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("p.wasm")).unwrap();
}

const WIT: &str = "package local:p;\n/// Documented.\ninterface i { f: func(); }\nworld w { export i; }\n";

/// The added sections are readable, and a second run does not change the component.
#[test]
fn a_component_gets_its_documentation_and_what_it_asks_for() {
    let home = Home::new();
    wordcount(&home);
    fs::create_dir(home.work().join("wit")).unwrap();
    home.write("wit/world.wit", WIT);
    let program = "[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"\ngrant.read = [\"docs\"]\n";
    home.write("program.toml", program);
    let before = fs::read(home.work().join("p.wasm")).unwrap();
    let answer = home.haft(&["plugin", "pack", "p.wasm", "--wit", "wit"]);
    assert!(
        answer.stderr.contains("with its documentation and list of requested rights"),
        "{}",
        answer.stderr
    );
    let once = fs::read(home.work().join("p.wasm")).unwrap();
    assert!(once.starts_with(&before), "what was there is as it was");
    let found = read_sections(&once).unwrap();
    assert_eq!(found.wit.len(), 1);
    let program = found.program.unwrap();
    let asked = Manifest::parse(&program, Path::new("program.toml")).unwrap();
    assert_eq!(asked.plugins[0].grant.read[0].value, Path::new("docs"));
    home.haft(&["plugin", "pack", "p.wasm", "--wit", "wit"]);
    assert_eq!(fs::read(home.work().join("p.wasm")).unwrap(), once);
    // haft replaces only the given sections.
    fs::remove_file(home.work().join("program.toml")).unwrap();
    home.write("wit/world.wit", &WIT.replace("Documented", "Documented anew"));
    home.haft(&["plugin", "pack", "p.wasm", "--wit", "wit", "-o", "q.wasm"]);
    let other = read_sections(&fs::read(home.work().join("q.wasm")).unwrap()).unwrap();
    assert_eq!(other.program.as_deref(), Some(program.as_str()));
    assert!(String::from_utf8_lossy(&other.wit[0]).contains("Documented anew"));
    let nothing = home.haft(&["plugin", "pack", "q.wasm"]);
    assert!(nothing.code == 3 && nothing.stderr.contains("nothing to add"), "{}", nothing.stderr);
}

#[test]
fn wit_that_is_wrong_is_told_with_its_line() {
    let home = Home::new();
    wordcount(&home);
    home.write("bad.wit", "package local:p;\ninterface i { f: fun(); }\n");
    let answer = home.haft(&["plugin", "pack", "p.wasm", "--wit", "bad.wit"]);
    assert!(answer.code == 3 && answer.stderr.contains("bad.wit:2:18"), "{}", answer.stderr);
    home.write("two.wit", "package local:p;\nworld a {}\nworld b {}\n");
    let answer = home.haft(&["plugin", "pack", "p.wasm", "--wit", "two.wit"]);
    assert!(answer.stderr.contains("hint: choose a world"), "{}", answer.stderr);
    assert_eq!(home.haft(&["plugin", "pack", "p.wasm", "--wit", "two.wit", "--world", "b"]).code, 0);
}

/// The files of an archive, with their mode, owner, time and text.
fn files(archive: &Path) -> BTreeMap<String, (u32, u64, u64, String)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(archive).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let (path, header) = (entry.path().unwrap().display().to_string(), entry.header().clone());
        let mut text = Vec::new();
        entry.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        (path, (header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap(), text))
    });
    entries.collect()
}

const PACKAGE: &str = r#"
[program]
name = "words"
version = "1.2.0"
[[plugins]]
name = "p"
component = "p.wasm"
[[tools]]
name = "own"
description = "d"
command = "./tool.sh"
"#;

/// The archive contains the declared and required files but no others, and its bytes depend only on them.
#[test]
fn a_folder_becomes_the_same_archive_every_time() {
    let home = Home::new();
    wordcount(&home);
    home.write("program.toml", PACKAGE);
    for folder in ["bin/data", "target", "src"] {
        fs::create_dir_all(home.work().join(folder)).unwrap();
    }
    for file in [
        "SKILL.md",
        "README.md",
        "LICENSE-MIT",
        "tool.sh",
        "bin/run",
        "bin/data/x",
        "target/y",
        "src/z",
        ".env",
        "program.lock",
    ] {
        home.write(file, file);
    }
    for file in ["tool.sh", "bin/run"] {
        fs::set_permissions(home.work().join(file), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let answer = home.haft(&["plugin", "pack"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("packed `words-1.2.0.tar.gz`: 8 files"), "{}", answer.stderr);
    let archive = home.work().join("words-1.2.0.tar.gz");
    let found = files(&archive);
    let names: Vec<_> = found.keys().map(|name| name.strip_prefix("words-1.2.0/").unwrap()).collect();
    let expected = [
        "LICENSE-MIT",
        "README.md",
        "SKILL.md",
        "bin/data/x",
        "bin/run",
        "p.wasm",
        "program.toml",
        "tool.sh",
    ];
    assert_eq!(names, expected);
    assert_eq!(found["words-1.2.0/bin/run"], (0o755, 0, 315_532_800, "bin/run".to_owned()));
    assert_eq!(found["words-1.2.0/README.md"].0, 0o644);
    let first = fs::read(&archive).unwrap();
    fs::remove_file(&archive).unwrap();
    for file in ["README.md", "bin/data/x"] {
        home.write(file, file);
    }
    home.haft(&["plugin", "pack", ".", "-o", "again.tar.gz"]);
    assert_eq!(fs::read(home.work().join("again.tar.gz")).unwrap(), first);
}

/// PR08: haft packs no file from outside of the folder.
#[test]
fn what_lies_elsewhere_is_not_packed() {
    let home = Home::new();
    wordcount(&home);
    let pack = |text: &str| {
        home.write("program.toml", text);
        home.haft(&["plugin", "pack"]).stderr
    };
    let component = |path: &str| PACKAGE.replace("p.wasm", path).replace("./tool.sh", "true");
    assert!(pack(&component("../p.wasm")).contains("expected a file in this folder"));
    assert!(pack(&component("none.wasm")).contains("hint: build it first: `haft plugin build`"));
    assert!(pack(PACKAGE).contains("command tool `own` cannot be packed"));
    std::os::unix::fs::symlink("/etc/passwd", home.work().join("SKILL.md")).unwrap();
    assert!(pack(&component("p.wasm")).contains("not a regular file"));
    assert!(
        pack("[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"").contains("a package needs `[program]`")
    );
    let names: Vec<_> = fs::read_dir(home.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("tar")), "{names:?}");
}

/// S01: a packed component contains nothing of the program around it except the requests of its own entry.
#[test]
fn a_packed_component_has_nothing_of_the_program_around_it() {
    let home = Home::new();
    wordcount(&home);
    fs::create_dir(home.work().join("wit")).unwrap();
    home.write("wit/world.wit", WIT);
    let around = "[program]\nname = \"notes\"\nversion = \"1.0.0\"\n\
        # planted-comment\n\
        [provider]\nname = \"openai\"\nbase_url = \"http://127.0.0.1:9/planted-address\"\n\
        [[mcp_servers]]\nname = \"s\"\ncommand = \"server\"\nargs = [\"--password=planted-argument\"]\n\
        env = { MODE = \"planted-value\" }\n\
        [[plugins]]\nname = \"other\"\ncomponent = \"planted-other.wasm\"\n";
    // A text in the form of a secret does not prevent the parsing of the file.
    let entry = "[[plugins]]\nname = \"mine\"\ncomponent = \"p.wasm\"\ngrant.read = [\"docs\"]\n\
        descriptions = { get_token = \"Gets one\" }\n";
    let packed = |arguments: &[&str]| {
        let answer =
            home.haft(&[&["plugin", "pack", "p.wasm", "--wit", "wit", "-o", "q.wasm"], arguments].concat());
        (answer.code, answer.stderr, fs::read(home.work().join("q.wasm")).unwrap_or_default())
    };
    home.write("program.toml", &format!("{around}{entry}"));
    for arguments in [&[][..], &["--program", "program.toml"]] {
        let (code, said, bytes) = packed(arguments);
        assert_eq!(code, 0, "{said}");
        assert!(!String::from_utf8_lossy(&bytes).contains("planted"));
        let program = read_sections(&bytes).unwrap().program.unwrap();
        assert!(program.contains("docs") && !program.contains("notes"), "{program}");
        // The component does not have the name of the program that uses it.
        let shown = home.haft(&["inspect", "q.wasm", "--json"]);
        assert!(!shown.stdout.contains("notes"), "{}", shown.stdout);
        fs::remove_file(home.work().join("q.wasm")).unwrap();
    }
    home.write("program.toml", around);
    let (code, said, bytes) = packed(&["--program", "program.toml"]);
    assert!(code == 3 && bytes.is_empty() && said.contains("has no plugin that is `p.wasm`"), "{said}");
    assert!(said.contains("hint: ") && said.contains("[[plugins]]"), "{said}");
    // Without `--program` the file does not describe the component.
    let (code, said, bytes) = packed(&[]);
    assert!(code == 0 && read_sections(&bytes).unwrap().program.is_none(), "{said}");
}

/// S01: a package omits the settings of program.toml that have no effect in a package.
#[test]
fn a_package_has_nothing_of_what_its_author_runs() {
    let home = Home::new();
    let program = "[program]\nname = \"words\"\nversion = \"1.2.0\"\n[provider]\nname = \"openai\"\n\
        headers = { X-Team = \"planted\" }\n[[tools]]\nname = \"rotate_password\"\n\
        description = \"See https://me@host/x\"\ncommand = \"true\"\n";
    home.write("program.toml", program);
    let answer = home.haft(&["plugin", "pack", "."]);
    assert!(
        answer.code == 0 && answer.stderr.contains("left out of program.toml: `provider`"),
        "{}",
        answer.stderr
    );
    let packed = files(&home.work().join("words-1.2.0.tar.gz"));
    let text = &packed["words-1.2.0/program.toml"].3;
    assert!(text.contains("https://me@host/x") && !text.contains("planted"), "{text}");
}
