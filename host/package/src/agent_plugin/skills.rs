//! The skills of a plugin (§7.1): each folder in `skills` with a `SKILL.md`. A script of a skill is a file that can be run: an
//! executable one, or one whose name says its interpreter.

use haft_core::grant::Right;
use haft_core::skill::{FILE, MAX_FILE, Skill};

use super::permissions::Permissions;
use super::{Fault, FaultKind, Files};
use crate::listing::listed;

/// The folder of the skills (§6.1).
pub const FOLDER: &str = "skills";

/// Skills of one plugin at most; a model is told of no more.
const MAX_SKILLS: usize = haft_core::skill::MAX_SKILLS;

/// Scripts of one skill at most that its tool names.
const MAX_SCRIPTS: usize = 200;

/// Characters of a description (the Agent Skills specification).
const MAX_DESCRIPTION: usize = 1024;

/// A skill of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSkill {
    /// The name and description.
    pub skill: Skill,
    /// Its folder in the plugin.
    pub folder: String,
    /// Its scripts, by their paths in the folder.
    pub scripts: Vec<String>,
    /// The name of the tool that runs them, of which no two skills have the same.
    pub tool: String,
    /// What its author proposes for it; `None` where nothing is proposed for any part of the plugin.
    pub proposed: Option<Vec<Right>>,
}

/// The skills in the fixed location.
pub(super) fn discovered(
    files: &Files<'_>,
    permissions: &Permissions,
    faults: &mut Vec<Fault>,
) -> Vec<PluginSkill> {
    if files.has(FOLDER) {
        let text = "`skills` is a file: no skill is used";
        faults.push(Fault::new(FaultKind::ComponentInvalid, text));
        return Vec::new();
    }
    let folders = files.below(FOLDER).filter_map(|path| path.split_once('/'));
    let folders = folders.filter(|(_, rest)| *rest == FILE).map(|(folder, _)| folder);
    let mut skills = Vec::new();
    for folder in folders {
        let inside = format!("{FOLDER}/{folder}");
        match text(files, &inside).and_then(|text| strict(&text, folder)) {
            Ok(skill) => put(files, skill, inside, permissions, (&mut skills, faults)),
            Err(why) => {
                let text = format!("skill `{folder}` is left out: {why}");
                faults.push(Fault::new(FaultKind::SkillSkipped, text));
            }
        }
    }
    skills
}

/// Adds a skill with its scripts.
pub(super) fn put(
    files: &Files<'_>,
    skill: Skill,
    folder: String,
    permissions: &Permissions,
    (skills, faults): (&mut Vec<PluginSkill>, &mut Vec<Fault>),
) {
    let tool = tool_name(&skill.name);
    if skills.len() >= MAX_SKILLS || skills.iter().any(|other| other.tool == tool) {
        let why = format!("the limit of {MAX_SKILLS} skills is reached, or another skill has its name");
        let text = format!("skill `{}` is left out: {why}", skill.name);
        faults.push(Fault::new(FaultKind::SkillSkipped, text));
        return;
    }
    let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
    let scripts = scripts(files, &folder);
    let proposed = permissions.skill(&name);
    skills.push(PluginSkill { skill, folder, scripts, tool, proposed });
}

pub(super) fn text(files: &Files<'_>, folder: &str) -> Result<String, String> {
    let bytes = files.bytes(&listed(folder, FILE), MAX_FILE).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "its `SKILL.md` is not UTF-8 text".to_owned())
}

/// The skill of a text that follows the Agent Skills specification: it has a head with the name of its folder and a
/// description.
fn strict(text: &str, folder: &str) -> Result<Skill, String> {
    let field = |key: &str| haft_core::skill::head_field(text, key).filter(|value| !value.is_empty());
    let name = field("name").ok_or("its head has no `name`")?;
    if name != folder {
        return Err(format!("its head has the name `{name}`, its folder `{folder}`"));
    }
    let is_part = |c: char| c.is_lowercase() || c.is_numeric() || c == '-';
    let is_name = name.chars().count() <= 64
        && name.chars().all(is_part)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_name {
        return Err(format!(
            "`{name}` is not a valid skill name: expected 1 to 64 of `a-z`, `0-9` and single `-`"
        ));
    }
    let description = field("description").ok_or("its head has no `description`")?;
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("its description has more than {MAX_DESCRIPTION} characters"));
    }
    Ok(Skill::parse(text, folder))
}

/// The name of the tool that runs the scripts of a skill.
fn tool_name(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    name.chars().map(fits).take(64).collect()
}

fn scripts(files: &Files<'_>, folder: &str) -> Vec<String> {
    let is_script = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_told = haft_sandbox::native::script::interpreter(name).is_some();
        let is_hidden = path.split('/').any(|part| part.starts_with(['.', '_']));
        !is_hidden && (is_told || files.is_executable(&listed(folder, path)))
    };
    files.below(folder).filter(is_script).take(MAX_SCRIPTS).map(str::to_owned).collect()
}
