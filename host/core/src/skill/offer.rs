//! Serves a skill to MCP clients (SEP-2640): its head, a SHA-256 digest of each file, and the files by URI. Refuses a file
//! that differs from its digest.

use std::io;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{FILE, MAX_FILE, Shelved, SkillFiles, check_name, frontmatter};
use crate::call::{Attachment, Hints, ResourceContents, ToolCall, ToolDef, ToolResult};
use crate::encoding::{hex, percent_encoded};
use crate::tool::{Context, Offer, Tool, ToolError};

/// Maximum number of files of a skill; SEP-2640 requires clients to accept as many.
pub const MAX_FILES: usize = 512;

/// Maximum size in bytes of all files of a skill, likewise.
pub const MAX_BYTES: u64 = 16 << 20;

/// The media types of the texts that skills have, by how names end; of other texts it is `text/plain`.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("py", "text/x-python"),
    ("sh", "application/x-sh"),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// A skill as MCP clients get it.
#[derive(Debug)]
struct ServedSkill {
    /// `Skill` of the extension `io.modelcontextprotocol/skills`.
    entry: Value,
    /// `Resource` of the protocol, of its SKILL.md.
    resource: Value,
    files: Vec<File>,
}

/// A file of a skill as it was listed.
#[derive(Clone, Debug, PartialEq)]
struct File {
    uri: String,
    path: String,
    /// Hexadecimal SHA-256.
    digest: String,
    size: u64,
}

/// The offer of a skill. A call reads one of its files, by `uri`.
#[derive(Debug)]
pub struct SkillOffer {
    def: ToolDef,
    name: String,
    files: Arc<dyn SkillFiles>,
    /// The served skill, which requires reading its files, once clients are notified of it.
    served: OnceLock<Option<ServedSkill>>,
}

impl SkillOffer {
    /// The prefix of the names of skills in lists of tools: `skill__NAME`.
    pub const PREFIX: &'static str = "skill__";

    /// Creates the offer of `skill`.
    ///
    /// # Errors
    /// Clients do not accept the name of the skill.
    pub fn new(skill: &Shelved) -> Result<Self, String> {
        let name = skill.skill.name.clone();
        check_name(&name)?;
        let def = ToolDef {
            name: format!("{}{name}", Self::PREFIX),
            description: format!("Reads the files of the skill `{name}`"),
            parameters: json!({
                "type": "object",
                "properties": { "uri": { "type": "string" } },
                "required": ["uri"],
            }),
            hints: Hints { read_only: true, idempotent: true, ..Hints::default() },
            ..ToolDef::default()
        };
        Ok(Self { def, name, files: skill.files.clone(), served: OnceLock::new() })
    }

    /// Reads and hashes the files at the first call, which blocks. `None` if clients cannot have the skill.
    fn served(&self) -> Option<&ServedSkill> {
        let read = || {
            let read = ServedSkill::read(&self.name, &*self.files);
            let left_out = |why: &String| {
                tracing::warn!(skill = self.name, "the skill is not served to clients: {why}");
            };
            read.inspect_err(left_out).ok()
        };
        self.served.get_or_init(read).as_ref()
    }
}

impl ServedSkill {
    fn read(name: &str, skill: &dyn SkillFiles) -> Result<Self, String> {
        let text = skill.read(FILE, MAX_FILE).map_err(|error| format!("`{FILE}`: {error}"))?;
        let text = String::from_utf8(text).map_err(|_| format!("`{FILE}` is not text in UTF-8"))?;
        let head = frontmatter(&text)?;
        if head.get("name").and_then(Value::as_str) != Some(name) {
            return Err(format!("the name in its head is not `{name}`"));
        }
        let paths = skill.list(MAX_FILES + 1).map_err(|error| error.to_string())?;
        if paths.len() > MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files"));
        }
        let (mut files, mut left) = (Vec::new(), MAX_BYTES);
        for path in paths {
            let bytes = skill.read(&path, left);
            let bytes =
                bytes.map_err(|error: io::Error| format!("`{path}`, of {MAX_BYTES} bytes: {error}"))?;
            let size = bytes.len() as u64;
            left -= size;
            let uri = format!("skill://{name}/{}", percent_encoded(&path, b"/"));
            files.push(File { uri, path, digest: hex(&Sha256::digest(&bytes)), size });
        }
        let uri = format!("skill://{name}/{FILE}");
        let resource = json!({
            "uri": uri,
            "name": head.get("name"),
            "description": head.get("description"),
            "mimeType": "text/markdown",
            "size": text.len(),
        });
        let listed = |file: &File| json!({ "uri": file.uri, "digest": format!("sha256:{}", file.digest), "size": file.size });
        let listed: Vec<Value> = files.iter().map(listed).collect();
        let entry = json!({ "uri": uri, "frontmatter": head, "resources": listed });
        Ok(Self { entry, resource, files })
    }

    fn file(&self, uri: &str) -> Option<&File> {
        self.files.iter().find(|file| file.uri == uri)
    }
}

/// Reads a file, if it matches the list.
fn read(files: &dyn SkillFiles, file: &File) -> Result<ToolResult, ToolError> {
    let failed = |why: String| ToolError::ExecutionFailed(format!("cannot read `{}`: {why}", file.uri));
    let bytes = files.read(&file.path, MAX_BYTES).map_err(|error| failed(error.to_string()))?;
    if hex(&Sha256::digest(&bytes)) != file.digest {
        return Err(failed("it has changed since it was listed".into()));
    }
    let end = file.path.rsplit('.').next().unwrap_or_default();
    let known = MEDIA_TYPES.iter().find(|(own, _)| *own == end).map(|(_, media_type)| *media_type);
    let (media_type, is_text) = match std::str::from_utf8(&bytes) {
        Ok(_) => (known.unwrap_or("text/plain"), true),
        Err(_) => (crate::call::media_type_of(&bytes).unwrap_or("application/octet-stream"), false),
    };
    let told = ResourceContents { media_type: Some(media_type.to_owned()), is_text };
    let structured = serde_json::to_value(told).ok();
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ToolResult { structured, ..ToolResult::success(text) },
        Err(error) => {
            let attachments = vec![Attachment::new(media_type, error.into_bytes())];
            ToolResult { attachments, structured, ..ToolResult::success("") }
        }
    })
}

#[async_trait]
impl Tool for SkillOffer {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn offer(&self) -> Option<Offer<'_>> {
        self.served().map(|served| Offer::Skill { entry: &served.entry, resource: &served.resource })
    }

    async fn call(&self, call: &ToolCall, _context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let uri = call.arguments.get("uri").and_then(Value::as_str).unwrap_or_default();
        let file = self.served().and_then(|served| served.file(uri)).cloned();
        let file = file.ok_or_else(|| ToolError::InvalidArguments(format!("no file of it is `{uri}`")))?;
        let files = self.files.clone();
        // Files are read on a thread that may block.
        let read = tokio::task::spawn_blocking(move || read(&*files, &file)).await;
        read.unwrap_or_else(|error| Err(ToolError::Host(error.to_string())))
    }
}
