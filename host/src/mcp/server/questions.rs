//! Questions that were handed out with an answer to a call, to be answered when the call comes again
//! (2026-07-28, "multi round-trip requests"). Each is good for one call, the one it was asked about,
//! for a while; a name that was never handed out is good for nothing.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::JsonObject;
use sha2::{Digest, Sha256};

use super::random;

/// Questions that wait for an answer; the oldest is forgotten for another.
const MAX_QUESTIONS: usize = 256;

/// How long a person may take. As long as one who is asked while the call waits.
const LIFE: Duration = Duration::from_mins(10);

/// The questions of one server. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions(Arc<Mutex<HashMap<String, Asked>>>);

/// What tells one call from another.
pub(super) type Fingerprint = [u8; 32];

#[derive(Debug)]
struct Asked {
    call: Fingerprint,
    at: Instant,
}

impl Questions {
    /// Remembers that `call` was asked about; the name of the question, which nobody can guess.
    pub(super) fn put(&self, call: Fingerprint) -> io::Result<String> {
        let name = random::name()?;
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, asked| asked.at.elapsed() < LIFE);
        if asked.len() >= MAX_QUESTIONS {
            let oldest = asked.iter().min_by_key(|(_, asked)| asked.at).map(|(name, _)| name.clone());
            oldest.map(|name| asked.remove(&name));
        }
        asked.insert(name.clone(), Asked { call, at: Instant::now() });
        Ok(name)
    }

    /// Whether the question `name` was asked about `call`. It is used up.
    pub(super) fn take(&self, name: &str, call: &Fingerprint) -> bool {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        asked.is_some_and(|asked| asked.call == *call && asked.at.elapsed() < LIFE)
    }
}

/// The fingerprint of a call: of the tool, and every byte of the arguments.
pub(super) fn fingerprint(tool: &str, arguments: Option<&JsonObject>) -> Fingerprint {
    let arguments = serde_json::to_vec(&arguments).unwrap_or_default();
    Sha256::new().chain_update(tool).chain_update([0]).chain_update(arguments).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fingerprint = [1; 32];
    const B: Fingerprint = [2; 32];

    #[test]
    fn an_answer_is_good_for_one_call_once() {
        let questions = Questions::default();
        let name = questions.put(A).unwrap();
        assert!(!questions.take("other", &A));
        assert!(questions.take(&name, &A));
        assert!(!questions.take(&name, &A), "used twice");
        let name = questions.put(A).unwrap();
        assert!(!questions.take(&name, &B), "used for another call");
    }

    #[test]
    fn questions_are_bounded() {
        let questions = Questions::default();
        let first = questions.put(A).unwrap();
        for _ in 0..MAX_QUESTIONS * 2 {
            questions.put(B).unwrap();
        }
        assert_eq!(questions.0.lock().unwrap().len(), MAX_QUESTIONS);
        assert!(!questions.take(&first, &A));
    }

    #[test]
    fn calls_differ_by_tool_and_arguments() {
        let one = serde_json::json!({"a": 1}).as_object().cloned();
        let two = serde_json::json!({"a": 2}).as_object().cloned();
        let names =
            [fingerprint("a", one.as_ref()), fingerprint("a", two.as_ref()), fingerprint("b", one.as_ref())];
        assert!(names[0] != names[1] && names[0] != names[2]);
        assert_eq!(names[0], fingerprint("a", one.as_ref()));
    }
}
