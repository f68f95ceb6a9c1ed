//! JavaScript: componentize-qjs from the project's `node_modules` builds a component of the project's modules
//! and `QuickJS`. Imports of Node's modules fail at build time: the component contains no Node.

use std::fmt::Write as _;

use anyhow::Context;
use async_trait::async_trait;
use serde_json::Value;
use wit_parser::{Function, FunctionKind, Resolve, WorldItem, WorldKey};

use super::extend::{self, Extended};
use super::shape::{self, camel};
use super::{Facts, File, Language, Template};
use crate::bindings::write_changed;
use crate::wit::Wit;
use crate::{Build, Need, Tool};
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::{Problem, Report, plain};

#[derive(Debug)]
pub(super) struct JavaScript;

/// The folder of installed packages, below the project's folder.
const MODULES: &str = "node_modules";

/// The program that builds the component, in [`MODULES`].
const PROGRAM: &str = "node_modules/.bin/componentize-qjs";

/// The folder of intermediate files.
const SCRATCH: &str = "build/js";

const NODE: Need = Need {
    program: "node",
    purpose: "builds JavaScript plugins",
    ways: &["18 or later: https://nodejs.org, `apt install nodejs npm`, `brew install node`"],
};

/// The package managers, each with its lock file in the project; the last is the default.
const INSTALLERS: &[(&str, Need, &[&str])] = &[
    ("pnpm-lock.yaml", installer("pnpm"), &["install"]),
    ("yarn.lock", installer("yarn"), &["install"]),
    ("bun.lock", installer("bun"), &["install"]),
    ("", installer("npm"), &["install", "--no-audit", "--no-fund"]),
];

const fn installer(program: &'static str) -> Need {
    let ways = &["npm comes with Node: https://nodejs.org; pnpm, yarn and bun: `npm install --global NAME`"];
    Need { program, purpose: "installs the packages of `package.json`", ways }
}

#[async_trait]
impl Language for JavaScript {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "js",
            title: "JavaScript",
            aliases: &["javascript", "node"],
            marks: &["package.json"],
            outputs: &["build", MODULES],
            typed: Template { files: TEMPLATE, begin: "`wit/world.wit` and `plugin.js`" },
            sdk: None,
        }
    }

    async fn prepare(&self, build: &Build<'_>) -> anyhow::Result<Tool> {
        NODE.find()?;
        let package = Package::read(build)?;
        package.ensure_installed(build).await?;
        build.used(package.version(build));
        Ok(Tool::new(build.path(PROGRAM)))
    }

    async fn build(&self, build: &Build<'_>, tool: Tool) -> anyhow::Result<Vec<u8>> {
        let package = Package::read(build)?;
        build.wit_path()?;
        let entry = Entry::generate(&build.project.wit()?.context("no WIT")?, &package.main)?;
        build.scratch()?;
        let scratch = build.path(SCRATCH);
        for (name, text) in entry.files() {
            write_changed(&scratch.join(name), text.as_bytes())?;
        }
        let made = scratch.join("component.wasm");
        let tool = tool.args(["--wit", &format!("{SCRATCH}/world.wit"), "--world"]);
        let tool =
            tool.args([entry.world.as_str(), "--js", &format!("{SCRATCH}/entry.js"), "--module-root", "."]);
        // Without `--sync` the component needs a host with asynchronous functions.
        let tool = if entry.is_async { tool } else { tool.args(["--sync"]) };
        build.read(&tool.args(["--output"]).args([&made]).way_out(missing_module)).await?;
        crate::read(&made)
    }
}

/// Returns a hint for a missing module, from the message of componentize-qjs.
fn missing_module(output: &str) -> Option<String> {
    let (_, rest) = output.split_once("failed to resolve JavaScript import \"")?;
    let (name, _) = rest.split_once('"')?;
    let name = plain(name);
    match name.split_once(':') {
        Some(("node", _)) => {
            Some("a component has no Node API: use a package that runs in browsers".to_owned())
        }
        None if !name.starts_with(['.', '/']) => {
            Some(format!("`npm install {name}` in the project's folder"))
        }
        _ => None,
    }
}

#[derive(Debug)]
struct Package {
    text: String,
    /// The module that implements the world, relative to the project's folder.
    main: String,
}

impl Package {
    fn read(build: &Build<'_>) -> Result<Self, Report> {
        let path = build.path("package.json");
        let wrong =
            |why: String| Report::from(Problem::new(format!("cannot read `{}`: {why}", path.display())));
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let main = value.get("main").and_then(Value::as_str).unwrap_or("plugin.js");
        let main = main.strip_prefix("./").unwrap_or(main).to_owned();
        if !build.path(&main).is_file() {
            let problem = Problem::new(format!("no `{main}` in `{}`", build.project.folder.display()));
            let problem = problem
                .hint("write this file with the functions of the world, or set `main` in package.json");
            return Err(problem.into());
        }
        Ok(Self { text, main })
    }

    /// Installs the packages of package.json, unless they were installed since its last change.
    async fn ensure_installed(&self, build: &Build<'_>) -> anyhow::Result<()> {
        let record = build.path(MODULES).join(".haft-installed.json");
        let is_there = is_executable(&build.path(PROGRAM));
        if is_there && std::fs::read_to_string(&record).is_ok_and(|text| text == self.text) {
            return Ok(());
        }
        let is_kept = |(file, _, _): &&(&str, Need, &[&str])| file.is_empty() || build.path(file).is_file();
        let (_, need, arguments) = INSTALLERS.iter().find(is_kept).context("no package manager was found")?;
        build.announce(format!("installing the packages of `package.json` into `{MODULES}`, once"));
        let installed = match find_on_path(need.program) {
            Some(program) => build.run(&Tool::new(program).args(*arguments)).await,
            None => Err(Report::from(need.missing("looked for it on PATH")).into()),
        };
        match installed {
            // The packages were installed otherwise, or there is no network.
            Err(_) if is_there => return Ok(()),
            installed => installed?,
        }
        if !is_executable(&build.path(PROGRAM)) {
            let problem = Problem::new(
                "`componentize-qjs`, which builds JavaScript plugins, is missing from package.json",
            );
            return Err(Report::from(problem.hint("`npm install --save-dev componentize-qjs@0.4.5`")).into());
        }
        std::fs::write(&record, &self.text).with_context(|| format!("cannot write `{}`", record.display()))
    }

    /// Returns the builder's name and version: `componentize-qjs 0.4.5`.
    fn version(&self, build: &Build<'_>) -> String {
        let path = build.path(MODULES).join("componentize-qjs/package.json");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value = serde_json::from_str(&text).unwrap_or(Value::Null);
        format!(
            "componentize-qjs {}",
            value.get("version").and_then(Value::as_str).unwrap_or("of unknown version")
        )
    }
}

/// The generated entry module for componentize-qjs: it imports the project's module and a prelude, and checks
/// that every export of the world exists.
#[derive(Debug)]
struct Entry {
    world: String,
    wit: String,
    module: String,
    has_prelude: bool,
    is_async: bool,
}

impl Entry {
    fn generate(wit: &Wit, main: &str) -> anyhow::Result<Self> {
        let exports = Exports::from_wit(wit);
        let extended = extend::with(wit, WASI, IMPORTS);
        let has_prelude = extended.is_some();
        // If the project has a part of WASI in an incompatible version, there is no prelude.
        let Extended { text: wit, world } = extended.map_or_else(|| extend::alone(wit), Ok)?;
        let module = exports.module(main, has_prelude)?;
        Ok(Self { world, wit, module, has_prelude, is_async: exports.is_async })
    }

    fn files(&self) -> Vec<(&'static str, &str)> {
        let mut files =
            vec![("world.wit", self.wit.as_str()), ("entry.js", self.module.as_str()), ("guard.js", GUARD)];
        if self.has_prelude {
            files.push(("prelude.js", PRELUDE));
        }
        files
    }
}

/// The functions that a world exports, with their names in JavaScript.
#[derive(Debug, Default)]
struct Exports {
    functions: Vec<Exported>,
    is_async: bool,
}

#[derive(Debug)]
struct Exported {
    /// The interface of the function, if any.
    interface: Option<String>,
    name: String,
    /// The shape of the returned value, for the guard.
    returned: Value,
}

impl Exported {
    /// Returns the function's display name, and the expression that reads it.
    fn names(&self) -> (String, String) {
        let name = &self.name;
        match &self.interface {
            Some(interface) => (format!("{interface}.{name}"), format!("plugin.{interface}?.{name}")),
            None => (name.clone(), format!("plugin.{name}")),
        }
    }
}

impl Exports {
    fn from_wit(wit: &Wit) -> Self {
        let (resolve, world) = wit.parts();
        let mut exports = Self::default();
        for (key, item) in resolve.worlds.get(world).into_iter().flat_map(|world| &world.exports) {
            match item {
                WorldItem::Function(function) => exports.add(resolve, None, function),
                WorldItem::Interface { id, .. } => {
                    let Some(interface) = resolve.interfaces.get(*id) else { continue };
                    let name = match key {
                        WorldKey::Name(name) => Some(name),
                        WorldKey::Interface(_) => interface.name.as_ref(),
                    };
                    let name = name.map(|name| camel(name));
                    interface
                        .functions
                        .values()
                        .for_each(|function| exports.add(resolve, name.clone(), function));
                }
                WorldItem::Type { .. } => {}
            }
        }
        exports
    }

    fn add(&mut self, resolve: &Resolve, interface: Option<String>, function: &Function) {
        self.is_async |= function.kind.is_async();
        if matches!(function.kind, FunctionKind::Freestanding | FunctionKind::AsyncFreestanding) {
            let returned = function.result.as_ref().map_or(Value::Null, |ty| shape::of(resolve, ty));
            self.functions.push(Exported { interface, name: camel(&function.name), returned });
        }
    }

    fn module(&self, main: &str, has_prelude: bool) -> anyhow::Result<String> {
        let mut text = "// What `haft plugin build` gives to componentize-qjs. Written again by every \
             build.\n"
            .to_owned();
        if has_prelude {
            text.push_str("import { made } from './prelude.js';\n");
        }
        text.push_str("import { guarded } from './guard.js';\n");
        let path = Value::from(format!("../../{main}"));
        writeln!(text, "import * as plugin from {path};\nexport * from {path};\n")?;
        for function in &self.functions {
            let (shown, found) = function.names();
            let missing = Value::from(format!("{main} exports no function {shown}, which the WIT declares"));
            writeln!(text, "if (typeof {found} !== 'function') throw new TypeError({missing});")?;
        }
        self.guard(&mut text)?;
        if has_prelude {
            text.push_str("made();\n");
        }
        Ok(text)
    }

    /// Exports each function wrapped by the guard, which overrides the export of `export *`.
    fn guard(&self, text: &mut String) -> anyhow::Result<()> {
        let interfaces: Vec<&str> =
            self.functions.iter().filter_map(|function| function.interface.as_deref()).collect();
        for (number, interface) in interfaces.iter().enumerate() {
            if !interfaces.get(..number).unwrap_or_default().contains(interface) {
                writeln!(
                    text,
                    "const {interface}_ = Object.create(plugin.{interface});\nexport {{ {interface}_ as {interface} }};"
                )?;
            }
        }
        for (number, function) in self.functions.iter().enumerate() {
            let (_, found) = function.names();
            let returned = &function.returned;
            if let Some(interface) = &function.interface {
                let name = Value::from(function.name.as_str());
                writeln!(text, "{interface}_[{name}] = guarded({found}, plugin.{interface}, {returned});")?;
            } else {
                let name = &function.name;
                writeln!(text, "const function{number}_ = guarded({found}, undefined, {returned});")?;
                writeln!(text, "export {{ function{number}_ as {name} }};")?;
            }
        }
        Ok(())
    }
}

/// Imports of the prelude, which a plugin may use too. None of them is a right: `QuickJS` itself imports all of
/// them except random bytes, which only seed its generator.
const IMPORTS: &[&str] = &[
    "wasi:cli/environment@0.2.12",
    "wasi:cli/stderr@0.2.12",
    "wasi:clocks/wall-clock@0.2.12",
    "wasi:filesystem/types@0.2.12",
    "wasi:filesystem/preopens@0.2.12",
    "wasi:random/random@0.2.12",
];

/// Adds the source location to exceptions, and checks returned values against the WIT.
const GUARD: &str = include_str!("../templates/js/build/guard.js");

const PRELUDE: &str = include_str!("../templates/js/build/prelude.js");

/// Packages of WASI 0.2.12, in the order of their dependencies.
const WASI: &[(&str, &str)] = &[
    ("wasi:io@0.2.12", include_str!("../templates/js/build/wasi/io.wit")),
    ("wasi:clocks@0.2.12", include_str!("../templates/js/build/wasi/clocks.wit")),
    ("wasi:cli@0.2.12", include_str!("../templates/js/build/wasi/cli.wit")),
    ("wasi:filesystem@0.2.12", include_str!("../templates/js/build/wasi/filesystem.wit")),
    ("wasi:random@0.2.12", include_str!("../templates/js/build/wasi/random.wit")),
];

const TEMPLATE: &[File] = &[
    template!("plugin.js", "js/plugin.js"),
    template!("plugin.test.js", "js/plugin.test.js"),
    template!("package.json", "js/package.json"),
    template!("README.md", "js/README.md"),
    template!(".gitignore", "js/gitignore"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(wit: &str) -> Entry {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("world.wit");
        std::fs::write(&path, wit).unwrap();
        Entry::generate(&Wit::read(&path, None).unwrap(), "src/plugin.js").unwrap()
    }

    /// componentize-qjs accepts a module without an exported function; calls of it trap.
    #[test]
    fn every_exported_function_is_looked_for() {
        let made = entry(
            "package local:words;
             interface text-tools { top-words: func(); resource thing { get: func(); } }
             world tools { export text-tools; export say-hello: func(); }",
        );
        assert_eq!((made.world.as_str(), made.has_prelude, made.is_async), ("haft-build", true, false));
        let lines: Vec<_> = made.module.lines().filter(|line| line.starts_with("if (")).collect();
        assert_eq!(lines.len(), 2, "{}", made.module);
        let all = lines.join("\n");
        assert!(all.contains("if (typeof plugin.textTools?.topWords !== 'function') throw"), "{all}");
        let guarded =
            "textTools_[\"topWords\"] = guarded(plugin.textTools?.topWords, plugin.textTools, null);";
        assert!(made.module.contains(guarded), "{}", made.module);
        assert!(made.module.contains("export { function0_ as sayHello };"), "{}", made.module);
        assert!(made.module.ends_with("\nmade();\n"), "{}", made.module);
        assert!(all.contains("src/plugin.js exports no function sayHello, which the WIT declares"), "{all}");
        assert!(
            made.module.contains("import { made } from './prelude.js';\nimport { guarded } from './guard.js';\nimport * as plugin from \"../../src/plugin.js\";")
        );
    }

    #[test]
    fn an_asynchronous_world_is_known() {
        assert!(entry("package local:words; world tools { export f: async func(); }").is_async);
    }
}
