//! The filter of system calls: calls that a sandbox of files does not cover, and that no honest tool needs.
//! Denied calls return an error number, so that programs can continue.
//!
//! Only denied calls are listed: new system calls on files are covered by the mounts and Landlock, and an
//! allow-list would break programs with every release of a C library.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

/// Rules by system call; an empty list matches every use of it.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are denied whatever their arguments.
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

/// Calls that root's programs (`tar`, `cp -a`, package managers) expect to succeed, and abort without. Root in
/// the sandbox has no right to change owners, and an ordinary user's programs do not try.
const PRETENDED: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// The error number of a call that has no effect and reports success.
const SUCCESS: i32 = 0;

/// Calls that C libraries try first and can do without: `ENOSYS` makes them use another call.
const MISSING: &[i64] = &[
    // Its flags are in memory, where a filter cannot see them; `clone` is used instead.
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The mode of a new file is in memory too; `openat` is used instead.
    libc::SYS_openat2,
];

/// Calls that are denied additionally without mount namespaces, since no mount protects other programs'
/// objects.
const DENIED_WITHOUT_MOUNTS: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that act on a process, with the argument that names it; 0 is the caller.
const OF_PROCESSES: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Calls that act on a process, group or user, with the argument that names it; the argument before selects the
/// kind.
const OF_SEVERAL: &[(i64, u8)] = &[(libc::SYS_setpriority, 1), (libc::SYS_ioprio_set, 1)];

/// Calls that are reported as unsupported without mount namespaces; tools tolerate file systems without them.
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

/// The library lacks this number for musl on ARM, where it is that of all newer architectures.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Numbers that the library lacks; equal on every architecture.
const OPEN_TREE_ATTR: i64 = 467;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
pub(super) const FCHMODAT2: i64 = 452;

/// Set-user-ID and set-group-ID: a file of root with such a bit gives its rights to all users.
const SET_ID: u64 = 0o6000;
/// All flags of `clone` that create a namespace.
const NEW_NAMESPACES: u64 = 0x7e02_0000;
/// Requests that set a file's flags, such as "immutable", through a read-only descriptor.
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
/// On x86-64, the flag of call numbers in the x32 table.
const X32: u32 = 0x4000_0000;

/// Installs the filters of `policy` in this process and its descendants, irrevocably.
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

/// Compiles a filter that returns `errno` for calls that match `rules` and allows all others. A program of
/// another architecture, whose call numbers differ, is killed.
fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()?)
}

/// Prepends a check that the library lacks: on x86-64 every call has a second number in the x32 table, which
/// the rules do not contain.
fn without_second_table(program: BpfProgram) -> BpfProgram {
    if cfg!(not(target_arch = "x86_64")) {
        return program;
    }
    // Every instruction code fits in 16 bits.
    let instruction =
        |code: u32, jt, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut whole = vec![
        // The call's number is at offset 0 of the filter's input.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, answer),
    ];
    whole.extend(program);
    whole
}

/// Returns rules that match every use of `calls`.
pub(super) fn listed(calls: impl IntoIterator<Item = i64>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Returns the rules of a call whose argument has any bit of `flags`.
pub(super) fn any_bit(argument: u8, flags: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    flags.iter().map(|flag| all_of(&[set(argument, u64::from(flag.cast_unsigned()))])).collect()
}

/// Installs a filter that makes calls matching `rules` wait for a listener; returns the listener.
pub(super) fn listened(rules: Rules) -> std::io::Result<OwnedFd> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(std::io::Error::other)?;
    // The library has no such action: `Trace`, which is otherwise unused, is replaced below.
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

/// From `asm-generic/ioctls.h`; libc's constants have another type on musl.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

fn denied(policy: &Policy) -> Result<Rules, seccompiler::Error> {
    let mut rules = listed(DENIED.iter().copied());
    rules.insert(
        libc::SYS_clone,
        bits(NEW_NAMESPACES).map(|bit| all_of(&[set(0, bit)])).collect::<Result<_, _>>()?,
    );
    // TIOCSTI types into a terminal, TIOCLINUX into a console. The kernel reads 32 bits.
    let requests = [TIOCSTI, TIOCLINUX].map(|request| all_of(&[equal(1, request)]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<Result<_, _>>()?);
    for (call, argument) in MODES {
        let modes = bits(SET_ID).map(|bit| all_of(&[set(*argument, bit)]));
        rules.insert(*call, modes.collect::<Result<_, _>>()?);
    }
    for (call, flags) in OPENS {
        // The mode is only valid if a file is created.
        let making = [libc::O_CREAT, TMPFILE]
            .into_iter()
            .flat_map(|making| bits(SET_ID).map(move |bit| (making, bit)));
        let rule = |(making, bit): (i32, u64)| {
            all_of(&[set(*flags, u64::from(making.cast_unsigned())), set(flags + 1, bit)])
        };
        rules.insert(*call, making.map(rule).collect::<Result<_, _>>()?);
    }
    let mut sockets = vec![other_families(policy)?];
    if policy.supervises_sockets() && !policy.unix_sockets {
        // The watcher connects those of streams; others send without a connection.
        let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET];
        let unix = equal(0, u64::from(libc::AF_UNIX.cast_unsigned()));
        for kind in kinds {
            sockets.push(all_of(&[unix.clone(), kind_of_socket(1, kind)])?);
        }
    }
    rules.insert(libc::SYS_socket, sockets);
    if !policy.hosts.is_empty() {
        // They connect like `connect`, to an address in memory.
        for (call, flags) in SENDS {
            rules.insert(*call, any_bit(*flags, &[libc::MSG_FASTOPEN])?);
        }
        let options = REROUTING.iter().map(|(level, name)| {
            all_of(&[(1, Is::Eq, level.unsigned_abs().into()), (2, Is::Eq, name.unsigned_abs().into())])
        });
        rules.insert(libc::SYS_setsockopt, options.collect::<Result<_, _>>()?);
    }
    if !policy.unix_sockets {
        // A datagram socket of a pair can be connected to any other socket.
        let pairs = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| all_of(&[kind_of_socket(1, kind)]));
        rules.insert(libc::SYS_socketpair, pairs.into_iter().collect::<Result<_, _>>()?);
    }
    if !policy.layers.namespaces {
        rules.extend(listed(DENIED_WITHOUT_MOUNTS.iter().copied()));
        for (call, argument) in OF_PROCESSES {
            rules.insert(*call, vec![all_of(&[(*argument, Is::Ne, 0)])?]);
        }
        for (call, argument) in OF_SEVERAL {
            let others =
                [all_of(&[(*argument, Is::Ne, 0)])?, all_of(&[(argument - 1, Is::Gt, ONE_PROCESS)])?];
            rules.insert(*call, others.into());
        }
    }
    Ok(rules)
}

/// Calls that send, with the argument that holds their flags.
const SENDS: &[(i64, u8)] = &[(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];

/// Options, by level and number, that lead the packets of a connection past the route to its address: to another
/// machine (`IPV6_RTHDR` needs no capability), or to another link.
const REROUTING: &[(libc::c_int, libc::c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_DONTROUTE),
    (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
    (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX),
    (libc::IPPROTO_IP, libc::IP_OPTIONS),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
    (libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS),
];

/// The greater of `PRIO_PROCESS` and `IOPRIO_WHO_PROCESS`, which name a process.
const ONE_PROCESS: u64 = 1;

/// Calls that set a file's mode, with the argument that holds it.
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

/// Calls that may create a file, with the argument that holds their flags; the next one is the mode.
const OPENS: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The bit of `O_TMPFILE` alone.
const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

fn unsupported() -> Result<Rules, seccompiler::Error> {
    let mut rules = listed(UNSUPPORTED_WITHOUT_MOUNTS.iter().copied());
    let requests = [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR].map(|request| all_of(&[equal(1, request)]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Returns a rule that matches every socket family except the allowed ones.
fn other_families(policy: &Policy) -> Result<SeccompRule, seccompiler::Error> {
    let mut allowed = vec![libc::AF_NETLINK];
    // A network namespace isolates the network already, and lets the child use its own servers.
    if policy.network || policy.layers.namespaces {
        allowed.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if policy.unix_sockets || policy.supervises_sockets() {
        allowed.push(libc::AF_UNIX);
    }
    let other = |family: libc::c_int| (0, Is::Ne, u64::from(family.cast_unsigned()));
    all_of(&allowed.into_iter().map(other).collect::<Vec<_>>())
}

/// A comparison: the argument, the operator, the value.
type Comparison = (u8, Is, u64);

fn set(argument: u8, bit: u64) -> Comparison {
    (argument, Is::MaskedEq(bit), bit)
}

/// The socket type is in the lower bits; the upper bits are flags.
fn kind_of_socket(argument: u8, kind: libc::c_int) -> Comparison {
    (argument, Is::MaskedEq(0xf), u64::from(kind.cast_unsigned()))
}

fn equal(argument: u8, value: u64) -> Comparison {
    (argument, Is::Eq, value & u64::from(u32::MAX))
}

fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|bit| 1 << bit).filter(move |bit| mask & bit != 0)
}

/// Returns a rule that matches if all comparisons match.
fn all_of(comparisons: &[Comparison]) -> Result<SeccompRule, seccompiler::Error> {
    let condition = |(argument, is, value): &Comparison| {
        SeccompCondition::new(*argument, Length::Dword, is.clone(), *value)
    };
    Ok(SeccompRule::new(comparisons.iter().map(condition).collect::<Result<_, _>>()?)?)
}
