//! The attempts of hostile programs, each with the only layer that prevents it. Several layers prevent a case
//! without such a layer; without any layer every case escapes.

use std::fmt;

/// An escape attempt.
pub(super) struct Case {
    /// The name, also of its function in `hostile/`.
    pub(super) name: &'static str,
    /// A script for `bash`; `None` for a function.
    pub(super) script: Option<&'static str>,
    /// Necessary layers in `sandbox`: without any one of them the case escapes.
    pub(super) without: Off,
    /// Necessary layers in `rwx`, which has fewer layers.
    pub(super) without_in_rwx: Off,
    pub(super) needs: Needs,
}

/// The conditions of an escape, besides missing layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Root.
    Root,
    /// Root, and a kernel that has the feature and does not refuse it itself.
    RootAndKernel,
    /// A kernel that has the feature and does not refuse it itself.
    Kernel,
    /// Never met: a property of every child prevents the escape, also without layers.
    Never,
}

/// Disabled layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Off(u8);

impl Off {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const NAMESPACES: Self = Self(1);
    pub(super) const LANDLOCK: Self = Self(2);
    pub(super) const SECCOMP: Self = Self(4);
    pub(super) const CAPABILITIES: Self = Self(8);
    pub(super) const ALL: Self = Self(15);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Parses the output of [`Self::fmt`].
    pub(super) fn parse(text: &str) -> Self {
        NAMES.iter().find(|(_, name)| *name == text).unwrap().0
    }
}

const NAMES: [(Off, &str); 6] = [
    (Off::NOTHING, "all"),
    (NAMESPACES, "-namespaces"),
    (LANDLOCK, "-landlock"),
    (SECCOMP, "-seccomp"),
    (CAPABILITIES, "-capabilities"),
    (Off::ALL, "none"),
];

impl fmt::Display for Off {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NAMES.iter().find(|(off, _)| off == self).unwrap().1)
    }
}

const NOTHING: Off = Off::NOTHING;
const NAMESPACES: Off = Off::NAMESPACES;
const LANDLOCK: Off = Off::LANDLOCK;
const SECCOMP: Off = Off::SECCOMP;
const CAPABILITIES: Off = Off::CAPABILITIES;
const BOTH: Off = Off(Off::NAMESPACES.0 | Off::CAPABILITIES.0);

/// A case with a script.
const fn sh(name: &'static str, script: &'static str) -> Case {
    Case { name, script: Some(script), without: NOTHING, without_in_rwx: NOTHING, needs: Needs::Nothing }
}

/// A case with a function.
const fn py(name: &'static str) -> Case {
    Case { name, script: None, without: NOTHING, without_in_rwx: NOTHING, needs: Needs::Nothing }
}

/// A script against hidden or fixed files, which only mounts protect.
const fn sealed_sh(name: &'static str, script: &'static str) -> Case {
    sh(name, script).without(NAMESPACES).in_rwx(NAMESPACES)
}

/// A function against hidden or fixed files, which only mounts protect.
const fn sealed_py(name: &'static str) -> Case {
    py(name).without(NAMESPACES).in_rwx(NAMESPACES)
}

impl Case {
    const fn without(self, without: Off) -> Self {
        Self { without, ..self }
    }

    const fn in_rwx(self, without_in_rwx: Off) -> Self {
        Self { without_in_rwx, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }
}

/// `sandbox`: a tool writes in the workspace alone, and reads everything.
pub(super) const SANDBOX: &[Case] = &[
    // Files outside, by every kind of path.
    sh("absolute_path", "echo x > $O/new"),
    sh("appended", "echo x >> $O/kept"),
    sh("overwritten", "echo x > $O/kept"),
    sh("dots", "echo x > ../../${O#${W%/*}/}/new"),
    sh("dots_through_a_writable_directory", "echo x > $W/../${O#${W%/*}/}/new"),
    sh("linked_leaf", "ln -s $O/kept leaf; echo x > leaf"),
    sh("linked_parent_and_missing_leaf", "ln -s $O parent; echo x > parent/new"),
    sh("dangling_link", "ln -s $O/new dangling; echo x > dangling"),
    sh("chain_of_links", "ln -s $O one; ln -s one two; ln -s two/new three; echo x > three"),
    sh("lookalike", "echo x > ${W}-outside/${O##*/}/new"),
    sh("hard_link", "ln $O/kept mine && echo x >> mine"),
    sh("hard_link_of_a_link", "ln -s $O/kept leaf; ln -L leaf mine && echo x >> mine"),
    sh("copied_over", "echo x > mine; cp -f mine $O/kept"),
    sh("moved_out", "echo x > mine; mv mine $O/new"),
    sh("own_root", "echo x > /proc/self/root$O/new"),
    sh("own_directory", "cd $O; echo x > /proc/self/cwd/new"),
    sh("own_descriptor", "exec 7< $O/kept; echo x > /proc/self/fd/7"),
    sh("sed_in_place", "sed -i s/a/b/ $O/kept"),
    sh("tar_with_dots", "echo x > f; tar cPf t.tar --transform s,f,$O/new, f; tar xPf t.tar"),
    sh("perl", "perl -e 'open(F, \">\", $ENV{O}.\"/new\") or die $!'"),
    sh(
        "git_hook",
        "git init -q . && mkdir -p .git/hooks && printf '#!/bin/sh\\necho x > %s/new' $O > .git/hooks/post-commit \
        && chmod +x .git/hooks/post-commit && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && test -e $O/new",
    ),
    py("swapped_link"),
    py("rename_out"),
    py("rename_in"),
    py("rename_exchange"),
    py("rename_workspace"),
    py("reopened_descriptor"),
    py("host_root"),
    py("host_descriptor"),
    py("host_directory"),
    py("parents_root").needs(Needs::Root),
    py("inherited_descriptor").needs(Needs::Never),
    py("truncate"),
    py("open_truncating"),
    py("changed_mode").without(NAMESPACES),
    py("changed_mode_of_descriptor").without(NAMESPACES),
    py("changed_mode_anew").without(NAMESPACES).needs(Needs::Kernel),
    py("changed_owner").needs(Needs::Root),
    py("changed_times").without(NAMESPACES),
    py("extended_attribute").needs(Needs::Kernel),
    py("file_flags").needs(Needs::Kernel),
    py("made_nodes"),
    py("removed_nodes"),
    py("bound_socket"),
    py("unnamed_file").needs(Needs::Kernel),
    py("by_handle").needs(Needs::Root),
    py("io_uring").needs(Needs::Kernel),
    py("fifo").without(LANDLOCK),
    py("shared_memory_file").without(NAMESPACES),
    // Devices and kernel files.
    py("device_node").without(LANDLOCK).needs(Needs::Root),
    py("block_device").needs(Needs::RootAndKernel),
    py("made_block_device").needs(Needs::RootAndKernel),
    py("core_pattern").needs(Needs::Root),
    py("system_files").needs(Needs::RootAndKernel),
    py("spared_by_the_kernel"),
    py("terminal"),
    // Mounts and namespaces.
    py("mounted_outside").needs(Needs::Root),
    py("remounted").needs(Needs::Nothing),
    py("uncovered").needs(Needs::Nothing),
    py("new_user_namespace").without(SECCOMP).needs(Needs::Kernel),
    py("new_user_namespace_by_clone").without(SECCOMP).needs(Needs::Kernel),
    py("other_namespace").needs(Needs::Root),
    py("changed_root").needs(Needs::Root),
    // Processes outside.
    py("killed"),
    py("killed_by_handle"),
    py("signalled_host"),
    py("signalled_group").needs(Needs::Never),
    py("signalled_everybody"),
    py("traced").needs(Needs::Kernel),
    py("written_memory").needs(Needs::Kernel),
    py("written_memory_file").needs(Needs::Kernel),
    py("changed_limits"),
    py("changed_priority"),
    py("changed_affinity"),
    py("changed_scheduler"),
    py("changed_input_priority"),
    py("read_environments"),
    py("many_processes").without(NAMESPACES).needs(Needs::Kernel),
    // Services and the kernel.
    py("unix_socket").without(SECCOMP),
    py("abstract_socket"),
    py("datagram_socket").without(SECCOMP),
    py("datagram_pair").without(SECCOMP),
    py("old_system_call").without(SECCOMP).needs(Needs::Kernel),
    py("second_table").without(SECCOMP).needs(Needs::Kernel),
    py("machine_socket").without(SECCOMP).needs(Needs::Kernel),
    py("packet_socket").needs(Needs::RootAndKernel),
    py("kernel_key").without(SECCOMP).needs(Needs::Kernel),
    py("kernel_program").needs(Needs::Kernel),
    py("kernel_events").without(SECCOMP).needs(Needs::Kernel),
    py("page_faults").needs(Needs::Kernel),
    py("machine_calls").needs(Needs::Root),
    py("shared_memory"),
    py("message_queue").needs(Needs::Kernel),
    py("set_user_id").without(SECCOMP),
    py("file_capabilities").without(CAPABILITIES).needs(Needs::RootAndKernel),
    // After the end of the call.
    py("daemon").needs(Needs::Never),
    py("daemon_outside"),
];

/// A case that ends its own call's processes, so that it needs its own call; else like [`SANDBOX`].
pub(super) const ALONE: &[Case] = &[py("watcher_killed")];

/// `sandbox` with hidden or fixed files in the workspace. Without mounts nothing protects them, and no command runs.
pub(super) const SEALED: &[Case] = &[
    sealed_sh("hidden_read", "cat state/secret secret.txt > loot"),
    sealed_sh("hidden_listed", "ls state > loot"),
    sealed_sh("hidden_written", "echo x >> secret.txt; echo x > state/new"),
    sealed_sh("hidden_removed", "rm -rf state secret.txt"),
    sealed_sh("hidden_moved", "mv state moved; mv secret.txt moved.txt; cat moved.txt moved/secret > loot"),
    sealed_sh(
        "hidden_parent_moved",
        "mv $PWD $PWD-moved; cat $PWD-moved/secret.txt > loot; mv $PWD-moved $PWD",
    ),
    sealed_sh("hidden_replaced", "echo x > mine; mv -f mine secret.txt; mkdir d; mv -T d state"),
    sealed_sh("hidden_hard_linked", "ln secret.txt mine; ln state/secret other; cat mine other > loot"),
    sealed_sh("hidden_by_link", "ln -s secret.txt mine; cat mine > loot"),
    sealed_py("hidden_by_roots"),
    // A second mount of the workspace.
    sh(
        "hidden_by_another_name",
        "cd $W/../elsewhere && { echo x >> fixed.toml; echo x > fixed/new; cat secret.txt state/secret > $OLDPWD/loot; }",
    )
    .in_rwx(NAMESPACES)
    .needs(Needs::RootAndKernel),
    sealed_sh("fixed_written", "echo x >> fixed.toml; echo x >> fixed/file; echo x > fixed/new"),
    sealed_sh("fixed_removed", "rm -rf fixed fixed.toml"),
    sealed_sh("fixed_replaced", "echo x > mine; mv -f mine fixed.toml; mv fixed other; mkdir fixed"),
    sealed_sh("fixed_hard_linked", "ln fixed.toml mine; echo x >> mine"),
    sealed_sh("fixed_mode", "chmod 777 fixed fixed.toml"),
    sealed_py("hidden_uncovered").in_rwx(BOTH),
    sealed_py("hidden_uncovered_as_root_elsewhere"),
    py("hidden_bound_elsewhere").in_rwx(CAPABILITIES).needs(Needs::Root),
    py("hidden_copied_mount").in_rwx(CAPABILITIES).needs(Needs::Root),
    py("hidden_by_handle").in_rwx(CAPABILITIES).needs(Needs::Root),
    py("hidden_on_disk").in_rwx(BOTH).needs(Needs::RootAndKernel),
    sealed_py("fixed_remounted").in_rwx(BOTH),
];

/// A tool reads some directories alone.
pub(super) const UNREADABLE: &[Case] = &[
    sh("unread", "cat $O/secret > loot").without(LANDLOCK),
    sh("unread_through_a_link", "ln -s $O/secret leaf; cat leaf > loot").without(LANDLOCK),
    sh("unread_through_a_root", "cat /proc/self/root$O/secret > loot").without(LANDLOCK),
    sh("unread_through_dots", "cat ../../${O#${W%/*}/}/secret > loot").without(LANDLOCK),
    // `mv` copies a file that it cannot move.
    sh("unread_moved", "mv $O/secret mine; cat mine > loot").without(LANDLOCK),
    sh("unread_hard_linked", "ln $O/secret mine; cat mine > loot"),
    py("listed").without(LANDLOCK),
    py("executed").without(LANDLOCK),
    py("mapped").without(LANDLOCK),
    py("read_host_descriptor"),
];

/// A tool has no network.
pub(super) const CUT_OFF: &[Case] = &[
    py("tcp"),
    py("tcp_at_once").needs(Needs::Kernel),
    py("multipath_tcp").needs(Needs::Kernel),
    py("udp"),
    sh("shell_tcp", "exec 3<>/dev/tcp/127.0.0.1/$PORT"),
    py("abstract_socket"),
];
