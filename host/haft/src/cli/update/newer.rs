//! `haft update --check`: lists later versions than the installed ones, and the command that installs each.

use serde_json::{Value, json};

use super::super::Exit;
use super::super::install_session::{InstallSession, install_error};
use super::super::terminal::Terminal;
use haft_core::report::plain;
use haft_package::{InstallError, Newer, Pin, ProjectEntry};

/// Looks for a newer version of each pinned entry. An error about one entry does not prevent the check of others.
pub(super) async fn check(
    session: &InstallSession,
    entries: &[ProjectEntry],
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let (mut found, mut exit) = (Vec::new(), Exit::Success);
    for entry in entries {
        let name = entry.name.as_str();
        let Some(pin) = session.project.lock.find(entry.kind, name) else {
            terminal.message(format_args!(
                "`{name}` is not pinned: run `haft add` to pin the entries of program.toml"
            ));
            continue;
        };
        match session.installer().newer(pin).await {
            Ok(newer) => found.extend(told(pin, &newer, terminal)?),
            Err(error) => {
                fail(name, error, terminal);
                exit = Exit::Failure;
            }
        }
    }
    if terminal.json {
        terminal.json(&json!({ "newer": found }))?;
    }
    Ok(if exit == Exit::Success && !found.is_empty() { Exit::Tool } else { exit })
}

fn fail(name: &str, error: InstallError, terminal: Terminal) {
    terminal.fail(&install_error(error).context(format!("cannot check for a newer `{name}`")));
}

/// Prints the result of a check. Returns it as data if there is a newer version.
fn told(pin: &Pin, newer: &Newer, terminal: Terminal) -> anyhow::Result<Option<Value>> {
    let name = pin.name.as_str();
    let installed = pin.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let (what, command) = match newer {
        Newer::Nothing => {
            terminal.message(format_args!("`{name}`{installed} is the latest"));
            return Ok(None);
        }
        Newer::Unlisted => {
            let source = plain(&pin.source.to_string());
            terminal.message(format_args!(
                "`{name}`{installed}: `{source}` has no list of versions; `haft update {name}` looks"
            ));
            return Ok(None);
        }
        Newer::Version { version, source, is_renamed } => {
            let renamed = if *is_renamed { format!(" --as {name}") } else { String::new() };
            (
                format!("{version}"),
                format!("haft add {}{renamed}", shell_words::quote(&plain(&source.to_string()))),
            )
        }
        Newer::Moved => ("another content".to_owned(), format!("haft update {name}")),
    };
    if !terminal.json {
        terminal.data(&format!("{name}{installed} → {what}: `{command}`"))?;
    }
    let version = if let Newer::Version { version, .. } = newer { Some(version.to_string()) } else { None };
    Ok(Some(json!({
        "name": name,
        "installed": pin.version.as_ref().map(ToString::to_string),
        "version": version,
        "command": command,
    })))
}
