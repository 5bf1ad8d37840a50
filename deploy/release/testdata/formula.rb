# SPDX-License-Identifier: Apache-2.0
class Outrigger < Formula
  desc "Sidecar that makes every RPC of a Protobuf service a tool for agents"
  homepage "https://github.com/outrigger-mcp/outrigger"
  version "0.1.0"
  license "Apache-2.0"

  on_linux do
    on_intel do
      url "https://github.com/outrigger-mcp/outrigger/releases/download/v0.1.0/outrigger_0.1.0_linux_amd64.tar.gz"
      sha256 "SUM"
    end
  end

  def install
    bin.install "sidecar"
    bin.install_symlink "sidecar" => "outrigger"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/sidecar.bash" => "sidecar"
    zsh_completion.install "completions/_sidecar"
    fish_completion.install "completions/sidecar.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sidecar version")
    assert_match "18446744073709551615", shell_output("#{bin}/sidecar call lab.echo '{\"unsigned\": 18446744073709551615}' --demo")
  end
end
