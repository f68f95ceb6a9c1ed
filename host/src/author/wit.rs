//! The WIT of a project: read whole, with its documentation, and encoded to be kept with the
//! component. It judges no types; whoever turns them into tools does.

use std::path::Path;

use wit_parser::{PackageId, Resolve, WorldId};

use crate::report::{Problem, Report};

/// A package of WIT, and the world that a component implements.
#[derive(Debug)]
pub struct Wit {
    resolve: Resolve,
    package: PackageId,
    world: WorldId,
}

impl Wit {
    /// Reads `path`, a folder of `.wit` files (with its dependencies below `deps`) or one such file.
    /// `world` names the world, where there are several.
    pub fn read(path: &Path, world: Option<&str>) -> Result<Self, Report> {
        let wrong = |error: anyhow::Error| {
            Report::from(Problem::new(format!("invalid WIT in `{}`: {}", path.display(), text(&error))))
        };
        let mut resolve = Resolve { all_features: true, ..Resolve::default() };
        let (package, _) = resolve.push_path(path).map_err(wrong)?;
        let world = resolve.select_world(&[package], world).map_err(|error| {
            let problem = Problem::new(format!("no world in `{}`: {}", path.display(), text(&error)));
            problem.hint("name one of its worlds: `[build] world = \"…\"`, or `--world`")
        })?;
        Ok(Self { resolve, package, world })
    }

    /// The package in its binary form, documentation included.
    pub fn encode(&self) -> anyhow::Result<Vec<u8>> {
        wit_component::encode(&self.resolve, self.package, false)
    }

    /// The world's name.
    pub fn world(&self) -> &str {
        self.resolve.worlds.get(self.world).map_or("", |world| world.name.as_str())
    }

    /// The types and the world, for what makes components.
    pub(super) fn parts(&self) -> (&Resolve, WorldId) {
        (&self.resolve, self.world)
    }
}

/// All of an error: the parser's own shows the line.
pub(super) fn text(error: &anyhow::Error) -> String {
    let chain: Vec<String> = error.chain().map(|cause| cause.to_string().trim().to_owned()).collect();
    chain.join(": ")
}
