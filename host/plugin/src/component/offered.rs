//! Checks a plugin's prompts and resources, and builds the definitions that consent, argument checks and clients
//! use. The text is written by the plugin's author and read by people and models.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::failure::LoadError;
use haft_core::call::{Hints, Offers, PromptDef, ResourceDef, ResourceList, ToolDef};
use haft_core::tool::exposed_name;

/// Maximum number of characters of a description; the longest in use are some thousands.
pub(crate) const MAX_DESCRIPTION: usize = 16_000;

/// Maximum number of characters of a title, which appears in lists.
pub(crate) const MAX_TITLE: usize = 200;

/// The prefix of a prompt's original name.
pub(crate) const PROMPTS: &str = "prompts/";

/// The original name of the call that reads resources.
pub(crate) const READ: &str = "resources/read";

/// The argument of [`READ`], as the component gets it.
pub(crate) const PATH: &str = "path";

/// Maximum number of prompts of one plugin: the limit of tools.
const MAX_PROMPTS: usize = 256;

/// Maximum number of arguments of a prompt, which a user fills in one by one.
const MAX_ARGUMENTS: usize = 32;

/// Maximum number of resources of one plugin, which clients show as one list. A template replaces similar
/// resources.
const MAX_RESOURCES: usize = 1024;

const MAX_TEMPLATES: usize = 64;

/// Maximum number of bytes of a path within a plugin.
const MAX_PATH: usize = 1024;

/// Maximum number of characters of the name of a resource.
const MAX_NAME: usize = 200;

/// Maximum number of characters of a client's URI, if a template has no limit of its own.
const MAX_URI: usize = 2048;

pub(crate) fn prefix(name: &str) -> String {
    format!("haft://{name}/")
}

/// Returns the offers, if all of them can be used.
/// Errors: The first unusable offer, with the reason.
pub(crate) fn check(offers: Offers) -> Result<Offers, LoadError> {
    let Offers { prompts, resources } = &offers;
    let checked = count(prompts.len(), MAX_PROMPTS, "prompts")
        .and_then(|()| count(resources.listed.len(), MAX_RESOURCES, "resources"))
        .and_then(|()| count(resources.templates.len(), MAX_TEMPLATES, "templates"))
        .and_then(|()| all(prompts, |prompt| &prompt.name, check_prompt))
        .and_then(|()| all(&resources.listed, |one| &one.place, |one| check_resource(one, is_path)))
        .and_then(|()| all(&resources.templates, |one| &one.place, |one| check_resource(one, is_template)));
    checked.map_err(LoadError::Offer)?;
    Ok(offers)
}

pub(crate) fn size(offers: &Offers) -> usize {
    serde_json::to_string(offers).map_or(usize::MAX, |text| text.len())
}

/// Returns the definitions of calls of the plugin `name`'s offers, by original names: one for each prompt, one for
/// all resources. They contain every displayed part of an offer, so that consent covers it.
pub(crate) fn definitions(name: &str, offers: &Offers) -> Vec<ToolDef> {
    let resources = (!offers.resources.is_empty()).then(|| reading(name, &offers.resources));
    offers.prompts.iter().map(filling_in).chain(resources).collect()
}

pub(crate) fn own_names(offers: &Offers) -> impl Iterator<Item = String> {
    let read = (!offers.resources.is_empty()).then(|| READ.to_owned());
    offers.prompts.iter().map(|prompt| format!("{PROMPTS}{}", prompt.name)).chain(read)
}

pub(crate) fn filling_in(prompt: &PromptDef) -> ToolDef {
    let PromptDef { name, title, description, arguments } = prompt;
    let property = |argument: &haft_core::call::PromptArgument| {
        (argument.name.clone(), json!({ "type": "string", "description": argument.description }))
    };
    let properties: Map<String, Value> = arguments.iter().map(property).collect();
    let required = arguments.iter().filter(|argument| argument.required).map(|argument| &argument.name);
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    });
    definition(format!("{PROMPTS}{name}"), title.clone(), description.clone(), parameters)
}

/// Returns the definition of reading a resource, by its URI.
pub(crate) fn reading(name: &str, resources: &ResourceList) -> ToolDef {
    let prefix = prefix(name);
    let listed = resources.listed.iter().map(|one| {
        let ResourceDef { place, name, title, description, media_type } = one;
        let mut one = json!({
            "const": format!("{prefix}{place}"),
            "title": title.as_ref().unwrap_or(name),
            "description": description,
        });
        if let (Some(fields), Some(media_type)) = (one.as_object_mut(), media_type) {
            fields.insert("contentMediaType".into(), media_type.as_str().into());
        }
        one
    });
    // The component determines the paths.
    let templates = resources.templates.iter().map(|one| {
        let ResourceDef { place, name, title, description, .. } = one;
        json!({
            "pattern": format!("^{prefix}[!-~]+$"),
            "maxLength": MAX_URI,
            "title": title.as_ref().unwrap_or(name),
            "description": format!("{prefix}{place}: {description}"),
        })
    });
    let parameters = json!({
        "type": "object",
        "properties": { "uri": { "type": "string", "anyOf": listed.chain(templates).collect::<Vec<_>>() } },
        "required": ["uri"],
        "additionalProperties": false,
    });
    definition(READ.to_owned(), None, "Reads a resource that the plugin offers.".to_owned(), parameters)
}

/// Clients get prompts and resources without a question to the user: that changes nothing.
fn definition(name: String, title: Option<String>, description: String, parameters: Value) -> ToolDef {
    let hints = Hints { read_only: true, idempotent: true, ..Hints::default() };
    ToolDef { name, title, description, parameters, hints, output: None }
}

fn count(count: usize, most: usize, what: &str) -> Result<(), String> {
    if count > most { Err(format!("{count} {what}; the limit is {most}")) } else { Ok(()) }
}

fn all<T>(
    items: &[T],
    name: impl Fn(&T) -> &String,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), String> {
    let mut known = BTreeSet::new();
    for item in items {
        let shown: String = name(item).chars().take(MAX_NAME).collect();
        check(item).map_err(|problem| format!("`{shown}`: {problem}"))?;
        if !known.insert(name(item)) {
            return Err(format!("`{shown}` is listed twice"));
        }
    }
    Ok(())
}

fn check_prompt(prompt: &PromptDef) -> Result<(), String> {
    check_name(&prompt.name, "a prompt's name")?;
    check_texts(prompt.title.as_deref(), &prompt.description)?;
    count(prompt.arguments.len(), MAX_ARGUMENTS, "arguments")?;
    all(
        &prompt.arguments,
        |argument| &argument.name,
        |argument| {
            check_name(&argument.name, "an argument's name")?;
            check_texts(None, &argument.description)
        },
    )
}

pub(crate) fn check_name(name: &str, what: &str) -> Result<(), String> {
    let is_name = exposed_name(&[name]) == name;
    if is_name { Ok(()) } else { Err(format!("{what} has 1 to 64 letters, digits, `_` and `-`")) }
}

pub(crate) fn check_texts(title: Option<&str>, description: &str) -> Result<(), String> {
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("a description has at most {MAX_DESCRIPTION} characters"));
    }
    if title.is_some_and(|title| title.chars().count() > MAX_TITLE) {
        return Err(format!("a title has at most {MAX_TITLE} characters"));
    }
    Ok(())
}

fn check_resource(resource: &ResourceDef, is_place: fn(&str) -> bool) -> Result<(), String> {
    if !is_place(&resource.place) {
        return Err(format!(
            "a path is relative, as in a URI (`notes/today.md`), without `.` and `..`, and has at most {MAX_PATH} bytes"
        ));
    }
    if !(1..=MAX_NAME).contains(&resource.name.chars().count()) {
        return Err(format!("a name has 1 to {MAX_NAME} characters"));
    }
    let is_media_type = |text: &String| {
        text.len() <= MAX_NAME && text.contains('/') && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    if !resource.media_type.as_ref().is_none_or(is_media_type) {
        return Err("its media type is invalid; expected one such as `text/markdown`".into());
    }
    check_texts(resource.title.as_deref(), &resource.description)
}

/// Returns whether the text is a relative URI path that every client resolves to itself: without `.`, `..` or
/// empty parts.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= MAX_PATH && path.split('/').all(is_part) && path.bytes().all(is_path_byte)
}

fn is_template(template: &str) -> bool {
    let is_byte = |byte: u8| is_path_byte(byte) || b"{}?#".contains(&byte);
    let is_part = |part: &str| part != "." && part != "..";
    let is_balanced = template.matches('{').count() == template.matches('}').count();
    template.len() <= MAX_PATH
        && template.contains('{')
        && is_balanced
        && !template.starts_with('/')
        && template.split('/').all(is_part)
        && template.bytes().all(is_byte)
}

/// Returns whether the byte is a `pchar` of RFC 3986, or the slash between segments.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(place: &str) -> ResourceDef {
        ResourceDef { place: place.into(), name: "n".into(), ..ResourceDef::default() }
    }

    fn wrong(offers: Offers) -> String {
        check(offers).unwrap_err().to_string()
    }

    fn with(listed: Vec<ResourceDef>) -> Offers {
        Offers { resources: ResourceList { listed, templates: Vec::new() }, ..Offers::default() }
    }

    #[test]
    fn a_path_stays_below_the_plugin() {
        for good in ["a", "notes/today.md", "a%20b", "a:b@c", "x/..y"] {
            assert!(check(with(vec![resource(good)])).is_ok(), "{good}");
        }
        let long = "a".repeat(2000);
        for bad in ["", "/a", "a/", "a//b", "../b", "a/./b", "..", "a b", "a?b", "a#b", "ä", "a\n", &long] {
            assert!(wrong(with(vec![resource(bad)])).contains("a path is relative"), "{bad}");
        }
        for (template, good) in [
            ("a/{b}", true),
            ("{+b}", true),
            ("a{?b}", true),
            ("a", false),
            ("/{a}", false),
            ("../{a}", false),
            ("{a", false),
        ] {
            assert_eq!(is_template(template), good, "{template}");
        }
    }

    #[test]
    fn what_is_too_much_or_twice_is_refused() {
        assert!(wrong(with(vec![resource("a"); 2])).contains("`a` is listed twice"));
        let many = (0..1025).map(|number| resource(&number.to_string())).collect();
        assert!(wrong(with(many)).contains("1025 resources; the limit is 1024"));
        let prompt = |name: &str| PromptDef { name: name.into(), ..PromptDef::default() };
        let prompts = |prompts| Offers { prompts, ..Offers::default() };
        assert!(wrong(prompts(vec![prompt("a b")])).contains("1 to 64 letters"));
        let long = PromptDef { description: "x".repeat(20_000), ..prompt("p") };
        assert!(wrong(prompts(vec![long])).contains("at most 16000 characters"));
        let bad = ResourceDef { media_type: Some("text".into()), ..resource("a") };
        assert!(wrong(with(vec![bad])).contains("media type"));
    }

    /// The URI of another plugin, or of an unlisted resource, is refused.
    #[test]
    fn a_uri_has_to_be_one_of_the_plugin() {
        let schema =
            |list: &ResourceList| haft_core::tool::Schema::compile(&reading("own", list).parameters).unwrap();
        let mut list = ResourceList { listed: vec![resource("a")], templates: Vec::new() };
        let fits = |list: &ResourceList, uri: &str| schema(list).check(&json!({ "uri": uri })).is_ok();
        assert!(fits(&list, "haft://own/a"));
        for other in ["haft://own/b", "haft://other/a", "file:///etc/passwd", "a", "haft://own/"] {
            assert!(!fits(&list, other), "{other}");
        }
        list.templates.push(resource("x/{y}"));
        assert!(fits(&list, "haft://own/x/1") && !fits(&list, "haft://other/x/1"));
    }
}
