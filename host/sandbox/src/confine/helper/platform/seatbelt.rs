//! The policy as a profile of Seatbelt, the sandbox of macOS. Everything is denied by default, and the
//! permissions of the policy are listed. Paths are never part of the text: they are parameters, so that a path
//! cannot add a rule.
//!
//! The last matching rule applies; hence the order: permissions, then denials. Seatbelt matches by path alone.
//! A denied path inside a writable directory would be accessible under another name, so none of its parent
//! directories may be moved.
//!
//! SB11 describes a profile that allows by default and lists denials. Such a list misses everything that its
//! author did not think of; an allow-list does not.
//!
//! **Untested:** the text is tested on every system, its effect in the kernel of macOS is not.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::confine::layers::Layers;
use crate::confine::policy::Policy;
use crate::confine::wire::Command;

/// The program that starts a command under a profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// The needs of every program besides files: starting processes, signalling them, queries about the system and
/// its users, a terminal, and shared memory among its own processes.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm-read* ipc-posix-shm-write-create ipc-posix-shm-write-data ipc-posix-shm-write-unlink)
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* file-write-data
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/dtracehelper")
  (subpath "/dev/fd"))
(allow file-ioctl (literal "/dev/dtracehelper"))
"#;

/// The rules for limited reading: files that every program needs to start, and metadata on the way to readable
/// paths.
const SYSTEM_FILES: &str = r#"(allow file-read-metadata)
(allow file-read-data (literal "/"))
(allow file-read*
  (subpath "/System")
  (subpath "/Library/Apple")
  (subpath "/Library/Developer/CommandLineTools")
  (subpath "/usr/bin")
  (subpath "/usr/lib")
  (subpath "/usr/libexec")
  (subpath "/usr/sbin")
  (subpath "/usr/share")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/private/etc")
  (subpath "/private/var/db/dyld")
  (subpath "/private/var/db/timezone")
  (literal "/private/var/select/sh")
  (literal "/private/var/select/developer_dir"))
"#;

/// The network, and the services that resolve names and check certificates.
const NETWORK: &str = r#"(allow network-outbound (remote ip))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd")
  (global-name "com.apple.trustd.agent"))
"#;

/// Unix sockets of this machine's services.
const UNIX_SOCKETS: &str = r"(allow system-socket (socket-domain AF_UNIX))
(allow network-bind (local unix-socket))
(allow network-inbound (local unix-socket))
(allow network-outbound (remote unix-socket))
";

#[derive(Debug, PartialEq, Eq)]
struct Profile {
    text: String,
    parameters: Vec<(String, PathBuf)>,
}

/// Returns `command` wrapped in the profile for `policy`; unchanged without layers.
pub(in crate::confine::helper) fn wrapped(policy: &Policy, command: Command) -> Command {
    if policy.layers == Layers::NONE {
        return command;
    }
    let profile = Profile::new(policy);
    let mut arguments = vec!["-p".into(), OsString::from(profile.text)];
    for (name, path) in profile.parameters {
        let mut definition = OsString::from(name);
        definition.push("=");
        definition.push(path);
        arguments.extend(["-D".into(), definition]);
    }
    arguments.push(command.program.into());
    arguments.extend(command.arguments);
    Command { program: SANDBOX_EXEC.into(), arguments, ..command }
}

impl Profile {
    fn new(policy: &Policy) -> Self {
        let mut profile = Self { text: BASE.to_owned(), parameters: Vec::new() };
        match &policy.read {
            None => profile.push_rule("(allow file-read*)"),
            Some(roots) => {
                profile.text.push_str(SYSTEM_FILES);
                profile.push_rule_for_each("(allow file-read* (subpath", "READ", roots);
            }
        }
        match &policy.write {
            None => profile.push_rule("(allow file-write*)"),
            Some(roots) => profile.push_rule_for_each("(allow file-write* (subpath", "WRITE", roots),
        }
        if policy.network {
            profile.text.push_str(NETWORK);
        }
        if policy.unix_sockets {
            profile.text.push_str(UNIX_SOCKETS);
        }
        profile.close(policy);
        profile
    }

    /// Appends the denials, which override the permissions.
    fn close(&mut self, policy: &Policy) {
        // Neither set-id files nor device files may be created.
        self.push_rule("(deny file-write-setugid)");
        self.push_rule("(deny file-write-create (vnode-type BLOCK-DEVICE) (vnode-type CHARACTER-DEVICE))");
        self.push_rule_for_each("(deny file-read* file-write* (subpath", "HIDDEN", &policy.hidden);
        self.push_rule_for_each("(deny network-outbound (subpath", "HIDDEN_SOCKET", &policy.hidden);
        self.push_rule_for_each(
            "(allow file-read* file-write* (subpath",
            "PRIVATE",
            policy.private.as_slice(),
        );
        self.push_rule_for_each("(deny file-write* (subpath", "FIXED", &policy.fixed);
        let mut pinned: Vec<PathBuf> = Vec::new();
        for closed in policy.hidden.iter().chain(&policy.fixed) {
            let new = above(policy, closed)
                .filter(|directory| !pinned.iter().any(|pinned_path| pinned_path == directory));
            let new: Vec<_> = new.map(Path::to_owned).collect();
            pinned.extend(new);
        }
        self.push_rule_for_each("(deny file-write-unlink (literal", "PINNED", &pinned);
    }

    fn push_rule(&mut self, rule: &str) {
        self.text.push_str(rule);
        self.text.push('\n');
    }

    /// Appends one rule for each path, which ends with the path's parameter.
    fn push_rule_for_each(&mut self, rule: &str, name: &str, paths: &[PathBuf]) {
        for (index, path) in paths.iter().enumerate() {
            let name = format!("{name}_{index}");
            self.push_rule(&format!("{rule} (param \"{name}\")))"));
            self.parameters.push((name, path.clone()));
        }
    }
}

/// Returns the parents of a path that are writable, or contain a writable directory.
fn above<'a>(policy: &'a Policy, path: &'a Path) -> impl Iterator<Item = &'a Path> {
    let directories = path.ancestors().skip(1).filter(|directory| directory.parent().is_some());
    directories.filter(|directory| policy.may_write(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            layers: Layers::offered(),
            write: Some(vec!["/Users/ada/work".into(), "/private/tmp".into()]),
            read: None,
            hidden: vec!["/Users/ada/Library/haft".into(), "/Users/ada/work/a/b/keys".into()],
            fixed: vec!["/Users/ada/work/a/program.toml".into()],
            private: None,
            network: true,
            hosts: Vec::new(),
            blocked: Vec::new(),
            secrets: Vec::new(),
            files: Vec::new(),
            unix_sockets: false,
            sockets: Vec::new(),
            terminal: false,
            open_files: None,
            learns: false,
        }
    }

    fn parameter<'a>(profile: &'a Profile, name: &str) -> &'a Path {
        &profile.parameters.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// Returns the position of a rule; panics if it is missing.
    fn place(profile: &Profile, rule: &str) -> usize {
        profile.text.find(rule).unwrap_or_else(|| panic!("{rule} is not in\n{}", profile.text))
    }

    /// SB11: the profile denies everything by default.
    #[test]
    fn everything_is_denied_by_default() {
        let profile = Profile::new(&policy());
        assert!(profile.text.starts_with("(version 1)\n(deny default)\n"));
        assert!(!profile.text.contains("allow default"));
        assert!(!profile.text.contains("/usr/local"));
        assert!(!profile.text.contains("(allow file-write*)\n"));
    }

    /// SB11: no path of the policy is in the text of the profile.
    #[test]
    fn no_path_of_the_policy_is_in_the_text() {
        let evil = "/Users/ada/\") (allow default) (deny x \"\n;(param \"WRITE_0\")";
        let mut policy = policy();
        for paths in [policy.write.as_mut().unwrap(), &mut policy.hidden, &mut policy.fixed] {
            paths.push(evil.into());
        }
        policy.read = Some(vec![evil.into()]);
        let profile = Profile::new(&policy);
        assert!(
            !profile.text.contains("/Users") && !profile.text.contains("allow default"),
            "{}",
            profile.text
        );
        assert_eq!(parameter(&profile, "WRITE_2"), Path::new(evil));
        // Other paths do not change the text.
        let mut other = policy.clone();
        let paths = [other.write.as_mut().unwrap(), &mut other.hidden, &mut other.fixed];
        paths.into_iter().flatten().for_each(|path| {
            *path = path.to_str().unwrap().replace("ada", "bob").into();
        });
        assert_eq!(Profile::new(&other).text, profile.text);
    }

    /// SB11: every parameter is defined once and used.
    #[test]
    fn every_parameter_is_defined_once_and_used() {
        let profile = Profile::new(&Policy { read: Some(vec!["/opt".into()]), ..policy() });
        let used: Vec<_> =
            profile.text.split("(param \"").skip(1).map(|rest| rest.split('"').next()).collect();
        let defined: Vec<_> = profile.parameters.iter().map(|(name, _)| Some(name.as_str())).collect();
        assert_eq!(used, defined);
        let unique: std::collections::BTreeSet<_> = defined.iter().collect();
        assert_eq!(unique.len(), defined.len());
    }

    /// SB11: brackets and quotes of the profile are balanced.
    #[test]
    fn brackets_and_quotes_are_balanced() {
        let closed = Policy { read: Some(vec!["/opt".into()]), network: false, ..policy() };
        let open = Policy { write: None, unix_sockets: true, ..policy() };
        for policy in [policy(), closed, open] {
            let text = Profile::new(&policy).text;
            let mut depth = 0_i32;
            for line in text.lines() {
                assert!(line.matches('"').count() % 2 == 0, "{line}");
                depth += i32::try_from(line.matches('(').count()).unwrap();
                depth -= i32::try_from(line.matches(')').count()).unwrap();
                assert!(depth >= 0, "{line}");
            }
            assert_eq!(depth, 0);
        }
    }

    /// SB11, SB05: the last matching rule applies, so denials must come last.
    #[test]
    fn what_is_closed_comes_after_what_is_allowed() {
        for write in [policy().write, None] {
            let profile = Profile::new(&Policy { write, unix_sockets: true, ..policy() });
            let last_allowed = profile.text.rfind("(allow ").unwrap();
            for rule in [
                "(deny file-read* file-write* (subpath (param \"HIDDEN_1\")))",
                "(deny file-write* (subpath (param \"FIXED_0\")))",
                "(deny file-write-unlink (literal (param \"PINNED_0\")))",
            ] {
                assert!(place(&profile, rule) > last_allowed, "{rule}");
            }
        }
    }

    /// SB11, SB05: moving a directory would move its content out of the reach of a rule by path.
    #[test]
    fn the_way_to_what_is_closed_cannot_be_moved() {
        let profile = Profile::new(&policy());
        let pinned = profile.parameters.iter().filter(|(name, _)| name.starts_with("PINNED"));
        let pinned: Vec<_> = pinned.map(|(_, path)| path.to_str().unwrap()).collect();
        assert_eq!(pinned, ["/Users/ada/work/a/b", "/Users/ada/work/a", "/Users/ada/work"]);
        let everything = Profile::new(&Policy { write: None, ..policy() });
        let names = everything.parameters.iter().map(|(_, path)| path.to_str().unwrap());
        assert!(names.filter(|path| *path == "/Users/ada/Library").count() == 1);
    }

    /// SB11: the profile permits the network and sockets exactly as the policy says.
    #[test]
    fn network_and_sockets_are_as_the_policy_says() {
        let with = |network, unix_sockets| Profile::new(&Policy { network, unix_sockets, ..policy() }).text;
        assert!(with(true, false).contains("(remote ip)") && !with(true, false).contains("unix-socket"));
        assert!(
            !with(false, false).contains("(allow network")
                && with(false, true).contains("(remote unix-socket)")
        );
    }

    /// SB11: the profile limits reading if the policy does.
    #[test]
    fn reading_is_limited_where_the_policy_limits_it() {
        let all = Profile::new(&policy());
        assert!(all.text.contains("(allow file-read*)\n"));
        let some = Profile::new(&Policy { read: Some(vec!["/opt".into()]), ..policy() });
        assert!(!some.text.contains("(allow file-read*)\n"));
        assert_eq!(parameter(&some, "READ_0"), Path::new("/opt"));
    }

    /// SB11: a wrapped command keeps its arguments, environment and directory.
    #[test]
    fn a_command_keeps_its_words() {
        let command = Command {
            program: "/bin/bash".into(),
            arguments: vec!["-c".into(), "-D WRITE_0=/".into()],
            environment: vec![("A".into(), "B".into())],
            directory: "/Users/ada/work".into(),
            identity: (1, 2),
            limits: haft_manifest::ProcessLimits::default(),
        };
        let wrapped = wrapped(&policy(), command.clone());
        assert_eq!(wrapped.program, Path::new(SANDBOX_EXEC));
        let words: Vec<_> = wrapped.arguments.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[0], "-p");
        assert_eq!(&words[2..4], ["-D", "WRITE_0=/Users/ada/work"]);
        assert_eq!(&words[words.len() - 3..], ["/bin/bash", "-c", "-D WRITE_0=/"]);
        let open = Policy { layers: Layers::NONE, ..policy() };
        assert_eq!(super::wrapped(&open, command.clone()), command);
        assert_eq!((wrapped.environment, wrapped.directory), (command.environment, command.directory));
    }
}
