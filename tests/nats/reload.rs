//! A program that changes at gates and workers during calls: in any order, and no call fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::world::{Worker, World};
use crate::cli::Home;
use crate::common::wait::until;
use crate::serve::peer::Peer;

/// The process that reads the change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Gate,
    Worker(&'static str),
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// The description of a tool.
    Description,
    /// The lock file, which gates and workers must share.
    Lock,
}

const LOCK: &str = "version = 2\n[[pin]]\nname = \"x\"\nkind = \"plugin\"\nsource = \"x.wasm\"\ndigest = \"sha256:DIGITS\"\n\
                    contracts = []\nasked = []\ngranted = []\n";

impl Change {
    fn make(self, world: &World, who: Who) {
        let folder = match who {
            Who::Gate => world.gate_folder(),
            Who::Worker(name) => world.folder(name),
        };
        match self {
            Self::Lock => {
                std::fs::write(folder.join("program.lock"), LOCK.replace("DIGITS", &"0".repeat(64))).unwrap();
            }
            Self::Description => {
                let file = folder.join("program.toml");
                let text = std::fs::read_to_string(&file).unwrap();
                std::fs::write(&file, text.replace("Adds a mark.", "Adds a mark, as ever.")).unwrap();
            }
        }
    }
}

/// N21: calls continue in whichever order gate and workers read a change, and clients see the change in the end (N2).
#[test]
fn a_change_in_any_order_fails_no_call() {
    let (eu, us) = (Who::Worker("eu-1"), Who::Worker("eu-2"));
    for (change, order) in [
        (Change::Description, [Who::Gate, eu, us]),
        (Change::Description, [eu, us, Who::Gate]),
        (Change::Description, [eu, Who::Gate, us]),
        (Change::Lock, [Who::Gate, eu, us]),
        (Change::Lock, [eu, us, Who::Gate]),
    ] {
        let Some(world) = World::start() else { return };
        // Both files exist, because a new file ends the commands that might have written it.
        let settled = |home: &Home| home.write("program.lock", "version = 2\n");
        settled(world.gate_home());
        let worker = |name| world.worker_with(name, &["--label", "eu"], settled);
        let workers = [worker("eu-1"), worker("eu-2")];
        let mut gate = Peer::of(world.command(&["serve"]));
        gate.initialize("2025-11-25", &json!({}));
        gate.notify("notifications/initialized", json!({}));
        until("it is answered", || {
            gate.call("program__far__mark", json!({ "mark": "0" }))["isError"] == false
        });
        let (done, made) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // A failure here also ends the calls, for which the scope waits.
            let _done = Done(&done);
            let calls = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let answer = gate.call("program__far__mark", json!({ "mark": "1" }));
                    assert_eq!(answer["isError"], false, "{change:?} {order:?}: {answer}");
                    made.fetch_add(1, Ordering::Relaxed);
                }
                gate
            });
            let more = |count: usize| {
                let before = made.load(Ordering::Relaxed);
                until("calls go on", || {
                    made.load(Ordering::Relaxed) >= before + count || calls.is_finished()
                });
            };
            more(5);
            for who in order {
                change.make(&world, who);
                more(50);
            }
            if change == Change::Description {
                done.store(true, Ordering::Relaxed);
                let mut gate = calls.join().unwrap();
                until("clients see the change", || {
                    gate.request("tools/list", json!({})).to_string().contains("Adds a mark, as ever.")
                });
                let answer = gate.call("program__far__mark", json!({ "mark": "2" }));
                assert_eq!(answer["isError"], false, "{answer}");
            }
        });
        drop::<[Worker; 2]>(workers);
    }
}

/// Sets the flag when dropped.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
