//! `haft import --to program.toml`: servers as `[[mcp_servers]]`, secrets by their names.

use std::path::Path;

use super::{Import, Setting};
use crate::cli::install_session::{project_error, write_text};
use crate::cli::terminal::{DIM, Terminal, new_lines};
use haft::program::Agreement;
use haft_core::report::plain;
use haft_import::{Config, ProgramServer};
use haft_package::edit::{self, NewServer};
use haft_package::{Project, ProjectError};

/// Writes the servers that are picked. The person agrees to what they pick.
pub(super) async fn write(
    import: &Import,
    path: &Path,
    configs: &[Config],
    setting: &Setting,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let project = Project::open(path).map_err(project_error)?;
    let agreed = Agreement::of(Some(path).filter(|path| path.exists())).await?;
    let mut names: Vec<_> =
        project.manifest.mcp_servers.iter().map(|server| server.name.value.as_str().to_owned()).collect();
    let mut text = edit::begun(&project.text, project.folder());
    for config in configs {
        for server in &config.servers {
            let question = format!("write `{}` to `{}`?", plain(&server.name), path.display());
            if !import.picks(server, &question, terminal).await? {
                continue;
            }
            let environment = |name: &str| std::env::var(name).ok();
            let translated = ProgramServer::of(config, server, &setting.machine, &environment);
            let translated = translated.and_then(|own| {
                let is_taken = names.iter().any(|name| name == own.name.as_str());
                if is_taken { Err("program.toml has a server of this name".to_owned()) } else { Ok(own) }
            });
            match translated {
                Ok(server) => {
                    text = added(&text, &server, path)?;
                    names.push(server.name.as_str().to_owned());
                    server
                        .notes
                        .iter()
                        .for_each(|note| terminal.message(format_args!("    {}", plain(note))));
                }
                Err(why) => {
                    terminal.warning(&format!("`{}` was not written: {}", plain(&server.name), plain(&why)));
                }
            }
        }
    }
    finish(path, &project, &text, &agreed, terminal).await
}

fn added(text: &str, server: &ProgramServer, path: &Path) -> anyhow::Result<String> {
    let new = NewServer {
        name: server.name.as_str(),
        command: &server.command,
        url: server.url.as_deref(),
        values: &server.values,
        enabled: server.enabled,
    };
    edit::add_server(text, &new)
        .map_err(|error| project_error(ProjectError::Edit { path: path.to_owned(), error }))
}

async fn finish(
    path: &Path,
    project: &Project,
    text: &str,
    agreed: &Agreement,
    terminal: Terminal,
) -> anyhow::Result<()> {
    if text == project.text || project.text.is_empty() && !text.contains("mcp_servers") {
        terminal.message("nothing was written");
        return Ok(());
    }
    write_text(project, text, agreed).await?;
    terminal.message(format_args!("{DIM}{}:{DIM:#}", path.display()));
    for line in new_lines(&project.text, text) {
        terminal.message(format_args!("  + {line}"));
    }
    terminal.hint("`haft wrap` is not needed there: these servers have the rights of program.toml");
    Ok(())
}
