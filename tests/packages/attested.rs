//! Attestations of npm and PyPI: the test plays the registry, the index and the Sigstore instance.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::foreign::{PYTHON, archive, command_with_registry, has, serving, sha256, zip};
use super::place::{Answer, Place};
use crate::common::sigstore::{Holder, ISSUER, Instance, SLSA};
use crate::http::server::Server;

const REPOSITORY: &str = "https://git.example.com/ada/signed";
const WORKFLOW: &str = "https://git.example.com/ada/signed/.github/workflows/release.yml";

/// A person who trusts a Sigstore instance, and the holder of a certificate of that instance.
fn scene() -> (Place, Instance, Holder) {
    let (place, instance) = (Place::new(), Instance::new());
    instance.trusted_in(&place.home().join("config/haft"));
    let holder = instance.certify(&format!("{WORKFLOW}@refs/tags/v1"), REPOSITORY);
    (place, instance, holder)
}

fn haft(place: &Place, server: &Server, arguments: &[&str]) -> Answer {
    let mut command = command_with_registry(place, server, arguments);
    command.env("XDG_CONFIG_HOME", place.home().join("config"));
    Answer::from(command.output().unwrap())
}

fn signer() -> String {
    format!("sigstore:{ISSUER}#{WORKFLOW}")
}

fn tarball(version: &str) -> Vec<u8> {
    let package = json!({ "name": "signed", "version": version, "bin": "index.js" }).to_string();
    archive("package", &[("package.json", package.as_str()), ("index.js", "")])
}

fn sha512(bytes: &[u8]) -> ring::digest::Digest {
    ring::digest::digest(&ring::digest::SHA512, bytes)
}

/// A registry of npm with one version of `signed` and its attestations.
fn npm(version: &'static str, attestations: Option<Value>) -> Server {
    serving(move |path, host| {
        if path.starts_with("/-/npm/v1/attestations/") {
            return Some(("application/json", attestations.as_ref()?.to_string().into_bytes()));
        }
        if path.contains("/-/") {
            return Some(("application/gzip", tarball(version)));
        }
        let integrity = format!("sha512-{}", STANDARD.encode(sha512(&tarball(version))));
        let mut dist =
            json!({ "tarball": format!("http://{host}/signed/-/{version}.tgz"), "integrity": integrity });
        if attestations.is_some() {
            let url = format!("http://{host}/-/npm/v1/attestations/signed@{version}");
            dist["attestations"] = json!({ "url": url, "provenance": { "predicateType": SLSA } });
        }
        let entry = json!({ "name": "signed", "version": version, "bin": "index.js", "dist": dist });
        let all = json!({ "name": "signed", "dist-tags": { "latest": version }, "versions": { version: entry },
            "time": { version: "2025-01-01T00:00:00.000Z" } });
        path.starts_with("/signed").then(|| ("application/json", all.to_string().into_bytes()))
    })
}

fn about_npm(instance: &Instance, holder: &Holder, (version, tarball): (&str, &[u8])) -> Value {
    let hex: String = sha512(tarball).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("pkg:npm/signed@{version}");
    let bundle = instance.attest_named(holder, SLSA, (&name, &json!({ "sha512": hex })));
    json!({ "attestations": [{ "predicateType": SLSA, "bundle": bundle }] })
}

#[test]
fn who_published_a_package_of_npm_is_verified_and_pinned() {
    if !has("npm") {
        return;
    }
    let (place, instance, holder) = scene();
    let attested = npm("1.0.0", Some(about_npm(&instance, &holder, ("1.0.0", &tarball("1.0.0")))));
    let other = format!("sigstore:{ISSUER}#https://git.example.com/eve/x.yml");
    let refused = haft(&place, &attested, &["add", "npm:signed", "--yes", "--key", &other]);
    assert!(
        refused.code != 0 && refused.stderr.contains("it is by `https://git.example.com/ada"),
        "{}",
        refused.stderr
    );
    assert!(place.read("program.lock").is_empty());
    // The attestation names another version of the package with identical bytes.
    let renamed = npm("1.0.0", Some(about_npm(&instance, &holder, ("0.9.0", &tarball("1.0.0")))));
    let refused = haft(&place, &renamed, &["add", "npm:signed", "--yes", "--key", &signer()]);
    assert!(refused.code != 0 && refused.stderr.contains("it is not signed"), "{}", refused.stderr);
    let added = haft(&place, &attested, &["add", "npm:signed", "--yes"]).good();
    assert!(
        added.stderr.contains(&format!("signed by `{WORKFLOW}`, as `{ISSUER}` knows it")),
        "{}",
        added.stderr
    );
    assert!(place.read("program.lock").contains(&format!("signer = \"{}\"", signer())));
    // Another version must have the signer of the installed version.
    let unsigned = npm("1.1.0", None);
    let refused = haft(&place, &unsigned, &["update", "--yes"]);
    assert!(
        refused.stderr.contains("it is not signed; the installed content is signed by `https"),
        "{}",
        refused.stderr
    );
    let later = instance.certify(&format!("{WORKFLOW}@refs/tags/v2"), REPOSITORY);
    let later = npm("1.1.0", Some(about_npm(&instance, &later, ("1.1.0", &tarball("1.1.0")))));
    haft(&place, &later, &["update", "--yes"]).ends(0, "1.0.0 → 1.1.0");
    // A signer in program.toml does not replace the signer that the user agreed to.
    let text = place.read("program.toml").replace("source =", &format!("signer = \"{other}\"\nsource ="));
    place.write("program.toml", text);
    let refused = haft(&place, &npm("1.2.0", None), &["update", "--yes"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("requires `signed` signed by"),
        "{}",
        refused.stderr
    );
}

#[test]
fn an_attestation_of_other_bytes_says_nothing() {
    if !has("npm") {
        return;
    }
    let (place, instance, holder) = scene();
    let forged = npm("1.0.0", Some(about_npm(&instance, &holder, ("1.0.0", b"other"))));
    let wanted = format!(
        "[program]\nname = \"work\"\nversion = \"1.0.0\"\n[[packages]]\nname = \"signed\"\nsource = \"npm:signed\"\nsigner = \"{}\"\n",
        signer()
    );
    place.write("program.toml", &wanted);
    let refused = haft(&place, &forged, &["add", "--yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("it has no valid signature;"), "{}", refused.stderr);
    place.write("program.toml", wanted.replace("sigstore:", "sigstor:"));
    haft(&place, &forged, &["add", "--yes"]).ends(3, "`signer` is not a valid signer");
    std::fs::remove_file(place.work().join("program.toml")).unwrap();
    let added = haft(&place, &forged, &["add", "npm:signed", "--yes"]).good();
    assert!(added.stderr.contains("which is invalid: artifact mismatch"), "{}", added.stderr);
    assert!(!place.read("program.lock").contains("signer"));
    // Installed content without a signature does not meet the requirement of program.toml.
    let text =
        place.read("program.toml").replace("source =", &format!("signer = \"{}\"\nsource =", signer()));
    place.write("program.toml", text);
    let verified = haft(&place, &forged, &["verify"]);
    assert!(
        verified.code == 8 && verified.stdout.contains("program.toml requires `signed` signed by"),
        "{}",
        verified.stdout
    );
}

fn wheel(version: &str, text: &str) -> Vec<u8> {
    let info = format!("haft_signed-{version}.dist-info");
    let file = |name: &str| format!("{info}/{name}");
    let record =
        ["METADATA", "WHEEL", "entry_points.txt", "RECORD"].map(|name| format!("{info}/{name},,\n")).concat();
    let module = format!("{PYTHON}# {text}\n");
    let metadata = format!("Metadata-Version: 2.1\nName: haft-signed\nVersion: {version}\n");
    zip(&[
        ("haft_signed/__init__.py", module.as_bytes()),
        (&file("METADATA"), metadata.as_bytes()),
        (&file("WHEEL"), b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (&file("entry_points.txt"), b"[console_scripts]\nhaft-signed = haft_signed:main\n"),
        (&file("RECORD"), format!("haft_signed/__init__.py,,\n{record}").as_bytes()),
    ])
}

/// The provenance of a file in an index (PEP 740).
fn provenance(bundle: &Value) -> Value {
    let (material, envelope) = (&bundle["verificationMaterial"], &bundle["dsseEnvelope"]);
    json!({ "version": 1, "attestation_bundles": [{ "publisher": { "kind": "x" }, "attestations": [{ "version": 1,
        "verification_material": { "certificate": material["certificate"]["rawBytes"],
            "transparency_entries": material["tlogEntries"] },
        "envelope": { "statement": envelope["payload"], "signature": envelope["signatures"][0]["sig"] } }] }] })
}

/// An index with these wheels, and the provenance of each. Version 1.3 is of a later year than any test.
fn pypi(files: Vec<(&'static str, Vec<u8>, Option<Value>)>) -> Server {
    serving(move |path, host| {
        if path == "/simple/haft-signed/" {
            let listed = |(name, bytes, provenance): &(&str, Vec<u8>, Option<Value>)| {
                let year = if name.contains("-1.3-") { 2999 } else { 2025 };
                let url = provenance.as_ref().map(|_| format!("http://{host}/integrity/{name}"));
                json!({ "filename": name, "url": format!("http://{host}/files/{name}"), "provenance": url,
                    "hashes": { "sha256": sha256(bytes) }, "upload-time": format!("{year}-01-01T00:00:00Z") })
            };
            let files: Vec<Value> = files.iter().map(listed).collect();
            let page = json!({ "meta": { "api-version": "1.3" }, "name": "haft-signed", "versions": ["1.2", "1.3"], "files": files });
            return Some(("application/vnd.pypi.simple.v1+json", page.to_string().into_bytes()));
        }
        let (_, bytes, provenance) = files.iter().find(|(name, ..)| path.ends_with(name))?;
        match provenance {
            Some(provenance) if path.starts_with("/integrity/") => {
                Some(("application/json", provenance.to_string().into_bytes()))
            }
            _ => path.starts_with("/files/").then(|| ("application/zip", bytes.clone())),
        }
    })
}

#[test]
fn who_published_a_package_of_pypi_is_verified_and_pinned() {
    if !has("uv") || !has("python3") {
        return;
    }
    let (place, instance, holder) = scene();
    let publish = "https://docs.pypi.org/attestations/publish/v1";
    let of = |bytes: &[u8]| {
        Some(provenance(&instance.attest(&holder, publish, &json!({ "sha256": sha256(bytes) }))))
    };
    let (one, other) = (wheel("1.2", "one"), wheel("1.2", "other"));
    let names = ["haft_signed-1.2-py3-none-any.whl", "haft_signed-1.2-1-py3-none-any.whl"];
    let add = ["add", "pypi:haft-signed==1.2", "--yes"];
    // The installer could choose the wheel without an attestation.
    let mixed = pypi(vec![(names[0], one.clone(), of(&one)), (names[1], other.clone(), None)]);
    let added = haft(&place, &mixed, &add).good();
    assert!(added.stderr.contains("signature not signed"), "{}", added.stderr);
    haft(&place, &mixed, &["remove", "haft-signed"]).good();
    let forged = pypi(vec![(names[0], one.clone(), of(&one)), (names[1], other.clone(), of(&one))]);
    let refused = haft(&place, &forged, &["add", "pypi:haft-signed==1.2", "--yes", "--key", &signer()]);
    assert!(refused.stderr.contains("it has no valid signature;"), "{}", refused.stderr);
    let attested = pypi(vec![(names[0], one.clone(), of(&one)), (names[1], other.clone(), of(&other))]);
    let added = haft(&place, &attested, &add).good();
    assert!(
        added.stderr.contains(&format!("signed by `{WORKFLOW}`, as `{ISSUER}` knows it")),
        "{}",
        added.stderr
    );
    assert!(place.read("program.lock").contains(&format!("signer = \"{}\"", signer())));
    place.haft(&["call", "mcp__haft-signed__tell", "{}"]).good();
    // Another machine fetches the pinned content.
    std::fs::remove_dir_all(place.store()).unwrap();
    haft(&place, &attested, &["add"]).good();
}

/// Another machine installs the dependencies of a bundle as of the bundle's first installation.
#[test]
fn a_bundle_keeps_its_dependencies_when_they_have_later_versions() {
    if !has("uv") || !has("python3") {
        return;
    }
    let place = Place::new();
    let manifest = json!({ "manifest_version": "0.4", "name": "user", "version": "2.0.0", "description": "Tells",
        "author": { "name": "Ada" }, "server": { "type": "uv", "entry_point": "main.py" } });
    let project = "[project]\nname = \"user\"\nversion = \"2.0.0\"\ndependencies = [\"haft-signed\"]\n";
    let files = [
        ("manifest.json", manifest.to_string()),
        ("pyproject.toml", project.to_owned()),
        ("main.py", "import haft_signed\nhaft_signed.main()\n".to_owned()),
    ];
    place.write("user.mcpb", zip(&files.each_ref().map(|(name, text)| (*name, text.as_bytes()))));
    let old = ("haft_signed-1.2-py3-none-any.whl", wheel("1.2", "old"), None);
    let new = ("haft_signed-1.3-py3-none-any.whl", wheel("1.3", "new"), None);
    haft(&place, &pypi(vec![old.clone()]), &["add", "./user.mcpb", "--yes"]).good();
    let pins = place.read("program.lock");
    std::fs::remove_dir_all(place.store()).unwrap();
    haft(&place, &pypi(vec![old, new]), &["add"]).good().ends(0, "fetched `user`");
    assert_eq!(place.read("program.lock"), pins);
    place.haft(&["call", "mcp__user__tell", "{}"]).good();
}
