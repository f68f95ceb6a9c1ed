//! What `haft serve` shares with other processes that serve the same program: over HTTP, where a NATS server is named, with
//! replicas on any machine; otherwise with the processes of this user.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::{Program, Running};
use haft_core::grant::Root;
use haft_mcp::server::{Questions, ToolSnapshots};
use haft_nats::SharedState;

/// Where Linux says what a machine is called.
const NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// What a machine is called that does not say so.
const NAMELESS: &str = "replica";

/// `offers`, with anyone who they share approvals with.
pub(super) fn shared(
    offers: ToolSnapshots,
    program: &Program,
    running: &Running,
    over_http: bool,
) -> ToolSnapshots {
    let Program { manifest, machines, identity, .. } = program;
    if !over_http || !machines.are_met(manifest) {
        return offers.with_questions(of_this_user(program));
    }
    let server = machines.server(manifest, &program.dirs.home, &program.redactor);
    let shared = Arc::new(SharedState::at(Arc::new(server)));
    running.share(shared.clone());
    // A name has no NUL.
    let whole = format!("{}\0{}", identity.program, identity.digest);
    let offers = offers.with_replicas(shared, whole.into_bytes(), machine());
    let questions = offers.questions().clone();
    tokio::spawn(async move {
        // The first question does it otherwise, and waits for it.
        if let Err(error) = questions.prepare().await {
            tracing::warn!("approvals and tasks cannot be shared with other replicas now: {error}");
        }
    });
    offers
}

/// The questions of a program: an answer is good for every haft of this user that serves the same
/// program.toml for the same workspace.
fn of_this_user(program: &Program) -> Questions {
    let path = &program.manifest.path;
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    let workspace = program.grant.workspace().map(Root::path);
    let names = [Some(path.as_path()), workspace].map(|path| path.unwrap_or(Path::new("")).as_os_str());
    // No path has a NUL.
    Questions::in_folder(program.dirs.approvals(), names.map(OsStrExt::as_bytes).join(&0))
}

/// What this machine is called.
fn machine() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let known = || std::fs::read_to_string(NAME_FILE).ok().map(|name| name.trim().to_owned());
    named.or_else(known).filter(|name| !name.is_empty()).unwrap_or_else(|| NAMELESS.to_owned())
}
