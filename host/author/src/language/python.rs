//! Python: componentize-py from the project's virtual environment builds a component of `app.py` and CPython.
//! Supports only pure Python, and includes only modules that are imported when `app.py` is loaded.

use std::path::PathBuf;

use anyhow::Context;
use async_trait::async_trait;

use super::{Facts, File, Language, Template, extend, venv};
use crate::bindings::write_changed;
use crate::wit::Wit;
use crate::{Build, Need, Tool};
use haft_core::lookup::find_on_path;
use haft_core::report::{Problem, Report};

#[derive(Debug)]
pub(super) struct Python;

/// The module that implements the world.
const MODULE: &str = "app";

/// The folder of haft's entry module, which replaces [`MODULE`] for componentize-py.
const ENTRY_FOLDER: &str = "build/entry";

/// The name of the entry module.
const ENTRY: &str = "haft_app";

/// The folder of the WIT's classes, for editors.
const BINDINGS: &str = "build/bindings";

const COMPONENTIZE: Need = Need {
    program: "componentize-py",
    purpose: "builds Python plugins",
    ways: &[
        "in this project alone: a line `componentize-py==0.25.1` in `requirements.txt`, which `haft plugin build` then installs",
        "for every project: `pipx install componentize-py`, `uv tool install componentize-py`",
    ],
};

#[async_trait]
impl Language for Python {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "python",
            title: "Python",
            aliases: &["py", "python3"],
            marks: &["app.py"],
            outputs: &["build", venv::FOLDER, "__pycache__"],
            typed: Template { files: TEMPLATE, begin: "`wit/world.wit` and `app.py`" },
            sdk: None,
        }
    }

    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool> {
        // Checked before anything is installed for a project that cannot be built.
        wit(build)?;
        Ok(Tool::new(componentize(build).await?))
    }

    async fn build(&self, build: &Build<'_>, tool: Tool) -> anyhow::Result<Vec<u8>> {
        let wit = wit(build)?;
        let tool = tool.args(["--quiet"]).env("VIRTUAL_ENV", build.path(venv::FOLDER));
        // A backtrace of componentize-py would hide its error message.
        let tool = tool.env("RUST_BACKTRACE", "0").env("RUST_LIB_BACKTRACE", "0");
        write_bindings(build, tool.clone().args(["--world", wit.world()])).await?;
        let folder = build.path(ENTRY_FOLDER);
        let extended = extend::with(&wit, WASI, IMPORTS).map_or_else(|| extend::alone(&wit), Ok)?;
        write_changed(&folder.join("world.wit"), extended.text.as_bytes())?;
        write_changed(&folder.join(format!("{ENTRY}.py")), ENTRY_MODULE.as_bytes())?;
        let made = build.scratch()?.join("component.wasm");
        let tool =
            tool.args(["--wit-path"]).args([folder.join("world.wit")]).args(["--world", &extended.world]);
        let componentize = tool.args(["componentize", ENTRY, "-p", ENTRY_FOLDER, "-p", "."]);
        build.run(&componentize.args(["-o"]).args([&made])).await?;
        crate::read(&made)
    }
}

/// Returns the project's WIT; its world must not have the name of the module.
fn wit(build: &Build<'_>) -> anyhow::Result<Wit> {
    build.wit_path()?;
    let wit = build.project.wit()?.context("no WIT")?;
    if !build.path(MODULE).with_extension("py").is_file() {
        let problem = Problem::new(format!("no `{MODULE}.py` in `{}`", build.project.folder.display()));
        let problem = problem.hint("write this file with a class for every interface that the world exports");
        return Err(Report::from(problem).into());
    }
    if wit.world() == MODULE {
        let problem = Problem::new(format!("the world and the module `{MODULE}.py` have the same name"));
        return Err(Report::from(problem.hint("give the world another name, such as `tools`")).into());
    }
    Ok(wit)
}

/// Finds componentize-py in the project, if `requirements.txt` names it, else on `PATH`.
async fn componentize(build: &Build<'_>) -> anyhow::Result<PathBuf> {
    let is_named = venv::names(build, COMPONENTIZE.program);
    if is_named {
        venv::ensure(build).await?;
    }
    let in_project = venv::program(build, COMPONENTIZE.program);
    let found = in_project.or_else(|| find_on_path(COMPONENTIZE.program));
    let looked = "looked for it in `.venv` and on PATH";
    let found = found.ok_or_else(|| Report::from(COMPONENTIZE.missing(looked)))?;
    let version = build.ask(&Tool::new(&found).args(["--version"])).await?;
    build.used(version.unwrap_or_default().trim().to_owned());
    Ok(found)
}

/// Generates the classes of the WIT, and removes the old ones first, because the tool overwrites no file.
async fn write_bindings(build: &Build<'_>, tool: Tool) -> anyhow::Result<()> {
    build.scratch()?;
    let folder = build.path(BINDINGS);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove folder `{}`", folder.display()))?;
    }
    build.run(&tool.args(["--wit-path"]).args([build.wit_path()?]).args(["bindings", BINDINGS])).await
}

/// The import that the entry needs for the working directory, besides CPython's own imports.
const WASI: &[(&str, &str)] = &[(
    "wasi:cli@0.2.9",
    "package wasi:cli@0.2.9; interface environment { initial-cwd: func() -> option<string>; }",
)];

/// The interfaces of [`WASI`].
const IMPORTS: &[&str] = &["wasi:cli/environment@0.2.9"];

/// Loads `app.py` and the modules that CPython imports late: a module that is not loaded during the build is not in
/// the component.
const ENTRY_MODULE: &str = include_str!("../templates/python/build/haft_app.py");

const TEMPLATE: &[File] = &[
    template!("app.py", "python/app.py"),
    template!("words.py", "python/words.py"),
    template!("test_words.py", "python/test_words.py"),
    template!("requirements.txt", "python/requirements.txt"),
    template!("pyproject.toml", "python/pyproject.toml"),
    template!("README.md", "python/README.md"),
    template!(".gitignore", "python/gitignore"),
];
