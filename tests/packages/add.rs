//! Installation and removal: the disclosure, the written files, and the working tools.

use std::fs;

use crate::agent::answers;
use crate::agent::fake::{Fake, calls, says};

use super::place::{Answer, Place, program, saying, wordcount, words};

/// A package with a plugin, a command tool, an MCP server, a skill and requirements.
fn github(place: &Place) {
    let text = program(
        "github",
        "1.2.0",
        r#"
description = "Works with issues"
authors = ["Ada <ada@example.com>"]
license = "MIT"
[[plugins]]
name = "words"
component = "words.wasm"
[plugins.grant]
read = ["./docs"]
hosts = ["api.github.com"]
[[tools]]
name = "greet"
description = "Greets"
command = "./bin/greet 'good day'"
env = ["GREETING"]
[[mcp_servers]]
name = "everything"
command = "npx"
args = ["everything"]
enabled = false
[host_requirements]
required = ["sh"]
optional = ["no-such-program-4711"]
"#,
    );
    place.write("github/program.toml", text);
    place.write("github/words.wasm", wordcount());
    place.write(
        "github/bin/greet",
        "#!/bin/sh\necho \"$1, ${GREETING:-nobody}\"\ncat \"$(dirname \"$0\")/../more.txt\"\n",
    );
    place.write("github/more.txt", "from beside\n");
    place.write(
        "github/SKILL.md",
        "---\nname: issues\ndescription: How to work with issues\n---\nRead first.\n",
    );
    place.write("docs/a.txt", "one two three");
    place.write("secret.txt", "one two");
}

fn count(place: &Place, path: &str) -> Answer {
    place.haft(&["call", "words__count", "-a", &format!("path={path}")])
}

/// The page without the parts that differ between machines.
fn redacted(place: &Place, page: &str) -> String {
    let real = fs::canonicalize(place.home()).unwrap();
    let page = page.replace(&real.display().to_string(), "HOME");
    let page = page.replace(&place.home().display().to_string(), "HOME");
    let digest = page.find("sha256    ").map(|at| page[at + 10..at + 74].to_owned()).unwrap();
    let page = page.replace(&digest, "DIGEST");
    page.replace(&page[page.find(" (").unwrap() + 2..=page.find("B)").unwrap()], "SIZE")
}

/// A licence without an author has a line of its own.
#[test]
fn a_licence_without_an_author_is_by_nobody() {
    let place = Place::new();
    let text = "[program]\nname = \"bare\"\nversion = \"1.0.0\"\nlicense = \"SEE LICENSE IN LICENSE\"\n";
    place.write("bare/program.toml", text);
    place.write("bare/SKILL.md", "Read.");
    let shown = place.haft(&["add", "./bare"]).stderr;
    assert!(shown.contains("\n  licence   SEE LICENSE IN LICENSE\n"), "{shown}");
}

/// S03: long texts of other packages, which come first by name, do not displace a short file at the top.
#[test]
fn a_short_file_at_the_top_is_shown_beside_many_long_ones() {
    let place = Place::new();
    let text = "[program]\nname = \"big\"\nversion = \"1.0.0\"\ninclude = [\"deep\", \"top.json\"]\n";
    place.write("big/program.toml", text);
    place.write("big/SKILL.md", "Read.");
    place.write("big/top.json", "{}\n");
    let long = "a line of text.\n".repeat(60_000);
    (0..20).for_each(|number| place.write(&format!("big/deep/{number}.txt"), &long));
    let shown = place.haft(&["add", "./big"]).stderr;
    assert!(shown.contains("top.json: 1 line,"), "{shown}");
    assert!(shown.contains("KiB, not shown (binary, or above the limit of shown text)"), "{shown}");
}

/// The disclosure of the package `github`, without a terminal for consent.
fn shown() -> (Place, String) {
    let place = Place::new();
    github(&place);
    let answer = place.haft(&["add", "./github"]);
    let page =
        redacted(&place, &answer.ends(7, "nothing was changed: there is no terminal to ask at").stderr);
    (place, page)
}

/// PR07, PR11, WA08: the disclosure shows every requested right and every text of the package, and installs nothing.
#[test]
fn the_page_shows_everything_that_is_asked_for() {
    let (place, page) = shown();
    insta::assert_snapshot!(page, @r#"
    github 1.2.0: Works with issues
      from      ./github (SIZE)
      by        Ada <ada@example.com>, licence MIT
      tools     words__count
                  Counts the lines, words, characters and bytes of a text file.
                  path: string, required
                    Path of the file: absolute, relative to the workspace, or beginning with ~.
                  declares: read-only, idempotent
                  answers: object
                    What was counted.
                    lines: integer, required
                      minimum: 0
                    words: integer, required
                      minimum: 0
                    characters: integer, required
                      minimum: 0
                    bytes: integer, required
                      minimum: 0
                program__github__greet
                  Greets
                  args: array, optional
                    More arguments, passed unchanged, without a shell
                    each: string
                  runs: ./bin/greet 'good day'
      skill     SKILL.md: 5 lines, text for the model
                  ---
                  name: issues
                  description: How to work with issues
                  ---
                  Read first.
      programs  bin/greet: 3 lines, executable, sha256:4372385d40a1
      files     more.txt: 1 line, sha256:cc4dae0f6ecb
                program.toml: 27 lines, sha256:95bcdd8167a6
                `haft inspect --full ./github` shows their content
      requests  read ./docs
                reach api.github.com
                run command ./bin/greet 'good day' (greet)
                read variable GREETING
                instruct the model, by its SKILL.md
      granted   read HOME/work/docs
                reach api.github.com
                read variable GREETING
                [packages.grant]
                read = ["./docs"]
                hosts = ["api.github.com"]
                env = ["GREETING"]
      per call  memory 64MiB · time 30s · result 1MiB · disk 256MiB (unless listed above)
      commands  run as processes, in the sandbox of `bash`: read everything; write HOME/.haft, HOME/tmp, HOME/work; use the network
      sha256    DIGEST
      signature not signed
    error: nothing was changed: there is no terminal to ask at
    hint: `--yes` agrees without a question; `--grant RIGHT` and `--no-grant` choose the rights
    "#);
    assert!(place.kept().is_empty() && place.read("program.toml").is_empty());
}

/// PR02, PR07, WA08: after consent the package's tools and commands work, with its pin and its grants.
#[test]
fn a_package_is_installed_and_used() {
    let place = Place::new();
    github(&place);
    let answer = place.haft(&["add", "./github", "--yes"]).good();
    assert!(answer.stderr.contains("created `program.toml`"), "{}", answer.stderr);
    let tools = place.tools();
    assert!(
        tools.contains(&"words__count".to_owned()) && tools.contains(&"program__github__greet".to_owned())
    );
    let counted = count(&place, &place.work().join("docs/a.txt").display().to_string()).good();
    assert!(counted.stdout.contains("3 words"), "{}", counted.stdout);
    // Without a grant a path stays blocked, even if the package requests it.
    let refused = count(&place, &place.work().join("secret.txt").display().to_string());
    assert!(refused.stderr.contains("`[packages.grant]` of `github`"), "{}", refused.stderr);
    let mut greet = place.command(&["call", "program:github:greet"]);
    let greeted = Answer::from(greet.env("GREETING", "you").output().unwrap()).good();
    assert_eq!(greeted.stdout, "good day, you\nfrom beside\n");
    // The source folder is no longer needed.
    fs::remove_dir_all(place.work().join("github")).unwrap();
    count(&place, &place.work().join("docs/a.txt").display().to_string()).good();
    place.haft(&["verify"]).good();
}

/// Sets the key `enabled` of the package `github`.
fn switch(place: &Place, is_on: bool) {
    let text = place.read("program.toml");
    let kept = text.lines().filter(|line| !line.starts_with("enabled = "));
    let key = format!("name = \"github\"\nenabled = {is_on}");
    place.write("program.toml", kept.collect::<Vec<_>>().join("\n").replace("name = \"github\"", &key));
}

/// PR09, PR13: a disabled package stays disabled in every run, and `haft check` does not start its servers.
#[test]
fn enabled_and_disabled_are_kept() {
    let place = Place::new();
    github(&place);
    place.haft(&["add", "./github", "--yes"]).good();
    switch(&place, false);
    assert!(!place.tools().iter().any(|tool| tool.contains("words") || tool.contains("github")));
    let listed = place.haft(&["--json", "list"]).json();
    assert_eq!(listed[0]["enabled"], false);
    switch(&place, true);
    assert!(place.tools().contains(&"words__count".to_owned()));
    let check = place.haft(&["check"]);
    assert!(!check.stderr.contains("MCP server"), "{}", check.stderr);
}

/// PR11: `haft list` shows an installed package with its version, tools, rights and requirements.
#[test]
fn the_list_has_it_all() {
    let place = Place::new();
    github(&place);
    place.haft(&["add", "./github", "--yes"]).good();
    let listed = place.haft(&["--json", "list"]).json();
    let row = &listed[0];
    assert_eq!(
        (&row["name"], &row["version"], &row["kind"]),
        (&"github".into(), &"1.2.0".into(), &"package".into())
    );
    assert_eq!(row["description"], "Works with issues");
    assert_eq!(row["tools"], serde_json::json!(["words__count", "program__github__greet"]));
    let needs = serde_json::json!([
        { "name": "sh", "required": true, "available": true },
        { "name": "no-such-program-4711", "required": false, "available": false },
    ]);
    assert_eq!(row["requirements"], needs);
    assert_eq!(row["granted"], serde_json::json!(["read=./docs", "host=api.github.com", "env=GREETING"]));
    let text = place.haft(&["list", "--long"]).good().stdout;
    for expected in ["github 1.2.0: Works with issues", "sha256", "no-such-program-4711 (optional, missing)"]
    {
        assert!(text.contains(expected), "{text}");
    }
}

/// PR11: packages, plugins, servers and skills are in one table of 80 columns, and the JSON output has their complete
/// data.
#[test]
fn the_list_has_every_kind_in_one_table() {
    let place = Place::new();
    github(&place);
    place.write(".git/HEAD", "");
    place.write(".agents/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies.\n---\nTidy.");
    place.write("look/.claude-plugin/plugin.json", r#"{ "name": "look" }"#);
    place.write("look/.mcp.json", r#"{ "eye": { "command": "sh", "args": ["-c", "true"] } }"#);
    place.write("look/skills/see/SKILL.md", "See.");
    let declared = "[[mcp_servers]]\nname = \"near\"\ncommand = \"sh -c true\"\ngrant = { read = [\"./docs\"] }\n\
                    [[mcp_servers]]\nname = \"far\"\nurl = \"https://a.test/mcp?key=4711\"\nenabled = false\n";
    place.write("program.toml", program("mine", "1.0.0", declared));
    place.write("words.wasm", saying("one"));
    for source in ["./github", "./look", "./words.wasm"] {
        let name = if source == "./words.wasm" { &["--as", "said"][..] } else { &[] };
        place.haft(&[&["add", source, "--yes"], name].concat()).good();
    }
    let listed = place.haft(&["--json", "list"]).json();
    let rows: Vec<Vec<&str>> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["name", "kind", "form", "state"].map(|key| row[key].as_str().unwrap()).to_vec())
        .collect();
    let expected = [
        ["github", "package", "package", "as agreed"],
        ["look", "package", "Claude plugin", "as agreed"],
        ["said", "plugin", "component", "as agreed"],
        ["near", "mcp-server", "MCP server", "pinned"],
        ["far", "mcp-server", "MCP server", "pinned"],
        ["tidy", "skill", "skill", "not pinned"],
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        (&listed[1]["skills"], &listed[1]["servers"]),
        (&serde_json::json!(["see"]), &serde_json::json!(["eye"]))
    );
    assert_eq!(
        (&listed[3]["granted"], &listed[3]["source"]),
        (&serde_json::json!(["read=./docs"]), &"sh -c true".into())
    );
    assert_eq!((&listed[4]["source"], &listed[4]["enabled"]), (&"https://a.test/mcp".into(), &false.into()));
    let table = place.haft(&["list"]).good().stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "name kind from rights state");
    assert_eq!(lines[1], "github 1.2.0 package ./github default env … as agreed");
    assert_eq!(lines[5], "far MCP server https://a.test/mcp nothing off");
    assert_eq!(lines.len(), 7);
}

/// PR12: the model sees the skill and can read it, unless the package is disabled.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_reaches_the_model() {
    let place = Place::new();
    github(&place);
    place.haft(&["add", "./github", "--yes"]).good();
    let read = |file: &'static str| calls(&[("a", "read_skill", file)]);
    let script = [
        read(r#"{"name":"issues"}"#),
        read(r#"{"name":"issues","file":"more.txt"}"#),
        read(r#"{"name":"issues","file":"bin/greet"}"#),
        says("one"),
        says("two"),
    ];
    let fake = Fake::start(script).await;
    let url = fake.base_url();
    for is_told in [true, false] {
        switch(&place, is_told);
        place.haft(&["run", "--base-url", &url, "--model", "m", "hello"]).good();
        let requests = fake.requests();
        let system = requests.last().unwrap()["messages"][0]["content"].as_str().unwrap().to_owned();
        assert_eq!(system.contains("`read_skill`:\n- issues: How to work with issues"), is_told, "{system}");
        assert_eq!(requests.last().unwrap()["tools"].to_string().contains("read_skill"), is_told);
    }
    let answers = answers(&fake.requests()[3]);
    let instructions = &answers[0].1;
    assert!(instructions.starts_with("Read first.\n\n[Other files of this skill"), "{instructions}");
    assert!(instructions.contains("`bin/greet`, `more.txt`"), "{instructions}");
    assert_eq!(answers[1].1, "from beside\n");
    assert!(answers[2].1.starts_with("#!/bin/sh\n"), "{}", answers[2].1);
    fake.assert_done();
}

/// PR06: haft refuses a package whose required programs are missing; with `--force` haft installs the package without
/// its tools.
#[test]
fn missing_programs_are_named_and_nothing_runs_without_them() {
    let place = Place::new();
    let more = "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"echo x\"\n[host_requirements]\nrequired = [\"no-such-4711\", \"nor-this-4711\", \"sh\"]\n";
    place.write("needy/program.toml", program("needy", "1.0.0", more));
    let before = place.everything();
    let answer = place.haft(&["add", "./needy", "--yes"]);
    answer.ends(5, "requires programs that are not on PATH: `no-such-4711`, `nor-this-4711`");
    assert_eq!(place.everything(), before);
    place.haft(&["add", "./needy", "--yes", "--force"]).good();
    let tools = place.haft(&["tools"]).good();
    assert!(!tools.stdout.contains("needy"), "{}", tools.stdout);
    assert!(
        tools.stderr.contains("package `needy` is left out: it requires `no-such-4711`"),
        "{}",
        tools.stderr
    );
}

/// PR07: a second installation is refused or has no effect, and removal deletes only the package's own entries.
#[test]
fn duplicates_are_refused_and_removing_takes_only_its_own() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    let own = "# Mine.\n[agent]   # mine too\nmax_turns = 3\n";
    place.write("program.toml", own);
    place.haft(&["add", "./text", "--yes"]).good();
    let (before, store) = (place.read("program.toml"), place.kept());
    place.haft(&["add", "./text", "--yes"]).ends(0, "already installed: this version and content");
    place.write("other.wasm", wordcount());
    place.haft(&["add", "other.wasm", "--as", "words", "--yes"]).ends(5, "` has the same name as one of");
    assert_eq!((place.read("program.toml"), place.kept()), (before, store.clone()));
    place.haft(&["remove", "txet"]).ends(5, "did you mean `text`?");
    place.haft(&["remove", "text"]).good();
    assert_eq!(place.read("program.toml"), own);
    assert!(!place.read("program.lock").contains("text"));
    assert_eq!(place.kept(), store);
    assert!(place.work().join("text/program.toml").exists());
}

/// WA01: a single component is installed at its place, pinned, with the rights of the command line.
#[test]
fn a_bare_component_is_installed() {
    let place = Place::new();
    place.write("tools/word_count.wasm", wordcount());
    place.write("a.txt", "one two");
    let answer = place.haft(&["--json", "add", "tools/word_count.wasm", "--yes", "--grant", "read=."]).json();
    assert_eq!((&answer["name"], &answer["kind"]), (&"word-count".into(), &"plugin".into()));
    let file = place.work().join("a.txt").display().to_string();
    assert!(
        place
            .haft(&["call", "word-count__count", "-a", &format!("path={file}")])
            .good()
            .stdout
            .contains("2 words")
    );
    let expected = "# Tools work in this folder; `workspace` in `[sandbox]` sets another folder.\n[program]\nname = \"work\"\n\
                    version = \"0.1.0\"\n\n[[plugins]]\nname = \"word-count\"\ncomponent = \"tools/word_count.wasm\"\n\n[plugins.grant]\nread = [\".\"]\n";
    assert_eq!(place.read("program.toml"), expected);
    // From another folder haft writes both paths relative to the program's folder.
    fs::create_dir(place.work().join("sub")).unwrap();
    let mut elsewhere = place.command(&[
        "-p",
        "../program.toml",
        "add",
        "../tools/word_count.wasm",
        "--as",
        "w",
        "-y",
        "--grant",
        "read=.",
    ]);
    Answer::from(elsewhere.current_dir(place.work().join("sub")).output().unwrap()).good();
    let text = place.read("program.toml");
    assert!(
        text.contains("component = \"./tools/word_count.wasm\"") && text.contains("read = [\"./sub\"]"),
        "{text}"
    );
}

/// WA04: haft does not install a file that is not a component, and installed components keep working.
#[test]
fn what_cannot_be_loaded_is_not_installed() {
    let place = Place::new();
    place.write("good.wasm", saying("good"));
    place.haft(&["add", "good.wasm", "--yes"]).good();
    let before = place.everything();
    for (bytes, reason) in [
        (b"not wasm at all".to_vec(), "is neither a WebAssembly component nor a tar archive"),
        (b"\0asm\x01\0\0\0".to_vec(), "a core WebAssembly module"),
        (b"\0asm\x0d\0\x01\0".to_vec(), "exports"),
        (saying("x")[..900].to_vec(), "not a WebAssembly component"),
    ] {
        fs::write(place.home().join("bad.wasm"), bytes).unwrap();
        place.haft(&["add", "../bad.wasm", "--yes"]).ends(5, reason);
        assert_eq!(place.everything(), before);
    }
    assert_eq!(
        place.haft(&["call", "good__tiny"]).good().stdout,
        "a tiny answer\n".replace("a tiny answer", "good")
    );
}

/// WA08: haft asks a person for consent, and any answer but yes is a no. The terminal comes from `script`.
#[test]
fn a_person_is_asked() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\"./docs\"]");
    let ask = |answer: &str| place.at_a_terminal(&["add", "./text"], answer);
    let Some((code, said)) = ask("n\n") else { return };
    assert!(said.contains("Install `text` 1.0.0?") && said.contains("./docs"), "{said}");
    assert_eq!(code, Some(7), "{said}");
    assert!(place.read("program.toml").is_empty() && place.kept().is_empty());
    let (code, said) = ask("y\n").unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(place.read("program.toml").contains("[[packages]]"));
}
