//! Questions sent in answer to a call, to be answered when the client repeats the call (2026-07-28, "multi round-trip
//! requests"). The `requestState` that the client returns is signed for one call, caller and program, and expires.
//! Every process with the key can verify it, including later processes and other replicas; its use is claimed from
//! [`Replicas`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use rmcp::model::JsonObject;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::replicas::Memory;
use crate::unix_time;
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::replicas::{Replicas, SharedKey};
use haft_core::tool::Question;

/// Maximum time for the user's answer, equal to that of a question during a call.
pub(super) const LIFE: Duration = Duration::from_mins(10);

/// The form of a state. Another form has another number.
const FORM: u8 = 2;

/// Size in bytes of the number that distinguishes two questions about one call.
const NONCE: usize = 16;

/// Size in bytes of the signed payload: format, time, nonce and question.
const PAYLOAD: usize = 1 + 8 + NONCE + size_of::<QuestionHash>();

/// Size in bytes of a signature.
const TAG: usize = 32;

/// The questions of one program. Clones share the questions.
#[derive(Clone, Debug)]
pub struct Questions {
    /// The keepers of the key, and of the record of used states.
    replicas: Arc<dyn Replicas>,
    /// Identifies the program.
    program: Arc<[u8]>,
    /// The key that signs states.
    key: Arc<OnceCell<hmac::Key>>,
}

/// The reason why an answer is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnusableAnswer {
    /// The state is invalid, or belongs to another call, caller, program or key.
    #[error("this answer belongs to no question about this call, of this program and caller")]
    Foreign,
    /// The question has expired.
    #[error("this question has expired: make the call again without an answer")]
    Late,
    /// The question was answered before, here or at another replica.
    #[error(
        "this answer was used before: an answer is good for one call, once; make the call again without an answer"
    )]
    Used,
}

/// A hash that identifies a call.
pub(super) type Fingerprint = [u8; 32];

/// A hash of a question's text. The text may change between two equal calls, for example if program.toml changes the
/// tool's command line.
pub(super) type QuestionHash = [u8; 32];

impl Default for Questions {
    fn default() -> Self {
        Self::new(Arc::new(Memory::default()), Vec::new())
    }
}

impl Questions {
    /// Returns the questions of `program`, valid at all of `replicas`.
    pub(super) fn new(replicas: Arc<dyn Replicas>, program: Vec<u8>) -> Self {
        Self { replicas, program: program.into(), key: Arc::default() }
    }

    /// Reads or creates the key, which the first question would wait for otherwise.
    pub async fn prepare(&self) -> io::Result<()> {
        self.key().await.map(drop)
    }

    /// Returns a state for the question with these words about `call`.
    pub(super) async fn create_state(
        &self,
        call: &Fingerprint,
        question_hash: &QuestionHash,
    ) -> io::Result<String> {
        let until = (unix_time() + LIFE).as_secs();
        let nonce: [u8; NONCE] = random::bytes()?;
        let payload = [&[FORM][..], &until.to_be_bytes(), &nonce, question_hash].concat();
        let tag = hmac::sign(self.key().await?, &self.signed(&payload, call));
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&payload, tag.as_ref()].concat()))
    }

    /// Returns the hash of the question and uses `state` up, if `state` belongs to an unanswered question about `call`.
    pub(super) async fn redeem(
        &self,
        state: &str,
        call: &Fingerprint,
    ) -> io::Result<Result<QuestionHash, UnusableAnswer>> {
        let Some((until, payload, tag)) = parse(state) else { return Ok(Err(UnusableAnswer::Foreign)) };
        if hmac::verify(self.key().await?, &self.signed(&payload, call), &tag).is_err() {
            return Ok(Err(UnusableAnswer::Foreign));
        }
        if until <= unix_time().as_secs() {
            return Ok(Err(UnusableAnswer::Late));
        }
        let claimed = self.replicas.claim(&hex(&tag)).await;
        let is_first = claimed.map_err(|error| named("the answer cannot be recorded", &error))?;
        let hash = payload.last_chunk().filter(|_| is_first);
        Ok(hash.copied().ok_or(UnusableAnswer::Used))
    }

    /// Returns the signed bytes: the payload, and the data that must be equal when the state returns.
    fn signed(&self, payload: &[u8], call: &Fingerprint) -> Vec<u8> {
        let program: [u8; 32] = Sha256::digest(&self.program).into();
        [b"haft question\0", payload, &program, call].concat()
    }

    async fn key(&self) -> io::Result<&hmac::Key> {
        let shared = || async {
            let key = self.replicas.key(SharedKey::new(Box::new(random::bytes()?))).await;
            let key = key.map_err(|error| named("the key of approvals is not available", &error))?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, key.expose_secret()))
        };
        self.key.get_or_try_init(shared).await
    }
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Returns the time, the signed payload and the signature, if `state` has this form.
fn parse(state: &str) -> Option<(u64, [u8; PAYLOAD], [u8; TAG])> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).ok()?;
    let (payload, tag) = bytes.split_at_checked(PAYLOAD)?;
    let (form, rest) = payload.split_first()?;
    let until = u64::from_be_bytes(*rest.first_chunk()?);
    (*form == FORM).then_some((until, payload.try_into().ok()?, tag.try_into().ok()?))
}

/// Returns the fingerprint of a call: who makes it, of which tool, and every byte of the arguments.
pub(super) fn fingerprint(caller: &str, tool: &str, arguments: Option<&JsonObject>) -> Fingerprint {
    let arguments = serde_json::to_vec(&arguments).unwrap_or_default();
    let named = [caller, tool]
        .into_iter()
        .fold(Sha256::new(), |hash, name| hash.chain_update(name).chain_update([0]));
    named.chain_update(arguments).finalize().into()
}

/// Returns the hash of all text that the user reads.
pub(super) fn question_hash(question: &Question) -> QuestionHash {
    // A repeated question may have another call id.
    let Question { tool, agent, verb, .. } = question;
    Sha256::digest([tool, agent.as_deref().unwrap_or_default(), *verb, &question.text].join("\0")).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::server::replicas;

    const HASH: QuestionHash = [7; 32];

    const A: Fingerprint = [1; 32];
    const B: Fingerprint = [2; 32];

    fn questions_in(folder: &Path, program: &str) -> Questions {
        Questions::new(replicas::of_user(folder.to_owned()), program.into())
    }

    #[tokio::test]
    async fn an_answer_is_good_for_one_call_once() {
        let questions = Questions::default();
        let state = questions.create_state(&A, &HASH).await.unwrap();
        assert!(questions.redeem("other", &A).await.unwrap().is_err());
        assert_eq!(questions.redeem(&state, &B).await.unwrap(), Err(UnusableAnswer::Foreign));
        assert!(questions.redeem(&state, &A).await.unwrap() == Ok(HASH));
        assert_eq!(questions.redeem(&state, &A).await.unwrap(), Err(UnusableAnswer::Used));
        let state = questions.create_state(&A, &HASH).await.unwrap();
        assert!(
            Questions::default().redeem(&state, &A).await.unwrap().is_err(),
            "another process that shares nothing"
        );
    }

    /// C07, RP01: every process that shares the folder accepts the answer, once; no answer is valid while the folder is
    /// unusable.
    #[tokio::test]
    async fn an_answer_is_good_for_every_process_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("approvals");
        let [one, two, other] = ["a", "a", "b"].map(|program| questions_in(&folder, program));
        let state = one.create_state(&A, &HASH).await.unwrap();
        assert_eq!(other.redeem(&state, &A).await.unwrap(), Err(UnusableAnswer::Foreign));
        assert_eq!(two.redeem(&state, &B).await.unwrap(), Err(UnusableAnswer::Foreign));
        assert_eq!(two.redeem(&state, &A).await.unwrap(), Ok(HASH));
        for again in [&one, &two, &questions_in(&folder, "a")] {
            assert_eq!(again.redeem(&state, &A).await.unwrap(), Err(UnusableAnswer::Used));
        }
        let state = one.create_state(&A, &HASH).await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "").unwrap();
        assert!(
            two.redeem(&state, &A).await.unwrap_err().to_string().contains("the answer cannot be recorded")
        );
    }

    /// C07: no bit of a state can be changed.
    #[tokio::test]
    async fn nobody_changes_a_state() {
        let questions = Questions::default();
        let state = BASE64_URL_SAFE_NO_PAD.decode(questions.create_state(&A, &HASH).await.unwrap()).unwrap();
        for index in 0..state.len() {
            let mut other = state.clone();
            other[index] ^= 1;
            assert!(
                questions.redeem(&BASE64_URL_SAFE_NO_PAD.encode(other), &A).await.unwrap().is_err(),
                "byte {index}"
            );
        }
        assert!(questions.redeem(&BASE64_URL_SAFE_NO_PAD.encode(&state[1..]), &A).await.unwrap().is_err());
        assert!(questions.redeem(&BASE64_URL_SAFE_NO_PAD.encode(state), &A).await.unwrap() == Ok(HASH));
    }

    /// C07: a state is valid for the user's maximum answer time.
    #[tokio::test]
    async fn a_state_ends() {
        let folder = tempfile::tempdir().unwrap();
        for questions in [Questions::default(), questions_in(folder.path(), "a")] {
            let old = unix_time().as_secs();
            let payload = [&[FORM][..], &old.to_be_bytes(), &[0; NONCE], &HASH].concat();
            let tag = hmac::sign(questions.key().await.unwrap(), &questions.signed(&payload, &A));
            let state = BASE64_URL_SAFE_NO_PAD.encode([&payload, tag.as_ref()].concat());
            assert_eq!(questions.redeem(&state, &A).await.unwrap(), Err(UnusableAnswer::Late));
        }
    }

    #[test]
    fn calls_differ_by_caller_tool_and_arguments() {
        let one = serde_json::json!({"a": 1}).as_object().cloned();
        let two = serde_json::json!({"a": 2}).as_object().cloned();
        let names = [
            fingerprint("x", "a", one.as_ref()),
            fingerprint("x", "a", two.as_ref()),
            fingerprint("x", "b", one.as_ref()),
            fingerprint("y", "a", one.as_ref()),
        ];
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(names[0], fingerprint("x", "a", one.as_ref()));
    }
}
