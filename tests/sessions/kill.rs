//! Kills haft at any moment: no completed call is lost, and none is repeated by mistake. `HAFT_TEST_KILLS` is the
//! number of kills; `.ci/steps/sessions` sets 200.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use haft::agent::UNKNOWN;
use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers};
use crate::common::wait::until;

/// Kills where nothing is said.
const USUAL_KILLS: u64 = 10;
/// Turns of the script; each makes two calls that change something and one that reads.
const STEPS: usize = 4;

fn item(step: usize, part: &str) -> String {
    format!("{step}-{part}")
}

/// What a careful model does: it appends each item once, and where it is told that nobody knows whether it did, it looks.
fn script(messages: &[Value]) -> Says {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for (tool, arguments, answer) in answers(messages) {
        let command = arguments["command"].as_str().unwrap_or_default().to_owned();
        if tool != "bash" {
            continue;
        }
        for step in 1..=STEPS {
            for part in ["a", "b"] {
                let item = item(step, part);
                if command.contains(&format!("appended {item}")) {
                    let state = match answer.as_str() {
                        answer if answer.contains(&format!("appended {item}")) => "done",
                        answer if answer.contains(UNKNOWN) => "unknown",
                        _ => "missing",
                    };
                    known.insert(item, state);
                } else if command.contains("cat log") && known.get(&item) == Some(&"unknown") {
                    // An answer that did not come leaves it open.
                    if answer.contains("looked") {
                        known.insert(
                            item.clone(),
                            if answer.lines().any(|line| line == item) { "done" } else { "missing" },
                        );
                    }
                }
            }
        }
    }
    for step in 1..=STEPS {
        let open: Vec<_> = ["a", "b"]
            .map(|part| item(step, part))
            .into_iter()
            .filter(|item| known.get(item) != Some(&"done"))
            .collect();
        if open.iter().any(|item| known.get(item) == Some(&"unknown")) {
            return Says::call("bash", json!({ "command": "cat log; echo looked" }));
        }
        if !open.is_empty() {
            let append = |item: &String| {
                let command = format!("sleep 0.02; echo {item} >> log; sleep 0.02; echo appended {item}");
                ("bash", json!({ "command": command }))
            };
            let mut calls: Vec<_> = open.iter().map(append).collect();
            calls.push(("read", json!({ "file_path": "program.toml", "limit": 1 })));
            return Says { text: format!("step {step}"), calls, ..Says::default() };
        }
    }
    Says::text("all is appended")
}

/// Where a run was killed, in words, and how often it had to be gone on with.
#[derive(Default)]
struct Points(BTreeMap<&'static str, usize>);

impl Points {
    fn count(&mut self, point: &'static str) {
        *self.0.entry(point).or_default() += 1;
    }
}

/// A number that differs from trial to trial, the same in every run of the test.
pub(super) fn random(seed: u64) -> u64 {
    // SplitMix64.
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Starts haft and kills it after so many looks at it; how often it was looked at before it ended, where it did.
fn killed(place: &Place, arguments: &[&str], looks: u64) -> Result<(), u64> {
    let mut child = place.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut looked, mut is_over) = (0, false);
    until("haft ends or is killed", || {
        looked += 1;
        is_over = child.try_wait().unwrap().is_some();
        is_over || looked > looks
    });
    child.kill().unwrap();
    child.wait().unwrap();
    if is_over { Err(looked) } else { Ok(()) }
}

/// What the lines of the session say was going on.
fn point(place: &Place) -> &'static str {
    let files = place.files();
    let Some(file) = files.first() else { return "before the session" };
    let text = fs::read_to_string(file).unwrap();
    let last = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back();
    match last.as_ref().and_then(|line| line["kind"].as_str()) {
        Some("running") => "while a tool ran",
        Some("answered") => "after an answer",
        Some("turn") => "before a call",
        Some("said") => "before the model answered",
        Some("ended") => "after the end",
        _ => "at the beginning",
    }
}

fn trial(seed: u64, usual: u64, points: &mut Points) {
    let place = Place::new(Model::start(script), "");
    place.home.write("log", "");
    let mut seed = seed;
    let mut looks = || {
        seed = random(seed);
        // The first part of a run is the start of the process.
        usual / 8 + seed % usual
    };
    let mut was_killed = killed(&place, &["run", "append"], looks()).is_ok();
    points.count(point(&place));
    // Every fourth is killed once more while it goes on.
    if was_killed && looks().is_multiple_of(4) && !place.files().is_empty() {
        was_killed = killed(&place, &["run", "--resume"], looks()).is_ok();
        points.count(point(&place));
    }
    if was_killed && place.files().is_empty() {
        killed(&place, &["run", "append"], u64::MAX).unwrap_err();
    } else if was_killed && point(&place) != "after the end" {
        let resumed = place.haft(&["run", "--resume"]);
        assert_eq!((resumed.stdout.as_str(), resumed.code), ("all is appended\n", 0), "{}", resumed.stderr);
    }
    judge(&place);
}

/// The same end, whatever happened on the way.
fn judge(place: &Place) {
    place.model.assert_content();
    let mut lines: Vec<_> = place.read("log").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let expected: Vec<_> = (1..=STEPS).flat_map(|step| ["a", "b"].map(|part| item(step, part))).collect();
    assert_eq!(lines, expected, "{:?}", place.files());
    assert_run_once(place);
    assert_eq!(place.listed()[0]["state"], "done");
}

/// No line of the session is broken, and no call of the model was run twice.
pub(super) fn assert_run_once(place: &Place) {
    let [file] = place.files().try_into().expect("one session");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'));
    let mut running = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if line["kind"] == "turn" {
            running.clear();
        } else if line["kind"] == "running" {
            assert!(!running.contains(&line["call"]), "run twice: {line}\n{text}");
            running.push(line["call"].clone());
        }
    }
}

/// How often haft is killed.
pub(super) fn kills() -> u64 {
    std::env::var("HAFT_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(USUAL_KILLS)
}

/// PL20: killed at random moments and gone on with, a run comes to the same end as one that nobody disturbs, and every
/// tool ran once for every call.
#[test]
fn a_run_that_is_killed_goes_on() {
    let kills = kills();
    // The first builds what is kept in the cache; the second tells how many looks a run takes.
    let mut usual = 0;
    for _ in 0..2 {
        let place = Place::new(Model::start(script), "");
        place.home.write("log", "");
        usual = killed(&place, &["run", "append"], u64::MAX).unwrap_err();
        judge(&place);
    }
    let place = Place::new(Model::start(script), "");
    place.home.write("log", "");
    let answer = place.haft(&["run", "append"]);
    assert_eq!((answer.stdout.as_str(), answer.code), ("all is appended\n", 0), "{}", answer.stderr);
    judge(&place);
    let mut points = Points::default();
    for seed in 0..kills {
        trial(seed, usual, &mut points);
    }
    eprintln!("a run takes {usual} looks; killed {kills} times: {:?}", points.0);
}
