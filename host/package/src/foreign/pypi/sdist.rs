//! Source distributions, built into wheels at the user's request: build dependencies are fetched first, as wheels.
//! The package's code then runs without network and with write access only to its build directory.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{COMPILING, ForeignError, Uv, io_error, put, read};
use crate::archive;
use crate::runner::{MAX_OUTPUT, ProgramError, Runner};
use crate::{Digest, Fetching, MAX_SIZE, download, folder, listing};

/// uv's error for a package without a wheel.
const NO_WHEEL: (&str, &str) = ("Wheels are required for `", "`");

/// uv's error for versions without a wheel, which follows their names.
const NO_WHEELS_OF: &str = " no usable wheels";

/// The folder of built wheels, in the directory of a fetch.
const WHEELS: &str = "wheels";

/// Calls a hook of a build backend (PEP 517) with the folders of the sources, of the build dependencies and of the
/// result, and of the machine's Python only with its standard library. Prints only the hook's answer.
const HOOK: &str = r"
import importlib, json, os, site, sys
name, sources, needed, result, backend, *paths = sys.argv[1:]
answer = os.dup(1)
os.dup2(2, 1)
os.chdir(sources)
for folder, _, files in os.walk('.'):
    for file in files:
        file = os.path.join(folder, file)
        os.chmod(file, os.stat(file).st_mode | 0o200)
site.addsitedir(needed)
sys.path[:0] = [os.path.join(sources, path) for path in paths] + [needed]
os.environ['PYTHONPATH'] = os.pathsep.join(sys.path[:len(paths) + 1])
os.environ['PATH'] = os.path.join(needed, 'bin') + os.pathsep + os.environ.get('PATH', '')
os.environ['SOURCE_DATE_EPOCH'] = '315532800'
module, _, inner = backend.partition(':')
found = importlib.import_module(module)
for part in filter(None, inner.split('.')):
    found = getattr(found, part)
if name == 'build_wheel':
    said = found.build_wheel(result, {})
else:
    said = getattr(found, name, lambda settings: [])({})
os.write(answer, json.dumps(said).encode())
";

#[derive(Debug)]
pub(super) struct Built {
    /// The requirement: the name, possibly with versions.
    requirement: String,
    name: String,
    version: String,
    /// The digest of the source distribution, equal in the index and in its bytes.
    sha256: String,
    /// The folder of the built wheel.
    folder: PathBuf,
}

impl Built {
    /// Returns the arguments that name the wheel's folder to uv.
    pub(super) fn links(&self) -> [String; 2] {
        ["--find-links".to_owned(), self.folder.to_string_lossy().into_owned()]
    }

    pub(super) fn note(&self) -> String {
        format!(
            "`{} {}` has no wheel: it was built from its sources: its code ran in the sandbox, without network",
            self.name, self.version
        )
    }

    pub(super) fn line(&self) -> String {
        format!(
            "# {}=={} was built from its source distribution, sha256:{}\n",
            self.name, self.version, self.sha256
        )
    }

    pub(super) fn is_of(&self, requirement: &str) -> bool {
        self.requirement == requirement
    }
}

/// A lock file of uv, of one package (PEP 751).
#[derive(Deserialize)]
struct Locked {
    packages: [Package; 1],
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    sdist: Option<Sdist>,
}

#[derive(Deserialize)]
struct Sdist {
    url: Option<String>,
    hashes: Hashes,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: String,
}

/// pyproject.toml: how the package is built.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    build_system: Option<BuildSystem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BuildSystem {
    requires: Vec<String>,
    build_backend: Option<String>,
    #[serde(default)]
    backend_path: Vec<String>,
}

/// Returns the requirement that uv found no wheel for.
pub(super) fn without_wheel(failed: &ProgramError) -> Option<String> {
    let ProgramError::Failed { why, .. } = failed else { return None };
    let (_, rest) = why.split_once(NO_WHEEL.0)?;
    let (name, _) = rest.split_once(NO_WHEEL.1)?;
    let fits = |text: &str, also: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c));
    if name.is_empty() || name.starts_with('-') || !fits(name, "-._") {
        return None;
    }
    // `Because a==1.0 has no usable wheels`, `all versions of a>=1,<2 have no usable wheels`
    let versions = why.match_indices(NO_WHEELS_OF).filter_map(|(at, _)| {
        let word = why.get(..at)?.rsplit(' ').nth(1)?;
        let versions = word.strip_prefix(name)?;
        (versions.starts_with(['=', '<', '>', '!', '~']) && fits(versions, "=<>!~,.*+-_")).then_some(word)
    });
    Some(versions.last().unwrap_or(name).to_owned())
}

/// Builds the source distribution of `requirement`, the `number`th of this fetch.
pub(super) async fn build(
    requirement: &str,
    uv: &Uv<'_>,
    number: usize,
    fetching: &Fetching<'_>,
) -> Result<Built, ForeignError> {
    let directory = fetching.directory.join(format!("sdist-{number}"));
    let wheels = fetching.directory.join(format!("{WHEELS}-{number}"));
    let place = directory.join("build");
    for folder in [&directory, &wheels, &place, &place.join("result")] {
        fs::create_dir(folder).map_err(io_error("create folder", folder))?;
    }
    let found = found(requirement, uv, &directory).await?;
    let sdist = found.sdist.as_ref();
    let (url, sha256) =
        sdist.and_then(|sdist| Some((sdist.url.as_ref()?, &sdist.hashes.sha256))).ok_or_else(|| {
            ForeignError::Unsupported(format!(
                "`{requirement}` has neither a wheel nor a source distribution for this machine"
            ))
        })?;
    let sources = sources(url, sha256, &directory, &place, fetching).await?;
    let system = system(&sources)?;
    // Running code writes only its own directory, neither that of the fetch nor uv's files.
    let building = &Fetching { directory: &place, ..fetching.clone() };
    let build = Build { uv, directory: &directory, building, sources, system };
    build.run(&wheels, &found.name).await?;
    let Package { name, version, .. } = found;
    Ok(Built { requirement: requirement.to_owned(), name, version, sha256: sha256.clone(), folder: wheels })
}

/// Returns the index's files for a requirement. Reads no metadata, so that nothing has to be built.
async fn found(requirement: &str, uv: &Uv<'_>, directory: &Path) -> Result<Package, ForeignError> {
    let wanted = directory.join("wanted.in");
    put(&wanted, &format!("{requirement}\n"))?;
    let before = uv.before.as_deref().map(|time| ["--exclude-newer", time]).into_iter().flatten();
    let own =
        ["pip", "compile", "--quiet", "--no-config", "--no-deps", "--no-header", "--format", "pylock.toml"];
    let own = own.into_iter().chain(["--no-python-downloads", "--python", &uv.interpreter]).chain(before);
    let wanted = wanted.to_string_lossy();
    let text = uv.runner.run(COMPILING, own.chain(["--", &wanted]), MAX_OUTPUT).await?;
    let locked: Locked = parsed("pylock.toml", &text)?;
    let [package] = locked.packages;
    Ok(package)
}

/// Fetches a source distribution to `directory` and unpacks it in `place`; returns the folder of its files.
async fn sources(
    url: &str,
    sha256: &str,
    directory: &Path,
    place: &Path,
    fetching: &Fetching<'_>,
) -> Result<PathBuf, ForeignError> {
    let (file, to) = (directory.join("sdist"), place.join("sources"));
    let failed = |error: &dyn std::fmt::Display| ForeignError::Unsupported(error.to_string());
    download::download(url, &file, MAX_SIZE, &fetching.progress).await.map_err(|error| failed(&error))?;
    let (digest, _) = Digest::of_file(&file, MAX_SIZE).map_err(io_error("read", &file))?;
    if digest.hex() != sha256 {
        let shown = download::shown_text(url);
        return Err(ForeignError::Unsupported(format!(
            "`{shown}` is {digest}; its index has sha256:{sha256}"
        )));
    }
    let unpacked = match archive::form(&file).map_err(io_error("read", &file))? {
        Some(form) => archive::unpack_whole(&file, form, &to),
        None => {
            return Err(ForeignError::Unsupported("its source distribution is not an archive".to_owned()));
        }
    };
    unpacked.map_err(|error| failed(&error))?;
    only_folder(&to)
}

fn only_folder(to: &Path) -> Result<PathBuf, ForeignError> {
    let entries = fs::read_dir(to).map_err(io_error("list", to))?.filter_map(Result::ok);
    match entries.collect::<Vec<_>>().as_slice() {
        [only] if only.path().is_dir() => Ok(only.path()),
        _ => Err(ForeignError::Unsupported("its source distribution is not one folder".to_owned())),
    }
}

/// Returns the build backend of the package; setuptools by default.
fn system(sources: &Path) -> Result<BuildSystem, ForeignError> {
    let project: Project = if sources.join("pyproject.toml").is_file() {
        parsed("pyproject.toml", &read(sources, "pyproject.toml")?)?
    } else {
        Project::default()
    };
    let usual = || BuildSystem {
        requires: vec!["setuptools".to_owned(), "wheel".to_owned()],
        build_backend: None,
        backend_path: Vec::new(),
    };
    Ok(project.build_system.unwrap_or_else(usual))
}

fn parsed<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, ForeignError> {
    let why =
        |error: toml::de::Error| haft_core::report::plain(&haft_core::net::one_line(&error.to_string()));
    toml::from_str(text).map_err(|error| ForeignError::Unreadable { file: file.to_owned(), why: why(error) })
}

struct Build<'a> {
    uv: &'a Uv<'a>,
    /// The directory in which uv installs the build dependencies, which the package's code reads.
    directory: &'a Path,
    /// The directory that the package's code writes.
    building: &'a Fetching<'a>,
    sources: PathBuf,
    system: BuildSystem,
}

impl Build<'_> {
    /// Builds the wheel of the package `package`, and copies it to the folder `wheels`.
    async fn run(&self, wheels: &Path, package: &str) -> Result<(), ForeignError> {
        self.need("static", &self.system.requires).await?;
        let more: Vec<String> = self.hook("get_requires_for_build_wheel").await?;
        self.need("dynamic", &more).await?;
        let name: String = self.hook("build_wheel").await?;
        let is_wheel = Path::new(&name).extension().is_some_and(|end| end == "whl") && !name.contains('/');
        // Another package's wheel would replace that package.
        let is_own = name.split('-').next().is_some_and(|own| normalised(own) == normalised(package));
        let is_name = is_wheel && is_own;
        let wheel = self.building.directory.join("result").join(&name);
        let opened = listing::open(&wheel).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(io_error("open", &wheel))?;
        if !is_name || !metadata.is_file() || metadata.len() > MAX_SIZE {
            return Err(ForeignError::Unsupported(format!("its build produces no wheel of `{package}`")));
        }
        let to = wheels.join(name);
        folder::write(file, &to, MAX_SIZE, false).map_err(io_error("copy", &to))?;
        Ok(())
    }

    async fn need(&self, kind: &str, requirements: &[String]) -> Result<(), ForeignError> {
        if requirements.is_empty() {
            return Ok(());
        }
        if let Some(other) = requirements.iter().find(|text| !is_requirement(text)) {
            return Err(ForeignError::Unsupported(format!(
                "its build requires `{}`, which is not a valid requirement",
                haft_core::report::plain(other)
            )));
        }
        let file = self.directory.join(format!("{kind}.in"));
        put(&file, &(requirements.join("\n") + "\n"))?;
        let [target, file] =
            [self.directory.join("needed"), file].map(|path| path.to_string_lossy().into_owned());
        let before = self.uv.before.iter().flat_map(|time| ["--exclude-newer", time]).map(str::to_owned);
        let install = ["--link-mode", "copy", "--target", &target, "-r", &file].map(str::to_owned);
        self.uv.run("install", before.chain(install)).await?;
        Ok(())
    }

    /// Calls a hook of the build backend; returns its answer.
    async fn hook<T: serde::de::DeserializeOwned>(&self, name: &'static str) -> Result<T, ForeignError> {
        let python = Runner::alone("python3", self.building)?.reading(self.directory)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let backend = self.system.build_backend.as_deref().unwrap_or("setuptools.build_meta:__legacy__");
        let folders =
            [&self.sources, &self.directory.join("needed"), &self.building.directory.join("result")];
        let words = ["-I", "-S", "-c", HOOK, name]
            .map(str::to_owned)
            .into_iter()
            .chain(folders.map(|path| text(path)));
        let words = words.chain([backend.to_owned()]).chain(self.system.backend_path.iter().cloned());
        let answer = python.run(name, words, MAX_OUTPUT).await?;
        let unreadable = |error: serde_json::Error| ForeignError::Unreadable {
            file: name.to_owned(),
            why: haft_core::report::plain(&error.to_string()),
        };
        serde_json::from_str(answer.trim()).map_err(unreadable)
    }
}

/// Returns whether `text` is a name with extras, versions and a condition, for which uv queries the index. An
/// address (`a @ https://…`), a path, a variable or an option of uv is not a requirement: uv has the network, and
/// variables with passwords.
fn is_requirement(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || " -._[](),;<>=!~*+'\"".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits)
}

/// Returns a name as indexes compare it (PEP 503).
fn normalised(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_requires_names_of_the_index_alone() {
        for text in ["setuptools>=61", "a.b[c,d] ~= 1.0 ; python_version < '3.12'", "tomli (>=1)"] {
            assert!(is_requirement(text), "{text}");
        }
        for text in [
            "x @ https://a.test/x-1-py3-none-any.whl",
            "x@file:x.whl",
            "./x",
            "x --index-url=https://a.test",
            "-r /etc/passwd",
            "x==${UV_DEFAULT_INDEX}",
            "x\n-r y",
            "\\\\a\\x",
            "",
        ] {
            assert!(!is_requirement(text), "{text}");
        }
        assert_eq!(normalised("Haft_Teller.x"), normalised("haft-teller-x"));
    }

    #[test]
    fn what_uv_says_leads_to_the_requirement_without_a_wheel() {
        let hint =
            "hint: Wheels are required for `a-b` because building from source is disabled for all packages";
        for (said, expected) in [
            (
                format!("Because a-b==1.0 has no usable wheels and you require a-b==1.0, … {hint}"),
                Some("a-b==1.0"),
            ),
            (
                format!(
                    "Because all versions of a-b>=1,<2 have no usable wheels and c depends on it. {hint}"
                ),
                Some("a-b>=1,<2"),
            ),
            (format!("Because all versions of a-b have no usable wheels {hint}"), Some("a-b")),
            (hint.replace("a-b", "-r/etc"), None),
            ("Because a was not found in the package registry".to_owned(), None),
        ] {
            let failed = ProgramError::Failed { program: "uv", action: "compile", why: said.clone() };
            assert_eq!(without_wheel(&failed).as_deref(), expected, "{said}");
        }
    }
}
