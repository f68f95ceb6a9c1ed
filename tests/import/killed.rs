//! Kills haft, as by `kill -9`, right before a system call that changes a file: at the first call of each kind, and
//! for each open file. After each kill the file has the old or the new content, and can be restored.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::{fixture, put};
use crate::cli::Home;

/// System calls that change files, by their first argument: a descriptor.
const ON_A_FILE: &[i64] =
    &[libc::SYS_write, libc::SYS_fsync, libc::SYS_fchmod, libc::SYS_flistxattr, libc::SYS_flock];

/// Descriptors of the files that haft writes.
const DESCRIPTORS: std::ops::Range<u64> = 5..17;

/// System calls that change names, one after the replacement of a file, and the last one of a process.
const OTHERS: &[i64] = &[
    libc::SYS_fdatasync,
    libc::SYS_exit_group,
    libc::SYS_linkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
];

/// The least number of kills, of both verbs together.
const ENOUGH: usize = 20;

/// A moment to kill a process: a system call, with its first argument or any.
#[derive(Clone, Copy, Debug)]
struct Moment(i64, Option<u64>);

impl Moment {
    fn all() -> Vec<Self> {
        // The message for the user is the last write.
        let on_files = [Self(libc::SYS_write, Some(2))].into_iter();
        let on_files =
            on_files.chain(ON_A_FILE.iter().flat_map(|call| DESCRIPTORS.map(|file| Self(*call, Some(file)))));
        on_files.chain(OTHERS.iter().map(|call| Self(*call, None))).collect()
    }

    fn filter(self) -> BpfProgram {
        let condition =
            |file| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, file).unwrap();
        let rule = self.1.map(|file| SeccompRule::new(vec![condition(file)]).unwrap());
        let rules = [(self.0, rule.into_iter().collect())].into();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::KillProcess, arch)
            .unwrap()
            .try_into()
            .unwrap()
    }

    /// Runs haft; whether it was killed.
    fn ends(self, home: &Home, arguments: &[&str]) -> bool {
        let mut command = home.command(arguments);
        let filter = self.filter();
        // The filter applies to this thread and its children.
        let thread = std::thread::spawn(move || {
            let (null, null_too) = (std::process::Stdio::null(), std::process::Stdio::null());
            command.stdout(null).stderr(null_too);
            seccompiler::apply_filter(&filter).unwrap();
            command.status().unwrap()
        });
        thread.join().unwrap().signal() == Some(libc::SIGSYS)
    }
}

#[test]
fn a_killed_import_and_a_killed_undo_leave_files_that_are_put_back() {
    let old = fixture("vscode.json");
    let new = {
        let home = Home::new();
        let path = put(&home, "vscode.json", "work/.vscode/mcp.json");
        assert_eq!(home.haft(&["import", "vscode", "--yes"]).code, 0);
        fs::read_to_string(path).unwrap()
    };
    let mut all = 0;
    for (is_undo, arguments) in [(false, &["import", "vscode", "--yes"][..]), (true, &["import", "--undo"])] {
        let (mut ended, mut changed) = (0, 0);
        for moment in Moment::all() {
            let home = Home::new();
            let path = put(&home, "vscode.json", "work/.vscode/mcp.json");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            if is_undo {
                assert_eq!(home.haft(&["import", "vscode", "--yes"]).code, 0);
            }
            if !moment.ends(&home, arguments) {
                continue;
            }
            ended += 1;
            let text = fs::read_to_string(&path).unwrap();
            assert!(text == old || text == new, "{moment:?}: {text}");
            changed += usize::from((text == old) == is_undo);
            let undone = home.haft(&["import", "--undo"]);
            assert_eq!(undone.code, 0, "{moment:?}: {}", undone.stderr);
            assert_eq!(fs::read_to_string(&path).unwrap(), old, "{moment:?}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "{moment:?}");
            let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(names, 1, "{moment:?}: something is left beside the file");
            let records = fs::read_dir(home.state().join("import")).into_iter().flatten().count();
            assert_eq!(records, 0, "{moment:?}: a record is left");
        }
        eprintln!("ended at {ended} moments, {changed} of them after the file was replaced");
        assert!((1..ended).contains(&changed), "{arguments:?}: {ended}, {changed}");
        all += ended;
    }
    assert!(all >= ENOUGH, "{all}");
}
