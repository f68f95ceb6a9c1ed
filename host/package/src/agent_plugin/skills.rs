//! The skills of a plugin (§7.1): each folder in `skills` with a `SKILL.md`. A script of a skill is an executable
//! file, or a file whose extension names its interpreter.

use std::collections::BTreeSet;

use haft_core::grant::Right;
use haft_core::skill::{FILE, MAX_DESCRIPTION, MAX_FILE, Skill, check_name};
use haft_plugin_host::inspect;

use super::permissions::Permissions;
use super::{Fault, FaultKind, Files};
use crate::listing::listed;

/// The folder of the skills (§6.1).
pub const FOLDER: &str = "skills";

/// Maximum number of skills of one plugin, as for models.
const MAX_SKILLS: usize = haft_core::skill::MAX_SKILLS;

/// The folder of scripts in a skill's folder.
const SCRIPTS: &str = "scripts/";

/// The end of a component's name.
const WASM: &str = ".wasm";

/// Maximum number of scripts of one skill that its tool names.
const MAX_SCRIPTS: usize = 200;

/// A skill of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSkill {
    /// The name and description.
    pub skill: Skill,
    /// The skill's folder in the plugin.
    pub folder: String,
    /// The scripts, by their paths in the folder.
    pub scripts: Vec<String>,
    /// The components, by the names of their plugins and their paths in the folder.
    pub components: Vec<(String, String)>,
    /// The unique name of the tool that runs the scripts.
    pub tool: String,
    /// The author's proposal; `None` if nothing is proposed for any part of the plugin.
    pub proposed: Option<Vec<Right>>,
}

impl PluginSkill {
    /// Removes the components whose names are in `taken`, with a fault for each, and adds the names of the others.
    pub(super) fn without_taken(&mut self, taken: &mut BTreeSet<String>, faults: &mut Vec<Fault>) {
        let folder = &self.folder;
        self.components.retain(|(name, path)| {
            let is_new = taken.insert(name.clone());
            if !is_new {
                let text = format!("`{folder}/{path}` is left out: another component has the name `{name}`");
                faults.push(Fault::new(FaultKind::ComponentInvalid, text));
            }
            is_new
        });
    }
}

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
        let skill = text(files, &inside).and_then(|text| strict(&text, folder));
        put(files, (folder, skill), inside, permissions, (&mut skills, faults));
    }
    skills
}

/// Adds a skill with its scripts, if it is usable.
pub(super) fn put(
    files: &Files<'_>,
    (name, skill): (&str, Result<Skill, String>),
    folder: String,
    permissions: &Permissions,
    (skills, faults): (&mut Vec<PluginSkill>, &mut Vec<Fault>),
) {
    let usable = skill.and_then(|skill| {
        let tool = tool_name(&skill.name);
        if skills.len() < MAX_SKILLS && skills.iter().all(|other| other.tool != tool) {
            return Ok((skill, tool));
        }
        Err(format!("the limit of {MAX_SKILLS} skills is reached, or another skill has its name"))
    });
    let (skill, tool) = match usable {
        Ok(usable) => usable,
        Err(why) => {
            let text = format!("skill `{name}` is left out: {why}");
            faults.push(Fault::new(FaultKind::SkillSkipped, text));
            return;
        }
    };
    let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
    let (scripts, components) = (scripts(files, &folder), components(files, (&folder, &tool), faults));
    let proposed = permissions.skill(&name);
    skills.push(PluginSkill { skill, folder, scripts, components, tool, proposed });
}

/// Returns the files in `scripts` that are components, and reports invalid ones.
fn components(
    files: &Files<'_>,
    (folder, tool): (&str, &str),
    faults: &mut Vec<Fault>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in files.below(folder) {
        let stem = path.strip_prefix(SCRIPTS).and_then(|path| path.strip_suffix(WASM));
        let Some(stem) = stem.filter(|stem| !stem.contains('/')) else { continue };
        let name = haft_manifest::Name::of_text(&format!("{tool}-{stem}")).map_err(|error| error.to_string());
        let name = component(files, &listed(folder, path)).and(name);
        match name {
            Ok(name) => found.push((name.to_string(), path.to_owned())),
            Err(why) => {
                let text = format!("`{}` is left out: {why}", listed(folder, path));
                faults.push(Fault::new(FaultKind::ComponentInvalid, text));
            }
        }
    }
    found
}

/// Refuses a file that is no component with tools.
fn component(files: &Files<'_>, path: &str) -> Result<(), String> {
    let bytes = files.bytes(path, crate::MAX_SIZE).map_err(|error| error.to_string())?;
    let sections = inspect::read_sections(&bytes).map_err(|error| error.to_string())?;
    sections.contract().map(drop).map_err(|error| error.to_string())
}

pub(super) fn text(files: &Files<'_>, folder: &str) -> Result<String, String> {
    let bytes = files.bytes(&listed(folder, FILE), MAX_FILE).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "its `SKILL.md` is not UTF-8 text".to_owned())
}

/// Returns the skill of a text that follows the Agent Skills specification: it has a head with the name of its
/// folder and a description.
fn strict(text: &str, folder: &str) -> Result<Skill, String> {
    let field = |key: &str| haft_core::skill::head_field(text, key).filter(|value| !value.is_empty());
    let name = field("name").ok_or("its head has no `name`")?;
    if name != folder {
        return Err(format!("its head has the name `{name}`, its folder `{folder}`"));
    }
    check_name(&name)?;
    let description = field("description").ok_or("its head has no `description`")?;
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("its description has more than {MAX_DESCRIPTION} characters"));
    }
    Ok(Skill::parse(text, folder))
}

fn tool_name(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    name.chars().map(fits).take(64).collect()
}

fn scripts(files: &Files<'_>, folder: &str) -> Vec<String> {
    let is_script = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_told = haft_sandbox::native::script::interpreter(name).is_some();
        let is_hidden = path.split('/').any(|part| part.starts_with(['.', '_']));
        !is_hidden && !path.ends_with(WASM) && (is_told || files.is_executable(&listed(folder, path)))
    };
    files.below(folder).filter(is_script).take(MAX_SCRIPTS).map(str::to_owned).collect()
}
