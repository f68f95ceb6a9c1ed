//! C, compiled by zig, which includes a C library for WASI. Compiles the files of `src`; a project with its own
//! build system sets a `command`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use async_trait::async_trait;

use super::{Facts, File, Language, Template, venv};
use crate::bindings::{self, Generator};
use crate::{Build, Need, Tool};
use haft_core::lookup::find_on_path;
use haft_core::report::{Problem, Report};

#[derive(Debug)]
pub(super) struct C;

/// Limit on the source files of one project.
const MAX_FILES: usize = 10_000;

/// Limit on the depth of folders below `src`.
const MAX_DEPTH: usize = 16;

const ZIG: Need = Need {
    program: "zig",
    purpose: "compiles C for WebAssembly (0.15 or later)",
    ways: &[
        "in this project alone, with Python: a line `ziglang` in `requirements.txt`, which `haft plugin build` then installs",
        "for every project: `pip install ziglang`, `brew install zig`, `snap install zig --classic`",
        "or a download that is put on PATH: https://ziglang.org/download",
    ],
};

#[async_trait]
impl Language for C {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "c",
            title: "C",
            aliases: &[],
            marks: &["src/plugin.c"],
            outputs: &["build", venv::FOLDER],
            typed: Template { files: TEMPLATE, begin: "`wit/world.wit` and `src/plugin.c`" },
            sdk: None,
        }
    }

    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool> {
        zig(build).await
    }

    async fn build(&self, build: &Build<'_>, zig: Tool) -> anyhow::Result<Vec<u8>> {
        let (scratch, bindings) = (build.scratch()?, build.path("build/bindings"));
        let made = build.bindings(GENERATOR)?;
        bindings::write(&bindings, &made)?;
        let is_header = |name: &String| Path::new(name).extension().is_some_and(|ending| ending == "h");
        let generated = made.iter().map(|(name, _)| name).filter(|name| !is_header(name));
        let mut files = sources(&build.path("src"))?;
        files.extend(generated.map(|name| bindings.join(name)));
        let module = scratch.join("core.wasm");
        // Relative paths, so that the module does not depend on the project's location.
        let shown = |path: &Path| build.project.relative(path).as_os_str().to_owned();
        let compile = zig
            .args(FLAGS)
            .args([format!("-fdebug-compilation-dir={}", build.root())])
            .args(files.iter().map(|file| shown(file)));
        build.run(&compile.args(["-o".into(), shown(&module)])).await?;
        crate::read(&module)
    }
}

/// Builds a library (reactor) that is optimized for size, with a stack of 1 MiB; zig's default reserves 16 MiB
/// per instance.
const FLAGS: &[&str] = &[
    "cc",
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-std=c17",
    "-Wall",
    "-Wextra",
    "-Oz",
    // Line tables for the source locations; they are removed from the finished component.
    "-g1",
    // Address 0 is ordinary memory in WebAssembly: without this, code with a null pointer continues.
    "-fsanitize=null,bounds,unreachable,return,vla-bound",
    "-fsanitize-trap=all",
    // Without this, all checks of a function share one trap, which has no source line.
    "-fno-sanitize-merge",
    // zig disables assertions in optimized code.
    "-UNDEBUG",
    "-Wl,-z,stack-size=1048576",
    "-Isrc",
    "-Ibuild/bindings",
];

const GENERATOR: Generator = || wit_bindgen_c::Opts::default().build();

/// Finds zig on `PATH`, in the project's `.venv`, or as a module of `python3`; else installs it, if the
/// project's `requirements.txt` names it.
async fn zig(build: &Build<'_>) -> anyhow::Result<Tool> {
    let pythons = [venv::program(build, "python"), find_on_path("python3")].into_iter().flatten();
    for zig in find_on_path(ZIG.program).map(Tool::new).into_iter().chain(pythons.map(module)) {
        if let Some(zig) = known(build, zig).await? {
            return Ok(zig);
        }
    }
    if !venv::names(build, "ziglang") {
        let looked = "looked for it on PATH, and for `ziglang` in `.venv` and in `python3`";
        return Err(Report::from(ZIG.missing(looked)).into());
    }
    venv::ensure_shared(build).await?;
    let python = venv::program(build, "python").context("`.venv` has no Python")?;
    let installed = known(build, module(python)).await?;
    installed.ok_or_else(|| Report::from(Problem::new("`ziglang` of `.venv` does not run")).into())
}

fn module(python: PathBuf) -> Tool {
    Tool::new(python).args(["-m", "ziglang"])
}

/// Returns the tool and records its version, if it runs.
async fn known(build: &Build<'_>, zig: Tool) -> anyhow::Result<Option<Tool>> {
    let version = build.ask(&zig.clone().args(["version"])).await?;
    Ok(version.map(|version| {
        build.used(format!("zig {}", version.trim()));
        zig
    }))
}

/// Returns every C file below a folder, sorted.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(folder, MAX_DEPTH, &mut found)?;
    found.sort();
    if found.is_empty() {
        anyhow::bail!("no C file in `{}`", folder.display());
    }
    Ok(found)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let reading = || format!("cannot read folder `{}`", folder.display());
    for entry in std::fs::read_dir(folder).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(reading)?);
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "c") {
            found.push(path);
        }
        if found.len() > MAX_FILES {
            anyhow::bail!("more than {MAX_FILES} C files in `{}`", folder.display());
        }
    }
    Ok(())
}

const TEMPLATE: &[File] = &[
    template!("src/plugin.c", "c/plugin.c"),
    template!("src/words.c", "c/words.c"),
    template!("src/words.h", "c/words.h"),
    template!("tests/words_test.c", "c/words_test.c"),
    template!("Makefile", "c/Makefile"),
    template!("requirements.txt", "c/requirements.txt"),
    template!("README.md", "c/README.md"),
    template!(".gitignore", "c/gitignore"),
];
