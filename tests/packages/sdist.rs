//! Source distributions of PyPI, from the test's own index.

use std::fs;
use std::sync::{Arc, OnceLock};

use super::foreign::{PYTHON, archive, has, serving, sha256, with_registry, zip};
use super::place::Place;

/// A build backend that attempts forbidden accesses and creates a wheel with the outcomes.
const BACKEND: &str = r#"
import os, socket, zipfile
def get_requires_for_build_wheel(settings=None):
    return ["haft-late"]
def build_wheel(folder, settings=None, metadata=None):
    import haft_late
    home = os.environ["HOME"]
    said = []
    work = open("place").read()
    try:
        open(work + "/elsewhere", "w"); said.append("wrote elsewhere")
    except OSError:
        said.append("wrote nothing elsewhere")
    try:
        said.append("read " + open(work + "/private").read())
    except OSError:
        said.append("read nothing of yours")
    try:
        open(os.path.dirname(folder) + "/../needed/x", "w"); said.append("wrote what it needs")
    except OSError:
        said.append("wrote nothing it needs")
    try:
        socket.create_connection(("127.0.0.1", int(open("port").read())), 5); said.append("connected")
    except OSError:
        said.append("connected nowhere")
    print("noise of a build")
    name = "haft_teller-1.2-py3-none-any.whl"
    info = "haft_teller-1.2.dist-info/"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        def put(path, text):
            wheel.writestr(zipfile.ZipInfo(path), text)
        put("haft_teller/__init__.py", open("server.py").read())
        put("haft_teller/said", ", ".join(said))
        put(info + "METADATA", "Metadata-Version: 2.1\nName: haft-teller\nVersion: 1.2\n")
        put(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        put(info + "entry_points.txt", "[console_scripts]\nhaft-teller = haft_teller:main\n")
        put(info + "RECORD", "")
    return name
"#;

/// Pairs of file name and content.
type Files = Vec<(String, Vec<u8>)>;

/// A wheel of one module.
fn module(name: &str, text: &str) -> (String, Vec<u8>) {
    let info = format!("{name}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
    let kind = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let wheel = zip(&[
        (&format!("{name}.py"), text.as_bytes()),
        (&format!("{info}/METADATA"), metadata.as_bytes()),
        (&format!("{info}/WHEEL"), kind.as_bytes()),
        (&format!("{info}/RECORD"), b""),
    ]);
    (format!("{name}-1.0-py3-none-any.whl"), wheel)
}

/// haft builds a source distribution only with `--run-scripts`, in the sandbox; the build needs the requirement that
/// [`BACKEND`] declares during the build.
#[test]
fn a_source_distribution_is_built_where_a_person_asks_for_it() {
    if !has("uv") || !has("python3") {
        return;
    }
    let place = Place::new();
    let files = Arc::<OnceLock<Files>>::default();
    let index = files.clone();
    let server = serving(move |path, _| {
        let files = index.get()?;
        if let Some(name) = path.strip_prefix("/simple/") {
            let name = name.trim_end_matches('/').replace('-', "_");
            let (file, bytes) = files.iter().find(|(file, _)| file.starts_with(&format!("{name}-")))?;
            let page =
                format!("<html><body><a href=\"/{file}#sha256={}\">{file}</a></body></html>", sha256(bytes));
            return Some(("text/html", page.into_bytes()));
        }
        let (_, bytes) = files.iter().find(|(file, _)| path == format!("/{file}"))?;
        Some(("application/octet-stream", bytes.clone()))
    });
    let project = "[build-system]\nrequires = [\"haft-build\"]\nbuild-backend = \"haft_build\"\n";
    let (work, port) = (place.work().display().to_string(), server.address.port().to_string());
    let sdist = archive(
        "haft_teller-1.2",
        &[("pyproject.toml", project), ("server.py", PYTHON), ("place", &work), ("port", &port)],
    );
    let sha = sha256(&sdist);
    let built = [
        module("haft_build", BACKEND),
        module("haft_late", ""),
        ("haft_teller-1.2.tar.gz".to_owned(), sdist),
    ];
    files.set(built.into()).unwrap();

    fs::write(place.work().join("private"), "a letter").unwrap();
    let add = ["add", "pypi:haft-teller", "--set", "arg=hi", "--yes"];
    let refused = with_registry(&place, &server, &add).ends(5, "has no wheel for this machine");
    assert!(
        refused.stderr.contains(
            "`--run-scripts` builds it in the sandbox, without network; or choose a version that has a wheel"
        ),
        "{}",
        refused.stderr
    );
    let added = with_registry(&place, &server, &[&add[..], &["--run-scripts"]].concat()).good();
    let told = "`haft-teller 1.2` has no wheel: it was built from its sources: its code ran in the sandbox";
    assert!(added.stderr.contains(told), "{}", added.stderr);
    let tree = place.kept()[0].join("tree");
    assert_eq!(
        fs::read_to_string(tree.join("site/haft_teller/said")).unwrap(),
        "wrote nothing elsewhere, read nothing of yours, wrote nothing it needs, connected nowhere"
    );
    assert!(!place.work().join("elsewhere").exists());
    let locked = fs::read_to_string(tree.join("requirements.txt")).unwrap();
    assert!(locked.contains("haft-teller==1.2 \\\n    --hash=sha256:"), "{locked}");
    assert!(
        locked.contains(&format!("# haft-teller==1.2 was built from its source distribution, sha256:{sha}")),
        "{locked}"
    );
    let called = place.haft(&["call", "mcp__haft-teller__tell", "{}"]).good();
    assert_eq!(called.stdout.trim(), "hi no lib 0");
}
