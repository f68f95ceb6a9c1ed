//! Tries to get out of the sandbox by every known way, and reports which attempts were held. The attempts are made by
//! this program itself, started like any command; what happened to files is read from the disk, not taken from its
//! report.

mod attempt;
mod brief;
mod escape;
mod files;
mod fixture;
mod outcome;
mod processes;
mod raw;
mod system;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::attempt::{ATTEMPTS, Attempt};
pub(crate) use self::escape::entry;
use self::escape::{Answer, VERB};
use self::fixture::Fixture;
pub use self::outcome::Outcome;
use crate::confine::{Confiner, Layers};
use crate::process::start::ENVIRONMENT;
use crate::process::{self, ExitReason, Finished, Output, ProcessError, ProcessSpec};
use haft_core::tool::Own;

/// How long all attempts may take; they need some milliseconds.
const BOUND: Duration = Duration::from_secs(5);
/// Characters that the attempts may say; they need some thousands.
const MAX_ANSWER: usize = 100_000;

/// What came of all attempts.
#[derive(Debug)]
pub struct SelfTest {
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
    /// How long they took, all together.
    pub took: Duration,
}

/// What came of one attempt.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was tried.
    pub attempt: &'static str,
    /// What it would have broken.
    pub promise: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// What is attacked could not be set up.
    #[error("{0}")]
    Fixture(String),
    /// The one who tries could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It did not do what it is for, so that what it was refused says nothing.
    #[error("{0}")]
    Useless(String),
}

impl SelfTest {
    /// How many attempts were made, and how many of them were held.
    pub fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&Outcome) -> bool| self.outcomes().filter(|outcome| is(outcome)).count();
        let untried = count(|outcome| matches!(outcome, Outcome::Untried(_)));
        (self.findings.len() - untried, count(|outcome| matches!(outcome, Outcome::Held(_))))
    }

    /// Whether everything was held that the layers in use promise to keep.
    pub fn is_kept(&self) -> bool {
        !self.outcomes().any(|outcome| matches!(outcome, Outcome::Escaped(_)))
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.findings.iter().map(|finding| &finding.outcome)
    }
}

/// Makes all attempts under the layers of `confiner`. They work in a directory of their own in
/// `data`, and on one of their own in `state`, of which they are told that it is closed to them;
/// both are gone afterwards.
pub async fn run(confiner: &Confiner, data: &Path, state: &Path) -> Result<SelfTest, SelfTestError> {
    let started = Instant::now();
    let failed = |error: io::Error| SelfTestError::Fixture(format!("cannot prepare it: {error}"));
    let fixture = Fixture::prepare(data, state).map_err(failed)?;
    let answers = answers(confiner, &fixture).await?;
    if !fixture.was_entered() {
        return Err(SelfTestError::Useless("nothing could be written where it is allowed either".into()));
    }
    let layers = confiner.layers();
    let findings = ATTEMPTS.iter().map(|attempt| finding(attempt, &answers, &fixture, layers)).collect();
    Ok(SelfTest { findings, took: started.elapsed() })
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

/// Lets the attempts be made, and gives what is told of them.
async fn answers(confiner: &Confiner, fixture: &Fixture) -> Result<Vec<Answer>, SelfTestError> {
    let brief = fixture.brief(&environment());
    let job = ProcessSpec {
        // In the helper that becomes it, this is the helper: the same program.
        program: "/proc/self/exe".into(),
        arguments: vec![VERB.into()],
        environment: Vec::new(),
        input: serde_json::to_vec(&brief).map_err(|error| SelfTestError::Fixture(error.to_string()))?,
        output: Output::Separate,
        limit: MAX_ANSWER,
        timeout: BOUND,
    };
    let own = Own::default();
    let mut finished = process::run(confiner, &job, "self-test", &own.context(fixture.grant())).await?;
    let text = finished.stdout.render(MAX_ANSWER);
    let answers: Vec<Answer> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if answers.is_empty() { Err(SelfTestError::Useless(silence(&mut finished))) } else { Ok(answers) }
}

fn silence(finished: &mut Finished) -> String {
    let end = match finished.end {
        ExitReason::Exited(status) => format!("it ended with {status} and said nothing"),
        ExitReason::TimedOut | ExitReason::Cancelled => format!("it was not done after {BOUND:?}"),
    };
    let errors = finished.stderr.as_mut().map(|text| text.render(MAX_ANSWER)).unwrap_or_default();
    if errors.is_empty() { end } else { format!("{end}: {}", errors.trim_end()) }
}

/// Variables that a child may see whatever its grant.
fn environment() -> Vec<String> {
    let always = ["PATH", "PWD", "TERM"];
    ENVIRONMENT.iter().copied().chain(always).map(str::to_owned).collect()
}
