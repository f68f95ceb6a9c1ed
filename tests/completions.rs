//! Completions and manual pages, given to the shells and to the formatter that read them.

#![expect(clippy::disallowed_methods, reason = "these tests start shells")]

use std::fs;
use std::process::Command;

use crate::cli::Home;

/// The verbs that `haft --help` lists.
pub(crate) fn verbs() -> Vec<String> {
    let help = Home::new().haft(&["--help"]).stdout;
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let named = |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(first);
    listed.lines().filter_map(named).filter(|verb| verb != "help").collect()
}

fn first(line: &str) -> String {
    line.split_whitespace().next().unwrap().to_owned()
}

/// What bash offers for `line`, with haft's script loaded.
fn offered(line: &str) -> Vec<String> {
    let home = Home::new();
    home.write("haft.bash", &home.haft(&["completions", "bash"]).stdout);
    let last = line.split(' ').count() - 1;
    let script = format!(
        "source ./haft.bash; COMP_WORDS=({line}); COMP_CWORD={last}; COMP_LINE='{line}'; \
         _haft haft \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{}]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        last - 1
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(home.work()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_and_options() {
    assert_eq!(offered("haft ca"), ["call"]);
    assert_eq!(offered("haft serve --ht"), ["--http"]);
    let all = offered("haft ''");
    for verb in verbs() {
        assert!(all.contains(&verb), "`{verb}` is not completed: {all:?}");
    }
}

#[test]
fn every_shell_takes_its_script() {
    let home = Home::new();
    for (shell, name) in [("bash", "haft.bash"), ("zsh", "_haft"), ("fish", "haft.fish")] {
        let script = home.haft(&["completions", shell]);
        assert_eq!(script.code, 0, "{}", script.stderr);
        home.write(name, &script.stdout);
        match Command::new(shell).args(["-n", name]).current_dir(home.work()).output() {
            Ok(output) => {
                assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Err(_) => eprintln!("SKIPPED: {shell} is not installed, its script was not read"),
        }
    }
    assert_eq!(home.haft(&["completions", "tcsh"]).code, 2);
}

#[test]
fn each_verb_has_a_manual_page() {
    let home = Home::new();
    let answer = home.haft(&["man", "pages/man1"]);
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
    let refused = home.haft(&["man", "file"]);
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot make `file`"), "{}", refused.stderr);
}
