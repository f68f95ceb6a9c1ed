//! MCP servers that skills outside of packages name in the heads of their SKILL.md, as entries of the program. Each
//! reads the folder of its skill, starts there, and has no other right. They need the user's consent like entries of
//! program.toml. Starts nothing.

use std::path::{Path, PathBuf};

use super::Dirs;
use haft_core::grant::Root;
use haft_core::project::Project;
use haft_core::report::{Problem, Span, plain};
use haft_core::skill::{FILE, MAX_FILE, Shelf, Shelved, of_folder, of_person, of_project};
use haft_manifest::{Agent, GrantTable, Located, Manifest, McpServer, Transport};
use haft_package::agent_plugin::servers_of_head;

/// Maximum number of servers of all skills: as many as of one plugin.
const MAX_SERVERS: usize = 64;

/// Returns the servers that the skills of `manifest` name in their heads, and the problems of the heads. An entry of
/// program.toml takes precedence over a server of its name.
pub fn skill_servers(manifest: &Manifest, dirs: &Dirs) -> (Vec<McpServer>, Vec<Problem>) {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    let is_declared = |name: &str| manifest.mcp_servers.iter().any(|own| own.name.as_str() == name);
    for skill in skills(manifest, dirs) {
        let Some((folder, found, mut faults)) = of_skill(&skill) else { continue };
        for server in found.into_iter().filter(|server| !is_declared(server.name.as_str())) {
            match refusal(&server, &servers, manifest) {
                Some(why) => faults.push(why),
                None => servers.push(placed(server, folder)),
            }
        }
        let file = plain(&folder.join(FILE).display().to_string());
        problems.extend(faults.iter().map(|why| Problem::new(format!("`{file}`: {why}")).warning()));
    }
    (servers, problems)
}

/// Returns the reason why `server` is left out, where the program already has the servers `others` of skills.
fn refusal(server: &McpServer, others: &[McpServer], manifest: &Manifest) -> Option<String> {
    let name = server.name.as_str();
    let why = if manifest.file().is_none() {
        // The user's consent is recorded for the place of a program.toml.
        "servers of skills need a program.toml, which `haft init` writes".to_owned()
    } else if others.iter().any(|other| other.name.as_str() == name) {
        "another skill has a server of this name".to_owned()
    } else if others.len() >= MAX_SERVERS {
        format!("skills have at most {MAX_SERVERS} servers")
    } else {
        return None;
    };
    Some(format!("server `{name}` is left out: {why}"))
}

/// Returns the skills of a project and of the user, unless `agent` has none.
pub(super) fn declared_skills(agent: &Agent, project: Option<&Project>, home: &Path) -> Shelf {
    let mut skills = Shelf::default();
    if agent.skills {
        if let Some(project) = project {
            of_project(project, &mut skills);
        }
        of_person(home, &mut skills);
    }
    skills
}

/// Returns the skills of the agent, and those that `haft serve` serves.
fn skills(manifest: &Manifest, dirs: &Dirs) -> Vec<Shelved> {
    let base = dirs.base(manifest);
    let workspace = manifest.sandbox.workspace.as_ref();
    let workspace =
        workspace.map_or_else(|| base.to_owned(), |path| manifest.resolve(&path.value, &dirs.home));
    let root = |path: &Path| Root::resolve(Path::new("/"), path).ok();
    let project = root(&workspace).and_then(|workspace| Project::around(&workspace).ok());
    let mut shelf = declared_skills(&manifest.agent, project.as_ref(), &dirs.home);
    if let Some(folder) = root(base).filter(|_| manifest.agent.skills) {
        of_folder(&folder, &mut shelf);
    }
    shelf.skills().to_vec()
}

/// Returns the folder of a skill, the servers in its head, and the faults.
fn of_skill(skill: &Shelved) -> Option<(&Path, Vec<McpServer>, Vec<String>)> {
    let folder = skill.files.folder()?;
    let text = skill.files.read(FILE, MAX_FILE).ok()?;
    let has = |path: &str| !path.starts_with('/') && folder.join(path).is_file();
    let (servers, faults) = servers_of_head(&String::from_utf8_lossy(&text), &skill.skill.name, &has);
    Some((folder, servers, faults))
}

/// Returns a server that starts in the skill's `folder` and may read it.
fn placed(server: McpServer, folder: &Path) -> McpServer {
    let mut server = McpServer { skill: Some(folder.to_owned()), ..server };
    if let Transport::Stdio { command, .. } = &mut server.transport {
        for (index, word) in command.value.iter_mut().enumerate() {
            *word = own(word, folder, index == 0).unwrap_or_else(|| word.clone());
        }
    }
    let read = Located { value: folder.to_owned(), span: Span::default() };
    if let Some(grant) = &mut server.grant {
        grant.rights = GrantTable { read: vec![read], ..GrantTable::default() };
    }
    server
}

/// Returns the absolute path that a word means: a file of the skill, or the program to start.
fn own(word: &str, folder: &Path, is_program: bool) -> Option<String> {
    let path: PathBuf = folder.join(word.strip_prefix("./")?);
    (is_program || path.is_file()).then(|| path.to_string_lossy().into_owned())
}
