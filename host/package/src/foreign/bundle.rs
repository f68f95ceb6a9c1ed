//! MCP bundles (`.mcpb`), whose manifest.json has the command of the server and its settings.

mod manifest;
mod settings;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use haft_manifest::TextOrSecret;

use self::manifest::{Kind, Manifest};
use self::settings::Settings;
use super::written::{Server, put, read_json};
use super::{ForeignError, Made, pypi, semantic};
use crate::listing::io_error;
use crate::{Fetching, Foreign};

/// The file that describes a bundle.
const MANIFEST: &str = "manifest.json";

/// The script that sets variables with paths of the package.
const START: &str = "start.sh";

/// The variable of the folder that the bundle is unpacked to.
const FOLDER: &str = "${__dirname}";

/// Creates a package from an unpacked bundle; see [`Made`]; its version alone is resolved, if it has dependencies.
pub(super) async fn make(
    foreign: &Foreign,
    tree: &Path,
    fetching: &Fetching<'_>,
) -> Result<Made, ForeignError> {
    let manifest: Manifest = read_json(tree, MANIFEST)?;
    manifest.check()?;
    let settings = Settings::new(&manifest, foreign, fetching.home, fetching.asks)?;
    let mut notes = settings.notes();
    let run = manifest.run();
    let mut command = match manifest.server.kind {
        Kind::Uv => {
            let installed = pypi::install(foreign, ("pyproject.toml", None), tree, fetching).await?;
            notes.extend(installed.notes);
            let entry = python_text(&manifest.server.entry_point);
            let code = format!(
                "import runpy\n\nentry = os.path.join(here, {entry})\nsys.path.insert(0, os.path.dirname(entry))\n\
                 runpy.run_path(entry, run_name='__main__')"
            );
            put(&tree.join(pypi::START), &pypi::launcher(&installed.python, &code))?;
            pypi::command()
        }
        _ => vec![program(tree, &run.command)?],
    };
    for word in manifest.words(&run) {
        command.extend(settings.words(&own(tree, word)?)?);
    }
    let env = environment(&settings, &run.env, tree, &mut command)?;
    let version = semantic(&manifest.version);
    let resolved = (manifest.server.kind == Kind::Uv).then(|| version.to_string());
    let server = Server {
        name: manifest.name.clone(),
        version,
        description: Some(manifest.description.clone()),
        author: Some(manifest.author.name.clone()),
        license: manifest.license.clone(),
        command,
        env,
    };
    server.write(tree)?;
    Ok(Made { resolved, notes, ..Made::default() })
}

/// Returns the program that starts the server: its own file, which becomes executable, or a program on PATH.
fn program(tree: &Path, written: &str) -> Result<String, ForeignError> {
    let written = if written == "python" { "python3" } else { written };
    let word = own(tree, written)?;
    if let Some(file) = word.strip_prefix("./") {
        let file = tree.join(file);
        let is_own = |file: &Path| Ok(file.canonicalize()?.starts_with(tree.canonicalize()?));
        if !is_own(&file).map_err(io_error("find", &file))? {
            return Err(outside(written));
        }
        fs::set_permissions(&file, Permissions::from_mode(0o555))
            .map_err(io_error("make executable", &file))?;
    }
    Ok(word)
}

/// Returns a word with `./` before a file or folder of the package.
fn own(tree: &Path, word: &str) -> Result<String, ForeignError> {
    if let Some(path) = word.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')) {
        let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        return if is_inside { Ok(format!("./{path}")) } else { Err(outside(word)) };
    }
    if word.contains(FOLDER) {
        return Err(ForeignError::Unsupported(format!(
            "an argument of its command, `{}`, has the bundle's folder within text: haft supports it only at \
             the start",
            haft_core::report::plain(word)
        )));
    }
    let is_own = word.contains('/') && !word.starts_with(['/', '.', '~', '-']) && tree.join(word).exists();
    Ok(if is_own { format!("./{word}") } else { word.to_owned() })
}

fn outside(word: &str) -> ForeignError {
    let word = haft_core::report::plain(word);
    ForeignError::Unsupported(format!("an argument of its command, `{word}`, is outside the bundle"))
}

/// Returns the variables of the server. Those with a path of the package are set by a script, before the command.
fn environment(
    settings: &Settings<'_>,
    written: &BTreeMap<String, String>,
    tree: &Path,
    command: &mut Vec<String>,
) -> Result<Vec<(String, TextOrSecret)>, ForeignError> {
    let (mut env, mut exports) = (Vec::new(), String::new());
    for (name, value) in written {
        match settings.variable(name, value)? {
            None => {}
            Some(TextOrSecret::Text(text)) if text.contains(FOLDER) => {
                let parts: Vec<_> =
                    text.split(FOLDER).map(|part| shell_words::quote(part).into_owned()).collect();
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !is_name {
                    return Err(ForeignError::Unsupported(
                        "one of its variables has an invalid name".to_owned(),
                    ));
                }
                let _ = writeln!(exports, "export {name}={}", parts.join("\"$here\""));
            }
            Some(value) => env.push((name.clone(), value)),
        }
    }
    if !exports.is_empty() {
        let script = format!(
            "#!/bin/sh\n# Written by haft: variables with paths of this folder.\nhere=$(dirname -- \"$0\")\n{exports}exec \"$@\"\n"
        );
        put(&tree.join(START), &script)?;
        program(tree, &format!("{FOLDER}/{START}"))?;
        command.insert(0, format!("./{START}"));
    }
    Ok(env)
}

fn python_text(text: &str) -> String {
    // A JSON literal is also a Python literal.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
