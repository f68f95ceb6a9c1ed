//! The state that `haft serve` shares with other processes of its program: with HTTP and a NATS server, with
//! replicas on any machine; otherwise with processes of this user.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::{Program, Running};
use haft_core::grant::Root;
use haft_mcp::server::{ToolSnapshots, replicas_of_user};
use haft_nats::SharedState;

/// The file with the machine's name on Linux.
const NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The name of a machine whose name is unknown.
const NAMELESS: &str = "replica";

/// Returns `offers` with the processes that share approvals.
pub(super) fn shared(
    offers: ToolSnapshots,
    program: &Program,
    running: &Running,
    over_http: bool,
) -> ToolSnapshots {
    let Program { manifest, machines, identity, .. } = program;
    if !over_http || !machines.are_met(manifest) {
        return offers.with_replicas(replicas_of_user(program.dirs.approvals()), served(program));
    }
    let server = machines.server(manifest, &program.dirs.home, &program.redactor);
    let shared = Arc::new(SharedState::at(Arc::new(server)));
    running.share(shared.clone());
    // A name contains no NUL.
    let whole = format!("{}\0{}", identity.program, identity.digest);
    let offers = offers.with_replicas(shared, whole.into_bytes()).at_machine(machine());
    let questions = offers.questions().clone();
    tokio::spawn(async move {
        // Otherwise the first question would wait for this preparation.
        if let Err(error) = questions.prepare().await {
            tracing::warn!("approvals and tasks cannot be shared with other replicas now: {error}");
        }
    });
    offers
}

/// Identifies what is served here. Answers to questions and tasks are valid for every haft of this user that serves this
/// program.toml for this workspace.
fn served(program: &Program) -> Vec<u8> {
    let path = &program.manifest.path;
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    let workspace = program.grant.workspace().map(Root::path);
    let names = [Some(path.as_path()), workspace].map(|path| path.unwrap_or(Path::new("")).as_os_str());
    // A path contains no NUL.
    names.map(OsStrExt::as_bytes).join(&0)
}

/// Returns the name of this machine.
fn machine() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let known = || std::fs::read_to_string(NAME_FILE).ok().map(|name| name.trim().to_owned());
    named.or_else(known).filter(|name| !name.is_empty()).unwrap_or_else(|| NAMELESS.to_owned())
}
