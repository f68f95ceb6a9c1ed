//! Opens the user's browser. The browser is the user's own program: it is unconfined and gets only a URL.

use std::process::Stdio;

use haft_core::lookup::HostPrograms;

/// What opens an address.
#[cfg(target_os = "macos")]
const PROGRAM: &str = "open";
#[cfg(target_os = "linux")]
const PROGRAM: &str = "xdg-open";

/// Variables one of which is set where there is a desktop.
#[cfg(target_os = "macos")]
const DESKTOPS: &[&str] = &["HOME"];
#[cfg(target_os = "linux")]
const DESKTOPS: &[&str] = &["DISPLAY", "WAYLAND_DISPLAY"];

/// Whether a browser was told to open `address`: not where it would open on another machine than the person is at.
#[expect(clippy::disallowed_methods, reason = "the person's own browser, which no grant holds")]
pub(super) fn open(address: &str, programs: &HostPrograms) -> bool {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_remote = has("SSH_CONNECTION") || has("SSH_TTY");
    let is_desktop = DESKTOPS.iter().any(|name| has(name));
    let Some(program) = programs.find(PROGRAM).filter(|_| is_desktop && !is_remote) else { return false };
    let mut command = tokio::process::Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("PATH", programs.path());
    // The runtime takes its end in.
    command.spawn().is_ok()
}
