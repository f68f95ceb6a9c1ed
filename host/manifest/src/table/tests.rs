use std::collections::BTreeSet;
use std::path::Path;

use super::super::*;
use super::{FromTable, Key, Kind, Table};

fn all() -> Vec<&'static Table> {
    let mut tables: Vec<&Table> = vec![&Manifest::TABLE];
    let mut next = 0;
    while let Some(table) = tables.get(next) {
        tables.extend(table.keys().into_iter().filter_map(|key| key.kind.table()));
        next += 1;
    }
    tables
}

#[test]
fn keys_are_unique_and_documented() {
    for table in all() {
        let keys = table.keys();
        let names: BTreeSet<_> = keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), keys.len(), "{}", table.doc);
        assert!(!table.doc.is_empty());
        for key in &keys {
            assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}: {}", table.doc, key.name);
            assert!(key.also.iter().all(|word| !names.contains(word)), "{}: {:?}", table.doc, key.also);
        }
    }
}

/// The default in the documentation of a key, as in program.toml.
fn documented_default(key: &Key) -> Option<String> {
    // The default of retries depends on the task.
    let (_, default) = key.doc.rsplit_once("default ").filter(|_| key.name != "max_retries")?;
    let default = default.split([',', ';']).next()?.trim_matches('`');
    let is_one = match key.kind {
        Kind::Flag => matches!(default, "true" | "false"),
        Kind::Count { .. } => default.parse::<u32>().is_ok(),
        Kind::Size => units::parse_size(default).is_ok(),
        Kind::Time => units::parse_duration(default).is_ok(),
        Kind::Pattern(_) => default.starts_with("https://"),
        _ => false,
    };
    let is_bare = matches!(key.kind, Kind::Flag | Kind::Count { .. });
    is_one.then(|| if is_bare { default.to_owned() } else { format!("\"{default}\"") })
}

/// The documented defaults are the real ones: a file with them means the same as a file without.
#[test]
fn documented_defaults_hold() {
    type Shown = fn(&Manifest) -> String;
    let tool = "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"c\"\n";
    let plugin = "[[plugins]]\nname = \"p\"\ncomponent = \"c\"\n";
    let inside = |table: &Table, name: &str| table.key(name).and_then(|key| key.kind.table()).unwrap();
    let cases: [(String, &Table, Shown); 14] = [
        (tool.into(), &CommandTool::TABLE, |found| format!("{:?}", found.tools)),
        (plugin.into(), &Plugin::TABLE, |found| format!("{:?}", found.plugins)),
        (format!("{plugin}[plugins.limits]\n"), inside(&Plugin::TABLE, "limits"), |found| {
            format!("{:?}", found.plugins)
        }),
        (format!("{plugin}[plugins.reuse]\n"), inside(&Plugin::TABLE, "reuse"), |found| {
            format!("{:?}", found.plugins)
        }),
        ("[[packages]]\nname = \"p\"\nsource = \"s\"\n".into(), &Package::TABLE, |found| {
            format!("{:?}", found.packages)
        }),
        ("[[mcp_servers]]\nname = \"s\"\ncommand = \"c\"\n".into(), &McpServer::TABLE, |found| {
            format!("{:?}", found.mcp_servers)
        }),
        ("[provider]\nname = \"openai\"\n".into(), &Provider::TABLE, |found| format!("{:?}", found.provider)),
        ("[agent]\n".into(), &Agent::TABLE, |found| format!("{:?}", found.agent)),
        ("[[agents]]\nname = \"a\"\ndescription = \"d\"\n".into(), &AgentTool::TABLE, |found| {
            format!("{:?}", found.agents)
        }),
        ("[serve]\n".into(), &Serve::TABLE, |found| format!("{:?}", found.serve)),
        ("[journal]\n".into(), inside(&Manifest::TABLE, "journal"), |found| format!("{:?}", found.journal)),
        ("[nats.storage]\n".into(), &NatsStorage::TABLE, |found| format!("{:?}", found.nats)),
        ("[sandbox]\n".into(), &Sandbox::TABLE, |found| format!("{:?}", found.sandbox)),
        ("[builtins]\n".into(), &Builtins::TABLE, |found| format!("{:?}", found.builtins)),
    ];
    let parse = |text: &str| Manifest::parse(text, Path::new("program.toml")).unwrap();
    let mut held = 0;
    for (head, table, shown) in cases {
        let without = shown(&parse(&head));
        for key in table.keys() {
            if let Some(default) = documented_default(key) {
                let text = format!("{head}{} = {default}\n", key.name);
                assert_eq!(shown(&parse(&text)), without, "{text}");
                held += 1;
            }
        }
    }
    assert!(held >= 45, "{held}");
}
