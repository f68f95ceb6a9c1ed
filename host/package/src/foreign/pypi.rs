//! Packages of PyPI, installed by this machine's uv: wheels only, so that none of their code runs. The package
//! keeps the versions and digests of all installed content as requirements.txt.

mod sdist;

use std::fs;
use std::path::Path;

use self::sdist::Built;
use super::written::{Server, put, read};
use super::{ForeignError, Made, added, attested, chosen, is_script_run, semantic};
use crate::listing::io_error;
use crate::runner::{MAX_OUTPUT, ProgramError, Runner};
use crate::signature::Verdict;
use crate::{Fetching, Foreign};

/// The folder of installed packages within a package.
const SITE: &str = "site";

/// The file that starts the server.
pub(super) const START: &str = "start.py";

/// The requirements file, and the file of the resolved versions with digests.
const WANTED: &str = "requirements.in";
const LOCKED: &str = "requirements.txt";

/// The fixed options of `uv`: no builds, no configuration files of the user or of the package, and no sources
/// besides an index.
const SETTINGS: &[&str] =
    &["--quiet", "--no-config", "--no-sources", "--no-python-downloads", "--only-binary", ":all:"];

/// The subcommand that finds versions, in errors.
const COMPILING: &str = "pip compile";

/// Maximum number of source distributions that are built for one server: each needs another resolution.
const MAX_BUILT: usize = 20;

/// Prints the Python version, which packages with compiled code depend on.
const VERSION: &str = "import sys; print('%d.%d' % sys.version_info[:2])";

/// Compiles the folder of the first argument, below the second one: a start without compiled files takes twice as long.
/// The output depends only on the sources, and is not compared with them, because the digest covers the complete
/// package.
const COMPILE: &str = "import compileall, py_compile, sys; compileall.compile_dir(sys.argv[1], quiet=2, \
                       stripdir=sys.argv[2], invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";

/// Returns the words that start [`START`]: without the user's packages and variables, and without writing compiled
/// files beside the sources.
pub(super) fn command() -> Vec<String> {
    ["python3", "-I", "-B", "./start.py"].map(str::to_owned).into()
}

/// Installs a package into the new folder `tree`; see [`Made`]; its version alone is resolved.
pub(super) async fn make(
    foreign: &Foreign,
    name: &str,
    tree: &Path,
    fetching: &Fetching<'_>,
) -> Result<Made, ForeignError> {
    let (words, env) = added(foreign, &["bin", "scripts"])?;
    fs::create_dir(tree).map_err(io_error("create folder", tree))?;
    let exact = foreign.version().map(|version| format!("=={version}")).unwrap_or_default();
    put(&tree.join(WANTED), &format!("{name}{exact}\n"))?;
    let plain = name.split('[').next().unwrap_or(name);
    let Installed { python, notes, verdict } =
        install(foreign, (WANTED, Some(plain)), tree, fetching).await?;
    let info = info(&tree.join(SITE), plain)?;
    let about = read(&info, "METADATA")?;
    let about = |key: &str| header(&about, key);
    let commands = if info.join("entry_points.txt").is_file() {
        console_scripts(&read(&info, "entry_points.txt")?)
    } else {
        Vec::new()
    };
    let (module, function) = chosen(foreign, plain, commands)?;
    put(
        &tree.join(START),
        &launcher(&python, &format!("from {module} import {0}\nsys.exit({function}())", root(&function))),
    )?;
    let mut command = command();
    command.extend(words);
    let version = about("Version").unwrap_or_default();
    let server = Server {
        name: plain.to_owned(),
        version: semantic(&version),
        description: about("Summary"),
        author: about("Author"),
        license: about("License-Expression"),
        command,
        env,
    };
    server.write(tree)?;
    Ok(Made { resolved: Some(version), notes, verdict })
}

pub(super) struct Installed {
    /// The version of Python that it is for.
    pub(super) python: String,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The result of the check of its attestations.
    pub(super) verdict: Verdict,
}

/// Installs the requirements in the file `wanted` of `tree` into `site` of `tree`. Checks the attestations of
/// `name`.
pub(super) async fn install(
    foreign: &Foreign,
    (wanted, name): (&str, Option<&str>),
    tree: &Path,
    fetching: &Fetching<'_>,
) -> Result<Installed, ForeignError> {
    let python = Runner::new("python3", fetching)?;
    let version = python.run("-c", ["-I", "-c", VERSION], MAX_OUTPUT).await?.trim().to_owned();
    let uv = Uv {
        runner: Runner::new("uv", fetching)?,
        interpreter: python.program.to_string_lossy().into_owned(),
        before: foreign.values("before").next().map(str::to_owned),
    };
    let text = |file: &str| tree.join(file).to_string_lossy().into_owned();
    let (wanted, locked, site) = (text(wanted), text(LOCKED), text(SITE));
    // A bundle's own lock file would decide the versions.
    gone(Path::new(&locked), fs::remove_file(&locked))?;
    let built = lock(foreign, &uv, &wanted, &locked, fetching).await?;
    let (mut verdict, mut trouble, mut required) = (Verdict::Unsigned, None, locked);
    if let Some(name) = name {
        let checked = attested::of_pypi(name, Path::new(&required), fetching).await?;
        (verdict, trouble) = (checked.verdict, checked.trouble);
        required = checked.required.map_or(required, |file| file.to_string_lossy().into_owned());
    }
    let links = built.iter().flat_map(Built::links);
    let install = ["--require-hashes", "--link-mode", "copy", "--target", &site, "-r", &required];
    uv.run("install", links.chain(install.map(str::to_owned))).await?;
    tidy(&tree.join(SITE))?;
    python.run("compileall", ["-I", "-c", COMPILE, &site, &tree.to_string_lossy()], MAX_OUTPUT).await?;
    let mut notes: Vec<String> = built.iter().map(Built::note).chain(trouble).collect();
    let others = if built.is_empty() { "" } else { " otherwise" };
    notes.push(format!(
        "its packages are for Python {version} on this type of machine; only from wheels{others}, whose code \
         did not run"
    ));
    Ok(Installed { python: version, notes, verdict })
}

/// `uv pip` for one interpreter.
struct Uv<'a> {
    runner: Runner<'a>,
    interpreter: String,
    /// Later versions are not used.
    before: Option<String>,
}

impl Uv<'_> {
    async fn run(
        &self,
        action: &'static str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<String, ProgramError> {
        let own = ["pip", action].into_iter().chain(SETTINGS.iter().copied());
        let before = self.before.as_deref().filter(|_| action == "compile");
        let before = before.map(|time| ["--exclude-newer", time]).into_iter().flatten();
        let own = own.chain(["--python", &self.interpreter]).chain(before).map(str::to_owned);
        let named = if action == "compile" { COMPILING } else { "pip install" };
        self.runner.run(named, own.chain(arguments), MAX_OUTPUT).await
    }
}

/// Writes the versions and digests of the requirements in the file `wanted` into the file `locked`. Packages
/// without a wheel are built, if the source requests that.
async fn lock(
    foreign: &Foreign,
    uv: &Uv<'_>,
    wanted: &str,
    locked: &str,
    fetching: &Fetching<'_>,
) -> Result<Vec<Built>, ForeignError> {
    let (is_built, mut built) = (is_script_run(foreign)?, Vec::<Built>::new());
    loop {
        let lock = ["--no-header", "--no-annotate", "--generate-hashes", "-o", locked, "--", wanted];
        let links = built.iter().flat_map(Built::links);
        let Err(failed) = uv.run("compile", links.chain(lock.map(str::to_owned))).await else { break };
        let Some(requirement) = sdist::without_wheel(&failed) else { return Err(failed.into()) };
        if !is_built {
            return Err(ForeignError::Sdist(requirement));
        }
        if built.len() >= MAX_BUILT || built.iter().any(|built| built.is_of(&requirement)) {
            return Err(failed.into());
        }
        // Boxed: most servers need no build.
        built.push(Box::pin(sdist::build(&requirement, uv, built.len(), fetching)).await?);
    }
    let mut text = fs::read_to_string(locked).map_err(io_error("read", Path::new(locked)))?;
    text.extend(built.iter().map(Built::line));
    fs::write(locked, text).map_err(io_error("write", Path::new(locked)))?;
    Ok(built)
}

/// Returns the latest version that this machine's Python can use.
pub(super) async fn latest(name: &str, fetching: &Fetching<'_>) -> Result<String, ForeignError> {
    let file = fetching.directory.join(WANTED);
    put(&file, &format!("{name}\n"))?;
    let uv = Runner::new("uv", fetching)?;
    let file = file.to_string_lossy();
    let arguments = ["--no-deps", "--no-header", "--no-annotate", "--", &file];
    let arguments = ["pip", "compile", "--quiet", "--no-config", "--no-sources"].into_iter().chain(arguments);
    let found = uv.run(COMPILING, arguments, MAX_OUTPUT).await?;
    let version =
        found.lines().find_map(|line| line.split_once("==")).map(|(_, version)| version.trim().to_owned());
    let failed =
        || ProgramError::Failed { program: "uv", action: COMPILING, why: "it has no version".to_owned() };
    Ok(version.ok_or_else(failed)?)
}

/// Removes unused files that differ between machines: the commands, which contain the path of Python, and the lists
/// with their digests.
fn tidy(site: &Path) -> Result<(), ForeignError> {
    for folder in infos(site)? {
        let record = folder.join("RECORD");
        gone(&record, fs::remove_file(&record))?;
    }
    let (commands, lock) = (site.join("bin"), site.join(".lock"));
    gone(&commands, fs::remove_dir_all(&commands))?;
    gone(&lock, fs::remove_file(&lock))
}

/// Converts the result of a removal; a missing file is not an error.
fn gone(path: &Path, removed: std::io::Result<()>) -> Result<(), ForeignError> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}

fn infos(site: &Path) -> Result<Vec<std::path::PathBuf>, ForeignError> {
    let entries = fs::read_dir(site).map_err(io_error("list", site))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "dist-info")).collect())
}

fn info(site: &Path, name: &str) -> Result<std::path::PathBuf, ForeignError> {
    let is_it = |path: &std::path::PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.split_once('-').is_some_and(|(found, _)| attested::spelt(found) == attested::spelt(name))
    };
    let unreadable =
        || ForeignError::Unreadable { file: name.to_owned(), why: "it has no metadata".to_owned() };
    infos(site)?.into_iter().find(is_it).ok_or_else(unreadable)
}

/// Returns a field of METADATA, above its first empty line.
fn header(text: &str, key: &str) -> Option<String> {
    let mut fields =
        text.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(": "));
    fields.find(|(name, _)| *name == key).map(|(_, value)| value.trim().to_owned())
}

/// Returns the commands of `entry_points.txt`: name, module and function. Those with anything but dotted names are
/// omitted: they become source code.
pub(super) fn console_scripts(text: &str) -> Vec<(String, (String, String))> {
    let is_dotted = |name: &str| {
        let is_word = |part: &str| {
            part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        name.split('.').all(is_word)
    };
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "[console_scripts]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let command = |line: &str| {
        let (name, target) = line.split_once('=')?;
        let (module, function) = target.split(['[', ';']).next()?.trim().split_once(':')?;
        let (module, function) = (module.trim(), function.trim());
        (is_dotted(module) && is_dotted(function))
            .then(|| (name.trim().to_owned(), (module.to_owned(), function.to_owned())))
    };
    lines.filter_map(command).collect()
}

/// Returns the name to import for a function: `app` of `app.main`.
fn root(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

/// Returns a file of Python that runs `code` with the packages in `site`, and with the version that they are for.
pub(super) fn launcher(python: &str, code: &str) -> String {
    format!(
        "# Written by haft.\nimport os\nimport sys\n\nif '%d.%d' % sys.version_info[:2] != '{python}':\n    \
         sys.exit('installed for Python {python}: `haft update` installs it for another')\n\
         here = os.path.dirname(os.path.abspath(__file__))\nsite = os.path.join(here, '{SITE}')\n\
         sys.path.insert(0, site)\n# For processes that it starts.\nos.environ['PYTHONPATH'] = site\n\
         os.environ['PYTHONDONTWRITEBYTECODE'] = '1'\n\n{code}\n"
    )
}
