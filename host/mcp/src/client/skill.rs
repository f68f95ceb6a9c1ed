//! A skill of a server (SEP-2640): the server's list contains the skill, and its files are read one by one on request
//! of a model. A file that differs from the list is refused; a file that is not in the list is not requested.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{SKILL_MD, Skill as Listed, SkillResource, SkillResources, skill_name_from_uri};
use serde_json::Value;
use tokio::runtime::Handle;

use super::{Server, ToolList, exposed};
use haft_core::skill::{MAX_BYTES, MAX_FILES, Shelved, Skill, SkillFiles, frontmatter, too_large};

/// The files of a skill of a server.
#[derive(Debug)]
struct ServerSkill {
    server: Arc<Server>,
    listed: Listed,
}

/// Refuses an unusable entry of `skills/list`.
///
/// # Errors
/// The entry breaks a rule of the extension, has no digests, or is too large.
pub(super) fn check(entry: &Value) -> Result<(), String> {
    let skill = read(entry)?;
    skill.validate().map_err(|error| error.to_string())?;
    let SkillResources::Files(files) = &skill.resources else {
        return Err(format!("`{}` has files without digests, so it cannot be pinned", skill.uri));
    };
    let size = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size));
    if files.len() > MAX_FILES || size.is_none_or(|size| size > MAX_BYTES) {
        return Err(format!("`{}` has more than {MAX_FILES} files or {MAX_BYTES} bytes", skill.uri));
    }
    Ok(())
}

fn read(entry: &Value) -> Result<Listed, String> {
    serde_json::from_value(entry.clone()).map_err(|error| format!("it is none: {error}"))
}

/// Returns the name of the skill at `uri` in patterns of `tools`: `skills/NAME`, or `skills/PATH` if `listed` has
/// several skills with that name, held back or not.
pub fn skill_pattern(listed: &ToolList, uri: &str) -> Option<String> {
    let name = skill_name_from_uri(uri)?;
    let is_same = |skill: &&Value| skill["uri"].as_str().and_then(skill_name_from_uri) == Some(name);
    let path = uri.strip_suffix(SKILL_MD)?.trim_end_matches('/');
    let path = path.split_once("://").map_or(path, |(_, path)| path);
    let own = if listed.offers.skills.iter().filter(is_same).count() > 1 { path } else { name };
    Some(format!("skills/{own}"))
}

/// Returns the skills of `server` for models, with the server's name like its tools. The first text of each is its name
/// in patterns of `tools`.
pub fn server_skills(server: &Arc<Server>, list: &ToolList) -> Vec<(String, Shelved)> {
    let shelved = |entry: &Value| {
        let (listed, config) = (read(entry).ok()?, server.config());
        let own = skill_pattern(list, &listed.uri)?;
        let name = exposed(&config.name, own.strip_prefix("skills/")?);
        let skill = Shelved {
            skill: Skill::described(&name, &listed.frontmatter.description),
            origin: format!("MCP server `{}`", config.name),
            files: Arc::new(ServerSkill { server: server.clone(), listed }),
            scripts: None,
            tools: Vec::new(),
        };
        Some((own, skill))
    };
    list.skills().filter_map(shelved).collect()
}

impl ServerSkill {
    /// Returns the prefix of the URIs of the skill's files.
    fn root(&self) -> &str {
        self.listed.uri.strip_suffix(SKILL_MD).unwrap_or_default()
    }

    fn files(&self) -> &[SkillResource] {
        match &self.listed.resources {
            SkillResources::Files(files) => files,
            _ => &[],
        }
    }

    /// The bytes of a file, which are those that were listed.
    fn checked(&self, file: &SkillResource, answer: &Value) -> Result<Vec<u8>, String> {
        let contents = answer["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = contents.iter().find(|one| one["uri"] == file.uri.as_str());
        let own = own.ok_or("the server answered with another resource")?;
        let text = |key: &str| own[key].as_str();
        let bytes = match (text("text"), text("blob")) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(blob)) => BASE64_STANDARD.decode(blob).map_err(|error| error.to_string())?,
            (None, None) => return Err("the server answered with neither text nor bytes".to_owned()),
        };
        file.verify(&bytes).map_err(|error| format!("it differs from the server's list: {error}"))?;
        if file.uri == self.listed.uri {
            let head = frontmatter(&String::from_utf8_lossy(&bytes))?;
            let told = serde_json::to_value(&self.listed.frontmatter).unwrap_or_default();
            if told != Value::Object(head) {
                return Err("its head differs from the server's list".to_owned());
            }
        }
        Ok(bytes)
    }
}

impl SkillFiles for ServerSkill {
    /// Requests the file from the server, on a thread that may block, for at most its start and `timeout`. A cancelled
    /// call does not end the request.
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let uri = format!("{}{path}", self.root());
        let file = self.files().iter().find(|file| file.uri == uri);
        let file =
            file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the skill has no such file"))?;
        if file.size > most {
            return Err(too_large(file.size, most));
        }
        let answer = Handle::current().block_on(self.server.read_skill(&self.listed.uri, &file.uri));
        let name = &self.server.config().name;
        let answer = answer.map_err(|error| io::Error::other(format!("MCP server `{name}` {error}")))?;
        self.checked(file, &answer).map_err(io::Error::other)
    }

    fn list(&self, most: usize) -> io::Result<Vec<String>> {
        let own = self.files().iter().filter_map(|file| file.uri.strip_prefix(self.root()));
        Ok(own.take(most).map(str::to_owned).collect())
    }

    fn folder(&self) -> Option<&Path> {
        None
    }
}
