//! plugin.json of an Agent Plugin (§5), with a closed schema: an unknown field, or an `extensions` that is not an
//! object, is reported, and every other error is fatal.

use serde_json::{Map, Value};

use super::permissions::Permissions;
use super::{AGENT, About, AgentPlugin, Fault, FaultKind, Files, Form, PluginError, servers, skills};

/// The schema of the only version that is read (§5.2, §10.1).
pub const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

/// Maximum number of characters of a name (§5.5).
const MAX_NAME: usize = 64;

pub(super) fn read(files: &Files<'_>) -> Result<AgentPlugin, PluginError> {
    let document = files.json(AGENT).map_err(fatal)?;
    let Value::Object(fields) = &document else { return Err(fatal("expected a JSON object")) };
    let mut faults = Vec::new();
    let about = about(fields, &mut faults)?;
    let extensions = extensions(fields, &mut faults)?;
    let permissions = Permissions::read(files, extensions, &mut faults);
    let skills = skills::discovered(files, &permissions, &mut faults);
    let servers = servers::discovered(files, &permissions, &mut faults);
    Ok(AgentPlugin { form: Form::Agent, about, servers, skills, faults })
}

fn fatal(why: impl Into<String>) -> PluginError {
    PluginError::Manifest { file: AGENT, why: haft_core::report::plain(&why.into()) }
}

fn about(fields: &Map<String, Value>, faults: &mut Vec<Fault>) -> Result<About, PluginError> {
    match fields.get("$schema") {
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(Value::String(schema)) => return Err(PluginError::Version(haft_core::report::plain(schema))),
        _ => return Err(fatal("expected `$schema`, a string that names a version of the specification")),
    }
    let mut about = About { name: name(fields.get("name"))?, ..About::default() };
    for (field, value) in fields {
        match field.as_str() {
            "$schema" | "name" | "extensions" => {}
            "version" => about.version = Some(string(field, value)?),
            "description" => about.description = Some(string(field, value)?),
            "license" => about.license = Some(string(field, value)?),
            "homepage" | "repository" => drop(string(field, value)?),
            "author" => about.author = author(value)?,
            "keywords" => keywords(value)?,
            other => faults.push(Fault::new(
                FaultKind::UnknownField,
                format!("`plugin.json` has the unknown field `{other}`: ignored"),
            )),
        }
    }
    Ok(about)
}

/// §5.5
fn name(value: Option<&Value>) -> Result<String, PluginError> {
    let Some(Value::String(name)) = value else { return Err(fatal("expected `name`, a string")) };
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_usable = (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|c| is_word(c) || matches!(c, '-' | '.'))
        && name.starts_with(is_word)
        && name.ends_with(is_word)
        && !name.contains("--")
        && !name.contains("..");
    if is_usable {
        return Ok(name.clone());
    }
    let expected = "1 to 64 of `a-z`, `0-9`, `-` and `.`, without `-` or `.` at an end or twice";
    Err(fatal(format!("expected `name` of {expected}, found `{name}`")))
}

fn string(field: &str, value: &Value) -> Result<String, PluginError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => Err(fatal(format!("expected `{field}` to be a string"))),
    }
}

/// §5.4
fn author(value: &Value) -> Result<Option<String>, PluginError> {
    let Value::Object(fields) = value else { return Err(fatal("expected `author` to be an object")) };
    for (field, value) in fields {
        if !matches!(field.as_str(), "name" | "email" | "url") {
            return Err(fatal(format!("`author` has only `name`, `email` and `url`, not `{field}`")));
        }
        string(&format!("author.{field}"), value)?;
    }
    Ok(fields.get("name").and_then(Value::as_str).map(str::to_owned))
}

fn keywords(value: &Value) -> Result<(), PluginError> {
    let all = value.as_array().filter(|all| all.iter().all(Value::is_string));
    all.map(|_| ()).ok_or_else(|| fatal("expected `keywords` to be an array of strings"))
}

/// Returns the members of `extensions` (§8.1): objects, of which each client reads its own.
fn extensions<'v>(
    fields: &'v Map<String, Value>,
    faults: &mut Vec<Fault>,
) -> Result<Option<&'v Map<String, Value>>, PluginError> {
    match fields.get("extensions") {
        None => Ok(None),
        Some(Value::Object(all)) => match all.iter().find(|(_, data)| !data.is_object()) {
            Some((namespace, _)) => Err(fatal(format!("expected `extensions.{namespace}` to be an object"))),
            None => Ok(Some(all)),
        },
        Some(_) => {
            let text = "`extensions` of `plugin.json` is not an object: ignored";
            faults.push(Fault::new(FaultKind::ExtensionsIgnored, text));
            Ok(None)
        }
    }
}
