//! C08: names and patterns that select tools. A pattern without a tool is reported with the probable intention,
//! wherever it is written, and never means "none".

use serde_json::json;

use crate::cli::Home;
use crate::common::hostile;
use crate::mcp::fake;

/// A program with the hostile guest and the additional text `text`.
fn home(text: &str) -> Home {
    let home = Home::new();
    let component = hostile().display().to_string();
    let plugin = format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n");
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{plugin}{text}"));
    home
}

/// C08: a pattern in `[agent] tools` without a tool is an error with the nearest name and its place.
#[test]
fn the_agent_s_tools_are_those_there_are() {
    for (patterns, said, hint) in [
        ("\"reed\"", "`[agent] tools`: there is no tool `reed`", "did you mean `read`?"),
        ("\"read\", \"guset__*\"", "there is no tool `guset__*`", "did you mean `guest__*`?"),
        ("\"read\", \"zzzzzzzzz\"", "there is no tool `zzzzzzzzz`", "`haft tools` lists all tools"),
    ] {
        let home = home(&format!("[agent]\ntools = [{patterns}]\n"));
        for arguments in [&["check"][..], &["run", "hi"]] {
            let answer = home.haft(arguments);
            let both = answer.stdout + &answer.stderr;
            assert!(both.contains(said) && both.contains(hint), "{arguments:?}: {both}");
            assert!(both.contains("program.toml:"), "the place is told: {both}");
            assert_eq!(answer.code, 3, "{arguments:?}: {both}");
        }
    }
    let home = home("[agent]\ntools = [\"read\", \"run_shell\", \"guest__e*\"]\n");
    assert_eq!(home.haft(&["check"]).code, 0, "tools of haft's own that are not on are no slips");
    home.write("program.toml", "[builtins]\nshell = false\n[agent]\ntools = [\"bash\"]\n");
    for arguments in [&["check"][..], &["run", "hi"]] {
        let answer = home.haft(arguments);
        assert!(answer.stderr.contains("`[agent] tools` leaves no tool"), "{}", answer.stderr);
        assert_ne!(answer.code, 0);
    }
}

/// C08: a disabled tool of haft is a known name, so that one list can name the tools for this machine and for a
/// target.
#[test]
fn tools_of_haft_s_own_may_be_off() {
    let home = Home::new();
    let tools: Vec<serde_json::Value> =
        serde_json::from_str(&home.haft(&["tools", "--json"]).stdout).unwrap();
    let names: Vec<String> = tools.iter().map(|tool| tool["name"].to_string()).collect();
    assert!(names.len() >= 7, "{names:?}");
    let switches = ["shell", "files", "fetch", "search"].map(|key| format!("{key} = false\n")).concat();
    let all = names.join(", ");
    home.write("program.toml", &format!("[builtins]\n{switches}[agent]\ntools = [{all}]\n"));
    let answer = home.haft(&["check"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let off = answer.stderr.matches("this built-in tool is switched off").count();
    assert_eq!(off, names.len() - 1, "all but `time`: {}", answer.stderr);
}

/// C08: a name in `--tools` or `--allow` without a tool or plugin is an error with the nearest name.
#[test]
fn the_command_line_s_tools_are_those_there_are() {
    let home = home("[agent]\ntools = [\"read\"]\n");
    for (arguments, said) in [
        (&["run", "--tools", "reed", "hi"][..], "`--tools`: there is no tool `reed`"),
        (&["serve", "--tools", "guest__ecko"], "there is no tool `guest__ecko`"),
        (&["serve", "--plugin", "guest", "--tools", "time"], "there is no tool `time`"),
        (&["--allow", "geust:read=.", "call", "time"], "did you mean `guest`?"),
    ] {
        assert_eq!(home.haft(&["tools"]).code, 0, "what there is, is known");
        let answer = home.haft(arguments);
        assert!(answer.stderr.contains(said), "{arguments:?}: {}", answer.stderr);
        assert_ne!(answer.code, 0, "{arguments:?}");
    }
}

/// C08: a name in a plugin's keys that the plugin does not have is an error; a misspelt `confirm` makes all its tools
/// ask for approval.
#[test]
fn a_plugin_s_patterns_are_of_its_tools() {
    for (line, key) in [
        ("tools = [\"ecko\"]", "tools"),
        ("confirm = [\"ecko\"]", "confirm"),
        ("descriptions = { ecko = \"x\" }", "descriptions"),
        ("titles = { ecko = \"x\" }", "titles"),
        ("hints = { read_only = [\"ecko\"] }", "hints.read_only"),
    ] {
        let home = home(&format!("{line}\n"));
        let answer = home.haft(&["check"]);
        assert!(answer.stderr.contains("plugin `guest` has no tool `ecko`"), "{}", answer.stderr);
        assert!(answer.stderr.contains(&format!("used in `{key}` here")), "{}", answer.stderr);
        assert!(answer.stderr.contains("did you mean `echo`?"), "{}", answer.stderr);
        assert_ne!(answer.code, 0);
        // With a misspelt `tools` or `confirm` every call needs approval, and no person can give it.
        let call = home.haft(&["call", "guest__echo", "{\"text\": \"ran\"}"]);
        assert_eq!(
            call.stdout.contains("ran"),
            !matches!(key, "tools" | "confirm"),
            "{key}: {}{}",
            call.stdout,
            call.stderr
        );
    }
}

/// C08: for an MCP server with an unknown list of tools, haft accepts every name with the server's prefix; once the
/// list is known, a misspelt name is an error.
#[test]
fn what_is_not_known_yet_is_not_judged() {
    let agent = "[agent]\ntools = [\"time\", \"mcp__one__ecko\"]\n";
    let home = home(&format!("{agent}{}", fake::toml("one", &json!({ "start": "crash" }), "")));
    let unknown = home.haft(&["check"]);
    let said = "not checked: `[agent] tools`: `mcp__one__ecko` matches no tool yet: the tools of MCP server `one` are not known";
    assert!(unknown.stderr.contains(said), "{}", unknown.stderr);
    home.write("program.toml", &format!("[sandbox]\n{agent}{}", fake::toml("one", &json!({}), "")));
    let unseen = home.haft(&["check"]);
    let said = "`mcp__one__ecko` matches no tool yet: you have not agreed to the tools of MCP server `one` \
        yet";
    assert!(unseen.stderr.contains(said), "{}", unseen.stderr);
    assert_eq!(home.haft(&["update", "--yes", "one"]).code, 0);
    let known = home.haft(&["check"]);
    assert!(known.stderr.contains("did you mean `mcp__one__echo`?"), "{}", known.stderr);
    assert_ne!(known.code, 0);
}
