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

/// The default number of kills.
const USUAL_KILLS: u64 = 10;
/// Turns of the script; each makes two calls with effects and one that reads.
const STEPS: usize = 4;

fn item(step: usize, part: &str) -> String {
    format!("{step}-{part}")
}

/// The turns of a careful model: it appends each item once, and reads the log if the outcome of a call is unknown.
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
                    // Without an answer the item stays unknown.
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

/// The moments at which runs were killed, with their number.
#[derive(Default)]
struct Points(BTreeMap<&'static str, usize>);

impl Points {
    fn count(&mut self, point: &'static str) {
        *self.0.entry(point).or_default() += 1;
    }
}

/// A number that differs between trials, and is equal in every run of the test.
pub(super) fn random(seed: u64) -> u64 {
    // SplitMix64.
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Starts haft and kills it after `looks` checks; if haft ended before, the error is the number of checks.
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

/// The moment of a kill, from the last line of the session.
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
    // Every fourth run is killed again after it resumed.
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

/// The end of a run is the same after any kills.
fn judge(place: &Place) {
    place.model.assert_content();
    let mut lines: Vec<_> = place.read("log").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let expected: Vec<_> = (1..=STEPS).flat_map(|step| ["a", "b"].map(|part| item(step, part))).collect();
    assert_eq!(lines, expected, "{:?}", place.files());
    assert_run_once(place);
    assert_eq!(place.listed()[0]["state"], "done");
}

/// Every line of the session is valid, and no call of the model ran twice.
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

/// The number of kills.
pub(super) fn kills() -> u64 {
    std::env::var("HAFT_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(USUAL_KILLS)
}

/// PL20: a run that is killed at random moments and resumed has the result of an undisturbed run, and every call ran
/// once.
#[test]
fn a_run_that_is_killed_goes_on() {
    let kills = kills();
    // The first run fills the cache; the second gives the number of checks of a run.
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
