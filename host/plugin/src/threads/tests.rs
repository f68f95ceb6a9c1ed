use std::fs;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::threads::permits::Tenant;

/// WA02: work of haft for a guest has haft's own rights, regardless of the thread that first
/// requested it.
#[test]
fn what_haft_does_for_a_guest_is_not_held_to_the_guests_directories() {
    let place = tempfile::tempdir().unwrap();
    let (threads, file) = (Arc::new(Threads::new()), place.path().join("new"));
    let (own, path) = (threads.for_guests(), file.clone());
    let done = async {
        let permit = threads
            .permits
            .acquire(Tenant::HAFT, || 0, Duration::from_mins(1), &CancellationToken::new())
            .await
            .unwrap();
        let work = move |handle: &Handle, sender: oneshot::Sender<_>| {
            let written = handle.block_on(own.run(move || fs::write(path, "written")));
            drop(sender.send(written.unwrap()));
        };
        threads.run(permit, Writable::default(), work).await
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(done).unwrap().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "written");
}
