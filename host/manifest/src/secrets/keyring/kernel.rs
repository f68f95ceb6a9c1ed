//! The kernel's keyring (keyrings(7)): a `user` key whose description is the entry as written in program.toml, in
//! the session's or the user's keyring. Never requests a key: that starts a program.

use linux_keyutils::{KeyRing, KeyRingIdentifier};

use crate::KeyringEntry;

/// Returns the value of the entry, if this process can read it.
pub(super) fn read(entry: &KeyringEntry) -> Option<Vec<u8>> {
    // A service without a session of its own does not possess the user's keyring through its session.
    let rings = [KeyRingIdentifier::Session, KeyRingIdentifier::User];
    let find = |ring| KeyRing::from_special_id(ring, false)?.search(&entry.to_string())?.read_to_vec();
    rings.into_iter().find_map(|ring| find(ring).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the kernel has keyrings for this process, an entry in them is found.
    #[test]
    fn a_key_of_the_session_is_found() {
        let entry =
            KeyringEntry { service: "haft.test/x".into(), user: format!("ada-{}", std::process::id()) };
        assert_eq!(read(&entry), None);
        let Ok(ring) = KeyRing::from_special_id(KeyRingIdentifier::User, true) else { return };
        let Ok(key) = ring.add_key(&entry.to_string(), b"sk-4711-0815") else { return };
        assert_eq!(read(&entry).as_deref(), Some(b"sk-4711-0815".as_slice()));
        key.invalidate().unwrap();
        assert_eq!(read(&entry), None);
    }
}
