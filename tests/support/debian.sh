# Debian's packages as files, with nothing installed: for the scripts that get the parts of the virtual
# machine and of the cluster. They run as `sh` and as `bash`; `die` is theirs.
#
# apt gets state of its own, the mirrors that this machine's own sources name, and the idea that no
# package is installed.
# shellcheck shell=sh

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# find_mirrors RELEASE: sets `mirror`, and `security`, which is empty where this machine has none.
find_mirrors() {
    mirror=$(mirror_of "$1")
    [ -n "$mirror" ] || die "apt's sources on this machine name no mirror of Debian's $1"
    security=$(mirror_of "$1-security")
}

mirror_of() {
    # shellcheck disable=SC2016 # apt's own words
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$1" '$1 == release && !found { found = $2 } END { print found }'
}

# use_suites FOLDER KINDS SUITE...: from now on apt_here and apt_cache_here know these suites and keep what
# they have in FOLDER. KINDS is `deb`, or `deb deb-src` where sources are wanted too.
use_suites() {
    state=$1 kinds=$2
    shift 2
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    : >"$state/status"
    : >"$state/sources.list"
    signed=''
    [ ! -f "$keyring" ] || signed="[signed-by=$keyring] "
    for suite in "$@"; do
        case $suite in
            *-security) from=$security ;;
            *) from=$mirror ;;
        esac
        [ -n "$from" ] || continue
        for kind in $kinds; do
            echo "$kind $signed$from $suite main" >>"$state/sources.list"
        done
    done
    cat >"$state/apt.conf" <<TEXT
Dir::State::lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state";
Dir::Cache::archives "$state/archives";
Dir::Etc::sourcelist "$state/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$state/archives";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Sandbox::User "";
APT::Default-Release "";
Debug::NoLocking "1";
TEXT
}

apt_here() { APT_CONFIG=$state/apt.conf apt-get "$@"; }
apt_cache_here() { APT_CONFIG=$state/apt.conf apt-cache "$@"; }

# A root in which /bin and /lib are those of /usr, as every Debian has it.
make_root() {
    mkdir -p "$1"
    for part in bin sbin lib lib64; do
        mkdir -p "$1/usr/$part"
        ln -s "usr/$part" "$1/$part"
    done
}

# unpack PACKAGE ROOT
unpack() {
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner
}
