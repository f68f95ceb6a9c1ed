//! The lines of program.toml that would have allowed what a guest was refused. A hint is a line
//! to paste; nothing here decides anything.

use std::path::Path;

use super::state::State;
use super::tool::GrantPlace;

/// Hints of one refusal; more would bury the message.
const MAX_HINTS: usize = 4;

/// What to add to program.toml, one hint a line.
pub(super) fn hints(plugin: &str, state: &State, place: &GrantPlace) -> Vec<String> {
    let wanted = &state.wanted;
    let table = match place {
        GrantPlace::Sandbox => "`[sandbox]`".to_owned(),
        GrantPlace::Plugin => format!("`[plugins.grant]` of `{plugin}`"),
    };
    let mut hints: Vec<String> = Vec::new();
    if wanted.files {
        hints.push(format!("`{plugin}` was granted no directory; to allow one, add `read = [\"DIR\"]` or `write = [\"DIR\"]` to {table}"));
    }
    for path in &wanted.writes {
        let directory = Path::new(path).parent().unwrap_or(Path::new("/")).display();
        hints.push(format!("to allow it, add `write = [\"{directory}\"]` to {table}"));
    }
    hints.extend(wanted.unopened.iter().map(|problem| format!("a granted directory cannot be opened: {problem}")));
    if wanted.environment {
        hints.push(format!("`{plugin}` sees no environment variable; to show it one, add `env = [\"NAME\"]` to {table}"));
    }
    if wanted.arguments {
        hints.push(format!("`{plugin}` has no command-line arguments; a tool gets its input with each call"));
    }
    for destination in wanted.refused.destinations() {
        hints.push(format!("to allow the connection, add `hosts = [\"{destination}\"]` to {table}"));
    }
    hints.extend(state.budget.met.as_ref().map(|limit| format!("`{plugin}` reached {limit}; `[plugins.limits]` can raise it")));
    hints.dedup();
    hints.truncate(MAX_HINTS);
    hints
}
