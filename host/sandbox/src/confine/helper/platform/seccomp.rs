//! The filter of system calls: what a sandbox of files cannot see, and no honest tool needs. It
//! refuses by error number, so that programs go on where they can.
//!
//! Only what is denied is listed: new system calls that act on files are held by the mounts and
//! by Landlock, and a list of what is allowed would break programs with every release of a C library.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

/// Rules for one system call; none means every use of it.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What nothing that runs in the sandbox may do, whatever the arguments.
const DENIED: &[i64] = &[
    // Mounts, namespaces, roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Files by number instead of by path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
];

/// What root's programs take for granted (`tar`, `cp -a`, package managers), and end without. Root
/// in the sandbox has no right to give files away, and an ordinary user's programs do not try.
const PRETENDED: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// The error number of a call that has done nothing and says that all is well.
const SUCCESS: i32 = 0;

/// What C libraries ask for first and do without: an answer of "not there" makes them go on.
const MISSING: &[i64] = &[
    // Its flags lie in memory, where no filter sees them; `clone` is used instead.
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // So does the mode that it would give a file; `openat` does the same.
    libc::SYS_openat2,
];

/// What is denied in addition where mounts do not keep files outside from it.
const DENIED_WITHOUT_MOUNTS: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// What acts on the process that an argument names, and which argument that is; 0 is the caller.
const OF_PROCESSES: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// The same, where the argument before says whether it names a process, a group or a user.
const OF_SEVERAL: &[(i64, u8)] = &[(libc::SYS_setpriority, 1), (libc::SYS_ioprio_set, 1)];

/// The same, where tools shrug at a file system that has no such thing.
const UNSUPPORTED_WITHOUT_MOUNTS: &[i64] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
];

/// The library does not know it for musl on ARM, whose numbers are those of all newer architectures.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Numbers that the library does not know yet; the same on every architecture.
const OPEN_TREE_ATTR: i64 = 467;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
pub(super) const FCHMODAT2: i64 = 452;

/// Set-user-id and set-group-id: a file of root with one gives its rights to all users.
const SET_ID: u64 = 0o6000;
/// Every flag of `clone` that makes a namespace.
const NEW_NAMESPACES: u64 = 0x7e02_0000;
/// Requests that set a file's flags, such as "immutable", through a descriptor that only reads.
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
/// On x86-64, the numbers of a second table of the same calls.
const X32: u32 = 0x4000_0000;

/// Puts the filters for `policy` over this process and all that come from it. No way back.
pub(super) fn apply(policy: &Policy) -> Result<(), seccompiler::Error> {
    let missing = without_second_table(program(listed(MISSING.iter().copied()), libc::ENOSYS)?);
    apply_filter(&program(denied(policy)?, libc::EPERM)?)?;
    if rustix::process::geteuid().is_root() {
        apply_filter(&program(listed(PRETENDED.iter().copied()), SUCCESS)?)?;
    }
    if !policy.layers.namespaces {
        apply_filter(&program(unsupported()?, libc::ENOTSUP)?)?;
    }
    apply_filter(&missing)
}

/// A filter that answers what `rules` hold with `errno` and lets everything else pass. A program
/// of another architecture, whose numbers mean other calls, is killed.
fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()?)
}

/// Puts in front of a filter what the library leaves out: on x86-64 every call can also be made
/// under a second number, which no list of numbers holds.
fn without_second_table(program: BpfProgram) -> BpfProgram {
    if cfg!(not(target_arch = "x86_64")) {
        return program;
    }
    // Every code of an instruction has 16 bits.
    let instruction =
        |code: u32, jt, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut whole = vec![
        // The number of the call stands at the beginning of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, answer),
    ];
    whole.extend(program);
    whole
}

/// Every use of `calls`.
pub(super) fn listed(calls: impl IntoIterator<Item = i64>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// The uses of a call whose argument has any bit of `flags`.
pub(super) fn any_bit(argument: u8, flags: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    flags.iter().map(|flag| all(&[set(argument, u64::from(flag.cast_unsigned()))])).collect()
}

/// Puts a filter over this process that has what `rules` hold wait for whoever has the descriptor.
pub(super) fn listened(rules: Rules) -> std::io::Result<OwnedFd> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(std::io::Error::other)?;
    // The library has no such answer: it stands in for one that nothing else uses here.
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), arch);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).map_err(std::io::Error::other)?;
    let waiting = |mut line: sock_filter| {
        if u32::from(line.code) == libc::BPF_RET | libc::BPF_K && line.k == libc::SECCOMP_RET_TRACE {
            line.k = libc::SECCOMP_RET_USER_NOTIF;
        }
        libc::sock_filter { code: line.code, jt: line.jt, jf: line.jf, k: line.k }
    };
    sys::filter_with_listener(&filter.into_iter().map(waiting).collect::<Vec<_>>())
}

/// As in `asm-generic/ioctls.h`; the type of libc's constants is another one on musl.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

fn denied(policy: &Policy) -> Result<Rules, seccompiler::Error> {
    let mut rules = listed(DENIED.iter().copied());
    rules.insert(
        libc::SYS_clone,
        bits(NEW_NAMESPACES).map(|bit| all(&[set(0, bit)])).collect::<Result<_, _>>()?,
    );
    // TIOCSTI types into a terminal, TIOCLINUX into a console. The kernel looks at 32 bits.
    let requests = [TIOCSTI, TIOCLINUX].map(|request| all(&[equal(1, request)]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<Result<_, _>>()?);
    for (call, argument) in MODES {
        let modes = bits(SET_ID).map(|bit| all(&[set(*argument, bit)]));
        rules.insert(*call, modes.collect::<Result<_, _>>()?);
    }
    for (call, flags) in OPENS {
        // The mode is only there where a file is made.
        let making = [libc::O_CREAT, TMPFILE]
            .into_iter()
            .flat_map(|making| bits(SET_ID).map(move |bit| (making, bit)));
        let rule = |(making, bit): (i32, u64)| {
            all(&[set(*flags, u64::from(making.cast_unsigned())), set(flags + 1, bit)])
        };
        rules.insert(*call, making.map(rule).collect::<Result<_, _>>()?);
    }
    rules.insert(libc::SYS_socket, vec![other_families(policy)?]);
    if !policy.unix_sockets {
        // One of a pair that takes datagrams can be turned to any other socket.
        let pairs = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| all(&[kind_of_socket(1, kind)]));
        rules.insert(libc::SYS_socketpair, pairs.into_iter().collect::<Result<_, _>>()?);
    }
    if !policy.layers.namespaces {
        rules.extend(listed(DENIED_WITHOUT_MOUNTS.iter().copied()));
        for (call, argument) in OF_PROCESSES {
            rules.insert(*call, vec![all(&[(*argument, Is::Ne, 0)])?]);
        }
        for (call, argument) in OF_SEVERAL {
            let others = [all(&[(*argument, Is::Ne, 0)])?, all(&[(argument - 1, Is::Gt, ONE_PROCESS)])?];
            rules.insert(*call, others.into());
        }
    }
    Ok(rules)
}

/// `PRIO_PROCESS` and `IOPRIO_WHO_PROCESS`, the greater of the two; groups and users come after.
const ONE_PROCESS: u64 = 1;

/// Calls that give a file its mode, and which argument that is.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that may make a file, and which argument holds their flags; the mode is the next one.
const OPENS: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The flag of `open` that makes a file without a name, alone.
const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

fn unsupported() -> Result<Rules, seccompiler::Error> {
    let mut rules = listed(UNSUPPORTED_WITHOUT_MOUNTS.iter().copied());
    let requests = [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR].map(|request| all(&[equal(1, request)]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Every family of sockets but those that are allowed.
fn other_families(policy: &Policy) -> Result<SeccompRule, seccompiler::Error> {
    let mut allowed = vec![libc::AF_NETLINK];
    // A network namespace has the network cut already, and keeps the child's own servers useful.
    if policy.network || policy.layers.namespaces {
        allowed.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if policy.unix_sockets {
        allowed.push(libc::AF_UNIX);
    }
    let other = |family: libc::c_int| (0, Is::Ne, u64::from(family.cast_unsigned()));
    all(&allowed.into_iter().map(other).collect::<Vec<_>>())
}

/// One comparison: which argument, how, with what.
type Comparison = (u8, Is, u64);

fn set(argument: u8, bit: u64) -> Comparison {
    (argument, Is::MaskedEq(bit), bit)
}

/// The kind stands in the lower bits, beside flags.
fn kind_of_socket(argument: u8, kind: libc::c_int) -> Comparison {
    (argument, Is::MaskedEq(0xf), u64::from(kind.cast_unsigned()))
}

fn equal(argument: u8, value: u64) -> Comparison {
    (argument, Is::Eq, value & u64::from(u32::MAX))
}

fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|bit| 1 << bit).filter(move |bit| mask & bit != 0)
}

/// Holds where all comparisons do.
fn all(comparisons: &[Comparison]) -> Result<SeccompRule, seccompiler::Error> {
    let condition = |(argument, is, value): &Comparison| {
        SeccompCondition::new(*argument, Length::Dword, is.clone(), *value)
    };
    Ok(SeccompRule::new(comparisons.iter().map(condition).collect::<Result<_, _>>()?)?)
}
