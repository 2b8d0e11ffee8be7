# To be sourced: fetches packages of Debian 13 with a private apt state, so that nothing is installed. The caller defines
# `fail`, and ARCHITECTURES: the packages' architectures as a list for apt.conf, such as '"amd64"; "arm64";'. The script
# sets $work to a folder that is removed at its end. The caller writes the output of `source_of` into $work/sources.list.
# `quietly` runs a command. The mirror is that of this machine's apt.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || fail "$keyring is missing" "run: apt-get install debian-archive-keyring"
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v own="${codename:-stable}" '$2 == "main" && ($1 == own || $1 == "stable") { print $3; exit }')
[ -n "$mirror" ] || fail "apt's sources name no Debian archive" "see /etc/apt/sources.list*"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,unpacked,none}
: >"$work/status"
cat >"$work/apt.conf" <<CONF
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "$work/none";
Dir::Etc::Preferences "$work/none";
Dir::Etc::PreferencesParts "$work/none";
APT::Sandbox::User "root";
APT::Architecture "amd64";
APT::Architectures { $ARCHITECTURES };
APT::Install-Recommends "false";
Acquire::Languages "none";
CONF
export APT_CONFIG=$work/apt.conf

# Runs a command silently. Its output is shown only if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || {
        tail -n 15 "$work/log" >&2
        fail "failed: $*" "is the mirror of this machine's apt sources reachable, and does it have trixie?"
    }
}

source_of() { echo "deb [arch=$1 signed-by=$keyring] $mirror trixie main"; }
