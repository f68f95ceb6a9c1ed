use super::*;

fn right(text: &str) -> Request {
    Request::Right(None, text.parse().unwrap())
}

const TEXT: &str = "\
# My program.

[program]   # what it is called
name = 'mine'
version = \"0.1.0\"

# --- Plugins ---

# Counts words.
[[plugins]]
name = \"words\"           # its name
component = \"words.wasm\"
#enabled = true
[plugins.grant]
read = [ \".\" ]          # all of it
# nothing else

# Something about the agent.
[agent]
max_turns = 3
";

#[test]
fn an_entry_is_added_at_the_end_and_nothing_else_changes() {
    let granted = [right("read=./docs"), right("read=./more"), right("host=api.a.test"), right("env=LANG")];
    let entry = NewEntry { kind: Kind::Package, name: "github", source: "./github", granted: &granted };
    let added = add(TEXT, &entry).unwrap();
    let expected = "
[[packages]]
name = \"github\"
source = \"./github\"

[packages.grant]
read = [\"./docs\", \"./more\"]
hosts = [\"api.a.test\"]
env = [\"LANG\"]
";
    assert_eq!(added, format!("{TEXT}{expected}"));
    let none = NewEntry { granted: &[], kind: Kind::Plugin, name: "w", source: "w.wasm" };
    assert_eq!(add("", &none).unwrap(), "[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"\n");
    // No line end at the end, and CRLF line ends.
    let windows = add("[agent]\r\nmax_turns = 3", &none).unwrap();
    assert_eq!(
        windows,
        "[agent]\r\nmax_turns = 3\r\n\r\n[[plugins]]\r\nname = \"w\"\r\ncomponent = \"w.wasm\"\r\n"
    );
    let again = add(&added, &none).unwrap();
    assert_eq!(remove(&again, Kind::Plugin, "w").unwrap(), added);
}

#[test]
fn arrays_written_in_brackets_are_gone_on_with() {
    let entry = NewEntry { kind: Kind::Plugin, name: "w", source: "w.wasm", granted: &[right("read=.")] };
    let text = "plugins = [{ name = \"a\", component = \"a.wasm\" }] # mine\n";
    let added = add(text, &entry).unwrap();
    assert_eq!(
        added,
        "plugins = [{ name = \"a\", component = \"a.wasm\" }, { name = \"w\", component = \"w.wasm\", \
         grant = { read = [\".\"] } }] # mine\n"
    );
    assert_eq!(remove(&added, Kind::Plugin, "w").unwrap(), text);
    assert_eq!(add("plugins = 3\n", &entry), Err(EditError::Form("plugins")));
}

#[test]
fn an_entry_goes_with_its_comments_and_leaves_those_of_others() {
    let removed = remove(TEXT, Kind::Plugin, "words").unwrap();
    let expected = "\
# My program.

[program]   # what it is called
name = 'mine'
version = \"0.1.0\"

# --- Plugins ---

# Something about the agent.
[agent]
max_turns = 3
";
    assert_eq!(removed, expected);
    assert!(matches!(remove(TEXT, Kind::Package, "words"), Err(EditError::Absent("packages", _))));
    let close = "[[plugins]]\nname = \"a\"\ncomponent = \"a\"\n# of b\n[[plugins]]\nname = \"b\"\ncomponent = \"b\"\n";
    assert_eq!(
        remove(close, Kind::Plugin, "a").unwrap(),
        "# of b\n[[plugins]]\nname = \"b\"\ncomponent = \"b\"\n"
    );
    assert_eq!(remove(close, Kind::Plugin, "b").unwrap(), "[[plugins]]\nname = \"a\"\ncomponent = \"a\"\n");
}

/// A sub-table of the entry may stand anywhere after it.
#[test]
fn an_entry_in_pieces_is_removed_whole() {
    let text = "[[plugins]]\nname = \"a\"\ncomponent = \"a\"\n\n[agent]\nmax_turns = 3\n\n[plugins.grant]\nread = [\".\"]\n";
    let removed = remove(text, Kind::Plugin, "a").unwrap();
    assert_eq!(plain(&removed), plain("[agent]\nmax_turns = 3\n"));
}

#[test]
fn values_change_with_their_comments_kept() {
    let limit = |bytes| Request::Limit(None, crate::request::Limit::Memory(bytes));
    let set = |text: &str, bytes| grant(text, Kind::Plugin, "words", &[limit(bytes)]).unwrap();
    let limited = set(TEXT, 128 << 20);
    assert_eq!(limited.replace("\n[plugins.limits]\nmemory = \"128MiB\"\n", ""), TEXT);
    let commented = limited.replace("\"128MiB\"", "\"128MiB\"  # for now");
    assert_eq!(set(&commented, 256 << 20), commented.replace("128MiB", "256MiB"));
    let more =
        grant(TEXT, Kind::Plugin, "words", &[right("read=./x"), right("read=."), right("host=a.test")]);
    let expected = TEXT
        .replace("read = [ \".\" ] ", "read = [ \".\" , \"./x\"] ")
        .replace("# nothing else\n", "hosts = [\"a.test\"]\n# nothing else\n");
    let more = more.unwrap();
    assert_eq!(plain(&more), plain(&expected));
    assert!(more.contains("# all of it") && more.contains("# its name"), "{more}");
}

#[test]
fn secrets_and_limits_go_to_tables_of_their_own() {
    let secret = PluginSecret {
        name: haft_manifest::Located { value: "key".into(), span: haft_core::report::Span::default() },
        host: "a.test".parse().unwrap(),
        header: "Authorization".into(),
        source: SecretSource::Env("TOKEN".parse().unwrap()),
        prefix: "Bearer ".into(),
    };
    let limit = Request::Limit(None, crate::request::Limit::Memory(128 << 20));
    let granted = [limit, Request::Secret(None, secret), Request::Instructions];
    let entry = NewEntry { kind: Kind::Plugin, name: "w", source: "w.wasm", granted: &granted };
    let text = add("", &entry).unwrap();
    let manifest = haft_manifest::Manifest::parse(&text, Path::new("program.toml")).unwrap();
    let plugin = &manifest.plugins[0];
    assert_eq!((plugin.limits.memory, plugin.secrets[0].header.as_str()), (128 << 20, "Authorization"));
}

/// A rule is added to the existing list, and nothing else changes.
#[test]
fn a_rule_is_added_to_those_there_are() {
    for (text, expected) in [
        ("", "[agent]\nallow = [\"bash(ls)\"]\n"),
        (
            "# mine\n[agent] # here\nmax_turns = 3\n",
            "# mine\n[agent] # here\nmax_turns = 3\nallow = [\"bash(ls)\"]\n",
        ),
        ("[agent]\nallow = [ 'read' ] # why\n", "[agent]\nallow = [ 'read', \"bash(ls)\" ] # why\n"),
        (
            "[agent]\nallow = [\n    # reads\n    \"read\",\n]\n[sandbox]\n",
            "[agent]\nallow = [\n    # reads\n    \"read\",\n    \"bash(ls)\",\n]\n[sandbox]\n",
        ),
        ("agent = { max_turns = 3 }\n", "agent = { max_turns = 3 , allow = [\"bash(ls)\"] }\n"),
        ("[agent]\nallow = [\"bash(ls)\"]\n", "[agent]\nallow = [\"bash(ls)\"]\n"),
    ] {
        assert_eq!(allow(text, "bash(ls)").as_deref(), Ok(expected), "{text}");
    }
    let odd = r#"bash(echo "\\*" 'x')"#;
    let added = allow("", odd).unwrap();
    assert_eq!(added.parse::<toml::Table>().unwrap()["agent"]["allow"][0].as_str(), Some(odd));
    for text in ["agent = 3\n", "[agent]\nallow = \"read\"\n"] {
        assert_eq!(allow(text, "read(x)"), Err(EditError::Unsure), "{text}");
    }
}
