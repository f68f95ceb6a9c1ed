#!/bin/sh
# Installs haft: finds out what this machine is, fetches the tarball, verifies it, and puts `haft` and `haft-confine`
# into ~/.local/bin. Nothing else is changed. Running it again installs what is newest then.
#
# HAFT_INSTALL_FROM=…   the address or the folder of the files of a release; else the newest of the repository
# HAFT_VERSION=1.2.3    this version of the repository
# HAFT_INSTALL_TO=DIR   where to put the programs
set -eu
umask 022

# Filled in when a release is made.
repository=
# The key that SHA256SUMS is signed with, in minisign's words.
minisign_key=

# Seconds for one file; the tarball has some 15 MB.
patience=300

die() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

source_of_release() {
    if [ -n "${HAFT_INSTALL_FROM:-}" ]; then
        printf '%s\n' "${HAFT_INSTALL_FROM%/}"
    elif [ -z "$repository" ]; then
        die 'this copy knows no repository: set HAFT_INSTALL_FROM to the address or the folder of a release'
    elif [ -n "${HAFT_VERSION:-}" ]; then
        printf '%s/releases/download/v%s\n' "$repository" "${HAFT_VERSION#v}"
    else
        printf '%s/releases/latest/download\n' "$repository"
    fi
}

target_of_machine() {
    [ "$(uname -s)" = Linux ] || die "there is no haft for $(uname -s) yet"
    case $(uname -m) in
    x86_64 | amd64) echo x86_64-unknown-linux-musl ;;
    aarch64 | arm64) echo aarch64-unknown-linux-musl ;;
    *) die "there is no haft for $(uname -m)" ;;
    esac
}

# fetch NAME: $from/NAME, in the folder for what arrives.
fetch() {
    case $from in
    https://* | http://127.0.0.1:* | http://localhost:*)
        if command -v curl >/dev/null; then
            curl -fsSL --max-time "$patience" -o "$arriving/$1" "$from/$1"
        elif command -v wget >/dev/null; then
            wget -q -T "$patience" -O "$arriving/$1" "$from/$1"
        else
            die 'neither curl nor wget is installed'
        fi
        ;;
    http://*) die "$from is not encrypted: https" ;;
    *) cp "$from/$1" "$arriving/$1" ;;
    esac
}

verify_signature() {
    [ -n "$minisign_key" ] || return 0
    command -v minisign >/dev/null || {
        echo 'install.sh: no minisign here, so that SHA256SUMS is taken as it was fetched' >&2
        return 0
    }
    fetch SHA256SUMS.minisig || die 'SHA256SUMS is not signed, and has to be'
    minisign -V -q -P "$minisign_key" -m "$arriving/SHA256SUMS" || die 'the signature of SHA256SUMS is not right'
}

sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1"
    else
        die 'neither sha256sum nor shasum is installed, and what was fetched has to be verified'
    fi | cut -d ' ' -f 1
}

# The line of SHA256SUMS for this machine, in $tarball and $expected. A smaller one where it can be read.
choose_tarball() {
    kind=gz
    if command -v xz >/dev/null; then kind=xz; fi
    line=$(grep -E "^[0-9a-f]{64}  haft-[0-9][0-9A-Za-z.+-]*-$target\.tar\.$kind\$" "$arriving/SHA256SUMS") ||
        die "$from has no haft for $target"
    [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || die "$from has several versions: HAFT_INSTALL_FROM has to have one"
    expected=${line%% *}
    tarball=${line##* }
}

install_programs() {
    if [ "$kind" = xz ]; then xz -dc "$arriving/$tarball"; else gzip -dc "$arriving/$tarball"; fi |
        tar -C "$arriving" -xf - || die "$tarball cannot be unpacked"
    unpacked=$arriving/${tarball%.tar.*}
    chmod 755 "$unpacked/haft" "$unpacked/haft-confine"
    said=$("$unpacked/haft" --version) || die 'haft does not run on this machine; nothing was changed'
    # haft does without a helper that is not its own, but not the other way round.
    mv -f "$unpacked/haft-confine" "$to/haft-confine"
    mv -f "$unpacked/haft" "$to/haft"
}

say_what_next() {
    printf 'Installed %s: %s\n' "$said" "$to/haft"
    case :$PATH: in
    *":$to:"*) ;;
    *) printf 'Your PATH does not have %s yet. Add this line to ~/.profile, or to what your shell reads:\n\n    export PATH="%s:$PATH"\n\n' "$to" "$to" ;;
    esac
    printf 'Next: haft doctor\n'
}

main() {
    from=$(source_of_release)
    target=$(target_of_machine)
    to=${HAFT_INSTALL_TO:-${HOME:?HOME or HAFT_INSTALL_TO has to be set}/.local/bin}
    mkdir -p "$to"
    to=$(cd "$to" && pwd)
    # On the same disk, so that the programs come to their place whole.
    arriving=$(mktemp -d "$to/.haft-arriving.XXXXXX")
    trap 'rm -rf "$arriving"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    fetch SHA256SUMS || die "SHA256SUMS cannot be had from $from"
    verify_signature
    choose_tarball
    fetch "$tarball" || die "$tarball cannot be had from $from"
    [ "$(sha256 "$arriving/$tarball")" = "$expected" ] || die "$tarball is not what SHA256SUMS says; nothing was changed"
    install_programs
    say_what_next
}

# Last, so that half a script does nothing.
main
