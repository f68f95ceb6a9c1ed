//! The attempts on Linux, made by this program itself, started like any command.

mod attempt;
mod files;
mod fixture;
mod hosts;
mod processes;
mod raw;
mod system;
mod tried;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use self::attempt::entry;
use self::attempt::{ATTEMPTS, ATTEMPTS_ON_HOSTS, Answer, Attempt, VERB};
use self::fixture::Fixture;
use self::tried::Brief;
use crate::confine::{Confiner, Layers};
use crate::process::start::ENVIRONMENT;
use crate::process::{self, ExitReason, Finished, Output, ProcessError, ProcessSpec};
use crate::selftest::{Finding, Outcome, SelfTest, SelfTestError};
use haft_core::grant::Grant;
use haft_core::tool::Own;
use haft_manifest::ProcessLimits;

/// Time limit for all attempts, which take some milliseconds.
const BOUND: Duration = Duration::from_secs(5);
/// Limit on the characters of the attempts' output, which has some thousands.
const MAX_ANSWER: usize = 100_000;

/// Makes all attempts under the layers of `confiner`. They use a temporary directory in `data`, and attack one
/// in `state`, which is closed to them; both are removed afterwards.
pub async fn run(confiner: &Confiner, data: &Path, state: &Path) -> Result<SelfTest, SelfTestError> {
    let started = Instant::now();
    let failed = |error: io::Error| SelfTestError::Failed(format!("cannot prepare it: {error}"));
    let fixture = Fixture::prepare(data, state).map_err(failed)?;
    let brief = fixture.brief(&environment());
    let tried = answers(confiner, &brief, &fixture.grant).await?;
    if !fixture.was_entered() {
        return Err(SelfTestError::Failed("writing to an allowed place failed too".into()));
    }
    let layers = confiner.layers();
    let findings = ATTEMPTS.iter().map(|attempt| finding(attempt, &tried, &fixture, layers));
    let _host = fixture.answer().map_err(failed)?;
    let of_hosts = findings_of_hosts(confiner, &fixture, Brief { has_hosts: true, ..brief }).await;
    let unheld_hosts = of_hosts.iter().find_map(unheld);
    Ok(SelfTest { findings: findings.chain(of_hosts).collect(), unheld_hosts, took: started.elapsed() })
}

/// Returns the reason why a process with single hosts reaches nothing, if the finding has it.
fn unheld(finding: &Finding) -> Option<String> {
    match &finding.outcome {
        Outcome::Held(why) => {
            Some(why.strip_prefix(hosts::UNREACHED).or(why.strip_prefix(UNHELD))?.to_owned())
        }
        _ => None,
    }
}

/// The start of the reason why the kernel cannot hold a process to its hosts.
const UNHELD: &str = "it is not started: ";

/// Makes the attempts of a process with single hosts, which is refused where the kernel cannot hold it to them.
async fn findings_of_hosts(confiner: &Confiner, fixture: &Fixture, brief: Brief) -> Vec<Finding> {
    let all = |outcome: Outcome| {
        let finding = |attempt: &Attempt| {
            let outcome = outcome.clone();
            Finding { attempt: attempt.name, promise: attempt.promise, outcome }
        };
        ATTEMPTS_ON_HOSTS.iter().map(finding).collect()
    };
    let Some(grant) = fixture.grant_of_hosts() else { return Vec::new() };
    let answers = match confiner.probe(&grant).await {
        Ok(_) => answers(confiner, &brief, &grant).await,
        Err(error) => Err(ProcessError::from(error).into()),
    };
    match answers {
        Ok(answers) => {
            let layers = confiner.layers();
            ATTEMPTS_ON_HOSTS.iter().map(|attempt| finding(attempt, &answers, fixture, layers)).collect()
        }
        Err(SelfTestError::Process(ProcessError::Confine(why))) => {
            all(Outcome::Held(format!("{UNHELD}{why}")))
        }
        Err(error) => all(Outcome::Untried(error.to_string())),
    }
}

fn finding(attempt: &Attempt, answers: &[Answer], fixture: &Fixture, layers: Layers) -> Finding {
    let reported = answers.iter().find(|answer| answer.attempt == attempt.name).map(|answer| &answer.outcome);
    let reported = reported.cloned().unwrap_or_else(|| Outcome::Untried("it ended before this".into()));
    let seen = (attempt.evidence)(fixture).map(Outcome::Escaped);
    let is_known = layers == Layers::NONE || (attempt.gap)(layers);
    let outcome = match seen.unwrap_or(reported) {
        Outcome::Escaped(how) if is_known => Outcome::Gap(how),
        outcome => outcome,
    };
    Finding { attempt: attempt.name, promise: attempt.promise, outcome }
}

async fn answers(confiner: &Confiner, brief: &Brief, grant: &Grant) -> Result<Vec<Answer>, SelfTestError> {
    let job = ProcessSpec {
        // In the helper that becomes the command, this is the helper, which is the same program.
        program: "/proc/self/exe".into(),
        arguments: vec![VERB.into()],
        environment: Vec::new(),
        input: serde_json::to_vec(brief).map_err(|error| SelfTestError::Failed(error.to_string()))?,
        output: Output::Separate,
        limit: MAX_ANSWER,
        timeout: BOUND,
        limits: ProcessLimits::default(),
    };
    let owner = Own::default();
    let mut finished = process::run(confiner, &job, "self-test", &owner.context(grant)).await?;
    let text = finished.stdout.render(MAX_ANSWER);
    let answers: Vec<Answer> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if answers.is_empty() { Err(SelfTestError::Failed(silence(&mut finished))) } else { Ok(answers) }
}

fn silence(finished: &mut Finished) -> String {
    let end = match finished.end {
        ExitReason::Exited(status) => format!("it ended with {status} without a message"),
        ExitReason::TimedOut | ExitReason::Cancelled => format!("it did not finish within {BOUND:?}"),
    };
    let errors = finished.stderr.as_mut().map(|text| text.render(MAX_ANSWER)).unwrap_or_default();
    if errors.is_empty() { end } else { format!("{end}: {}", errors.trim_end()) }
}

/// Returns the variables that a child may see under any grant.
fn environment() -> Vec<String> {
    let always = ["PATH", "PWD", "TERM"];
    ENVIRONMENT.iter().copied().chain(always).map(str::to_owned).collect()
}
