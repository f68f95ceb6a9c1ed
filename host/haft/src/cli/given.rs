//! The options of this command line that decide what a served tool may do and where it runs, written again for the
//! configuration of a client that will start haft.

use super::common::Common;

/// Those of every verb, but for `--program`. Relative directories become absolute where `is_here`: the client starts
/// haft in a folder of its own.
pub(super) fn words(common: &Common, is_here: bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    for allow in &common.allow {
        let allow = if is_here { allow.absolute() } else { allow.clone() };
        option("--allow", &allow.to_string());
    }
    common.container.iter().for_each(|name| option("--container", name));
    common.ssh.iter().for_each(|target| option("--ssh", target));
    match &common.tmux {
        Some(Some(session)) => words.push(format!("--tmux={session}")),
        Some(None) => words.push("--tmux".into()),
        None => {}
    }
    let switches = [
        ("--no-tmux", common.no_tmux),
        ("--unsafe-no-sandbox", common.unsafe_no_sandbox),
        ("--no-journal", common.no_journal),
    ];
    words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name.to_owned()));
    words
}
