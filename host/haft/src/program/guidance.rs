//! The instructions to a model besides its task: `AGENTS.md` or `CLAUDE.md` of the workspace's repository, and the
//! skills. Read once, at the first use, so that every request of a run begins with equal text. `haft serve` serves the
//! skills of the program and of its packages; its clients have their own instructions.

use std::path::PathBuf;
use std::sync::Arc;

use super::contribution::{Contribution, NewTool};
use super::patterns::server_prefix;
use super::rights::Rights;
use super::skill_servers::declared_skills;
use super::{Program, chosen_tools, packages};
use haft_agent::{with_agents_md, with_skills};
use haft_core::grant::{Grant, Root};
use haft_core::limit::Limits;
use haft_core::project::Project;
use haft_core::project::agents_md::{self, AgentsMd, MAX_ALL};
use haft_core::skill::{ReadSkill, Shelf, Shelved, SkillOffer, of_folder};
use haft_core::tool::Toolbox;
use haft_manifest::{McpServer, ToolPattern};

/// The instructions to a model besides its task.
#[derive(Clone, Debug, Default)]
pub struct Guidance {
    /// The project's instructions, the repository's root first.
    pub agents_md: Vec<AgentsMd>,
    /// Refused instruction files, one line each, with the reason.
    pub refused: Vec<String>,
    /// Unused files that differ from the file used for their folder.
    pub passed_over: Vec<PathBuf>,
    /// The skills, the nearest first: the project's, the user's, those of packages.
    pub skills: Arc<Shelf>,
}

impl Program {
    /// Returns the instructions to a model besides its task, read at the first call.
    pub fn guidance(&self) -> &Guidance {
        self.guidance.get_or_init(|| self.read_guidance())
    }

    fn read_guidance(&self) -> Guidance {
        let agent = &self.manifest.agent;
        let project = self.grant.workspace().and_then(|workspace| Project::around(workspace).ok());
        let own = project.as_ref().filter(|_| agent.agents_md);
        let found = own.map(|project| agents_md::read(project, &self.redactor, self.most_told()));
        let found = found.unwrap_or_default();
        let mut skills = declared_skills(agent, project.as_ref(), &self.dirs.home);
        skills.set_tools(|skill| self.tools_of(skill));
        self.skills.iter().for_each(|skill| skills.put(skill.clone()));
        let agents_md::Found { files: agents_md, problems: refused, passed_over } = found;
        Guidance { agents_md, refused, passed_over, skills: Arc::new(skills) }
    }

    /// Returns the name prefixes of the tools of the servers that a skill outside of packages names in its head.
    fn tools_of(&self, skill: &Shelved) -> Vec<String> {
        let is_of_it = |server: &&McpServer| server.skill.as_deref() == skill.files.folder();
        let servers =
            self.manifest.mcp_servers.iter().filter(|server| server.skill.is_some()).filter(is_of_it);
        servers.map(|server| server_prefix(server.name.as_str())).collect()
    }

    /// Returns the maximum size of all `AGENTS.md` in bytes: a quarter of the model's window, if program.toml states
    /// the window.
    fn most_told(&self) -> usize {
        let window = self.manifest.provider.as_ref().and_then(|provider| provider.context_window);
        // A quarter of the tokens, at four bytes per token.
        window.map_or(MAX_ALL, |tokens| usize::try_from(tokens).unwrap_or(MAX_ALL))
    }

    /// Returns the skills for an agent with the tools of `patterns` or, without patterns, of `[agent] tools`. Skills of
    /// MCP servers are included only if these patterns name them.
    fn skills_of(&self, patterns: &[ToolPattern]) -> Shelf {
        let named = self.named(patterns);
        let is_named = |name: &str| named.is_none_or(|all| all.iter().any(|one| one.matches(name)));
        let is_meant = |skill: &Shelved| skill.files.folder().is_some() || is_named(&skill.skill.name);
        self.guidance().skills.only(is_meant)
    }

    /// Returns the system prompt of an agent with `tools`, which `patterns` name. The prompt contains no secret, and
    /// names no skill that the agent cannot read.
    pub fn system_prompt(&self, tools: &Toolbox, patterns: &[ToolPattern]) -> String {
        let workspace = || self.grant.workspace().map(Root::path);
        let own = self.manifest.agent.system_prompt.clone();
        let mut prompt = own.unwrap_or_else(|| haft_agent::system_prompt(workspace()));
        let guidance = self.guidance();
        if tools.find(ReadSkill::NAME).is_some() {
            prompt = with_skills(prompt, &self.skills_of(patterns));
        }
        self.redactor.redact_owned(with_agents_md(prompt, &guidance.agents_md))
    }

    /// Returns all tools of the program with the rules for their calls, and the tool that reads skills if an agent with
    /// the tools of `patterns` has skills.
    pub(super) fn with_read_skill(&self, patterns: &[ToolPattern]) -> Toolbox {
        let mut tools = self.toolbox.clone();
        let skills = self.skills_of(patterns);
        if !skills.is_empty() {
            let tool = Arc::new(ReadSkill::new(Arc::new(skills), self.backend.is_none()));
            if let Err(error) = tools.insert_first(tool, Grant::none(), Limits::default(), "built in") {
                tracing::warn!("skills cannot be read: {error}");
            }
        }
        chosen_tools::hooked(&tools.ruled(&chosen_tools::rules(&self.manifest, &self.dirs.home)), &self.hooks)
    }
}

/// Returns the skills for MCP clients: those beside program.toml and of packages.
pub(super) fn skill_offers(rights: &Rights<'_>) -> Contribution {
    let Rights { manifest, installed, dirs, .. } = rights;
    let (mut shelf, mut found) = (Shelf::default(), Contribution::default());
    let has_file = manifest.agent.skills && manifest.file().is_some();
    if let Some(Ok(root)) = has_file.then(|| Root::resolve(&dirs.here, &manifest.folder)) {
        of_folder(&root, &mut shelf);
    }
    for skill in packages::skills(manifest, installed) {
        shelf.put(skill);
    }
    for skill in shelf.skills() {
        match SkillOffer::new(skill) {
            Ok(offer) => {
                let origin = skill.origin.clone();
                found.offers.push(NewTool::new(Arc::new(offer), Grant::none(), Limits::default(), origin));
            }
            Err(why) => tracing::warn!("a skill of {} is not served to clients: {why}", skill.origin),
        }
    }
    found
}

/// Returns `patterns` with the tool that reads skills: an agent with any tool may read the skills that its prompt
/// names.
pub(super) fn and_read_skill(patterns: &[ToolPattern]) -> Vec<ToolPattern> {
    let own = ReadSkill::NAME.parse().ok().filter(|_| !patterns.is_empty());
    patterns.iter().cloned().chain(own).collect()
}
