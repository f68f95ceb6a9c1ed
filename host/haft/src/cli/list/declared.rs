//! MCP servers that program.toml and skills declare, and skills of the folder and of the user.

use super::Row;
use crate::cli::install_session::InstallSession;
use haft_core::grant::Right;
use haft_core::project::Project;
use haft_core::skill::{Shelf, of_person, of_project};
use haft_manifest::{McpServer, ProcessGrant, Transport};

/// Returns the servers, in the order of program.toml.
pub(super) fn servers(session: &InstallSession) -> Vec<Row> {
    session.servers().iter().map(row).collect()
}

fn row(server: &McpServer) -> Row {
    let name = server.name.to_string();
    let (source, granted) = match &server.transport {
        Transport::Stdio { command, .. } => {
            (haft_import::hidden(&command.value).join(" "), server.grant.as_ref().map(rights))
        }
        // The query may contain a key. No process runs here.
        Transport::Http { url, .. } => {
            (url.value.split(['?', '#']).next().unwrap_or_default().to_owned(), Some(Vec::new()))
        }
    };
    // The pins of the server's tools are in the user's own record, not in a program.lock that came with the folder.
    let state = if server.pinned { "pinned" } else { "not pinned" };
    Row {
        kind: "mcp-server",
        form: "MCP server",
        enabled: server.enabled,
        state,
        source,
        granted,
        name,
        ..Row::default()
    }
}

fn rights(grant: &ProcessGrant) -> Vec<String> {
    grant.all().iter().map(Right::to_string).collect()
}

/// Returns the skills that do not belong to a package.
pub(super) fn skills(session: &InstallSession) -> Vec<Row> {
    let context = &session.context;
    let mut shelf = Shelf::default();
    if session.project.manifest.agent.skills {
        if let Some(project) = context.sandbox.workspace().and_then(|place| Project::around(place).ok()) {
            of_project(&project, &mut shelf);
        }
        of_person(&context.dirs.home, &mut shelf);
    }
    let row = |skill: &haft_core::skill::Shelved| Row {
        name: skill.skill.name.clone(),
        kind: "skill",
        form: "skill",
        description: Some(skill.skill.description.clone()).filter(|text| !text.is_empty()),
        enabled: true,
        state: "not pinned",
        source: skill
            .files
            .folder()
            .map_or_else(|| skill.origin.clone(), |place| place.display().to_string()),
        ..Row::default()
    };
    shelf.skills().iter().map(row).collect()
}
