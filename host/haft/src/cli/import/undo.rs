//! `haft import --undo`: the files as they were.

use super::{Import, Setting};
use crate::cli::Exit;
use crate::cli::terminal::Terminal;
use haft_core::report::plain;
use haft_import::{Client, Config, Kept, Undone};

/// Undoes the changes of the client or file that is named, or all, the newest first.
pub(super) fn undo(import: &Import, setting: &Setting, terminal: Terminal) -> anyhow::Result<Exit> {
    let client = import.source.as_deref().and_then(Client::named);
    let path = import.source.as_deref().filter(|_| client.is_none()).map(std::path::absolute).transpose()?;
    // A file that was removed since is meant by its name.
    let path = path.map(|path| path.canonicalize().unwrap_or(path));
    let is_meant = |kept: &Kept| {
        client.is_none_or(|client| client.name == kept.client)
            && path.as_ref().is_none_or(|path| *path == kept.place)
    };
    let (records, damaged) = setting.originals.all()?;
    let mut exit = if damaged.is_empty() { Exit::Success } else { Exit::Failure };
    for error in damaged {
        terminal.warning(&error.to_string());
    }
    let records: Vec<_> = records.into_iter().filter(|record| is_meant(&record.kept)).collect();
    if records.is_empty() {
        let of = import.source.iter().map(|source| format!(" of `{}`", plain(source))).collect::<String>();
        terminal.message(format_args!("nothing{of} is left to undo"));
    }
    let mut refused = Vec::new();
    for record in &records {
        let kept = &record.kept;
        // What is older was changed by what is newer.
        if refused.contains(&&kept.place) {
            continue;
        }
        let undone = setting.originals.undo(record, |now| merged(kept, now, import, setting));
        let failure = match &undone {
            Ok(Undone::Changed(..) | Undone::Removed) => Exit::Tool,
            Ok(_) => Exit::Success,
            Err(_) => Exit::Failure,
        };
        match undone {
            Ok(undone) => tell(kept, undone, setting, terminal),
            Err(error) => terminal.warning(&error.to_string()),
        }
        if failure != Exit::Success {
            exit = failure;
            refused.push(&kept.place);
        }
    }
    Ok(exit)
}

/// What a file that holds `now`, and was changed since, is to hold.
fn merged(kept: &Kept, now: &str, import: &Import, setting: &Setting) -> Option<String> {
    if import.force {
        return Some(kept.old().to_owned());
    }
    let client = Client::named(&kept.client).filter(|_| import.unwrap)?;
    Config::of_text(client, &kept.place, now.to_owned()).ok()?.unwrapped(&setting.haft).ok()
}

fn tell(kept: &Kept, undone: Undone, setting: &Setting, terminal: Terminal) {
    let path = setting.shown(&kept.place);
    match undone {
        Undone::Restored | Undone::Unneeded => terminal.message(format_args!("as it was: {path}")),
        Undone::Unwrapped => {
            terminal.message(format_args!("without `haft wrap`, and else as it is now: {path}"));
        }
        Undone::Changed(first, last) => {
            let lines =
                if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
            terminal.warning(&format!("`{path}` was changed since, in {lines}, and is left as it is"));
            terminal.hint(
                "`--unwrap` takes `haft wrap` out and keeps these changes; `--force` puts the old file back and loses them",
            );
        }
        Undone::Removed => {
            terminal.warning(&format!("`{path}` was removed since"));
            terminal.hint("`--force` makes it again");
        }
    }
}
