use std::time::Duration;

use haft_core::grant::SandboxMode;
use haft_core::limit::{Limits, Reuse};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::catalogue::{Kind, Table};
use super::*;

const EXAMPLE: &str = include_str!("../../../program.toml.example");

fn parse(text: &str) -> Manifest {
    Manifest::parse(text, Path::new("folder/program.toml")).unwrap_or_else(|report| panic!("{report}"))
}

fn report(text: &str) -> String {
    Manifest::parse(text, Path::new("program.toml")).unwrap_err().to_string()
}

/// The example with all commented keys enabled.
fn full_example() -> String {
    let uncomment = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(uncomment).collect::<Vec<_>>().join("\n")
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

/// The keys of the catalogue that are missing in all of `values`.
fn missing_keys(shape: &Table, values: &[&Value], path: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for key in shape.keys() {
        let found: Vec<_> = values.iter().filter_map(|value| value.get(key.name)).collect();
        let path = format!("{path}.{}", key.name);
        if found.is_empty() {
            missing.push(path);
        } else {
            missing.extend(missing_inside(&key.kind, &found, &path));
        }
    }
    missing
}

fn missing_inside(kind: &Kind, values: &[&Value], path: &str) -> Vec<String> {
    let items = || values.iter().filter_map(|value| value.as_array()).flatten().collect::<Vec<_>>();
    match kind {
        Kind::Table(shape) => missing_keys(shape, values, path),
        Kind::List(inner) => missing_inside(inner, &items(), path),
        Kind::Map(inner) => {
            let inside = values.iter().filter_map(|value| value.as_object()).flat_map(|map| map.values());
            missing_inside(inner, &inside.collect::<Vec<_>>(), path)
        }
        _ => Vec::new(),
    }
}

#[test]
fn the_example_loads() {
    let manifest = parse(EXAMPLE);
    assert_eq!(manifest.plugins.len(), 1);
    assert_eq!(*manifest.plugins[0].component, Component::File("plugins/built/wordcount.wasm".into()));
    assert_eq!(manifest.plugins[0].grant.read.len(), 1);
    assert_eq!(manifest.tools[0].name.as_str(), "system");
    assert!(manifest.provider.is_none() && manifest.mcp_servers.is_empty(), "needs no key and no network");
}

/// PR01: every key is accepted and shown in the example. The parser reads every key of the catalogue, else the keys
/// below would be unknown; the catalogue has every key that is read, as `Section::entry` asserts.
#[test]
fn the_example_shows_every_key() {
    let full = full_example();
    parse(&full);
    let mut missing = missing_keys(&Manifest::TABLE, &[&as_json(&full)], "");
    // A command's grant has the keys of a server's grant, where `cache` is refused.
    missing.retain(|path| !path.starts_with(".tools.grant.") && path != ".mcp_servers.grant.cache");
    // Secrets of commands and servers have the keys of secrets of `[sandbox]`.
    missing.retain(|path| path != ".tools.secrets" && path != ".mcp_servers.secrets");
    // `file` and `keyring` of the key are shown with other secrets.
    let once = [
        ".network.login.env",
        ".network.login.file",
        ".provider.api_key.file",
        ".provider.api_key.keyring",
        ".nats.password.file",
        ".nats.password.keyring",
        ".serve.callers.token.file",
        ".serve.callers.token.keyring",
        ".mcp_servers.oauth.client_secret.file",
        ".mcp_servers.oauth.client_secret.keyring",
        ".mcp_servers.oauth.private_key.env",
        ".mcp_servers.oauth.private_key.keyring",
        ".mcp_servers.oauth.identity_provider.client_secret.file",
        ".mcp_servers.oauth.identity_provider.client_secret.keyring",
        ".mcp_servers.oauth.identity_provider.id_token.env",
        ".mcp_servers.oauth.identity_provider.id_token.keyring",
    ];
    // A table has one of these alternatives; so has the place of keys.
    let others = [
        ".mcp_servers.oauth.identity_provider.refresh_token",
        ".nats.token",
        ".nats.credentials",
        ".nats.nkey",
        ".serve.callers.jwt.jwks_file",
    ];
    missing.sort_unstable();
    let mut expected = [&once[..], &others].concat();
    expected.sort_unstable();
    assert_eq!(missing, expected);
}

#[test]
fn the_examples_values_are_the_defaults_where_there_are_some() {
    let full = parse(&full_example());
    assert_eq!(full.plugins[0].limits, Limits::default());
    assert_eq!(full.plugins[0].reuse, Some(Reuse::default()));
    let lists = Builtins {
        shell_deny: None,
        fetch_allow: Vec::new(),
        fetch_block: Vec::new(),
        on: BuiltinsOn::default(),
        ..full.builtins
    };
    assert_eq!(lists, Builtins::default());
    assert_eq!(full.tools[0].timeout, Duration::from_mins(2));
    assert_eq!(full.agent.max_turns, Agent::default().max_turns);
}

#[test]
fn the_schema_accepts_the_example_and_all_its_keys() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for text in [EXAMPLE, &full_example()] {
        let problems: Vec<_> = schema.iter_errors(&as_json(text)).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{problems:?}");
    }
    let inline = as_json(
        "tools = [{ name = \"x\", description = \"d\", command = [\"c\"] }]\nprovider.name = \"gemini\"",
    );
    assert!(schema.is_valid(&inline));
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for text in [
        "colour = 1",
        "[program]\nname = \"a\"",
        "[program]\nname = \"A\"\nversion = \"1.0.0\"",
        "[[plugins]]\nname = \"a\"\ncomponent = \"c\"\ngrant.red = []",
        "[[plugins]]\nname = \"a\"\ncomponent = \"c\"\nlimits.memory = \"64M\"",
        "[agent]\nmax_turns = 0",
        "[provider]\nname = \"openai\"\napi_key = \"text\"",
        "[sandbox]\nmode = \"rw\"",
        "[tools.x]\nname = \"x\"\ndescription = \"d\"\ncommand = \"c\"",
    ] {
        assert!(!schema.is_valid(&as_json(text)), "{text}");
        report(text);
    }
}

#[test]
fn an_empty_file_is_the_default() {
    for text in ["", "\n", "# nothing\n", "\u{feff}"] {
        let manifest = parse(text);
        assert!(manifest.tools.is_empty() && manifest.plugins.is_empty() && manifest.program.is_none());
        assert_eq!(manifest.agent, Agent::default());
        assert_eq!(manifest.builtins, Builtins::default());
        assert_eq!(manifest.sandbox, Sandbox::default());
    }
    assert_eq!(Sandbox::default().mode, SandboxMode::Sandbox);
}

/// PR01: a key has one spelling; the errors for other spellings name it.
#[test]
fn a_key_has_one_spelling() {
    for (text, expected) in [
        ("[[mcp]]\nname = \"s\"\ncommand = \"c\"", "did you mean `mcp_servers`?"),
        ("[program]\nname = \"p\"\nversion = \"1.0.0\"\nauthor = \"Ada\"", "did you mean `authors`?"),
        (
            "[tools.x]\ndescription = \"d\"\ncommand = \"c\"",
            "write `[[tools]]`, and the name as its key `name`",
        ),
        ("[mcp_servers.x]\ncommand = \"c\"", "write `[[mcp_servers]]`, and the name as its key `name`"),
    ] {
        assert!(report(text).contains(expected), "{text}: {}", report(text));
    }
}

/// PR01, PR03: a short program parses, with the defaults and with tables of other tools.
#[test]
fn a_short_program_parses() {
    let manifest = parse(
        r#"
[program]
name = "github"
version = "1.0.0"
description = "Works with GitHub"
authors = ["Ada"]
[[tools]]
name = "create_pr"
description = "Create a pull request"
command = "gh pr create"
arguments = [{ name = "title", description = "PR title", required = true }, { name = "body", description = "b" }]
[requires_tools]
names = ["read", "exec"]
[host_requirements]
required = ["gh"]
optional = ["git"]
[[mcp_servers]]
name = "filesystem"
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv/data"]
env = { LOG_LEVEL = "info" }
"#,
    );
    let program = manifest.program.unwrap();
    assert_eq!((program.name.as_str(), program.authors), ("github", vec!["Ada".to_owned()]));
    assert_eq!(*manifest.tools[0].command, ["gh", "pr", "create"]);
    assert!(manifest.tools[0].arguments[1].required, "required unless said otherwise");
    assert_eq!(*manifest.required_tools[1], "exec");
    assert_eq!(*manifest.host_requirements.optional[0], "git");
    let server = &manifest.mcp_servers[0];
    assert!(server.enabled);
    let Transport::Stdio { command, env } = &server.transport else { panic!("{server:?}") };
    assert_eq!(command.len(), 4);
    assert_eq!(env[0], ("LOG_LEVEL".to_owned(), TextOrSecret::Text("info".to_owned())));
}

/// PR03: quotes are honoured, and nothing is expanded.
#[test]
fn commands_are_split_as_a_shell_splits_words() {
    let command = |command: &str| {
        let head = "[program]\nname = \"p\"\nversion = \"1.0.0\"\n";
        parse(&format!("{head}[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = {command}")).tools[0]
            .command
            .value
            .clone()
    };
    assert_eq!(command(r#""gh""#), ["gh"]);
    assert_eq!(command(r#"'sh -c "a b" $HOME'"#), ["sh", "-c", "a b", "$HOME"]);
    assert_eq!(command(r#"["./bin/x", "", "a|b", ";"]"#), ["./bin/x", "", "a|b", ";"]);
}

/// MR02: an unset model stays unset, so that the provider can distinguish one model from two.
#[test]
fn models_are_told_apart() {
    let provider =
        parse("[provider]\nname = \"ollama\"\nmodel = \"a\"\nmodel_complex = \"b\"").provider.unwrap();
    assert_eq!(
        (provider.model.as_deref(), provider.model_fast, provider.model_complex.as_deref()),
        (Some("a"), None, Some("b"))
    );
    assert_eq!(provider.name.as_str(), "ollama");
    assert_eq!(provider.timeout, Duration::from_mins(10));
}

/// RG04: each switch disables its tools.
#[test]
fn switches_are_read() {
    let builtins = parse("[builtins]\nshell = false\nfetch = false\nfiles = false\nsearch = false").builtins;
    assert!(!builtins.shell && !builtins.fetch && !builtins.files && !builtins.search && builtins.time);
}

/// FU02, FU04, WS04: the hosts of web tools are read.
#[test]
fn hosts_of_the_web_are_read() {
    let builtins = Builtins::default();
    assert_eq!(builtins.search_host().unwrap().to_string(), "html.duckduckgo.com");
    let builtins = parse(
        "[builtins]\nfetch_allow = [\"http://127.0.0.1:80\"]\nfetch_block = [\"Example.com\", \"[::1]\"]\n\
         search_url = \"http://[::1]:8080/s?kl=de-de\"",
    )
    .builtins;
    assert_eq!(builtins.fetch_allow[0].to_string(), "http://127.0.0.1");
    let blocked: Vec<_> = builtins.fetch_block.iter().map(ToString::to_string).collect();
    assert_eq!(blocked, ["example.com", "[::1]"]);
    assert_eq!(builtins.search_host().unwrap().to_string(), "http://[::1]:8080");
}

/// TE08: no list and an empty list differ.
#[test]
fn an_empty_list_of_tools_is_kept() {
    assert_eq!(parse("[agent]\ntools = []").agent.tools.unwrap().value, Vec::new());
    assert_eq!(parse("[agent]").agent.tools, None);
}

#[test]
fn plugins_come_from_files_urls_and_registries() {
    let component = |text: &str| {
        let plugin = format!("[[plugins]]\nname = \"p\"\ncomponent = \"{text}\"");
        parse(&plugin).plugins[0].component.value.clone()
    };
    assert_eq!(component("~/x.wasm"), Component::File("~/x.wasm".into()));
    assert_eq!(component("https://a.b/c.wasm?v=1"), Component::Url("https://a.b/c.wasm?v=1".into()));
    assert_eq!(component("http://[::1]:80/c.wasm"), Component::Url("http://[::1]:80/c.wasm".into()));
    assert_eq!(component("oci://ghcr.io/a/b:1"), Component::Oci("ghcr.io/a/b:1".into()));
}

#[test]
fn extra_body_is_json_in_its_order() {
    let text =
        "[provider]\nname = \"openai\"\n[provider.extra_body]\nb = 1\na = { c = [0.5, true], 'd e' = 0x10 }";
    let body = Value::Object(parse(text).provider.unwrap().extra_body);
    assert_eq!(body.to_string(), json!({"b": 1, "a": {"c": [0.5, true], "d e": 16}}).to_string());
}

#[test]
fn paths_start_from_the_folder_or_from_home() {
    let manifest = parse("");
    let resolve = |path: &str| manifest.resolve(Path::new(path), Path::new("/home/ada"));
    // S04: absolute, so that nothing is looked up from another folder.
    assert_eq!(resolve("x"), std::env::current_dir().unwrap().join("folder/x"));
    assert_eq!(resolve("/x"), Path::new("/x"));
    assert_eq!(resolve("~"), Path::new("/home/ada"));
    assert_eq!(resolve("~/x"), Path::new("/home/ada/x"));
}

#[test]
fn later_problems_point_into_the_file() {
    let manifest = parse("[[plugins]]\nname = \"p\"\ncomponent = \"c.wasm\"\n");
    let span = manifest.plugins[0].component.span;
    let report = manifest.report(vec![Problem::new("no such component").at(span, "not found")]);
    assert!(report.to_string().contains("--> folder/program.toml:3:13"), "{report}");
    assert_eq!(manifest.source.place(span), "folder/program.toml:3:13");
}

/// CL04: an error does not repeat a secret that was written into program.toml, at any place.
#[test]
fn written_secrets_are_not_shown() {
    for text in [
        "[provider]\nname = \"openai\"\napi_key = \"hunter2\"",
        "provider = { name = \"openai\", api_key = \"hunter2\", modle = \"x\" }",
        "provider = { name = \"openai\", api_key = [\"hunter2\"], modle = \"x\" }",
        "provider = { name = \"openai\", api_key = { value = \"hunter2\" } }",
        "[provider]\nname = \"openai\"\napi_key = '''\nhunter2'''",
        "[provider]\nname = \"openai\"\napi_key = \"hunter2",
        "[provider]\nname = \"openai\"\nheaders = { Authorization = \"hunter2\" }",
        "[provider]\nname = \"openai\"\nbase_url = \"https://ada:hunter2@x.org\"",
        "[[mcp_servers]]\nname = \"a\"\ncommand = \"c\"\nenv = { GITHUB_TOKEN = \"hunter2\" }",
        "[[plugins]]\nname = \"a\"\ncomponent = \"c\"\nsecrets = { x = \"hunter2\" }",
        "[[plugins]]\nname = \"a\"\ncomponent = \"c\"\nsecrets.x = { value = \"hunter2\" }",
    ] {
        let report = Manifest::parse(text, Path::new("program.toml")).unwrap_err();
        assert!(!report.to_string().contains("hunter2"), "{report}");
        assert!(!format!("{report:?}").contains("hunter2"), "{report:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str| Manifest::load(&folder.path().join(name)).unwrap_err().to_string();
    let shown = |name: &str| folder.path().join(name).display().to_string();
    let missing = load("none.toml");
    assert!(
        missing.starts_with(&format!("error: cannot read `{}`: No such file", shown("none.toml"))),
        "{missing}"
    );
    assert!(missing.contains("\nhint: `haft init` writes one"), "{missing}");
    assert!(load("").contains("Is a directory"), "{}", load(""));
    std::fs::write(folder.path().join("latin1.toml"), b"a = 1\nb = \"\xe9\"").unwrap();
    assert!(load("latin1.toml").contains("latin1.toml:2:6"), "{}", load("latin1.toml"));
    std::fs::write(folder.path().join("huge.toml"), "# x\n".repeat(MAX_FILE)).unwrap();
    assert!(
        load("huge.toml").ends_with("is too large: a program.toml has at most 256KiB"),
        "{}",
        load("huge.toml")
    );
    let device = Manifest::load(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(device.contains("too large"), "{device}");
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "[agent]\nmax_turns = \"many\"\n[builtins]\nshell = 1\n[sandbox]\nmode = \"wide\"\nx = 1\n";
    let report = Manifest::parse(text, Path::new("program.toml")).unwrap_err();
    assert_eq!(report.problems().len(), 4, "{report}");
}

#[test]
fn durations_are_durations() {
    let tool = "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"c\"\ntimeout = \"1500ms\"";
    assert_eq!(parse(tool).tools[0].timeout, Duration::from_millis(1500));
}

/// The deepest nesting that the parser accepts is read and dropped on a small stack.
#[test]
fn nesting_is_bounded_where_it_is_allowed() {
    let key = vec!["a"; 16].join(".");
    let inside = format!("{}1{}", format!("{{{key} = ").repeat(80), "}".repeat(80));
    let head = "[provider]\nname = \"openai\"\n";
    let text = format!("{head}[{key}]\n{key} = {inside}\n[provider.extra_body]\nx = {inside}\n");
    let report = Manifest::parse(&text, Path::new("p")).unwrap_err().to_string();
    assert!(report.contains("nested too deeply"), "{report}");
}

/// Files of the maximum length are read to their end, and cause an error. `tests/slow/parsing.rs` measures the time.
#[test]
fn the_longest_files_are_read_to_their_end() {
    let full = |piece: &str| piece.repeat(MAX_FILE / piece.len());
    let keys = "k".repeat(MAX_FILE / 2);
    let long_key = format!("[provider.extra_body]\n{keys} = [{}]", "nan,".repeat(MAX_FILE / 10));
    let pieces = [
        "[[tools]]\n",
        "[[a]]\n",
        "]\n",
        "x\n",
        "a.b = 1\n",
        "://",
        "token=",
        "'''",
        "{",
        "[",
        "é",
        "\"\"\"token",
    ];
    for text in pieces.map(full).into_iter().chain([long_key]) {
        Manifest::parse(&text, Path::new("p")).unwrap_err().to_string();
    }
}

/// Valid pieces of the example in any order, with random ones between.
fn mixed() -> impl Strategy<Value = String> {
    let lines: Vec<String> = full_example().lines().map(str::to_owned).collect();
    let strange = "[\\[\\]{}=\\.\"'a-z#\n\u{0}\u{feff}é ]{0,12}";
    prop::collection::vec(prop_oneof![4 => prop::sample::select(lines), 1 => strange], 0..40)
        .prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Manifest::parse_bytes(&bytes, Path::new("p")).map_err(|report| report.styled(None));
    }

    #[test]
    fn no_text_makes_it_panic(text in mixed()) {
        let _ = Manifest::parse(&text, Path::new("p")).map_err(|report| report.to_string());
    }
}
