//! `haft inspect` and `haft plugin publish` as a user sees them: of valid and invalid content, installed or not.

use std::fs;

use serde_json::Value;

use crate::cli::Home;
use crate::common::{hostile, repository};
use crate::registry::EMPTY;
use crate::registry::fake::Fake;

/// A component of another host, as it was published.
const FOREIGN: &str = "tests/foreign/time.wasm";

fn with_foreign() -> Home {
    let home = Home::new();
    fs::copy(repository().join(FOREIGN), home.work().join("time.wasm")).unwrap();
    home
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    let answer = home.haft(&[&["--json"], arguments].concat());
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {}", answer.stderr))
}

/// WA08: `haft inspect` describes an unknown component without installing it.
#[test]
fn a_component_of_another_host_is_looked_into() {
    let home = with_foreign();
    let answer = home.haft(&["inspect", "time.wasm"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    for expected in [
        "time 0.2.0: Time and timezone utilities",
        "signature not signed",
        "requests  no rights: no files, no network, no environment",
        "contract  act:tools",
        "time__get_current_time(timezone?: string)",
        "Get current time in a specified timezone",
        "environment: reads the granted environment variables",
        "exports   act:tools/tool-provider@0.1.0",
        "3 core modules, 1 component",
        "wit-bindgen-rust 0.45.0",
        "imports are interfaces that the component can use; they grant no rights",
    ] {
        assert!(answer.stdout.contains(expected), "{expected}: {}", answer.stdout);
    }
    assert!(!home.work().join("program.toml").exists());
    let found = json(&home, &["inspect", "time.wasm"]);
    assert_eq!((&found["name"], &found["version"]), (&"time".into(), &"0.2.0".into()));
    let component = &found["components"][0];
    assert_eq!(component["tools"][0]["name"], "time__get_current_time");
    assert_eq!(component["tools"][0]["parameters"]["type"], "object");
    assert_eq!(component["sizes"]["component"], 1_133_373);
    assert!(component["sizes"]["compiled"].as_u64().unwrap() > 100_000);
    assert!(component["imports"].as_array().unwrap().contains(&"wasi:clocks/wall-clock@0.2.6".into()));
}

/// S06: `haft inspect` describes the sockets of a component correctly: the component reaches a granted address with
/// its port by plain TCP, and no other address.
#[test]
fn what_is_said_of_sockets_is_so() {
    let home = Home::new();
    fs::copy(hostile(), home.work().join("guest.wasm")).unwrap();
    let inspect = home.haft(&["inspect", "guest.wasm"]);
    let words = inspect.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("sockets: connects by TCP to the granted addresses"), "{words}");
    assert!(
        words.contains(
            "connects by TCP to the granted addresses (`hosts = [\"127.0.0.1:5432\"]`); no \
        DNS, no UDP, no listening"
        ),
        "{words}"
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |hosts: &str| {
        let plugin = "[[plugins]]\nname = \"guest\"\ncomponent = \"guest.wasm\"\n[plugins.grant]\n";
        home.write("program.toml", &format!("{plugin}hosts = [{hosts}]\n"));
        home.haft(&["call", "guest__connect", "--arg", &format!("addr={address}")])
    };
    assert_eq!(connect(&format!("\"{address}\"")).stdout, format!("connected to {address}\n"));
    for other in ["", "\"*\"", "\"127.0.0.1\"", "\"http://localhost\""] {
        let refused = connect(other);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{other}");
        assert!(refused.stderr.contains(&format!("hosts = [\"{address}\"]")), "{}", refused.stderr);
    }
}

#[test]
fn nothing_is_run_where_nothing_is_to_be_run() {
    let home = with_foreign();
    let found = json(&home, &["inspect", "--no-run", "time.wasm"]);
    assert_eq!(found["components"][0]["tools"], Value::Null);
    assert_eq!(found["components"][0]["contract"], "act:tools");
}

/// WA04: `haft inspect` reports what a broken component still contains, and why it is broken.
#[test]
fn what_is_broken_says_what_it_is() {
    let home = Home::new();
    let write = |name: &str, bytes: &[u8]| fs::write(home.work().join(name), bytes).unwrap();
    let whole = fs::read(repository().join(FOREIGN)).unwrap();
    write("cut.wasm", &whole[..600_000]);
    write("module.wasm", b"\0asm\x01\0\0\0");
    write("empty.wasm", EMPTY);
    write("text.wasm", b"hello");
    for (file, code, expected) in [
        ("cut.wasm", 3, "broken"),
        ("module.wasm", 3, "a core WebAssembly module"),
        ("empty.wasm", 3, "none: exports no function"),
        ("text.wasm", 5, "neither a WebAssembly component nor a tar archive"),
        ("none.wasm", 5, "cannot look at"),
    ] {
        let answer = home.haft(&["inspect", file]);
        let all = format!("{}{}", answer.stdout, answer.stderr);
        assert!(answer.code == code && all.contains(expected), "{file}: {} {all}", answer.code);
    }
    let found = json(&home, &["inspect", "cut.wasm"]);
    assert_eq!(found["components"][0]["sizes"]["component"], 600_000);
    assert!(found["components"][0]["error"].is_string());
}

#[test]
fn what_comes_with_haft_is_known_by_its_name() {
    let home = Home::new();
    let answer = home.haft(&["inspect", "files"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(
        answer.stdout.contains("part of haft")
            && answer.stdout.contains("read(file_path: string, offset?: integer"),
        "{}",
        answer.stdout
    );
    let answer = home.haft(&["inspect", "flies"]);
    assert_eq!(answer.code, 5);
    assert!(answer.stderr.contains("did you mean `files`?"), "{}", answer.stderr);
}

/// PR11: an installed package shows its granted rights, and a change of its file is a problem.
#[test]
fn what_is_installed_shows_its_rights() {
    let home = with_foreign();
    assert_eq!(home.haft(&["inspect", "time"]).code, 0, "the built-in of that name");
    let added = home.haft(&["add", "time.wasm", "--as", "clock", "--grant", "read=./docs", "--yes"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    let found = json(&home, &["inspect", "clock"]);
    assert_eq!(found["installed"], true);
    assert_eq!(found["granted"], serde_json::json!(["read ./docs"]));
    assert_eq!(found["components"][0]["tools"][0]["name"], "clock__get_current_time");
    let mut bytes = fs::read(home.work().join("time.wasm")).unwrap();
    bytes[600_000] ^= 1;
    fs::write(home.work().join("time.wasm"), bytes).unwrap();
    let answer = home.haft(&["inspect", "clock"]);
    assert!(answer.code == 3 && answer.stdout.contains("problem"), "{}", answer.stdout);
}

/// A component can be published to a registry, inspected, installed and called.
#[test]
fn a_component_goes_through_a_registry() {
    let (home, fake) = (with_foreign(), Fake::honest());
    let reference = fake.reference("haft/time:0.2.0").to_string();
    let dry = home.haft(&["plugin", "publish", &reference, "time.wasm", "--dry-run"]);
    assert!(dry.code == 0 && fake.seen().is_empty(), "{}", dry.stderr);
    let published = home.haft(&["plugin", "publish", &reference, "time.wasm"]);
    assert_eq!(published.code, 0, "{}", published.stderr);
    let digest = published.stdout.trim().to_owned();
    assert!(
        digest.starts_with("sha256:") && published.stderr.contains(&format!("haft add {reference}@{digest}"))
    );
    assert_eq!(json(&home, &["inspect", &reference])["resolved"], digest);
    let again = home.haft(&["plugin", "publish", &reference, "time.wasm"]);
    assert!(again.code == 0 && again.stderr.contains("exists already"), "{}", again.stderr);
    let mut other = fs::read(home.work().join("time.wasm")).unwrap();
    // An additional custom section makes a component with other bytes.
    other.extend_from_slice(b"\0\x02\x01x");
    fs::write(home.work().join("other.wasm"), other).unwrap();
    let refused = home.haft(&["plugin", "publish", &reference, "other.wasm"]);
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let added = home.haft(&["add", &format!("{reference}@{digest}"), "--yes"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    let called = home.haft(&["call", "time__get_current_time", r#"{"timezone":"UTC"}"#]);
    assert!(called.code == 0 && called.stdout.contains("+00:00"), "{}{}", called.stdout, called.stderr);
}

/// A package of several parts can be published, inspected, installed and called.
#[test]
fn a_package_goes_through_a_registry() {
    let (home, fake) = (with_foreign(), Fake::honest());
    let folder = home.work().join("package");
    fs::create_dir(&folder).unwrap();
    fs::copy(repository().join(FOREIGN), folder.join("time.wasm")).unwrap();
    let text = "[program]\nname = \"clocks\"\nversion = \"1.2.3\"\ndescription = \"Clocks\"\n\
                [[plugins]]\nname = \"wall\"\ncomponent = \"time.wasm\"\n[plugins.grant]\nhosts = [\"time.test\"]\n";
    fs::write(folder.join("program.toml"), text).unwrap();
    let reference = fake.reference("haft/clocks:1.2.3").to_string();
    let published = home.haft(&["plugin", "publish", &reference, "package"]);
    assert_eq!(published.code, 0, "{}", published.stderr);
    let found = json(&home, &["inspect", &reference]);
    assert_eq!((&found["name"], &found["kind"]), (&"clocks".into(), &"package".into()));
    assert_eq!(found["asked"], serde_json::json!(["reach time.test"]));
    let added = home.haft(&["add", &reference, "--no-grant", "--yes"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_eq!(json(&home, &["inspect", "clocks"])["granted"], serde_json::json!([]));
    let called = home.haft(&["call", "wall__get_current_time", r#"{"timezone":"UTC"}"#]);
    assert!(called.stdout.contains("+00:00"), "{}{}", called.stdout, called.stderr);
}

/// WA07: haft publishes neither invalid content nor content for an invalid reference.
#[test]
fn what_is_not_right_is_not_published() {
    let (home, fake) = (Home::new(), Fake::honest());
    fs::write(home.work().join("empty.wasm"), EMPTY).unwrap();
    let reference = fake.reference("haft/x:1").to_string();
    let refused = home.haft(&["plugin", "publish", &reference, "empty.wasm"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("nothing was published"), "{}", refused.stderr);
    for (reference, expected) in [
        (
            "oci://example.test/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "` has a digest; publishing needs a tag",
        ),
        ("example.test/a:1", "expected it to begin with `oci://`"),
    ] {
        let refused = home.haft(&["plugin", "publish", reference, "empty.wasm"]);
        assert!(refused.code == 5 && refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(fake.seen().is_empty());
}

/// CL04: haft uses the credential of a helper and does not print it.
#[test]
fn a_credential_helper_is_asked_and_not_shown() {
    use std::os::unix::fs::PermissionsExt;
    let home = with_foreign();
    let fake = Fake::lying(|asked, _| {
        let right = asked.header("authorization") == Some("Basic dTpwYXNzd29yZC00NzEx");
        let challenge = vec![("www-authenticate", "Basic realm=\"r\"".to_owned())];
        (!right).then(|| crate::registry::fake::Reply::Full(401, challenge, Vec::new()))
    });
    // A directory that tools cannot write.
    let folder = home.work().parent().unwrap().join("bin");
    fs::create_dir(&folder).unwrap();
    let helper = folder.join("docker-credential-test");
    let script = "#!/bin/sh\nread -r server\n[ \"$1\" = get ] || exit 1\n\
                  printf '{\"ServerURL\":\"%s\",\"Username\":\"u\",\"Secret\":\"password-4711\"}' \"$server\"\n";
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let config = serde_json::json!({ "credHelpers": { fake.address.to_string(): "test" } });
    home.write("config.json", &config.to_string());
    let reference = fake.reference("haft/time:1").to_string();
    let mut command = home.command(&["-vvv", "plugin", "publish", &reference, "time.wasm"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display())).env("DOCKER_CONFIG", home.work());
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("4711") && !said.contains("dTpwYXNzd29yZC00NzEx"), "{said}");
    // If the helper is not on PATH, the error names it.
    let mut command = home.command(&["plugin", "publish", &reference, "time.wasm"]);
    let output = command.env("DOCKER_CONFIG", home.work()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the credential helper `docker-credential-test` was not found in PATH"), "{said}");
    // X9: haft does not search directories that a command of the program can write.
    let folder = home.work().join("bin");
    fs::create_dir(&folder).unwrap();
    fs::copy(&helper, folder.join("docker-credential-test")).unwrap();
    let mut command = home.command(&["plugin", "publish", &reference, "time.wasm"]);
    command.env("PATH", format!("{}:{path}", folder.display())).env("DOCKER_CONFIG", home.work());
    let said = String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned();
    assert!(said.contains("directories that tools may write are not searched"), "{said}");
}
