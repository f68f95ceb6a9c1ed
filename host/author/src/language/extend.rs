//! Adds imports to a project's world, for languages whose interpreter has these imports anyway. Does not change
//! its exports.

use anyhow::Context;
use wit_parser::{Resolve, WorldId};

use crate::wit::Wit;

/// A world as a single WIT text.
#[derive(Debug)]
pub(super) struct Extended {
    /// The package of the world, with all its dependencies.
    pub(super) text: String,
    pub(super) world: String,
}

/// The name of the extended world.
const WORLD: &str = "haft-build";

/// Returns the project's world with the additional `imports`. They are from `packages` (each with its name and
/// version, in the order of their dependencies), unless the project has these packages. `None` if the project's
/// packages lack the imports.
pub(super) fn with(wit: &Wit, packages: &[(&str, &str)], imports: &[&str]) -> Option<Extended> {
    let (original, world) = wit.parts();
    let mut resolve = original.clone();
    let name = &resolve.packages.get(resolve.worlds.get(world)?.package?)?.name;
    let version = name.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    let included = format!("{}:{}/{}{version}", name.namespace, name.name, wit.world());
    for (name, text) in packages {
        if !resolve.packages.iter().any(|(_, package)| package.name.to_string() == *name) {
            resolve.push_str(name, text).ok()?;
        }
    }
    let imports: String = imports.iter().map(|name| format!("import {name};\n")).collect();
    let text = format!("package haft:build;\nworld {WORLD} {{\ninclude {included};\n{imports}}}\n");
    let package = resolve.push_str("build.wit", &text).ok()?;
    let world = resolve.select_world(&[package], Some(WORLD)).ok()?;
    Some(Extended { text: print(&resolve, world).ok()?, world: WORLD.to_owned() })
}

pub(super) fn alone(wit: &Wit) -> anyhow::Result<Extended> {
    let (resolve, world) = wit.parts();
    Ok(Extended { text: print(resolve, world)?, world: wit.world().to_owned() })
}

fn print(resolve: &Resolve, world: WorldId) -> anyhow::Result<String> {
    let world = resolve.worlds.get(world).context("the world is gone")?;
    let main = world.package.context("the world is in no package")?;
    let others: Vec<_> = resolve.packages.iter().map(|(id, _)| id).filter(|id| *id != main).collect();
    let mut printer = wit_component::WitPrinter::default();
    printer.print(resolve, main, &others)?;
    Ok(printer.output.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLI: (&str, &str) = (
        "wasi:cli@0.2.9",
        "package wasi:cli@0.2.9; interface environment { initial-cwd: func() -> option<string>; }",
    );
    const IMPORT: &str = "wasi:cli/environment@0.2.9";

    fn read(files: &[(&str, &str)]) -> Wit {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Wit::read(folder.path(), None).unwrap()
    }

    /// Parses the text again, as a toolchain does.
    fn parsed(extended: &Extended) -> (Vec<String>, Vec<String>) {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("world.wit", &extended.text).unwrap();
        let world = resolve.select_world(&[package], Some(&extended.world)).unwrap();
        let world = &resolve.worlds[world];
        let names = |keys: Vec<_>| keys.into_iter().map(|key| resolve.name_world_key(key)).collect();
        (names(world.imports.keys().collect()), names(world.exports.keys().collect()))
    }

    #[test]
    fn a_world_keeps_its_exports_and_gets_imports() {
        let world = "package local:words@1.2.3; interface text { f: func(); } world tools { export text; }";
        let wit = read(&[("world.wit", world)]);
        let (imports, exports) = parsed(&with(&wit, &[CLI], &[IMPORT]).unwrap());
        assert_eq!((imports, exports), (vec![IMPORT.to_owned()], vec!["local:words/text@1.2.3".to_owned()]));
        let (imports, exports) = parsed(&alone(&wit).unwrap());
        assert_eq!((imports, exports), (vec![], vec!["local:words/text@1.2.3".to_owned()]));
    }

    #[test]
    fn what_the_project_brings_itself_is_kept() {
        let world =
            "package local:words; world tools { import wasi:cli/environment@0.2.9; export f: func(); }";
        let more = "package wasi:cli@0.2.9; interface environment { initial-cwd: func() -> option<string>; more: func(); }";
        let wit = read(&[("world.wit", world), ("deps/cli.wit", more)]);
        assert!(with(&wit, &[CLI], &[IMPORT]).unwrap().text.contains("more: func()"));
        let other = "package wasi:cli@0.2.9; interface environment {} interface other {}";
        let wit = read(&[("world.wit", world), ("deps/cli.wit", other)]);
        assert!(with(&wit, &[CLI], &["wasi:cli/stderr@0.2.9"]).is_none());
    }
}
