# Homebrew's formula for haft @VERSION@, for a tap.
class Haft < Formula
  desc "Sandboxed tool plugins, agents and an MCP server in one program"
  version "@VERSION@"
  license "Apache-2.0"

  depends_on :linux

  on_intel do
    url "@RELEASES@/haft-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@X86_64@"
  end
  on_arm do
    url "@RELEASES@/haft-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
    sha256 "@AARCH64@"
  end

  def install
    # They find each other where they lie, through any link.
    libexec.install "haft", "haft-confine"
    bin.install_symlink libexec/"haft"
    doc.install "THIRD-PARTY-LICENSES"
    bash_completion.install "completions/haft.bash" => "haft"
    fish_completion.install "completions/haft.fish"
    zsh_completion.install "completions/_haft"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match "haft #{version}", shell_output("#{bin}/haft --version")
    assert_match(/\A\d+\n\z/, shell_output("#{bin}/haft call time '{}'"))
  end
end
