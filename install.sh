#!/bin/sh
# Prepares this machine and runs one of the project's commands; without a word it explains itself.
#
# Each word is one function, `word_<word>`, and one line in `explain` and in `main`. What a word
# needs of the machine it asks for first, and nothing is asked of the person.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# Where mkfs and losetup live is not in everybody's PATH.
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin

explain() {
    cat <<'TEXT'
disk: a FlexVolume driver for cloud block disks

  sudo ./install.sh demo    one life of a volume, from its creation to its end, on this machine:
                            the real driver on loop devices, in a mount namespace of its own;
                            nothing is left behind
  sudo ./install.sh test    all tests; without root those that need it are skipped and counted
  ./install.sh help         this text

Both words first install the system packages that are missing (apt-get, dnf or yum) and build
with the Rust toolchain that is here. They ask nothing.
TEXT
}

main() {
    word=${1:-help}
    [ $# -eq 0 ] || shift
    case $word in
        demo) word_demo "$@" ;;
        test) word_test "$@" ;;
        help | -h | --help) explain ;;
        *) misused "unknown word: $word" ;;
    esac
}

# --- the words -------------------------------------------------------------------------------

word_demo() {
    [ $# -eq 0 ] || misused "demo takes no further word: $*"
    is_root || die "the demo makes loop devices and mounts, which needs root: sudo ./install.sh demo"
    prepare
    say "building the driver (release); the first time this takes one to three minutes"
    quietly as_builder "$cargo" build --release --locked
    "$here/examples/demo.sh" "$(target_folder)/release/disk"
}

word_test() {
    [ $# -eq 0 ] || misused "test takes no further word: $*"
    prepare
    install_makers
    is_root || say "not root: the tests that need loop devices and mounts will be skipped"
    say "building the driver and its tests; the first time this takes one to three minutes"
    quietly as_builder "$cargo" test --locked --no-run
    sed -n 's/^ *Executable \(.*\) (\(.*\))$/\2 \1/p' "$scratch/output" >"$scratch/programs"
    # The binary for containers without any library is tested too.
    quietly build_static
    INCLOUD_DISK_STATIC=$(target_folder)/$(host_triple)/debug/disk
    export INCLOUD_DISK_STATIC
    say "running all tests"
    tell_and_keep "$scratch/tests" run_tests
    summarise "$scratch/tests" "$kept_status"
}

# Without udev nothing of the binary is a library that must be loaded. With a target named, the
# flags do not reach the programs that the build itself runs.
build_static() {
    as_builder env RUSTFLAGS='-C target-feature=+crt-static' \
        "$cargo" build --locked --no-default-features --target "$(host_triple)"
}

host_triple() { as_builder "$(dirname "$cargo")/rustc" -vV | sed -n 's/^host: //p'; }

# --- running the tests -----------------------------------------------------------------------

run_tests() {
    if [ -z "$builder" ]; then
        "$cargo" test --locked --no-fail-fast
    else
        run_tests_built_by_another
    fi
}

# The person behind sudo builds, so that the build folder stays theirs; root runs what was built.
run_tests_built_by_another() {
    outcome=0
    while read -r program source; do
        printf '\n     Running %s\n' "$source"
        CARGO_MANIFEST_DIR=$here "$program" </dev/null || outcome=1
    done <"$scratch/programs"
    as_builder "$cargo" test --locked --doc || outcome=1
    return "$outcome"
}

# Sums the `test result:` lines of a log. A test that skips itself counts as passed there, and
# says so in a line `skipped: NAME: REASON`.
summarise() {
    skips="$scratch/skips"
    # With one thread the harness has already begun a line, `test NAME ... `.
    sed -nE 's/^(test [^ ]+ \.\.\. )?(skipped: [A-Za-z0-9_:]+: )/\2/p' "$1" | sort -u >"$skips"
    skipped_themselves=$(grep -c '' "$skips" || true)
    if [ "$skipped_themselves" -gt 0 ]; then
        printf '\n'
        cat "$skips"
    fi
    # shellcheck disable=SC2046 # three numbers, meant to be split
    set -- "$2" $(sed -n 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$1" |
        awk '{ passed += $1; failed += $2; ignored += $3 } END { print passed + 0, failed + 0, ignored + 0 }')
    outcome=$1
    if [ "$outcome" -ne 0 ] && [ "$3" -eq 0 ]; then
        warn "the tests did not come to their end; the reason stands above"
    elif [ "$outcome" -eq 0 ] && [ "$2" -eq 0 ]; then
        warn "no test ran"
        outcome=1
    fi
    printf '\n%d passed, %d failed, %d skipped\n' \
        $(($2 - skipped_themselves)) "$3" $(($4 + skipped_themselves))
    return "$outcome"
}

# --- what a machine needs --------------------------------------------------------------------

prepare() {
    cd "$here"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # Rust first: it is the one thing that this script cannot bring, so nothing changes without it.
    find_rust
    install_packages
}

install_packages() {
    list_missing_packages
    [ -n "$missing_apt" ] || return 0
    if have apt-get; then
        packages=$missing_apt
        update='apt-get update'
        install='apt-get install -y --no-install-recommends'
    elif have dnf; then
        packages=$missing_rpm
        update=:
        install='dnf install -y'
    elif have yum; then
        packages=$missing_rpm
        update=:
        install='yum install -y'
    else
        die "missing here:$reasons
No apt-get, dnf or yum was found. Install what is called$missing_apt
on Debian, then run this again."
    fi
    is_root || die "missing here:$reasons
Installing needs root. Run this, then come back:
  sudo sh -c '$(without_colon "$update")$install$packages'"

    say "missing here:$reasons"
    say "installing:$packages"
    # shellcheck disable=SC2086 # commands and package names, meant to be split
    {
        quietly $update
        DEBIAN_FRONTEND=noninteractive quietly $install $packages
    }
    list_missing_packages
    [ -z "$missing_apt" ] || die "still missing after the installation:$reasons"
}

# The tools that make other systems' disks for the tests. Not every distribution has all of them:
# the tests of an image without its maker are skipped and counted.
install_makers() {
    is_root || return 0
    list_missing_makers
    [ -n "$makers_apt" ] || return 0
    if have apt-get; then
        wanted_makers=$makers_apt
        DEBIAN_FRONTEND=noninteractive apt-get update >/dev/null 2>&1 </dev/null || true
    else
        wanted_makers=$makers_rpm
    fi
    say "installing what makes disks for the tests:$wanted_makers"
    not_to_be_had=''
    for package in $wanted_makers; do
        install_one "$package" >/dev/null 2>&1 </dev/null || not_to_be_had="$not_to_be_had $package"
    done
    [ -z "$not_to_be_had" ] || say "not to be had here:$not_to_be_had"
}

install_one() {
    if have apt-get; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1"
    elif have dnf; then
        dnf install -y "$1"
    else
        yum install -y "$1"
    fi
}

list_missing_makers() {
    makers_apt='' makers_rpm=''
    want apfsprogs apfsprogs mkapfs
    want bcache-tools bcache-tools make-bcache
    want bcachefs-tools bcachefs-tools bcachefs
    want btrfs-progs btrfs-progs mkfs.btrfs
    want cpio cpio cpio
    want cpmtools cpmtools mkfs.cpm
    want cryptsetup-bin 'cryptsetup veritysetup' cryptsetup veritysetup
    want dosfstools dosfstools mkfs.vfat
    want drbd-utils drbd-utils drbdmeta
    want erofs-utils erofs-utils mkfs.erofs
    want exfatprogs exfatprogs mkfs.exfat
    want f2fs-tools f2fs-tools mkfs.f2fs
    want fdisk util-linux sfdisk
    want gdisk gdisk sgdisk
    want genext2fs genext2fs genext2fs
    want genisoimage genisoimage genisoimage
    want genromfs genromfs genromfs
    want gfs2-utils gfs2-utils mkfs.gfs2
    want hfsprogs hfsplus-tools mkfs.hfsplus
    want hfsutils hfsutils hformat
    want jfsutils jfsutils mkfs.jfs
    want lvm2 lvm2 pvcreate
    want makefs makefs makefs
    want mtd-utils 'mtd-utils mtd-utils-ubi' mkfs.jffs2 ubinize
    want nilfs-tools nilfs-utils mkfs.nilfs2
    want ntfs-3g ntfsprogs mkfs.ntfs
    want ocfs2-tools ocfs2-tools mkfs.ocfs2
    want parted parted parted
    want qemu-utils qemu-img qemu-img
    want reiser4progs reiser4progs mkfs.reiser4
    want reiserfsprogs reiserfs-utils mkfs.reiserfs
    want squashfs-tools squashfs-tools mksquashfs
    want thin-provisioning-tools device-mapper-persistent-data thin_restore
    want udftools udftools mkudffs
    want util-linux-extra util-linux mkfs.minix
    want xorriso xorriso xorriso
    want zstd zstd zstd
}

# want APT-PACKAGES RPM-PACKAGES TOOL...: notes the packages when a tool is missing.
want() {
    apt=$1 rpm=$2
    shift 2
    have "$@" && return 0
    makers_apt="$makers_apt $apt"
    makers_rpm="$makers_rpm $rpm"
}

without_colon() {
    [ "$1" = : ] || printf '%s && ' "$1"
}

list_missing_packages() {
    missing_apt='' missing_rpm='' reasons=''
    need 'gcc libc6-dev' 'gcc glibc-devel glibc-static' 'a C compiler that links' can_link
    need 'pkg-config' 'pkgconfig' 'pkg-config' have pkg-config
    need 'libudev-dev' 'systemd-devel' "libudev's headers" has_module libudev
    need 'e2fsprogs' 'e2fsprogs' 'tools for ext4' have mkfs.ext4 e2fsck resize2fs tune2fs
    need 'xfsprogs' 'xfsprogs' 'tools for xfs' have mkfs.xfs xfs_repair xfs_growfs
    need 'util-linux' 'util-linux' 'tools for namespaces' have unshare findmnt blkid
    need 'mount' 'util-linux' 'tools for mounts and loop devices' have mount umount losetup
    need 'ca-certificates' 'ca-certificates' "certificates for cargo's downloads" has_certificates
}

# need APT-PACKAGES RPM-PACKAGES WHAT CHECK...: notes the packages when the check fails.
need() {
    apt=$1 rpm=$2 what=$3
    shift 3
    "$@" >/dev/null 2>&1 && return 0
    missing_apt="$missing_apt $apt"
    missing_rpm="$missing_rpm $rpm"
    reasons="${reasons:+$reasons,} $what"
}

can_link() {
    have cc && echo 'int main(void) { return 0; }' >"$scratch/link.c" &&
        cc -o "$scratch/link" "$scratch/link.c"
}

has_module() {
    have pkg-config && pkg-config --exists "$1"
}

has_certificates() {
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
        [ -e /etc/ssl/ca-bundle.pem ] || [ -e /etc/ssl/cert.pem ]
}

# --- Rust ------------------------------------------------------------------------------------

# Sets `cargo` and, if somebody else than this process builds, `builder` and `builder_home`.
find_rust() {
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)".*/\1/p' Cargo.toml)
    seen=''
    builder='' builder_home=''
    sudo_home=''
    if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        sudo_home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        # Building as root would leave files in a person's checkout that they cannot remove.
        if runuser -u "$SUDO_USER" -- test -w "$here"; then
            builder=$SUDO_USER builder_home=$sudo_home
            find_toolchain "$sudo_home/.cargo/bin" && return 0
            builder='' builder_home=''
        fi
    fi
    find_toolchain "${CARGO_HOME:+$CARGO_HOME/bin}" "${HOME:-/root}/.cargo/bin" && return 0
    # The toolchain of the person behind sudo serves root too, if it is told where rustup keeps it.
    if [ -d "$sudo_home/.rustup" ]; then
        export RUSTUP_HOME="$sudo_home/.rustup"
        find_toolchain "$sudo_home/.cargo/bin" && return 0
    fi
    die "building needs Rust $wanted or newer (cargo and rustc); found: ${seen:-none}
Install it with rustup, https://rustup.rs, or from the distribution if that is new enough,
then run this again. No toolchain is downloaded by this script."
}

# find_toolchain FOLDER...: takes the first good toolchain, PATH before the folders given.
find_toolchain() {
    for folder in "$(dirname -- "$(command -v cargo || echo /nowhere/cargo)")" "$@"; do
        if [ -n "$folder" ] && is_good_toolchain "$folder"; then
            cargo=$folder/cargo
            PATH=$folder:$PATH
            return 0
        fi
    done
    return 1
}

is_good_toolchain() {
    as_builder test -x "$1/cargo" && as_builder test -x "$1/rustc" || return 1
    found=$(as_builder "$1/rustc" --version 2>/dev/null) || found="rustc without a toolchain"
    as_builder "$1/cargo" --version >/dev/null 2>&1 || found="cargo without a toolchain"
    version=$(echo "$found" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    if [ -n "$version" ] && is_at_least "$wanted" "$version"; then
        return 0
    fi
    seen="${seen:+$seen, }$found in $1"
    return 1
}

# is_at_least WANTED VERSION
is_at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

as_builder() {
    if [ -z "$builder" ]; then
        "$@"
    else
        runuser -u "$builder" -- env -u CARGO_HOME HOME="$builder_home" PATH="$PATH" "$@"
    fi
}

# Where cargo puts what it builds: this folder's `target`, unless the person set another.
target_folder() {
    as_builder "$cargo" metadata --format-version 1 --no-deps --locked |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# --- small things ----------------------------------------------------------------------------

is_root() { [ "$(id -u)" -eq 0 ]; }

# have TOOL...: all of them are here.
have() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || return 1
    done
}

# quietly COMMAND...: shows the command's output only if it fails.
quietly() {
    "$@" >"$scratch/output" 2>&1 </dev/null && return 0
    cat "$scratch/output" >&2
    command=$*
    die "this failed, its output stands above: ${command#as_builder }"
}

# tell_and_keep FILE COMMAND...: shows the output, keeps a copy, and the status in `kept_status`.
tell_and_keep() {
    file=$1
    shift
    {
        status=0
        "$@" </dev/null 2>&1 || status=$?
        echo "$status" >"$scratch/status"
    } | tee "$file"
    kept_status=$(cat "$scratch/status")
}

say() { printf '==> %s\n' "$*"; }

warn() { printf 'install.sh: %s\n' "$*" >&2; }

die() {
    warn "$*"
    exit 1
}

misused() {
    warn "$*"
    printf '%s\n' 'Run ./install.sh help for the words it knows.' >&2
    exit 2
}

main "$@"
