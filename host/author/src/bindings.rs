//! Generates bindings of a project's WIT for its language in this process: no generator has to be installed. An
//! up-to-date file is not written again, so that it causes no rebuild.

use std::path::Path;

use anyhow::Context;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

use super::wit;
use haft_core::report::{Problem, Report};

/// A generated file: its name and its content.
pub type File = (String, Vec<u8>);

/// Creates a generator; called on the thread that generates.
pub(crate) type Generator = fn() -> Box<dyn WorldGenerator>;

pub(crate) fn make(generator: Generator, path: &Path, world: Option<&str>) -> Result<Vec<File>, Report> {
    let wrong = |why: String| {
        Report::from(Problem::new(format!("cannot make bindings of `{}`: {why}", path.display())))
    };
    let (thread_path, thread_world) = (path.to_owned(), world.map(str::to_owned));
    // The generators panic on types that their language does not support.
    let thread = std::thread::spawn(move || generate(generator, &thread_path, thread_world.as_deref()));
    match thread.join() {
        Ok(made) => made.map_err(|error| wrong(wit::text(&error))),
        Err(_) => Err(wrong("the generator does not know what to do with one of its types".to_owned())),
    }
}

fn generate(generator: Generator, path: &Path, world: Option<&str>) -> anyhow::Result<Vec<File>> {
    let mut resolve = Resolve { all_features: true, ..Resolve::default() };
    let (package, _) = resolve.push_path(path)?;
    let world = resolve.select_world(&[package], world)?;
    let mut files = Files::default();
    generator().generate(&mut resolve, world, &mut files)?;
    Ok(files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect())
}

/// Writes the changed ones of `files` below `folder`.
pub fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    for (name, bytes) in files {
        write_changed(&folder.join(name), bytes)?;
    }
    Ok(())
}

/// Writes a file, unless its content is unchanged.
pub(crate) fn write_changed(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}
