//! The persistent state of plugins, bounded by quotas. Independent of the plugin host: the caller checks rights
//! and cancellation.
//!
//! - [`Homes`] and [`Owner`]: the location, the size and the removal of a plugin's data.
//! - [`Store`]: keys and values, changed in transactions; an acknowledged change survives the end of the
//!   process.
//! - [`FileQuota`]: the size limit of a private directory that several processes write.

mod owner;
mod quota;
mod store;

pub use self::owner::{Homes, Kept, Owner, Swept};
pub use self::quota::{FileQuota, QuotaError, Usage};
pub use self::store::error::{MAX_KEY, MAX_READ, MAX_VALUE, StoreError, WAIT};
pub use self::store::{Change, Keys, Store};

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn homes(place: &Path) -> Homes {
        Homes { state: place.join("state"), cache: place.join("cache") }
    }

    /// A plugin's data is separate for every program.toml, and for every package.
    #[test]
    fn everybody_keeps_their_own() {
        let place = tempfile::tempdir().unwrap();
        let (homes, program) = (homes(place.path()), place.path().join("program.toml"));
        fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(&program, place.path().join("link.toml")).unwrap();
        let owner = |program: &str, package, plugin| Owner::new(&place.path().join(program), package, plugin);
        let files = |owner: &Owner| homes.files(Kept::State, owner);
        let own = owner("program.toml", None, "p");
        assert_eq!(files(&own), files(&owner("link.toml", None, "p")));
        for other in [
            owner("other.toml", None, "p"),
            owner("program.toml", Some("k"), "p"),
            owner("program.toml", None, "q"),
        ] {
            assert_ne!(files(&own), files(&other));
        }
    }

    /// `haft remove` of a package removes the data of all its plugins, and no other data.
    #[test]
    fn what_a_package_keeps_goes_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (homes, program) = (homes(place.path()), place.path().join("program.toml"));
        let owners = [(None, "k"), (Some("k"), "a"), (Some("k"), "b"), (Some("k2"), "a"), (None, "kk")];
        let owners = owners.map(|(package, plugin)| Owner::new(&program, package, plugin));
        for owner in &owners {
            homes.store(owner, 1000).change("", &[Change::Set("a".into(), vec![1])]).unwrap();
            drop(FileQuota::open(&homes, Kept::Cache, owner, 1).unwrap());
        }
        assert!(homes.remove(&program, "k").unwrap());
        let is_there =
            |owner: &Owner| [Kept::State, Kept::Cache].map(|kept| homes.files(kept, owner).exists());
        assert_eq!(
            owners.each_ref().map(is_there),
            [[false; 2], [false; 2], [false; 2], [true; 2], [true; 2]]
        );
        assert_eq!(homes.usage(&owners[3]).entries, 1 + 1 + 64);
        assert_eq!(homes.usage_of(&program, "k2").entries, 1 + 1 + 64);
        assert_eq!(homes.usage(&owners[0]), Usage::default());
    }

    /// The cache of a removed program is deleted, and its state only on request.
    #[test]
    fn what_programs_leave_behind_is_found() {
        let place = tempfile::tempdir().unwrap();
        let homes = homes(place.path());
        let [gone, here] = ["gone.toml", "here.toml"].map(|name| place.path().join(name));
        fs::write(&here, "").unwrap();
        for program in [&gone, &here] {
            let owner = Owner::new(program, None, "p");
            drop(FileQuota::open(&homes, Kept::State, &owner, 1).unwrap());
            drop(FileQuota::open(&homes, Kept::Cache, &owner, 1).unwrap());
        }
        let found = |state, dry_run| {
            let swept = homes.sweep(state, dry_run).unwrap();
            assert!(swept.iter().all(|swept| swept.program == gone), "{swept:?}");
            swept.into_iter().map(|swept| swept.kept).collect::<Vec<_>>()
        };
        assert_eq!(found(false, true), [Kept::State, Kept::Cache]);
        assert_eq!(found(false, false), [Kept::State, Kept::Cache]);
        assert_eq!(found(false, false), [Kept::State]);
        assert_eq!(found(true, false), [Kept::State]);
        assert_eq!(found(true, false), []);
    }

    /// A private directory is limited to its quota, whatever it contained before and whichever process writes.
    #[test]
    fn files_have_a_quota_too() {
        let place = tempfile::tempdir().unwrap();
        let (homes, owner) = (homes(place.path()), Owner::new(&place.path().join("program.toml"), None, "p"));
        let open = || FileQuota::open(&homes, Kept::State, &owner, 20_000).unwrap();
        let (one, other) = (open(), open());
        let write = |name: &str, bytes: usize| fs::write(one.directory().join(name), vec![0; bytes]).unwrap();
        write("before", 5000);
        assert_eq!(one.charge(10_000, || true), Ok(()));
        write("new", 10_000 - 4096);
        assert_eq!(one.charge(1000, || true), Err(QuotaError::Full), "5000 and a block were there");
        assert_eq!(one.charge(900, || true), Ok(()));
        write("new", 900);
        assert_eq!(one.charge(5000, || true), Ok(()), "what was written again is counted again");
        assert_eq!(other.charge(1, || false), Err(QuotaError::Busy));
        one.release();
        assert_eq!(other.charge(5909, || true), Err(QuotaError::Full));
        assert_eq!(other.charge(5908, || true), Ok(()));
    }
}
