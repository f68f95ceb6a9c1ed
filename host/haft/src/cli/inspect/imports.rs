//! What imports could mean. A component names what it can be linked with; toolchains import much that
//! is never used, so that this decides nothing about rights.

use haft_plugin_host::inspect::{Extern, ExternKind};

/// Imports of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// What they are about.
    pub(super) about: &'static str,
    /// What comes of them.
    pub(super) means: &'static str,
    /// Their names.
    pub(super) names: Vec<String>,
}

/// Beginnings of names, what they are about and what comes of them. The first that fits is taken; the
/// order is the one in which they are shown.
const GROUPS: &[(&[&str], &str, &str)] = &[
    (&["wasi:filesystem/"], "files", "opens what is below the directories that it is granted"),
    (&["wasi:http/"], "HTTP", "asks the hosts that it is granted"),
    (
        &["wasi:sockets/"],
        "sockets",
        "connects by TCP to addresses that it is granted (`hosts = [\"127.0.0.1:5432\"]`); no names, no UDP, never listens",
    ),
    (&["wasi:cli/environment"], "environment", "sees the variables that it is granted"),
    (&["wasi:keyvalue/"], "state", "keeps keys and values, as much as it is granted (`state`)"),
    (&["wasi:config/"], "configuration", "reads what program.toml says in `[plugins.config]`"),
    (&["wasi:logging/"], "logging", "tells log lines"),
    (
        &["wasi:cli/"],
        "process",
        "its own output and exit; a program, the words and the input of its call; no terminal",
    ),
    (&["wasi:clocks/"], "clocks", "the time"),
    (&["wasi:random/"], "random", "random numbers"),
    (&["wasi:io/"], "streams", "what the others are made of"),
    (&["haft:plugin/"], "haft", "tells progress and log lines"),
    (&["act:"], "act", "what other hosts of `act:tools` offer"),
    (&[""], "other", "nothing that haft offers by itself"),
];

/// The imports, in groups. A type that is imported by itself is nothing that could be called.
pub(super) fn grouped(imports: &[Extern]) -> Vec<Group> {
    let place = |name: &str| {
        let fits = |(beginnings, ..): &(&[&str], &str, &str)| {
            beginnings.iter().any(|beginning| name.starts_with(beginning))
        };
        GROUPS.iter().position(fits)
    };
    let group = |(at, (_, about, means)): (usize, &(&[&str], &'static str, &'static str))| {
        let callable = imports.iter().filter(|import| import.kind != ExternKind::Type);
        let own = callable.map(|import| &import.name).filter(|name| place(name) == Some(at));
        Group { about, means, names: own.cloned().collect() }
    };
    GROUPS.iter().enumerate().map(group).filter(|group| !group.names.is_empty()).collect()
}

/// What custom sections are that mean something to haft or to others.
pub(super) fn section(name: &str) -> Option<&'static str> {
    let meaning = match name {
        haft_plugin_host::WIT_SECTION => "documentation of its functions",
        haft_plugin_host::PROGRAM_SECTION => "the program.toml of its package: what it asks for",
        haft_plugin_host::CONFIG_SECTION => "the JSON Schema of the configuration that it reads",
        haft_plugin_host::ACT_SECTION => "what it says of itself to hosts of `act:tools`",
        "name" | "component-name" => "names for debugging",
        "producers" => "what it was made with",
        "target_features" => "what of WebAssembly it uses",
        "version" | "description" | "authors" | "licenses" | "source" | "homepage" | "revision" => {
            "a label for registries"
        }
        name if name.starts_with(".debug") => "for debuggers",
        name if name.starts_with("component-type") => "types, for tools that link",
        _ => return None,
    };
    Some(meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S06: mere types are not listed as something that haft would have to offer.
    #[test]
    fn s06_types_are_no_imports_to_speak_of() {
        let kinds = [("point", ExternKind::Type), ("log", ExternKind::Function)];
        let imports = kinds.map(|(name, kind)| Extern { name: name.to_owned(), kind });
        assert_eq!(grouped(&imports)[0].names, ["log"]);
        assert!(grouped(&imports[..1]).is_empty());
    }

    #[test]
    fn every_import_is_in_one_group() {
        let names = [
            "wasi:io/streams@0.2.6",
            "wasi:cli/environment@0.2.6",
            "wasi:cli/stdout@0.2.6",
            "wasi:filesystem/types@0.2.6",
            "x:y/z",
            "plain",
        ];
        let imports = names.map(|name| Extern { name: name.to_owned(), kind: ExternKind::Interface });
        let groups = grouped(&imports);
        let about: Vec<_> = groups.iter().map(|group| group.about).collect();
        assert_eq!(about, ["files", "environment", "process", "streams", "other"]);
        assert_eq!(groups.iter().map(|group| group.names.len()).sum::<usize>(), names.len());
        assert!(grouped(&[]).is_empty());
    }
}
