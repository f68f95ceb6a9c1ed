//! The WIT of a project: parsed with its documentation, and encoded for storage in the component. Types are
//! checked where they become tools.

use std::path::Path;

use wit_parser::{PackageId, Resolve, WorldId};

use haft_core::report::{Problem, Report};

/// A WIT package, and the world that a component implements.
#[derive(Debug)]
pub struct Wit {
    resolve: Resolve,
    package: PackageId,
    world: WorldId,
}

impl Wit {
    /// Reads `path`, a folder of `.wit` files (with its dependencies below `deps`) or one such file. `world`
    /// names the world, if there are several.
    pub fn read(path: &Path, world: Option<&str>) -> Result<Self, Report> {
        let mut resolve = Resolve { all_features: true, ..Resolve::default() };
        let (package, _) = resolve.push_path(path).map_err(|error| {
            let why = parser_message(&error, &resolve.render_error(&error));
            Problem::new(format!("invalid WIT in `{}`: {why}", path.display()))
        })?;
        let world = resolve.select_world(&[package], world).map_err(|error| {
            let problem = Problem::new(format!("no world in `{}`: {}", path.display(), text(&error)));
            problem.hint("choose a world: `[build] world = \"…\"`, or `--world`")
        })?;
        Ok(Self { resolve, package, world })
    }

    /// Encodes the package in binary form, with its documentation.
    pub fn encode(&self) -> anyhow::Result<Vec<u8>> {
        wit_component::encode(&self.resolve, self.package, false)
    }

    /// Returns the world's name.
    pub fn world(&self) -> &str {
        self.resolve.worlds.get(self.world).map_or("", |world| world.name.as_str())
    }

    /// Returns the types and the world, for component encoders.
    pub(super) fn parts(&self) -> (&Resolve, WorldId) {
        (&self.resolve, self.world)
    }
}

/// Returns the parser's message with the source line, without its context chain.
fn parser_message(error: &anyhow::Error, rendered: &str) -> String {
    let within = |text: &str, cause: &dyn std::error::Error| {
        text.strip_prefix(&format!("{cause}: ")).unwrap_or(text).to_owned()
    };
    let text = error.chain().fold(rendered.to_owned(), |text, cause| within(&text, cause));
    let (first, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    // The lines are indented relative to the first line, which is removed.
    let indent = |line: &str| line.len() - line.trim_start().len();
    let least = rest.lines().map(indent).min().unwrap_or_default();
    let lines = rest.lines().map(|line| format!("\n{}", line.get(least..).unwrap_or_default()));
    std::iter::once(first.to_owned()).chain(lines).collect()
}

/// Returns the complete chain of an error; the parser's error includes the source line.
pub(super) fn text(error: &anyhow::Error) -> String {
    let chain: Vec<String> = error.chain().map(|cause| cause.to_string().trim().to_owned()).collect();
    chain.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_with_its_line_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("world.wit");
        std::fs::write(&file, "package local:p;\ninterface i { f: fun(); }\n").unwrap();
        let report = Wit::read(folder.path(), None).unwrap_err().to_string();
        let lines: Vec<&str> = report.lines().map(str::trim_start).collect();
        let file_shown = format!("--> {}:2:18", file.display());
        let first = format!("error: invalid WIT in `{}`: expected keyword `func`", folder.path().display());
        assert!(lines[0].starts_with(&first), "{report}");
        assert_eq!(lines[1..4], [file_shown.as_str(), "|", "2 | interface i { f: fun(); }"]);
        std::fs::write(&file, "package local:p;\nworld w { import none:here/i; }\n").unwrap();
        let report = Wit::read(folder.path(), None).unwrap_err().to_string();
        assert!(report.contains("none:here") && report.contains("world.wit:2:"), "{report}");
    }

    #[test]
    fn a_world_is_found_alone_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("world.wit");
        std::fs::write(&file, "package local:p;\nworld a {}\nworld b {}\n").unwrap();
        assert!(Wit::read(&file, None).unwrap_err().to_string().contains("hint: choose a world"));
        assert_eq!(Wit::read(&file, Some("b")).unwrap().world(), "b");
    }
}
