//! The refusals of a guest's accesses: recorded as they happen, then shown as hints that name the line of
//! program.toml to change, and written to the journal.

pub(crate) mod denied_access;
pub(crate) mod hints;
pub(crate) mod network_decisions;

use crate::failure::{End, Limit};
use crate::instance::state::GuestState;

use haft_core::grant::Right;
use haft_core::tool::Notes;
use haft_state::Kept;

/// The place in program.toml that would grant more; part of every refusal's hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantPlace {
    /// The tool is built in and has the rights of `[sandbox]`.
    Sandbox,
    /// The tool is a plugin's and follows its `[plugins.grant]`.
    Plugin,
    /// The tool is a plugin's of the package of this name, and follows its `[packages.grant]`.
    Package(String),
    /// The tool is a part of haft, and reaches the hosts of `[builtins] fetch_allow` besides public ones.
    FetchAllow,
    /// The tool is built in, and reaches the host of `[builtins] search_url`.
    SearchUrl,
}

/// Records the rights removed from a guest's grant, before the guest runs.
pub(crate) fn narrowed(notes: &Notes, only_reads: bool) {
    if only_reads {
        notes.decision(|| "narrowed: the tool declares that it is read-only, so it may not write".into());
    }
}

/// Records a guest's refused accesses, after the guest ran.
pub(crate) fn used(notes: &Notes, state: &GuestState, only_reads: bool) {
    notes.memory(state.budget.used());
    let denied = &state.shared.denied;
    if !denied.writes.is_empty() || !denied.reads.is_empty() {
        let mut proposed = hints::rights(state);
        // A tool that declares itself read-only gets no more than read rights.
        proposed.retain(|right| !only_reads || !matches!(right, Right::Write(_)));
        notes.refused(proposed);
    }
    for (what, paths) in [("write below", &denied.writes), ("read below", &denied.reads)] {
        paths.iter().for_each(|place| notes.decision(|| format!("refused: {what} `{place}`")));
    }
    for path in denied.escaping_links.iter() {
        notes.decision(|| format!("refused: `{path}`, a link out of the granted directories"));
    }
    if state.files.disk.is_exceeded() {
        notes.decision(|| "refused: writing more than the disk limit".into());
    }
    for (is_so, what) in [
        (denied.config, "refused: reading a configuration"),
        (denied.state, "refused: storing keys and values"),
        (denied.full_state, "refused: more keys and values than `state` allows"),
        (state.files.private.is_full(Kept::State), "refused: more files than `state` allows"),
        (state.files.private.is_full(Kept::Cache), "refused: more files than `cache` allows"),
    ] {
        if is_so {
            notes.decision(|| what.into());
        }
    }
    state.shared.call.asked.iter().for_each(|asked| notes.decision(|| asked.clone()));
    for decision in state.shared.decisions.list() {
        notes.decision(|| decision);
    }
    if denied.names {
        notes.decision(|| "refused: DNS lookup".into());
    }
    if denied.datagrams {
        notes.decision(|| "refused: UDP".into());
    }
}

pub(crate) fn ended(notes: &Notes, end: &End) {
    if end.limit == Some(Limit::Time) {
        notes.timed_out();
    }
}
