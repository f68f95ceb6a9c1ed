//! A plugin project: a folder with a program.toml and the source of one of its components. Opening a project
//! runs nothing.

use std::path::{Path, PathBuf};

use super::declaration;
use super::wit::Wit;
use haft_core::report::{Problem, Report};
use haft_manifest::{self as manifest, Component, Manifest, Plugin};

const FILE_NAME: &str = "program.toml";

/// A plugin project.
#[derive(Debug)]
pub struct Project {
    /// The absolute path of the folder.
    pub folder: PathBuf,
    /// The parsed program.toml.
    pub manifest: Manifest,
    /// The absolute path of the component.
    pub component: PathBuf,
    /// The name of the component's plugin.
    pub plugin: String,
    pub(super) build: manifest::Build,
}

impl Project {
    /// Opens the project in `folder`.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let file = folder.join(FILE_NAME);
        if !file.exists() {
            let problem =
                Problem::new(format!("no plugin project in `{}`: no {FILE_NAME}", folder.display()));
            let problem =
                problem.hint("give its folder, or create one with `haft plugin new --lang rust my-tool`");
            return Err(Report::from(problem).into());
        }
        let manifest = Manifest::load(&file)?;
        let build = manifest.build.clone().unwrap_or_default();
        let plugin = built_plugin(&manifest)?;
        let Component::File(path) = &plugin.component.value else {
            let problem = Problem::new(format!("plugin `{}` is not built here", plugin.name.as_str()));
            let problem = problem.at(plugin.component.span, "expected a file in this folder");
            return Err(manifest.report(vec![problem]).into());
        };
        let (component, plugin) = (folder.join(path), plugin.name.as_str().to_owned());
        Ok(Self { folder, manifest, component, plugin, build })
    }

    /// Opens the project of a program file, if it can be built.
    pub fn of_file(file: &Path) -> Option<Self> {
        let is_program_file = file.file_name().is_some_and(|name| name == FILE_NAME) && file.is_file();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        is_program_file.then(|| Self::open(folder).ok()).flatten()
    }

    /// Returns the build command of program.toml, which replaces the language's tools.
    pub fn command(&self) -> Option<&[String]> {
        self.build.command.as_ref().map(|command| command.value.as_slice())
    }

    pub(crate) fn wit_path(&self) -> Option<PathBuf> {
        let path = self.folder.join(&self.build.wit);
        path.exists().then_some(path)
    }

    /// Returns the world that program.toml names.
    pub fn world(&self) -> Option<&str> {
        self.build.world.as_ref().map(|world| world.value.as_str())
    }

    /// Reads the WIT, if it exists.
    pub fn wit(&self) -> Result<Option<Wit>, Report> {
        self.wit_path().map(|path| Wit::read(&path, self.world())).transpose()
    }

    /// Reads program.toml and returns the part that is embedded in the component.
    pub fn program(&self) -> anyhow::Result<String> {
        let manifest = Manifest::load(&self.folder.join(FILE_NAME))?;
        let plugin = built_plugin(&manifest)?;
        let file = self.component.file_name().unwrap_or_default().to_string_lossy();
        declaration::of_component(manifest.written.text(), plugin, &file, true)
    }

    /// Returns `path` relative to the project's folder, or unchanged if it is elsewhere.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.folder).unwrap_or(path)
    }
}

/// Returns the plugin with the program's name, else the first.
fn built_plugin(manifest: &Manifest) -> Result<&Plugin, Report> {
    let program = manifest.program.as_ref().map(|program| &program.name.value);
    let of_that_name = manifest.plugins.iter().find(|plugin| Some(&plugin.name.value) == program);
    of_that_name.or_else(|| manifest.plugins.first()).ok_or_else(|| {
        let problem = Problem::new(format!("`{}` has no plugin to build", manifest.path.display()));
        problem.hint("add `[[plugins]]` with a `name` and `component = \"NAME.wasm\"`").into()
    })
}
