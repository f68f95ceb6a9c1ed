//! Completions and manual pages, run by the shells and the formatter that read them.

#![expect(clippy::disallowed_methods, reason = "these tests start shells")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cli::Home;
use crate::common::{hostile, same_environment};

/// The verbs that `haft --help` lists, in groups and by name alone.
pub(crate) fn verbs() -> Vec<String> {
    let help = Home::new().haft(&["--help"]).stdout;
    let listed = help.lines().filter_map(|line| line.strip_prefix("  ")).map(first);
    let more = help.lines().find_map(|line| line.strip_prefix("More: ")).unwrap();
    listed.chain(more.split(", ").map(str::to_owned)).collect()
}

fn first(line: &str) -> String {
    line.split_whitespace().next().unwrap().to_owned()
}

/// The completions that bash offers for `line`. The script calls the completion function as an interactive bash does,
/// which also splits words at `=` and `:`.
fn offered(own: &Command, line: &str) -> Vec<String> {
    let script = r#"
        source <(haft self completions bash)
        COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
        read -ra COMP_WORDS <<<"$(sed 's/[=:]/ & /g' <<<"$1")"
        [[ $1 == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        word=${COMP_WORDS[COMP_CWORD]}
        [[ $word == [=:] ]] && word=
        function=$(complete -p haft | sed 's/.*-F \([^ ]*\).*/\1/')
        $function haft "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash", line]).current_dir(own.get_current_dir().unwrap());
    same_environment(own, &mut bash);
    let folder = Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = bash.env("PATH", format!("{}:{path}", folder.display())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Outside of a running completion, bash cannot execute `compopt`.
    assert!(said.lines().all(|line| line.contains("compopt")), "{said}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A program with a plugin, and an MCP server that would create a file at its start.
fn program(home: &Home) {
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
         [[plugins]]\nname = \"guest\"\ncomponent = \"{}\"\n\
         [[mcp_servers]]\nname = \"files\"\ncommand = \"touch\"\nargs = [\"{}\"]\n",
        hostile().display(),
        home.work().join("started").display()
    );
    home.write("program.toml", &program);
}

/// U10: bash completes tools, their arguments and values, plugins, servers, calls and sessions.
#[test]
fn bash_completes_what_there_is() {
    let home = Home::new();
    program(&home);
    home.write("plan.md", "x");
    assert_eq!(home.haft(&["call", "guest__echo", "{\"text\": \"hello\"}"]).code, 0);
    let id = home.haft(&["log"]).stdout.split(' ').nth(2).unwrap().to_owned();
    let offered = |line: &str| offered(&home.command(&[]), line);
    for (line, expected) in [
        ("haft call guest__ec", vec!["guest__echo"]),
        ("haft tools rea", vec!["read"]),
        ("haft call read --arg file", vec!["file_path="]),
        ("haft call read --arg file_path=pl", vec!["plan.md"]),
        ("haft call time --arg format=epoch_", vec!["epoch_ms", "epoch_ns"]),
        ("haft remove gu", vec!["guest"]),
        ("haft --allow guest:re", vec!["read="]),
        ("haft --allow files:ho", vec!["host="]),
        ("haft run --resume la", vec!["last"]),
        ("haft log --tool guest__ech", vec!["guest__echo"]),
        ("haft call no_such_tool --arg a", vec![""]),
        ("haft -p nowhere.toml call guest__ec", vec![""]),
    ] {
        assert_eq!(offered(line), expected, "{line}");
    }
    assert_eq!(offered(&format!("haft log {}", &id[..2])), [id.as_str()]);
    let arguments = offered("haft call read --arg offset=1 --arg ");
    assert!(
        arguments.contains(&"limit=".to_owned()) && !arguments.contains(&"offset=".to_owned()),
        "{arguments:?}"
    );
    assert!(!home.work().join("started").exists(), "a server was started to complete a line");
}

/// U10: in a folder without consent, completion offers haft's own tools, and does not run or compile anything of the
/// folder.
#[test]
fn a_completion_runs_nothing_of_a_stranger() {
    let home = Home::new();
    program(&home);
    let mut own = home.command(&[]);
    own.env_remove("HAFT_TRUST").env("XDG_CACHE_HOME", home.work().join("../cache"));
    let all = offered(&own, "haft call ");
    assert!(all.contains(&"bash".to_owned()), "{all:?}");
    assert!(!all.iter().any(|tool| tool.starts_with("guest__") || tool.starts_with("mcp__")), "{all:?}");
    assert_eq!(offered(&own, "haft remove gu"), ["guest"], "a name is no more than a name");
    assert!(!home.work().join("started").exists());
    own.env("HAFT_TRUST", "1");
    let all = offered(&own, "haft call ");
    assert!(
        !all.iter().any(|tool| tool.starts_with("guest__")),
        "it was compiled to complete a line: {all:?}"
    );
}

/// U10: completion for zsh and fish describes each tool, on one line.
#[test]
fn zsh_and_fish_are_told_what_a_tool_does() {
    let home = Home::new();
    let answer = |shell: &str| {
        let mut command = home.command(&["--", "haft", "call", "rea"]);
        command.env("HAFT_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(answer("zsh").lines().count(), 1);
    assert!(answer("zsh").starts_with("read:Reads a text file."), "{}", answer("zsh"));
    assert!(answer("fish").starts_with("read\tReads a text file."), "{}", answer("fish"));
}

#[test]
fn bash_completes_verbs_and_options() {
    let home = Home::new();
    let offered = |line: &str| offered(&home.command(&[]), line);
    assert_eq!(offered("haft cal"), ["call"]);
    assert_eq!(offered("haft serve --ht"), ["--http"]);
    let all = offered("haft ");
    for verb in verbs() {
        assert!(all.contains(&verb), "`{verb}` is not completed: {all:?}");
    }
}

#[test]
fn every_shell_takes_its_script() {
    let home = Home::new();
    for (shell, name) in [("bash", "haft.bash"), ("zsh", "_haft"), ("fish", "haft.fish")] {
        let script = home.haft(&["self", "completions", shell]);
        assert_eq!(script.code, 0, "{}", script.stderr);
        home.write(name, &script.stdout);
        match Command::new(shell).args(["-n", name]).current_dir(home.work()).output() {
            Ok(output) => {
                assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Err(_) => eprintln!("SKIPPED: {shell} is not installed, its script was not read"),
        }
    }
    assert_eq!(home.haft(&["self", "completions", "tcsh"]).code, 2);
}

#[test]
fn each_verb_has_a_manual_page() {
    let home = Home::new();
    let answer = home.haft(&["self", "man", "pages/man1"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, ""), "{}", answer.stderr);
    let page = |verb: &str| home.work().join(format!("pages/man1/haft-{verb}.1"));
    for verb in verbs() {
        assert!(page(&verb).is_file(), "no page for `{verb}`");
    }
    let text = fs::read_to_string(page("call")).unwrap();
    assert!(text.contains("Call one tool"), "{text}");
    let formatter = Command::new("groff").args(["-man", "-ww", "-z"]).arg(page("call")).output();
    match formatter {
        Ok(output) => assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => eprintln!("SKIPPED: groff is not installed, the page was not formatted"),
    }
    home.write("file", "");
    let refused = home.haft(&["self", "man", "file"]);
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot make `file`"), "{}", refused.stderr);
}
