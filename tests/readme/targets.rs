//! docs/execution-targets.md, with a fake engine and a fake ssh: `.ci/steps/backends` has the real ones.

use std::os::unix::fs::symlink;

use super::Reader;
use crate::backends::{ENGINE, SSH, USUAL};
use crate::sessions::{Model, Says};

pub(super) const LINES: &[&str] = &[
    "haft run --tmux 'fix the failing test'",
    "haft run --container web 'why does it not start?'",
    "haft run --ssh me@build 'run the tests'",
    "haft run --container web --tmux=work '…'",
];

/// A task runs on the target of its line; without tmux on the machine the lines with `--tmux` report that.
#[test]
fn a_task_runs_where_its_line_says() {
    let model = Model::start(|_| Says::text("Nothing was wrong."));
    let reader = Reader::new().with("podman", ENGINE).with("ssh", SSH);
    for name in USUAL.iter().chain(&["basename"]) {
        symlink(haft::lookup::find_on_path(name).unwrap(), reader.programs.join(name)).unwrap();
    }
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[provider]\nname = \"openai\"\n\
         model = \"scripted\"\nbase_url = \"{}\"\n",
        model.base_url()
    );
    reader.home.write("program.toml", &program);
    for line in LINES {
        let mut shell = reader.shell(line);
        let answer = crate::cli::Answer::from(shell.env("PATH", &reader.programs).output().unwrap());
        let (said, is_well) = (format!("{}{}", answer.stdout, answer.stderr), answer.code == 0);
        if line.contains("--tmux") {
            assert!(!is_well && said.contains("tmux"), "{line}\n{said}");
        } else {
            assert!(is_well && said.contains("Nothing was wrong."), "{line}\n{said}");
        }
    }
    let report = std::fs::read_to_string(reader.home.work().join("../told")).unwrap();
    assert!(report.contains("podman exec") && report.contains("me@build"), "{report}");
}
