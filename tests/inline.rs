//! Calls of file tools that begin on the reading thread: they stay there while the files are on local disks.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use haft::limit::Limits;
use haft::plugin::{GrantPlace, Plugin, PluginTool, Source};
use haft::tool::Toolbox;
use haft::tool::inline::{self, ThreadLoad};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::common::wait::until_some;
use crate::common::{call, engine, grant, repository};

/// The tool `read` with the right to read a directory.
async fn reader(directory: &Path) -> Toolbox {
    let source = Source::File(repository().join("plugins/built/files.wasm"));
    let plugin = Plugin::load(engine(), "files", source, &Limits::default()).await.unwrap();
    let mut toolbox = Toolbox::default();
    let def = plugin.tools().iter().find(|tool| tool.name == "read").unwrap();
    let tool = PluginTool::new(&plugin, def, "read".into(), GrantPlace::Plugin);
    toolbox.insert(Arc::new(tool), grant(&[directory], &[]), Limits::default(), "the test").unwrap();
    toolbox
}

/// True if a call of `read` ends at its first poll, after an earlier call of the file was short.
fn ends_at_once(directory: &Path, file: &Path) -> bool {
    let runtime = Runtime::new().unwrap();
    let toolbox = runtime.block_on(reader(directory));
    let read = || call(&toolbox, "read", json!({ "file_path": file }));
    let reads = || {
        // haft does not run the next call inline after a long call, which may happen on a busy machine.
        until_some("a call begins inline", || {
            assert!(runtime.block_on(read()).content.contains("a line"));
            toolbox.find("read").unwrap().may_run_inline().then_some(())
        });
        inline::enable();
        let _inside = runtime.enter();
        let polled = pin!(read()).poll(&mut Context::from_waker(Waker::noop()));
        inline::run_cleanups(ThreadLoad::Idle);
        polled.map(|read| assert!(read.content.contains("a line"))) == Poll::Ready(())
    };
    std::thread::scope(|scope| scope.spawn(reads).join().unwrap())
}

#[test]
fn a_file_of_this_machine_is_read_on_the_thread_that_read_the_call() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("a");
    std::fs::write(&file, "a line\n").unwrap();
    until_some("a call ends at its first poll", || ends_at_once(directory.path(), &file).then_some(()));
}

/// A read from another file system does not run on the reading thread, because a mounted file system may be on
/// another machine that does not answer.
#[test]
fn no_thread_that_reads_calls_waits_for_another_file_system() {
    let mounted = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    std::fs::write(mounted.path(), "a line\n").unwrap();
    // On a busy machine the other thread may end the call before its first poll here ends.
    until_some("a call goes on elsewhere", || {
        (!ends_at_once(Path::new("/dev"), mounted.path())).then_some(())
    });
}
