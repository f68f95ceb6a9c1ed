//! The report of `haft doctor` on the layers of the kernel's sandbox, and on the escape attempts.

use std::fs;

use serde::Serialize;

use super::{Line, Mark};
use haft::program::Dirs;
use haft_core::grant::{Grant, Root};
use haft_sandbox::confine::{ConfineError, Confiner, Layers, Verdict};
use haft_sandbox::selftest::{self, Finding, Outcome, SelfTest, SelfTestError};

/// Versions of Landlock, and the operations that they restrict first.
const LATER: &[(u32, &str)] = &[(5, "requests to devices"), (6, "signals and abstract sockets")];

#[derive(Serialize)]
pub(super) struct Sandbox {
    #[serde(flatten)]
    layers: Layers,
    /// The reason why namespaces are missing.
    missing: Option<String>,
    verdict: &'static str,
    /// Operations that the sandbox does not restrict.
    gaps: Vec<&'static str>,
    /// The reason why commands are refused.
    refusal: Option<String>,
    hints: Vec<String>,
    self_test: Tested,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Tested {
    Done {
        tried: usize,
        held: usize,
        milliseconds: u128,
        is_kept: bool,
        /// Why processes cannot be held to single hosts.
        unheld_hosts: Option<String>,
        findings: Vec<Finding>,
    },
    NotRun {
        why: String,
        is_failure: bool,
    },
}

impl Sandbox {
    /// Tests all layers. `grant` belongs to the program in use, and may need more than the layers support.
    pub(super) async fn test(
        confiner: &Confiner,
        grant: Option<&Grant>,
        dirs: &Dirs,
        container: Option<&str>,
    ) -> Self {
        let self_test = tested(confiner, dirs).await;
        let (mut layers, mut missing) = (confiner.layers(), confiner.missing());
        let verdict = layers.verdict();
        if let Verdict::Refused(_) = verdict {
            // No process was started, so that the availability of namespaces is still unknown.
            missing = namespaces(layers).await.err();
            layers.namespaces = missing.is_none();
        }
        let refusal = match (&verdict, grant) {
            (Verdict::Refused(why), _) => Some(why.clone()),
            (_, Some(grant)) => confiner.refusal(grant).map(|error| match error {
                ConfineError::Refused(why) => why,
                error @ ConfineError::Failed(_) => error.to_string(),
            }),
            (_, None) => None,
        };
        let hints = missing.as_ref().map(|_| ways_to_namespaces(read, container)).unwrap_or_default();
        Self {
            layers,
            missing,
            verdict: name(&verdict, refusal.is_some()),
            gaps: if let Verdict::Reduced(gaps) = verdict { gaps } else { Vec::new() },
            refusal,
            hints,
            self_test,
        }
    }

    /// Returns whether commands cannot start.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns whether commands can start, and the sandbox keeps its promises.
    pub(super) fn holds(&self) -> bool {
        let is_tested = match &self.self_test {
            Tested::Done { is_kept, .. } => *is_kept,
            Tested::NotRun { is_failure, .. } => !is_failure,
        };
        is_tested && matches!(self.verdict, FULL | REDUCED)
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = self.layer_lines();
        lines.push(Line::new(
            Mark::Good,
            "watcher",
            "ends the processes that a call leaves behind, also if haft is killed",
        ));
        lines.extend(self.self_test.hosts_line(read));
        lines.extend([self.verdict_line(), self.self_test.line()]);
        lines
    }

    fn layer_lines(&self) -> Vec<Line> {
        if self.layers.seatbelt {
            return vec![Line::new(Mark::Good, "seatbelt", "the sandbox of macOS")];
        }
        let (filter, no_filter) =
            ("a filter of system calls", "not available for this processor architecture");
        vec![
            self.namespaces_line(),
            self.landlock_line(),
            self.layer(self.layers.seccomp, "seccomp", filter, no_filter),
            self.layer(
                self.layers.capabilities,
                "capabilities",
                "no capabilities, and no way to gain any",
                "",
            ),
        ]
    }

    fn namespaces_line(&self) -> Line {
        let has = "own files, processes and shared memory";
        let line = match &self.missing {
            Some(why) => Line::new(Mark::Warning, "namespaces", why),
            None => self.layer(self.layers.namespaces, "namespaces", has, ""),
        };
        line.hint(&self.hints)
    }

    fn landlock_line(&self) -> Line {
        let Some(version) = self.layers.landlock else {
            let line = self.layer(false, "landlock", "", "not available in this kernel");
            return if self.verdict == OFF { line } else { line.marked(Mark::Bad) };
        };
        let without: Vec<_> = LATER.iter().filter(|(since, _)| version < *since).map(|row| row.1).collect();
        let mut text = format!("version {version}");
        if !without.is_empty() {
            text = format!("{text}, without {}", without.join(", "));
        }
        let mark = if version < Layers::MIN_LANDLOCK { Mark::Bad } else { Mark::Good };
        Line::new(mark, "landlock", text)
    }

    fn layer(&self, is_there: bool, name: &str, has: &str, lacks: &str) -> Line {
        match is_there {
            true => Line::new(Mark::Good, name, has),
            false if self.verdict == OFF => Line::new(Mark::Warning, name, "not used"),
            false => Line::new(Mark::Warning, name, lacks),
        }
    }

    fn verdict_line(&self) -> Line {
        let line = |mark, text: &str| Line::new(mark, "verdict", text);
        match (&self.refusal, self.verdict) {
            (Some(why), _) => {
                line(Mark::Bad, "refused: `bash` and commands are not started").more([why.as_str()])
            }
            (None, FULL) => line(Mark::Good, "full: the kernel enforces every grant"),
            (None, REDUCED) => {
                line(Mark::Warning, "reduced: `bash` and commands run without these protections:")
                    .more(self.gaps.iter().map(|gap| format!("- {gap}")))
            }
            (None, _) => line(Mark::Bad, "off (`--unsafe-no-sandbox`): commands have all your rights"),
        }
    }
}

const FULL: &str = "full";
const REDUCED: &str = "reduced";
const REFUSED: &str = "refused";
const OFF: &str = "off";

fn name(verdict: &Verdict, is_refused: bool) -> &'static str {
    match verdict {
        Verdict::Refused(_) => REFUSED,
        _ if is_refused => REFUSED,
        Verdict::Full => FULL,
        Verdict::Reduced(_) => REDUCED,
        Verdict::Open => OFF,
    }
}

async fn tested(confiner: &Confiner, dirs: &Dirs) -> Tested {
    let failed = |why: String| Tested::NotRun { why, is_failure: true };
    if let Verdict::Refused(_) = confiner.layers().verdict() {
        let why = "processes need a working sandbox to start".to_owned();
        return Tested::NotRun { why, is_failure: false };
    }
    if let Err(error) = dirs.create().and_then(|()| dirs.own().map(drop)) {
        return failed(error.to_string());
    }
    match selftest::run(confiner, &dirs.data, &dirs.state).await {
        Ok(done) => Tested::done(done),
        Err(SelfTestError::NoAttempts(system)) => {
            let why = format!("there are no attempts for {system}");
            Tested::NotRun { why, is_failure: false }
        }
        Err(error) => failed(error.to_string()),
    }
}

/// Tests namespaces alone, and returns the reason why they are missing.
async fn namespaces(layers: Layers) -> Result<(), String> {
    let layers = Layers { namespaces: true, ..layers };
    let grant = Grant::none().with_read_anywhere().with_workspace(Root::everything());
    let probed = Confiner::exactly("/proc/self/exe", layers).probe(&grant).await;
    probed.map(drop).map_err(|error| error.to_string())
}

impl Tested {
    fn done(done: SelfTest) -> Self {
        let (tried, held) = done.counts();
        let (milliseconds, is_kept) = (done.took.as_millis(), done.is_kept());
        let SelfTest { findings, unheld_hosts, .. } = done;
        Self::Done { tried, held, milliseconds, is_kept, unheld_hosts, findings }
    }

    /// Returns whether processes can be held to single hosts and services, and otherwise why not.
    fn hosts_line(&self, read: impl Fn(&str) -> Option<String>) -> Option<Line> {
        let Self::Done { unheld_hosts, .. } = self else { return None };
        let Some(why) = unheld_hosts else {
            let text = "haft can limit processes to their `hosts` and `services`";
            return Some(Line::new(Mark::Good, "single hosts", text));
        };
        // Yama forbids to read another process's memory and files (`ptrace(2)`).
        let scope = read("kernel/yama/ptrace_scope").and_then(|text| text.trim().parse::<u8>().ok());
        let is_yama = scope.is_some_and(|scope| scope >= 2);
        let hint = is_yama.then_some("`sysctl kernel.yama.ptrace_scope=1`, after a restart if it is 3, lets haft see the connections of its children");
        let line = Line::new(
            Mark::Warning,
            "single hosts",
            "processes with `hosts` or single `services` do not work",
        );
        Some(line.more([why]).hint(hint))
    }

    fn line(&self) -> Line {
        let (tried, held, milliseconds, findings) = match self {
            Self::NotRun { why, is_failure } => {
                let mark = if *is_failure { Mark::Bad } else { Mark::Absent };
                return Line::new(mark, "self-test", format!("not run: {why}"));
            }
            Self::Done { tried, held, milliseconds, findings, .. } => (tried, held, milliseconds, findings),
        };
        let is = |is: fn(&Outcome) -> bool| findings.iter().any(|finding| is(&finding.outcome));
        let mark = match (is(|outcome| matches!(outcome, Outcome::Escaped(_))), held == tried) {
            (true, _) => Mark::Bad,
            (false, true) => Mark::Good,
            (false, false) => Mark::Warning,
        };
        let text = format!("{held} of {tried} escape attempts blocked ({milliseconds} ms)");
        Line::new(mark, "self-test", text).more(findings.iter().filter_map(finding_text))
    }
}

/// Returns a text about an attempt, if it was not blocked.
fn finding_text(finding: &Finding) -> Option<String> {
    let Finding { attempt, promise, outcome } = finding;
    match outcome {
        Outcome::Held(_) => None,
        Outcome::Escaped(how) => Some(format!("ESCAPED: {attempt}: {how} (promised: {promise})")),
        Outcome::Gap(how) => Some(format!("not blocked: {attempt}: {how}")),
        Outcome::Untried(why) => Some(format!("not tried: {attempt}: {why}")),
    }
}

fn read(setting: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{setting}")).ok()
}

/// Returns the probable causes of missing namespaces, with their remedies.
fn ways_to_namespaces(read: impl Fn(&str) -> Option<String>, container: Option<&str>) -> Vec<String> {
    let is = |setting: &str, value: &str| read(setting).is_some_and(|text| text.trim() == value);
    let mut ways = Vec::new();
    if is("user/max_user_namespaces", "0") {
        ways.push("`sysctl user.max_user_namespaces=15000` allows them".to_owned());
    }
    if is("kernel/unprivileged_userns_clone", "0") {
        ways.push("`sysctl kernel.unprivileged_userns_clone=1` allows them to every user".to_owned());
    }
    if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        ways.push("an AppArmor profile for haft with `userns,` allows them".to_owned());
    }
    if let Some(kind) = container {
        ways.push(format!(
            "{kind} blocks them in its containers; use a seccomp profile that allows `unshare` and the mount \
             calls (`--security-opt seccomp=FILE`)"
        ));
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SB08: the advice names the setting that prevents namespaces.
    #[test]
    fn what_keeps_namespaces_away_is_named() {
        let none = |_: &str| None;
        assert!(ways_to_namespaces(none, None).is_empty());
        assert!(ways_to_namespaces(none, Some("Docker"))[0].starts_with("Docker blocks"));
        let debian = |name: &str| name.ends_with("userns_clone").then(|| "0\n".to_owned());
        assert!(ways_to_namespaces(debian, None)[0].contains("userns_clone=1"));
        let ubuntu = |name: &str| name.contains("apparmor").then(|| "1\n".to_owned());
        assert!(ways_to_namespaces(ubuntu, None)[0].contains("AppArmor"));
    }

    /// SB08: each finding that was not blocked has a line.
    #[test]
    fn what_got_out_is_never_left_out() {
        let finding = |outcome| Finding { attempt: "a", promise: "p", outcome };
        let findings = [
            finding(Outcome::Held("h".into())),
            finding(Outcome::Gap("g".into())),
            finding(Outcome::Escaped("e".into())),
            finding(Outcome::Untried("u".into())),
        ];
        let lines: Vec<_> = findings.iter().filter_map(finding_text).collect();
        assert_eq!(lines, ["not blocked: a: g", "ESCAPED: a: e (promised: p)", "not tried: a: u"]);
    }
}
