//! What `haft --help` prints: the verbs in groups, on one screen.

use std::fmt::Write;

use clap::Command;

/// The groups, each with its verbs.
const GROUPS: &[(&str, &[&str])] = &[
    ("Use tools", &["run", "chat", "call", "exec", "tools", "serve", "log", "session"]),
    ("Plugins and MCP servers", &["add", "remove", "update", "list", "inspect", "wrap", "import", "mcp"]),
    ("Program", &["init", "check", "doctor", "trust", "grant"]),
];

/// Returns `command` with help in groups; a verb in no group is listed by its name.
pub(super) fn grouped(command: Command) -> Command {
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (group, verbs) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n{group}:\n");
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let _ = writeln!(text, "  {:<8} {}", verb.get_name(), verb.get_about().unwrap_or_default());
        }
    }
    let is_listed = |name: &str| GROUPS.iter().any(|(_, verbs)| verbs.contains(&name));
    let further = command.get_subcommands().map(Command::get_name).filter(|name| !is_listed(name));
    let _ = write!(text, "\nMore: {}\n", further.collect::<Vec<_>>().join(", "));
    text += "Options: -p FILE (the program), --json, -v, -vv (more on standard error), -V\n\
             `haft VERB --help` explains a verb, `haft self exit-codes` the exit codes.";
    command.help_template(text)
}
