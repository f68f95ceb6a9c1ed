//! Opens the user's browser. The browser is the user's own program: it is unconfined and gets only a URL.

use std::process::Stdio;

use haft_core::lookup::HostPrograms;

/// The program that opens a URL.
#[cfg(target_os = "macos")]
const PROGRAM: &str = "open";
#[cfg(target_os = "linux")]
const PROGRAM: &str = "xdg-open";

/// Variables of which at least one is set if there is a desktop.
#[cfg(target_os = "macos")]
const DESKTOPS: &[&str] = &["HOME"];
#[cfg(target_os = "linux")]
const DESKTOPS: &[&str] = &["DISPLAY", "WAYLAND_DISPLAY"];

/// Opens `address` in a browser, and returns whether a browser was started. Starts none in a remote session, where it
/// would open on another machine than the user's.
#[expect(clippy::disallowed_methods, reason = "the person's own browser, which no grant holds")]
pub(super) fn open(address: &str, programs: &HostPrograms) -> bool {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_remote = has("SSH_CONNECTION") || has("SSH_TTY");
    let is_desktop = DESKTOPS.iter().any(|name| has(name));
    let Some(program) = programs.find(PROGRAM).filter(|_| is_desktop && !is_remote) else { return false };
    let mut command = tokio::process::Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("PATH", programs.path());
    // The runtime reaps the process.
    command.spawn().is_ok()
}
