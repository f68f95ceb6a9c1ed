# Nix's expression for haft @VERSION@: nix-build -E 'with import <nixpkgs> { }; callPackage ./haft.nix { }'
{ lib, stdenv, fetchurl, installShellFiles }:

let
  tarballs = {
    x86_64-linux = {
      target = "x86_64-unknown-linux-musl";
      sha256 = "@X86_64@";
    };
    aarch64-linux = {
      target = "aarch64-unknown-linux-musl";
      sha256 = "@AARCH64@";
    };
  };
  tarball = tarballs.${stdenv.hostPlatform.system};
in
stdenv.mkDerivation rec {
  pname = "haft";
  version = "@VERSION@";

  src = fetchurl {
    url = "@RELEASES@/haft-${version}-${tarball.target}.tar.gz";
    inherit (tarball) sha256;
  };

  nativeBuildInputs = [ installShellFiles ];
  # Static, and stripped already.
  dontPatchELF = true;
  dontStrip = true;

  installPhase = ''
    install -Dm755 -t $out/libexec/haft haft haft-confine
    install -Dm644 -t $out/share/doc/haft LICENSE THIRD-PARTY-LICENSES
    mkdir -p $out/bin
    ln -s ../libexec/haft/haft $out/bin/haft
    installManPage man/*.1
    installShellCompletion completions/haft.bash completions/haft.fish completions/_haft
  '';

  meta = {
    description = "Sandboxed tool plugins, agents and an MCP server in one program";
    license = lib.licenses.asl20;
    platforms = builtins.attrNames tarballs;
    mainProgram = "haft";
  };
}
