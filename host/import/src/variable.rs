//! Variables in the values of configuration files.

use std::path::Path;

/// The notation of variables in a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// The client supports no variables.
    None,
    /// `${V}`, `${V:-default}`, `${env:V}`, `${input:ID}`, `${workspaceFolder}`, `${userHome}`.
    Dollar,
    /// `${V}` and `$V`.
    Shell,
    /// `{env:V}`, `{file:PATH}`.
    Brace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text, with the known folders inserted.
    Text(String),
    /// A variable of the environment, and its default.
    Variable(String, Option<String>),
    File(String),
    /// A prompt of the client to the user.
    Input(String),
}

/// The folders that values may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folders<'a> {
    pub(crate) home: &'a Path,
    pub(crate) project: &'a Path,
}

pub(crate) fn parts(value: &str, notation: Notation, folders: Folders<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((before, part, after)) = next(rest, notation, folders) {
        push_text(&mut parts, before);
        match part {
            Part::Text(text) => push_text(&mut parts, &text),
            part => parts.push(part),
        }
        rest = after;
    }
    push_text(&mut parts, rest);
    parts
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Returns the first variable of `text`, with the text before and after it.
fn next<'a>(text: &'a str, notation: Notation, folders: Folders<'_>) -> Option<(&'a str, Part, &'a str)> {
    let open = match notation {
        Notation::None => return None,
        Notation::Dollar => "${",
        Notation::Shell => "$",
        Notation::Brace => "{",
    };
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find(open)?;
        let (before, rest) = text.split_at_checked(start)?;
        let found = match (notation, rest.strip_prefix("${")) {
            (Notation::Shell, None) => bare(rest),
            (_, braced) => braced.or_else(|| rest.strip_prefix('{')).and_then(|rest| {
                let (inner, after) = rest.split_once('}')?;
                Some((braced_part(inner, notation, folders)?, after))
            }),
        };
        match found {
            Some((part, after)) => return Some((before, part, after)),
            None => from = start + open.len(),
        }
    }
}

/// Parses `$NAME`.
fn bare(text: &str) -> Option<(Part, &str)> {
    let rest = text.strip_prefix('$')?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, after) = rest.split_at_checked(end)?;
    is_name(name).then(|| (Part::Variable(name.to_owned(), None), after))
}

/// Parses the text between braces; `None` if it is not a variable.
fn braced_part(inner: &str, notation: Notation, folders: Folders<'_>) -> Option<Part> {
    let path = |path: &Path| Some(Part::Text(path.to_string_lossy().into_owned()));
    match (notation, inner.split_once(':')) {
        (_, Some(("env", name))) => Some(Part::Variable(name.to_owned(), None)),
        (Notation::Brace, Some(("file", path))) => Some(Part::File(path.to_owned())),
        (Notation::Brace, _) => None,
        (_, Some(("input", id))) => Some(Part::Input(id.to_owned())),
        (_, Some((name, default))) if is_name(name) => {
            Some(Part::Variable(name.to_owned(), Some(default.strip_prefix('-')?.to_owned())))
        }
        (_, None) => match inner {
            "workspaceFolder" => path(folders.project),
            "workspaceFolderBasename" => path(Path::new(folders.project.file_name()?)),
            "userHome" => path(folders.home),
            "pathSeparator" | "/" => Some(Part::Text("/".to_owned())),
            name => is_name(name).then(|| Part::Variable(name.to_owned(), None)),
        },
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notation_has_its_variables() {
        let folders = Folders { home: Path::new("/home/ada"), project: Path::new("/work/app") };
        let text = |text: &str| Part::Text(text.to_owned());
        let variable = |name: &str| Part::Variable(name.to_owned(), None);
        for (notation, value, expected) in [
            (Notation::Dollar, "a${V}b$V", vec![text("a"), variable("V"), text("b$V")]),
            (Notation::Dollar, "${V:-x/y}", vec![Part::Variable("V".into(), Some("x/y".into()))]),
            (Notation::Dollar, "${env:V}${input:key}", vec![variable("V"), Part::Input("key".into())]),
            (Notation::Dollar, "${workspaceFolder}${/}x", vec![text("/work/app/x")]),
            (Notation::Dollar, "${userHome}/${workspaceFolderBasename}", vec![text("/home/ada/app")]),
            (Notation::Dollar, "${command:x} ${", vec![text("${command:x} ${")]),
            (Notation::Shell, "$A-${B}$", vec![variable("A"), text("-"), variable("B"), text("$")]),
            (
                Notation::Brace,
                "{env:V} {x}{file:~/k}",
                vec![variable("V"), text(" {x}"), Part::File("~/k".into())],
            ),
            (Notation::None, "${V}", vec![text("${V}")]),
        ] {
            assert_eq!(parts(value, notation, folders), expected, "{value}");
        }
    }
}
