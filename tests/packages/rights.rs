//! Grants of packages: the intersection of the requested and the allowed rights.

use std::fs;

use super::place::{Place, program, saying, wordcount, words};

fn count(place: &Place, name: &str) -> super::place::Answer {
    let path = place.work().join(name).display().to_string();
    place.haft(&["call", "words__count", "-a", &format!("path={path}")])
}

/// WA08: `--grant` and `--no-grant` can grant less than the package requests.
#[test]
fn less_can_be_granted_than_is_asked_for() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\".\"]\nhosts = [\"api.a.test\"]");
    place.write("docs/a.txt", "one");
    place.write("b.txt", "two");
    let added = place.haft(&["--json", "add", "./text", "--yes", "--grant", "read=./docs"]).json();
    assert_eq!(added["asked"], serde_json::json!(["words:read=.", "words:host=api.a.test"]));
    assert_eq!(added["granted"], serde_json::json!(["read=./docs"]));
    count(&place, "docs/a.txt").good();
    assert_eq!(count(&place, "b.txt").code, 1);
    place.haft(&["remove", "text"]).good();
    place.haft(&["add", "./text", "--yes", "--no-grant"]).good();
    assert_eq!(count(&place, "docs/a.txt").code, 1);
    let shown = place.haft(&["list", "--long"]).good().stdout;
    assert!(shown.contains("granted  nothing"), "{shown}");
}

/// WA08: a granted right that the package does not request has no effect, and haft says so.
#[test]
fn what_is_not_asked_for_has_no_effect_and_is_said() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\"./docs\"]");
    place.write("docs/a.txt", "one");
    place.write("b.txt", "two");
    place.haft(&["add", "./text", "--yes", "--grant", "read=.", "--grant", "host=a.test"]).good();
    count(&place, "docs/a.txt").good();
    let refused = count(&place, "b.txt");
    assert_eq!(refused.code, 1);
    let said = "`host=a.test` in `[packages.grant]` has no effect: `text` does not request this right";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert!(!refused.stderr.contains("`read=.` in"), "{}", refused.stderr);
    // A person can allow it for one run, as for any plugin.
    let path = place.work().join("b.txt").display().to_string();
    place.haft(&["--allow", "words:read=.", "call", "words__count", "-a", &format!("path={path}")]).good();
    place.haft(&["--allow", "word:read=.", "tools"]).ends(5, "which this program does not have");
}

/// haft omits a requested right that belongs to haft itself, reports the omission, and the package still works.
#[test]
fn a_package_that_asks_for_what_belongs_to_haft_does_not_get_it_and_that_is_said() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\"./docs\", \"~/.local/state/haft\"]");
    place.write("docs/a.txt", "one");
    place.haft(&["add", "./text", "--yes", "--grant", "read=./docs"]).good();
    let counted = count(&place, "docs/a.txt").good();
    let said = "`words` requests `read=~/.local/state/haft`: ";
    assert!(counted.stderr.contains(said), "{}", counted.stderr);
    assert!(counted.stderr.contains("` belongs to haft"), "{}", counted.stderr);
}

/// SE01: a package's file names the secrets it requests; only the program's grant determines their sources.
#[test]
fn a_package_names_no_secret_by_itself() {
    let place = Place::new();
    let plugin = "[[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"\n[plugins.grant]\nhosts = [\"a.test\"]\n\
        [plugins.secrets.token]\nhost = \"a.test\"\nheader = \"Authorization\"\nenv = \"NO_SUCH_SECRET_4711\"\n";
    place.write("text/program.toml", program("text", "1.0.0", plugin));
    place.write("text/words.wasm", wordcount());
    let page = place.haft(&["add", "./text"]).stderr;
    assert!(
        page.contains("send secret token (variable NO_SUCH_SECRET_4711) to a.test as `Authorization`"),
        "{page}"
    );
    place.haft(&["add", "./text", "--yes", "--grant", "host=a.test"]).good();
    let tools = place.haft(&["tools"]).good();
    assert!(!tools.stderr.contains("NO_SUCH_SECRET_4711"), "not even looked for: {}", tools.stderr);
    place.haft(&["remove", "text"]).good();
    place
        .haft(&["add", "./text", "--yes", "--grant", "secret=other"])
        .ends(5, "`: the package requests no secret of this name");
    place.haft(&["add", "./text", "--yes", "--grant", "secret=token"]).good();
    assert!(place.read("program.toml").contains("[packages.secrets.token]"));
    let tools = place.haft(&["tools"]).good();
    assert!(tools.stderr.contains("secret `token` is not available"), "{}", tools.stderr);
}

/// The granted secret and the limits of a package are in force after an update, and are shown and recorded as granted.
#[test]
fn an_update_keeps_a_granted_secret_and_says_so() {
    let place = Place::new();
    let publish = |version: &str, host: &str| {
        let plugin = format!(
            "[[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"\n[plugins.limits]\nmemory = \"1GiB\"\n\
             [plugins.secrets.token]\nhost = \"{host}\"\nheader = \"Authorization\"\nenv = \"NO_SUCH_SECRET_4711\"\n"
        );
        place.write("text/program.toml", program("text", version, &plugin));
        place.write("text/words.wasm", saying(version));
    };
    publish("1.0.0", "a.test");
    place.haft(&["add", "./text", "--yes"]).good();
    let listed = place.haft(&["list", "--long"]).good().stdout;
    assert!(listed.contains("granted  secret=token (variable NO_SUCH_SECRET_4711) to a.test"), "{listed}");
    publish("1.1.0", "a.test");
    let page = place.haft(&["update"]).ends(7, "send secret token").stderr;
    assert!(page.contains("use more memory 1GiB") && !page.contains("[not granted]"), "{page}");
    place.haft(&["update", "--yes"]).good();
    let granted = || {
        let lock = place.read("program.lock");
        lock.split_once("\ngranted = ").map(|(_, rest)| rest.to_owned()).unwrap()
    };
    assert!(granted().contains("\"secret=token (variable NO_SUCH_SECRET_4711) to a.test"), "{}", granted());
    // A secret for another host takes the place of the granted one.
    publish("1.2.0", "b.test");
    let updated = place.haft(&["update", "--yes"]).good().stderr;
    assert!(updated.contains("to b.test as `Authorization`  [new]"), "{updated}");
    assert!(granted().contains("to b.test") && !granted().contains("to a.test"), "{}", granted());
}

/// RS01: the sandbox, agent and built-in settings of a package do not affect the program that installs it.
#[test]
fn a_package_does_not_change_the_program_it_is_in() {
    let place = Place::new();
    let more = "[[tools]]\nname = \"where\"\ndescription = \"d\"\ncommand = \"pwd\"\n[sandbox]\nmode = \"rwx\"\nworkspace = \"/\"\n\
        [builtins]\nshell = false\n[agent]\nmax_turns = 1\n";
    place.write("own/program.toml", program("own", "1.0.0", more));
    place.write("program.toml", "[sandbox]\nworkspace = \".\"\n");
    place.haft(&["add", "./own", "--yes"]).good();
    assert!(place.tools().contains(&"bash".to_owned()));
    let here = fs::canonicalize(place.work()).unwrap().display().to_string();
    assert_eq!(place.haft(&["call", "program:own:where"]).good().stdout.trim(), here);
    let out = place.home().join("outside").display().to_string();
    assert_eq!(place.haft(&["call", "bash", "-a", &format!("command=touch {out}")]).code, 1);
}

/// `[sandbox] read` limits what commands read, but a package's command can still read its own files.
#[test]
fn a_command_of_a_package_reads_what_it_came_with() {
    let place = Place::new();
    let tool = "[[tools]]\nname = \"run\"\ndescription = \"d\"\ncommand = \"./bin/run\"\n";
    place.write("own/program.toml", program("own", "1.0.0", tool));
    place.write("own/bin/run", "#!/bin/sh\ncat \"$(dirname \"$0\")/../data\"\n");
    place.write("own/data", "its own\n");
    place.write(
        "program.toml",
        "[sandbox]\nworkspace = \".\"\nread = [\"/usr\", \"/bin\", \"/lib\", \"/lib64\", \"/etc\"]\n",
    );
    place.haft(&["add", "./own", "--yes"]).good();
    let answer = place.haft(&["call", "program:own:run"]);
    assert_eq!(answer.stdout, "its own\n", "{}", answer.stderr);
}

/// RG04: `tools` of an entry selects the offered tools by the names that the model sees.
#[test]
fn tools_of_a_package_can_be_chosen() {
    let place = Place::new();
    let tools = "[[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"\n[[tools]]\nname = \"a\"\ndescription = \"d\"\ncommand = \"echo\"\n";
    place.write("text/program.toml", program("text", "1.0.0", tools));
    place.write("text/words.wasm", wordcount());
    place.haft(&["add", "./text", "--yes"]).good();
    let text =
        place.read("program.toml").replace("name = \"text\"\n", "name = \"text\"\ntools = [\"words__*\"]\n");
    place.write("program.toml", text);
    let tools = place.tools();
    assert!(
        tools.contains(&"words__count".to_owned()) && !tools.iter().any(|tool| tool.contains("program__"))
    );
}
