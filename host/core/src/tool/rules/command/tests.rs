use proptest::prelude::*;

use super::*;

fn allowed(rule: &str, command: &str) -> bool {
    is_allowed(&Glob::new(rule), command)
}

fn touched(rule: &str, command: &str) -> bool {
    is_touched(&Glob::new(rule), command)
}

#[test]
fn plain_commands_are_allowed_by_their_beginning() {
    for (rule, command) in [
        ("git status*", "git status"),
        ("git status *", "git status"),
        ("git status*", "git status --short -- src/a_b.rs"),
        ("git log *", "git log HEAD~3..HEAD^ --format='%h (%s) $x; y' -n 5"),
        ("git commit *", r#"git commit -m "mend it; all | of & it""#),
        ("cargo test*", "cargo test -p a --features x,y@1+2"),
        ("*", "ls"),
    ] {
        assert!(allowed(rule, command), "{rule}: {command}");
    }
}

/// Syntax with which a shell does more than run one program.
const MORE: &[&str] = &[
    "; rm -rf ~",
    ";rm -rf ~",
    " && rm -rf ~",
    " || rm x",
    " | sh",
    " |& sh",
    " & rm x",
    "&",
    "\nrm x",
    "\rrm x",
    "\r\nrm x",
    " $(rm x)",
    " `rm x`",
    " \"$(rm x)\"",
    " \"`rm x`\"",
    " <(rm x)",
    " >(rm x)",
    " > ~/.bashrc",
    " >> x",
    " < x",
    " 2>x",
    " <<EOF\nx\nEOF",
    " $HOME",
    " ${IFS}x",
    " \"$x\"",
    " {a,b}",
    " a*",
    " a?",
    " [ab]",
    " ~/x",
    " ~",
    " a=~/x",
    " a:~root",
    " \\; rm",
    "\\\nrm",
    " # x",
    " !!",
    " \"!x\"",
    " (x)",
    " 'open",
    " \"open",
    " 'a''",
    "\trm",
    "\u{b}x",
    "\u{a0}x",
    "\u{2028}x",
    "\0x",
    " ^a^b",
    " =x",
    " $'\\x3b'",
    " ü",
];

/// A command that starts like an allowed command and does more is not allowed.
#[test]
fn nothing_that_a_shell_makes_more_of_is_allowed() {
    for more in MORE {
        for rule in ["git status*", "git status *", "*", "*status*"] {
            let command = format!("git status{more}");
            assert!(!allowed(rule, &command), "{rule}: {command:?}");
        }
    }
    for before in ["rm x; ", "PATH=/tmp ", "X= ", "\n", "(", "{ ", "! ", "rm x\n", "$(rm x) ", "> x "] {
        let command = format!("{before}git status");
        assert!(!allowed("*git status*", &command), "{command:?}");
        assert!(!allowed("git status*", &command), "{command:?}");
    }
}

/// A rule of the exact text allows any command, because the user has seen all of it.
#[test]
fn the_very_text_is_allowed_whatever_it_is() {
    assert!(allowed("cargo fmt && cargo test > log", "cargo fmt && cargo test > log"));
    assert!(!allowed("cargo fmt && cargo test > log", "cargo fmt && cargo test > log2"));
    assert!(!allowed("cargo fmt", "cargo fmt "));
    assert!(allowed(r"ls \*.rs", "ls *.rs"));
}

/// Ways to write `rm`.
const REMOVES: &[&str] = &[
    "rm -rf x",
    "  rm   -rf x",
    "ls; rm x",
    "ls && rm x",
    "ls|rm x",
    "ls & rm x",
    "ls\nrm x",
    "ls \\\n; rm x",
    "(rm x)",
    "{ rm x; }",
    "echo $(rm x)",
    "echo `rm x`",
    "echo \"$(rm x)\"",
    "cat <(rm x)",
    "sudo rm x",
    "sudo -u me rm x",
    "env -i A=1 rm x",
    "A=1 rm x",
    "/bin/rm x",
    "'rm' x",
    "r\"m\" x",
    "r\\m x",
    "r\\\nm x",
    "sh -c 'rm x'",
    "bash -c \"cd /; rm x\"",
    "eval rm x",
    "xargs -n 1 rm x",
    "timeout 5 rm x",
    "find . -exec rm {} \\;",
    "if true; then rm x; fi",
    "while rm x; do :; done",
    ">out rm x",
    "> out rm x",
    "2>&1 rm x",
    "rm>out x",
    "rm x >out",
    "case a in a) rm x;; esac",
    "! rm x",
    "time rm x",
    "rm",
    "true||rm x",
    "f() { rm x; }; f",
    "<<<y rm x",
    "&>out rm x",
    ">|out rm x",
    ">| out rm x",
    "CFLAGS=\"a b\" rm -rf ~",
    "env \"A=x y\" rm x",
    "time -f \"%e %U\" rm x",
    "sudo -p \"enter your password\" rm x",
    "> 'a b' rm x",
    "X=\"a; b\" rm x",
    "X='a | b' rm x",
    "X=a\\ b rm x",
    "X=\"a \\\" b\" rm x",
    "X=$'a\\' b' rm x",
    "X=\"$(date '+%H %M') b\" rm x",
    "X=\"`date '+%H %M'` b\" rm x",
    "X=\"a $(rm x) b\" ls",
    "X=${Y:-a b} rm x",
    "X=\"${Y:-it's a}\" rm x",
    "X=a\u{a0}b rm x",
    "X=a\rb rm x",
    "X+='a b' rm x",
    "ls # it's\nX=\"a\nb\" rm x",
    "cat <<E\nit's\nE\nX='a b' rm x",
    "sh -c 'X=\"a b\" rm x'",
    "sudo -p \"a b\" sh -c 'env \"A=x y\" rm x'",
    "bash <<< 'rm -rf ~'",
    "sh <<<'rm -rf ~'",
    "sh <<< rm",
    "sh <<< 'X=\"a b\" rm x'",
    "sh -s a <<< \"$X\"",
    "function f { rm x; }; f",
    "coproc rm x",
    "coproc N { rm x; }",
    "su -c 'rm x'",
    "su me -c 'rm x'",
    "su - me -c \"rm x\"",
    "flock /tmp/l rm x",
    "flock -w 5 /tmp/l -c 'rm x'",
    "watch -n 2 'rm x'",
    "chroot /x rm y",
    "chroot --userspec=a:b /x /bin/rm y",
    "unshare -r rm x",
    "nsenter -t 1 -m rm x",
    "parallel -j 4 rm ::: x",
];

#[test]
fn what_is_refused_is_found_wherever_it_stands() {
    for command in REMOVES {
        assert!(touched("rm *", command), "{command:?}");
    }
    for command in
        ["git push --force", "git push >out --force", "git push 2>&1 --force", "git push &>out --force"]
    {
        assert!(touched("git push --force*", command), "{command:?}");
    }
}

/// Words that are unknown before the shell expands them match every refusing rule.
#[test]
fn what_cannot_be_known_is_refused() {
    for command in [
        "$X x",
        "r$X x",
        "$(echo rm) x",
        "`echo rm` x",
        "${X}m x",
        "$'\\x72m' x",
        "\"$SHELL\" -c x",
        "/bin/r? x",
        "env $X",
        "r{m,} x",
        "sudo -u $ME rm",
        "[r]m x",
    ] {
        assert!(touched("rm *", command), "{command:?}");
    }
    assert!(touched("git push*", "git $X"));
    assert!(touched("rm -rf *", "bash <<< 'rm -rf ~'") && !touched("rm -rf *", "bash <<< 'rm x'"));
    assert!(touched("git push --force*", "git push $X"));
}

#[test]
fn what_is_another_command_is_not_refused() {
    for command in [
        "ls",
        "echo $HOME",
        "echo $(date) x",
        "echo `date`",
        "rmdir x",
        "git rm x",
        "grep rm x",
        "cat rm",
        "if [ $x = y ]; then ls; fi",
        "for f in $(ls); do cat $f; done",
        "X=$(date) ls",
        "{ ls; }",
        "ls *.rs",
        "echo 'a rm b'",
        "charm x",
        "ls >rm",
        "ls >|rm",
        "X='rm b' ls",
        "git commit -m 'rm x'",
        "grep a <<< \"$X\"",
        "ls\r\nls\r\n",
        "flock /tmp/l ls rm",
        "echo ${X#a b} # rm x",
    ] {
        assert!(!touched("rm *", command), "{command:?}");
    }
}

/// Every form in `tests/forms.txt` is judged as the table says.
#[test]
fn every_form_of_a_command_is_judged_as_the_table_says() {
    let (mut rule, mut wrong, mut count) = ("", Vec::new(), 0);
    for line in include_str!("tests/forms.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((mark, form)) = line.split_once(' ') else { continue };
        if mark == "=" {
            rule = form;
            continue;
        }
        count += 1;
        let command = form.replace('⏎', "\n").replace('⇥', "\t");
        if touched(rule, &command) != (mark == "+") {
            wrong.push(format!("{rule}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 300, "{count} forms");
}

/// A command after too many words or too deep in nested commands matches every refusing rule.
#[test]
fn what_hides_behind_many_words_is_taken_for_anything() {
    assert!(touched("rm *", &format!("{}rm x", "sudo ".repeat(1000))));
    assert!(touched("rm *", &"$(".repeat(10_000)));
}

/// Characters with a meaning for a shell outside of quotes (POSIX 2.2, and the additions of bash).
const META: &str = "|&;<>()$`\\\"'\t\n*?[]#{}!";

proptest! {
    /// No rule with a star allows a command in which a shell finds more than words.
    #[test]
    fn no_bare_metacharacter_is_allowed(
        before in "[a-z ./-]{0,12}",
        meta in prop::sample::select(META.chars().filter(|c| !matches!(c, '"' | '\'')).collect::<Vec<_>>()),
        after in "[a-z ./$();|&-]{0,12}",
        quoted in "('[a-z;|$ ]{0,6}'|\"[a-z;|& ]{0,6}\")?",
    ) {
        let command = format!("{before}{quoted}{meta}{after}");
        for rule in ["*", &format!("{before}*"), &format!("*{after}")] {
            prop_assert!(!allowed(rule, &command), "{rule}: {command}");
        }
    }

    /// The words of an allowed command are those that another shell parser finds.
    #[test]
    fn what_is_allowed_is_one_list_of_words(command in "[a-z \"'\\\\;$|&#~=./-]{1,16}") {
        if allowed("*", &command) {
            prop_assert!(shell_words::split(&command).is_ok(), "{command}");
            let outside: String = command.split('"').step_by(2).collect();
            let bare = !command.contains(['"', '\'']) || outside.contains('\'');
            prop_assert!(!bare || !outside.contains([';', '|', '&', '$']) || outside.contains('\''), "{command}");
        }
    }

    /// A command that is refused by itself is refused in any list.
    #[test]
    fn a_part_is_refused_in_any_list(
        before in "[a-z 'x./-]{0,12}",
        operator in prop::sample::select(vec![";", "&&", "||", "|", "&", "\n", " $(", "`", "("]),
    ) {
        prop_assert!(touched("rm *", &format!("{before}{operator}rm x")), "{before}{operator}");
    }
}
