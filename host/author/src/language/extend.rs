//! A project's world with more imports, for languages whose interpreter has them anyway. What it exports
//! stays what it is.

use anyhow::Context;
use wit_parser::{Resolve, WorldId};

use crate::wit::Wit;

/// A world as one text.
#[derive(Debug)]
pub(super) struct Extended {
    /// The package of the world, with everything that it stands on.
    pub(super) text: String,
    /// The world's name.
    pub(super) world: String,
}

/// What the extended world is called.
const WORLD: &str = "haft-build";

/// The project's world with `imports` besides, which are of `packages` (each by its name with version, in the
/// order in which they stand on each other) unless the project brings them itself. `None` where what it brings
/// does not have them.
pub(super) fn with(wit: &Wit, packages: &[(&str, &str)], imports: &[&str]) -> Option<Extended> {
    let (own, world) = wit.parts();
    let mut resolve = own.clone();
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

/// The project's world as it is.
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

    /// What comes out is read again, as a toolchain does.
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
