//! `haft plugin test`: cases in fresh instances, each with only its declared files and rights, and the reports of
//! failed ones.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::hostile;
use crate::typed::made::{component, module};

/// A project of an existing component, with one file of tests.
fn project(component: &str, tests: &str) -> Home {
    let home = Home::new();
    home.write("program.toml", &format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n"));
    fs::create_dir(home.work().join("tests")).unwrap();
    home.write("tests/all.toml", tests);
    home
}

fn guest(tests: &str) -> Home {
    project(&hostile().display().to_string(), tests)
}

fn run(home: &Home, arguments: &[&str]) -> Answer {
    home.haft(&[&["plugin", "test", "--no-build"], arguments].concat())
}

/// The names of the passed tests, and the complaints of the failed tests.
fn told(answer: &Answer) -> (Vec<String>, Vec<String>) {
    let lines = answer.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (passed, failed): (Vec<Value>, Vec<Value>) = lines.partition(|line| line["passed"] == true);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let complaints = failed.iter().flat_map(|line| line["complaints"].as_array().unwrap().iter().map(text));
    (passed.iter().map(|line| text(&line["test"])).collect(), complaints.collect())
}

/// A met expectation passes, and an unmet expectation fails with the expected and the actual result.
#[test]
fn every_expectation_passes_and_fails() {
    let home = guest(
        r#"
        [[test]]
        name = "answer"
        tool = "echo"
        arguments = { text = "yes" }
        answer = "yes"
        [[test]]
        name = "answer, wrong"
        tool = "echo"
        arguments = { text = "yes" }
        answer = "no"
        [[test]]
        name = "contains"
        tool = "echo"
        arguments = { text = "one two" }
        contains = ["two", "one"]
        [[test]]
        name = "error"
        tool = "panic"
        arguments = { message = "over" }
        error = "panicked"
        [[test]]
        name = "error, wrong"
        tool = "echo"
        arguments = { text = "fine" }
        error = "panicked"
        [[test]]
        name = "arguments"
        tool = "echo"
        arguments = { text = 1 }
        error = "text"
        [[test]]
        name = "time"
        tool = "spin"
        limits = { time = "200ms" }
        limit = "time"
        [[test]]
        name = "memory"
        tool = "leak"
        limits = { memory = "8MiB" }
        limit = "memory"
        [[test]]
        name = "another limit"
        tool = "spin"
        limits = { time = "200ms" }
        limit = "memory"
        "#,
    );
    let answer = run(&home, &["--json"]);
    let (passed, complaints) = told(&answer);
    assert_eq!(passed, ["answer", "contains", "error", "arguments", "time", "memory"], "{}", answer.stdout);
    assert_eq!(complaints[0], "expected `no`\ngot      `yes`");
    assert_eq!(complaints[1], "expected an error with `panicked`\ngot      `fine`");
    assert!(complaints[2].starts_with("expected the end at the limit `memory`"), "{}", complaints[2]);
    assert_eq!(answer.code, 1);
    assert!(answer.stderr.contains("6 passed, 3 failed"), "{}", answer.stderr);
}

/// A case has its own folder and only its declared rights, even if program.toml grants more.
#[test]
fn a_case_has_what_it_says_and_nothing_else() {
    let home = guest(
        r#"
        [[test]]
        name = "reads"
        tool = "open"
        arguments = { path = "in/a.txt" }
        files = { "in/a.txt" = "one" }
        grant = { read = ["in"] }
        contains = ["one"]
        [[test]]
        name = "not granted"
        tool = "open"
        arguments = { path = "in/a.txt" }
        files = { "in/a.txt" = "one" }
        refused = "in"
        [[test]]
        name = "writes"
        tool = "write"
        arguments = { path = "b.txt", text = "two" }
        grant = { write = ["."] }
        after = { "b.txt" = "two" }
        [[test]]
        name = "of the project, not granted"
        tool = "open"
        arguments = { path = "program.toml" }
        grant = { read = ["."] }
        error = "No such file"
        [[test]]
        name = "copied"
        tool = "open"
        arguments = { path = "deep/c.txt" }
        folder = "data"
        grant = { read = ["."] }
        contains = ["three"]
        [[test]]
        name = "env"
        tool = "env"
        grant = { env = { COLOUR = "blue" } }
        answer = "COLOUR=blue"
        [[test]]
        name = "left out"
        tool = "echo"
        arguments = { text = "x" }
        after = { "b.txt" = "two" }
        "#,
    );
    let program = fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write("program.toml", &format!("{program}[plugins.grant]\nread = [\".\"]\n"));
    fs::create_dir_all(home.work().join("tests/data/deep")).unwrap();
    home.write("tests/data/deep/c.txt", "three");
    let answer = run(&home, &["--json"]);
    let (passed, complaints) = told(&answer);
    let expected = ["reads", "not granted", "writes", "of the project, not granted", "copied", "env"];
    assert_eq!(passed, expected, "{}", answer.stdout);
    assert!(complaints[0].starts_with("expected the file `b.txt` afterwards: "), "{complaints:?}");
}

/// A case cannot grant paths outside of its folder, in any spelling.
#[test]
fn nothing_outside_can_be_granted() {
    for path in ["..", "/", "../../etc", "a/../.."] {
        let test = "[[test]]\nname = \"a\"\ntool = \"echo\"\narguments = { text = \"x\" }\n";
        let home = guest(&format!("{test}grant = {{ read = [{path:?}] }}\n"));
        let answer = run(&home, &[]);
        assert!(
            answer.stderr.contains("` is outside the test's folder; a test can grant only that folder"),
            "{path}: {}",
            answer.stderr
        );
        assert_ne!(answer.code, 0);
    }
    let escaping = "[[test]]\nname = \"a\"\ntool = \"echo\"\narguments = { text = \"x\" }\nfiles = { \"../x\" = \"\" }\n";
    let home = guest(escaping);
    assert_ne!(run(&home, &[]).code, 0);
    assert!(!home.work().parent().unwrap().join("x").exists());
}

/// Only the case answers requests, each answer once, and only for granted hosts.
#[test]
fn requests_are_answered_by_the_case() {
    let request = |url: &str, more: &str| {
        format!("[[test]]\nname = {url:?}\ntool = \"http_get\"\narguments = {{ url = {url:?} }}\n{more}\n")
    };
    let canned = "[[test.http]]\nrequest = \"GET https://api.test/a?b=c\"\nstatus = 404\nbody = \"canned\"\nheaders = { x-one = \"1\" }\n";
    let granted = "grant = { hosts = [\"api.test\"] }\n";
    let home = guest(
        &[
            request(
                "https://api.test/a?b=c",
                &format!("{granted}contains = [\"404\", \"canned\", \"x-one\"]\n{canned}"),
            ),
            request("https://api.test/other", &format!("{granted}{canned}")),
            request("https://else.test/", "refused = \"else.test\"\n"),
        ]
        .concat(),
    );
    let answer = run(&home, &["--json"]);
    let (passed, complaints) = told(&answer);
    assert_eq!(passed, ["https://api.test/a?b=c", "https://else.test/"], "{}", answer.stdout);
    assert!(complaints[0].starts_with("expected an answer\ngot      the error "), "{complaints:?}");
    assert_eq!(
        complaints[1..],
        [
            "the plugin requested `GET https://api.test/other`, for which the test has no answer",
            "the plugin did not request `GET https://api.test/a?b=c`"
        ]
    );
}

/// The file of a body must be below the tests.
#[test]
fn bodies_in_files_are_the_tests_own() {
    let test = |file: &str| {
        format!(
            "[[test]]\nname = \"a\"\ntool = \"http_get\"\narguments = {{ url = \"https://api.test/\" }}\n\
             grant = {{ hosts = [\"api.test\"] }}\ncontains = [\"from a file\"]\n\
             [[test.http]]\nrequest = \"GET https://api.test/\"\nbody_file = {file:?}\n"
        )
    };
    let home = guest(&test("body.txt"));
    home.write("tests/body.txt", "from a file");
    home.write("body.txt", "from a file");
    let answer = run(&home, &[]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    home.write("tests/all.toml", &test("../body.txt"));
    let outside = run(&home, &[]);
    assert!(outside.stderr.contains("cannot read `../body.txt` below `tests`"), "{}", outside.stderr);
    assert_ne!(outside.code, 0);
}

/// `--bless` stores an answer, and later runs compare the answer line by line.
#[test]
fn kept_answers_are_compared() {
    let tests = "[[test]]\nname = \"two lines\"\ntool = \"echo\"\narguments = { text = \"one\\ntwo\" }\nsnapshot = true\n";
    let home = guest(tests);
    let missing = run(&home, &[]);
    assert!(
        missing.stdout.contains("its answer is not stored yet; `haft plugin test --bless` stores it"),
        "{}",
        missing.stdout
    );
    assert_eq!(missing.code, 1);
    let kept = home.work().join("tests/snapshots/all/two-lines.txt");
    assert!(!kept.exists());
    assert_eq!(run(&home, &["--bless"]).code, 0);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "one\ntwo");
    assert_eq!(run(&home, &[]).code, 0);
    home.write("tests/all.toml", &tests.replace("ntwo", "nthree"));
    let changed = run(&home, &[]);
    assert!(changed.stdout.contains("-two") && changed.stdout.contains("+three"), "{}", changed.stdout);
    assert_eq!((changed.code, fs::read_to_string(&kept).unwrap().as_str()), (1, "one\ntwo"));
}

/// haft reports an error in a test file with its place before it runs a test.
#[test]
fn mistakes_are_told_with_their_places() {
    let home = guest("[[test]]\nname = \"a\"\ntool = \"echo\"\nexpect = \"x\"\n");
    let answer = run(&home, &[]);
    assert!(answer.stderr.contains("tests/all.toml:4:1"), "{}", answer.stderr);
    assert!(answer.stderr.contains("unknown field `expect`, expected one of `name`"), "{}", answer.stderr);
    assert_eq!(answer.code, 3);
    let none = guest("");
    let answer = run(&none, &[]);
    assert!(answer.stderr.contains("the project has no tests"), "{}", answer.stderr);
    assert_ne!(answer.code, 0);
    let other = guest("[[test]]\nname = \"a\"\ntool = \"ecko\"\n");
    let answer = run(&other, &[]);
    assert!(answer.stdout.contains("has no tool `ecko`; did you mean `echo`?"), "{}", answer.stdout);
    assert_ne!(run(&other, &["--only", "nothing"]).code, 0);
}

/// Random arguments find a trap, and haft reports the smallest arguments that cause it.
#[test]
fn random_arguments_find_a_trap() {
    let wit = "package a:b; world w {\n  export halve: func(number: s32, more: option<u8>) -> s32;\n}";
    let halve = |body: &str| {
        let functions =
            format!("(func (export \"halve\") (param i32 i32 i32) (result i32) {body} local.get 0)");
        component(wit, &module(&functions))
    };
    let traps = halve("(if (i32.gt_s (local.get 0) (i32.const 100)) (then unreachable))");
    let home = Home::new();
    home.write("program.toml", "[[plugins]]\nname = \"halves\"\ncomponent = \"halves.wasm\"\n");
    fs::write(home.work().join("halves.wasm"), traps).unwrap();
    let found = run(&home, &["--property", "--json"]);
    let line: Value = serde_json::from_str(found.stdout.trim()).unwrap();
    assert_eq!(line["finding"]["arguments"], json!({ "number": 101 }), "{}", found.stdout);
    assert!(line["finding"]["end"].as_str().unwrap().contains("panicked"), "{}", found.stdout);
    assert_eq!(found.code, 1);
    assert_eq!(run(&home, &["--property", "--json"]).stdout, found.stdout, "a function of the seed");
    fs::write(home.work().join("halves.wasm"), halve("")).unwrap();
    let nothing = run(&home, &["--property=50"]);
    assert!(nothing.stdout.contains("(50 calls)"), "{}", nothing.stdout);
    assert_eq!(nothing.code, 0);
}
