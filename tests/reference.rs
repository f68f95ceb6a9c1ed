//! The two generated pages of docs: every verb from the output of `--help`, every key of program.toml from the output
//! of `haft self schema`. The tests fail unless the committed pages match this haft; `HAFT_WRITE_REFERENCE=1 cargo
//! test --test haft-tests reference` writes the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use haft::grant::CredentialStore;
use serde_json::{Map, Value};

use crate::cli::Home;
use crate::common::repository;
use crate::completions::verbs;

/// If this variable is set, the tests write the pages instead of comparing them.
const WRITE: &str = "HAFT_WRITE_REFERENCE";

/// Compares a page of docs with the expected text, or writes the page.
fn keep(name: &str, text: &str) {
    let path = repository().join("docs").join(name);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let other = text.lines().zip(committed.lines()).find(|(own, kept)| own != kept);
    assert!(
        committed == text,
        "docs/{name} is not what this haft prints (expected, found: {other:?}); write it anew: \
         {WRITE}=1 cargo test --test haft-tests reference"
    );
}

/// The output of `haft … --help` without a terminal, which is 100 columns wide.
fn help(words: &[&str]) -> String {
    let home = Home::new();
    let output = home.command(words).arg("--help").env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The headings in `--help` of the options that many verbs have.
const SHARED: [&str; 2] = ["Execution:\n", "Common options:\n"];

/// The shared options of `help` if `shared` is true; otherwise all other lines.
fn parts(help: &str, shared: bool) -> String {
    let mut is_shared = false;
    let mut kept = String::new();
    for line in help.split_inclusive('\n') {
        if !line.starts_with([' ', '\n']) {
            is_shared = SHARED.contains(&line);
        }
        if is_shared == shared {
            kept += line;
        }
    }
    kept.trim_end().to_owned() + "\n"
}

fn section(words: &[&str], text: &str) -> String {
    let title = ["haft"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
    format!("\n## {title}\n\n```text\n{text}```\n")
}

/// The help of a verb, or of each of its subcommands, with the words of its command line.
fn helps(verb: &str) -> Vec<(Vec<String>, String)> {
    let text = help(&[verb]);
    let Some(below) = text.split("\nCommands:\n").nth(1) else {
        return vec![(vec![verb.to_owned()], parts(&text, false))];
    };
    let listed = below.lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(|name| (vec![verb.to_owned(), name.to_owned()], parts(&help(&[verb, name]), false))).collect()
}

/// The help before its own options, these options, and the help after them. The lines of one option form one entry.
fn cut(help: &str) -> (&str, Vec<String>, &str) {
    let Some((before, below)) = help.split_once("Options:\n") else { return (help, Vec::new(), "") };
    let lines = below.split_inclusive('\n').take_while(|line| line.starts_with([' ', '\n']));
    let end = lines.map(str::len).sum();
    let (own, after) = below.split_at(end);
    let mut options: Vec<String> = Vec::new();
    for line in own.split_inclusive('\n').filter(|line| !line.trim().is_empty()) {
        let begins = line.starts_with("  -") || line.starts_with("      -");
        match options.last_mut() {
            Some(last) if !begins => *last += line,
            _ => options.push(line.to_owned()),
        }
    }
    (before, options, after)
}

/// The words of an option's lines, separated by one space each.
fn flat(option: &str) -> String {
    option.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Options that several verbs describe in identical words, grouped under these verbs; each option appears once.
fn repeated(helps: &[(Vec<String>, String)]) -> (BTreeSet<String>, String) {
    let mut verbs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut first: Vec<(String, String)> = Vec::new();
    for (words, text) in helps {
        for option in cut(text).1.into_iter().filter(|option| !option.contains("-h, --help")) {
            let flat = flat(&option);
            if !verbs.contains_key(&flat) {
                first.push((flat.clone(), option));
            }
            verbs.entry(flat).or_default().push(format!("`{}`", words.join(" ")));
        }
    }
    verbs.retain(|_, names| names.len() > 1);
    let mut groups: Vec<(&Vec<String>, String)> = Vec::new();
    for (flat, option) in &first {
        let Some(names) = verbs.get(flat) else { continue };
        match groups.iter_mut().find(|(others, _)| *others == names) {
            Some((_, options)) => *options += option,
            None => groups.push((names, option.clone())),
        }
    }
    let shown = |(names, options): &(&Vec<String>, String)| {
        format!("\n{}:\n\n```text\n{options}```\n", names.join(", "))
    };
    (verbs.keys().cloned().collect(), groups.iter().map(shown).collect())
}

/// The section of a verb: its help without options that appear elsewhere.
fn without(help: &str, elsewhere: &BTreeSet<String>) -> String {
    let (before, options, after) = cut(help);
    let own: String = options
        .into_iter()
        .filter(|option| !option.contains("-h, --help") && !elsewhere.contains(&flat(option)))
        .collect();
    let own = if own.is_empty() { own } else { format!("Options:\n{own}\n") };
    format!("{}\n", format!("{before}{own}{after}").trim_end())
}

#[test]
fn the_reference_of_verbs_is_what_help_prints() {
    let head = "# Reference: the command line\n\n\
        Every verb of haft with its own options, as `haft VERB --help` prints them. This page is generated from there. An option of \
        several verbs appears once, above them; every verb has `-h, --help`.\n";
    let helps: Vec<_> = verbs().iter().flat_map(|verb| helps(verb)).collect();
    let (elsewhere, groups) = repeated(&helps);
    let shared = format!(
        "\n## Options of many verbs\n\n\
         *Execution* options are those of verbs that run tools, or look at how they would be run. Each verb's help lists what it \
         takes; any other option is an error.\n\n```text\n{}```\n{groups}",
        parts(&help(&["call"]), true)
    );
    let codes = Home::new().haft(&["self", "exit-codes"]).stdout;
    let codes = format!("\n## Exit codes\n\n```text\n{codes}```\n");
    let sections: String = helps
        .iter()
        .map(|(words, text)| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            section(&words, &without(text, &elsewhere))
        })
        .collect();
    keep("reference-verbs.md", &format!("{head}{}{shared}{codes}{sections}", section(&[], &help(&[]))));
}

/// A table of program.toml: its header, and its schema.
struct Section<'a> {
    header: String,
    schema: &'a Value,
}

/// The path of a key in the file, for the headers of the tables below it.
fn path(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// True if a key is an alias of a table that has a section.
fn is_alias(value: &Value) -> bool {
    value["description"].as_str().is_some_and(|doc| doc.starts_with("the same as "))
}

/// Collects the tables of a value, depth first, each with the path of its keys.
fn sections<'a>(at: &str, value: &'a Value, is_array: bool, found: &mut Vec<(String, Section<'a>)>) {
    if value["items"].is_object() {
        sections(at, &value["items"], true, found);
    } else if value["additionalProperties"].is_object() {
        sections(&path(at, "NAME"), &value["additionalProperties"], is_array, found);
    } else if let Some(properties) = value["properties"].as_object() {
        let header = if is_array { format!("[[{at}]]") } else { format!("[{at}]") };
        found.push((at.to_owned(), Section { header, schema: value }));
        let own = properties.iter().filter(|(_, value)| !is_alias(value));
        own.for_each(|(key, value)| sections(&path(at, key), value, false, found));
    }
}

/// The form in which a person writes a value.
fn written(value: &Value) -> String {
    if let Some(alternatives) = value["anyOf"].as_array() {
        return alternatives.iter().map(written).collect::<Vec<_>>().join(", or ");
    }
    if let Some(names) = value["enum"].as_array() {
        let stores = || CredentialStore::all().map(CredentialStore::name);
        if names.iter().map(|name| name.as_str().unwrap()).eq(stores()) {
            return "names of [credential stores](#credential-stores)".to_owned();
        }
        return names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    }
    match value["type"].as_str() {
        Some("string") => text(value["pattern"].as_str()),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => format!("a whole number, {} to {}", value["minimum"], value["maximum"]),
        Some("number") => format!("a number, at least {}", value["minimum"]),
        Some("array") => format!("array of: {}", written(&value["items"])),
        Some("object") => table(value),
        _ => "a text, a number or a flag".to_owned(),
    }
}

fn text(pattern: Option<&str>) -> String {
    match pattern {
        None | Some("\\S") => "text".to_owned(),
        Some(pattern) => match pattern.strip_prefix("^[0-9]+ *(").and_then(|rest| rest.strip_suffix(")$")) {
            Some(units) => format!("text: a whole number and one of {}", units.replace('|', ", ")),
            None => format!("text of the form `{}`", pattern.replace('|', "\\|")),
        },
    }
}

fn table(value: &Value) -> String {
    match (&value["properties"], &value["additionalProperties"]) {
        (Value::Object(keys), _) => {
            let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
            format!("table of {}", keys.join(", "))
        }
        (_, inner @ Value::Object(_)) => format!("table, NAME = {}", written(inner)),
        _ => "table".to_owned(),
    }
}

/// A key's value, or a link to its section if the value has one.
fn shown(at: &str, key: &str, value: &Value) -> String {
    if is_alias(value) {
        return "see there".to_owned();
    }
    let mut below = Vec::new();
    sections(&path(at, key), value, false, &mut below);
    match below.first() {
        Some((_, section)) => format!("[`{0}`](#{1})", section.header, anchor(&section.header)),
        None => written(value),
    }
}

/// The anchor of a heading, as GitHub and mdBook create it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn rows(at: &str, schema: &Value, properties: &Map<String, Value>) -> String {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
    let row = |(key, value): (&String, &Value)| {
        let needed = if required.iter().any(|name| *name == key) { "**required**; " } else { "" };
        let doc = value["description"].as_str().unwrap().replace('|', "\\|");
        format!("| `{key}` | {} | {needed}{doc} |\n", shown(at, key, value))
    };
    format!("| key | value | meaning |\n|---|---|---|\n{}", properties.iter().map(row).collect::<String>())
}

/// The location of each credential store, unless a variable changes it.
fn credential_stores() -> String {
    let places = |store: CredentialStore| {
        let places = store.places(Path::new("~"), |_| None);
        places.iter().map(|place| format!("`{}`", place.display())).collect::<Vec<_>>().join(", ")
    };
    let row = |store: CredentialStore| format!("| `{store}` | {} |\n", places(store));
    let rows: String = CredentialStore::all().map(row).collect();
    format!(
        "\n## Credential stores\n\nWhat `credentials` opens, where a program keeps it by default.\n\n\
         | name | places |\n|---|---|\n{rows}"
    )
}

fn key_section(at: &str, section: &Section<'_>) -> String {
    let heading = if at.is_empty() { "The tables".to_owned() } else { format!("`{}`", section.header) };
    let doc = section.schema["description"].as_str().unwrap();
    let rows = rows(at, section.schema, section.schema["properties"].as_object().unwrap());
    format!("\n## {heading}\n\n{doc}\n\n{rows}")
}

/// Collects the names of all keys in a schema.
fn keys(value: &Value, found: &mut Vec<String>) {
    if let Some(properties) = value["properties"].as_object() {
        found.extend(properties.keys().cloned());
    }
    match value {
        Value::Object(object) => object.values().for_each(|inner| keys(inner, found)),
        Value::Array(array) => array.iter().for_each(|inner| keys(inner, found)),
        _ => {}
    }
}

#[test]
fn the_reference_of_keys_is_what_schema_prints() {
    let schema: Value = serde_json::from_str(&Home::new().haft(&["self", "schema"]).stdout).unwrap();
    let mut found = Vec::new();
    sections("", &schema, false, &mut found);
    let sections: String = found.iter().map(|(at, section)| key_section(at, section)).collect();
    let page = format!(
        "# Reference: every key of program.toml\n\n\
         This page is generated from what `haft self schema` prints; [program.toml](program-toml.md) is the overview. \
         NAME stands for a name of your own.\n{sections}{}",
        credential_stores()
    );
    let mut every = Vec::new();
    keys(&schema, &mut every);
    let missing: Vec<_> = every.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "keys that the page has not: {missing:?}");
    keep("reference-keys.md", &page);
}
