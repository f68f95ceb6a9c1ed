//! Debugging information for a plugin's author: the location of a guest's end, and the core dump and the profile that
//! `haft call` writes. The tests with the compilers of five languages are in `.ci/faults`.

use std::fs;

use serde_json::json;

use crate::cli::Home;
use crate::common::hostile;
use crate::tiny::Tiny;

/// A program with the hostile guest, whose time limit is one second.
fn home() -> Home {
    let home = Home::new();
    let component = hostile().display().to_string();
    let limits = "[plugins.limits]\ntime = \"1s\"\n";
    home.write(
        "program.toml",
        &format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n{limits}"),
    );
    home
}

/// The first line of the error has the location and the message of a panic.
#[test]
fn a_panic_is_told_with_its_place_first() {
    let answer = home().call("guest__panic", &json!({ "message": "no\nway" }));
    let expected = "Tool error (haft): `guest__panic` panicked at tests/guests/hostile/src/fall.rs:6: no way";
    assert_eq!(answer.stderr.lines().next(), Some(expected));
}

/// `--coredump` writes a module with the stack of a trap, and writes nothing if no plugin trapped.
#[test]
fn a_core_dump_is_written_of_a_trap() {
    let home = Home::new();
    let guest = Tiny { before_answering: "unreachable", ..Tiny::default() };
    fs::write(home.work().join("tiny.wasm"), guest.bytes()).unwrap();
    home.write("program.toml", "[[plugins]]\nname = \"guest\"\ncomponent = \"tiny.wasm\"\n");
    let trapped = home.haft(&["call", "guest__tiny", "--coredump", "dump"]);
    assert!(trapped.stderr.contains("wrote `dump`"), "{}", trapped.stderr);
    let dump = fs::read(home.work().join("dump")).unwrap();
    assert!(dump.starts_with(b"\0asm\x01\0\0\0"), "{:?}", &dump[..8]);
    let names = ["core", "coremodules", "coreinstances", "corestack"];
    for name in names {
        assert!(dump.windows(name.len()).any(|found| found == name.as_bytes()), "no section {name}");
    }
    fs::remove_file(home.work().join("dump")).unwrap();
    let answered = home.haft(&["call", "time", "--coredump", "dump"]);
    assert!(answered.stderr.contains("no core dump: no plugin trapped"), "{}", answered.stderr);
    assert!(!home.work().join("dump").exists());
}

/// `--profile` writes the samples of a computing guest, as SVG or as text.
#[test]
fn a_profile_shows_where_the_time_goes() {
    let home = home();
    let spins = home.haft(&["call", "guest__spin", "--profile", "flame.svg"]);
    assert!(spins.stderr.contains("wrote `flame.svg`: the plugin was sampled"), "{}", spins.stderr);
    let svg = fs::read_to_string(home.work().join("flame.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("guest__spin") && svg.contains("100.0 %"), "{svg}");
    home.haft(&["call", "guest__spin", "--profile", "stacks.folded"]);
    let text = fs::read_to_string(home.work().join("stacks.folded")).unwrap();
    let seen: u64 = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert!(seen > 10, "a guest that spins for a second is seen more often: {text}");
}
