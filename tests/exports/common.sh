# Sourced by the checks: where things are, the files to check, and how a check is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/exports
tools=target/tools
name=$(basename "$0")
export PYTHONDONTWRITEBYTECODE=1
# What is checked is the program of this Cargo profile.
profile=${PROFILE:-release}
program=$PWD/target/${profile/#dev/debug}/bootscope

# Reports a skip, its reason, and the command that installs the reader.
skip() {
    echo "skip $name: $1; scripts/setup test-all installs it"
    exit 0
}

# The made-up boot in every format, in target/exports. Made anew each time: it takes a tenth of a second.
make_exports() {
    ${CARGO:-cargo} run --locked --quiet --profile "$profile" -p report --example sample -- target/exports
}

# Skips the check if there is no Chromium.
need_chromium() { command -v chromium-headless-shell chromium >/dev/null || skip "no chromium"; }
