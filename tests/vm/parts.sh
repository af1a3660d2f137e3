#!/bin/sh
# Gets the parts of the virtual machine out of Debian's packages: parts.sh CACHE [programs]
#
# Nothing is installed: packages are downloaded and unpacked below CACHE, with apt state of its own,
# from the mirrors that this machine's own sources name. What is there already is not fetched again.
#
#   CACHE/qemu            QEMU with its libraries, of this machine's release
#   CACHE/guest           systemd, udev, kmod, e2fsprogs, xfsprogs and a shell, of the same release
#   CACHE/programs        with that word: SQLite, PostgreSQL, fio and a shell, a root of their own. Only some
#                         scenarios call them, and only for these they are fetched
#   CACHE/kernel-NAME     a cloud kernel: vmlinuz, modules, and version, which says what it is. Of a
#                         kernel that cannot be had the file missing says why
set -eu

cache=$1 with=${2:-}
# apt takes a path that is none from the root for one below its own folder.
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
# shellcheck source=tests/support/debian.sh
. "$(dirname -- "$0")/../support/debian.sh"

# The guest's programs, and what the tests call in there.
guest_packages='systemd systemd-sysv udev kmod e2fsprogs xfsprogs util-linux mount bash dash coreutils
    grep sed gawk findutils diffutils procps iproute2 base-files libc6 libudev1 libgcc-s1
    apparmor secilc'
# Drawn in by the tools that are not called in the guest.
unwanted='perl* libperl* python3* libpython* libicu* iso-codes* media-types* libgstreamer* libasound*'
# Real databases, and what measures.
program_packages='sqlite3 postgresql fio bash dash coreutils'
# Drawn in by their scripts, and by what compiles queries.
unwanted_of_programs='perl* libperl* python3* libpython* iso-codes* libllvm* libz3* locales*'
# The user that PostgreSQL runs as, for it refuses root; the tests name it by its number.
program_user='database:x:70:70::/data:/bin/sh'
# Kernels: our name, and the suite whose current cloud kernel it is.
kernels='5.10:bullseye 6.1:bookworm 6.12:bookworm-backports newest:trixie-backports'

# What the guest needs of a kernel.
modules='virtio_pci virtio_blk virtio_net virtio_console virtio_scsi sd_mod nvme ext4 xfs loop overlay
    dm_mod dm_multipath dm_round_robin crc32c_generic crc32c_intel nfs nfsv3'

say() { printf '    %s\n' "$*"; }
die() {
    printf 'parts.sh: %s\n' "$*" >&2
    exit 1
}

main() {
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] ||
        die "the virtual machine is made of Debian's packages for amd64, and this machine has no dpkg of that kind"
    about=/etc/os-release
    [ -e "$about" ] || about=/usr/lib/os-release
    # shellcheck source=/dev/null
    release=$(. "$about" && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || release=''
    [ -n "$release" ] || die "this is not a Debian, of whose packages the virtual machine is made"
    mkdir -p "$cache"
    # Another run may be downloading.
    exec 9>"$cache/lock"
    flock 9
    own_release="$release ${release}-security"
    unpack_once qemu "$own_release" qemu-system-x86
    # shellcheck disable=SC2086 # package names
    unpack_once guest "$own_release" $guest_packages
    [ "$with" != programs ] || programs_once "$own_release"
    for kernel in $kernels; do
        kernel_once "${kernel%%:*}" "${kernel#*:}"
    done
}

# unpack_once NAME SUITES PACKAGE...: the packages and all that they depend on.
unpack_once() {
    name=$1 suites=$2
    shift 2
    wanted="$suites $*"
    if [ "$(cat "$cache/$name.done" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    say "downloading $name: $(echo "$*" | tr -s ' \n' ' ')"
    # shellcheck disable=SC2086 # suites
    know_suites "$name" $suites
    apt_here -y --no-install-recommends --download-only install "$@" >"$cache/apt/$name/log" 2>&1 ||
        die "apt could not get $name; its output is in $cache/apt/$name/log"
    rm -rf "${cache:?}/$name" "$cache/$name.done"
    make_root "$cache/$name"
    for package in "$cache/apt/$name/archives"/*.deb; do
        is_wanted "$package" || continue
        unpack "$package" "$cache/$name"
    done
    thin_out "$cache/$name"
    rm -rf "$cache/apt/$name/archives"
    printf '%s\n' "$wanted" >"$cache/$name.done"
}

# programs_once SUITES: they run in a root of their own, which needs a user and places for the guest's folders.
programs_once() {
    unwanted=$unwanted_of_programs
    # shellcheck disable=SC2086 # package names
    unpack_once programs "$1" $program_packages
    for folder in dev proc run tmp data etc; do
        mkdir -p "$cache/programs/$folder"
    done
    printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' "$program_user" >"$cache/programs/etc/passwd"
    printf '%s\n' 'root:x:0:' 'database:x:70:' >"$cache/programs/etc/group"
}

is_wanted() {
    for pattern in $unwanted; do
        # shellcheck disable=SC2254 # a pattern
        case ${1##*/} in $pattern) return 1 ;; esac
    done
}

# What no program needs to run.
thin_out() {
    rm -rf "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale" "$1/usr/share/info" \
        "$1/usr/share/lintian" "$1/usr/share/perl" "$1/usr/share/perl5" "$1/usr/share/bash-completion" \
        "$1/usr/share/zsh" "$1/usr/share/i18n" "$1/usr/lib/x86_64-linux-gnu/gconv" "$1/usr/share/zoneinfo" \
        "$1"/usr/lib/postgresql/*/lib/bitcode "$1/usr/share/icons" "$1/usr/share/gdb" "$1/usr/share/common-licenses" "$1/usr/lib/udev/hwdb.d"
}

# kernel_once NAME SUITE
kernel_once() {
    folder=$cache/kernel-$1
    # One that was unpacked when other modules were wanted lacks some of these.
    wanted=$(echo "$modules" | tr -s ' \n' ' ')
    has=$(cat "$folder/wanted" 2>/dev/null) || has=''
    # A kernel is looked for again after a day.
    if [ "$has" = "$wanted" ] && [ -n "$(find "$folder/version" -mtime -1 2>/dev/null)" ]; then
        return 0
    fi
    # shellcheck disable=SC2046 # a suite or none
    know_suites "kernel-$1" "$2" $(security_of "$2")
    package=$(apt_cache_here depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    version=${package#linux-image-}
    if [ "$has" = "$wanted" ] && [ "$version" = "$(cat "$folder/version" 2>/dev/null)" ] && [ -n "$version" ]; then
        touch "$folder/version"
        return 0
    fi
    if [ -z "$package" ]; then
        missing "$1" "no cloud kernel in $2"
        return 0
    fi
    say "downloading kernel $1: $version of $2"
    mkdir -p "$cache/apt/kernel-$1/archives"
    # Newer kernels come in several packages of one version.
    packages=$(apt_cache_here depends "$package" |
        sed -n "s/^ *Depends: \(linux-[a-z]*-$version\)\$/\1/p")
    # shellcheck disable=SC2086 # package names
    if ! (cd "$cache/apt/kernel-$1/archives" && apt_here download "$package" $packages) >"$cache/apt/kernel-$1/log" 2>&1; then
        missing "$1" "apt could not get $package of $2; its output is in $cache/apt/kernel-$1/log"
        return 0
    fi
    rm -rf "$folder"
    make_root "$folder/all"
    for archive in "$cache/apt/kernel-$1/archives"/*.deb; do
        unpack "$archive" "$folder/all"
    done
    rm -rf "$cache/apt/kernel-$1/archives"
    # In /boot, or with the modules.
    for image in "$folder/all/boot/vmlinuz-$version" "$folder/all/usr/lib/modules/$version/vmlinuz"; do
        [ ! -f "$image" ] || cp "$image" "$folder/vmlinuz"
    done
    keep_modules "$folder" "$version"
    rm -rf "$folder/all"
    printf '%s\n' "$wanted" >"$folder/wanted"
    printf '%s\n' "$version" >"$folder/version"
}

# keep_modules FOLDER VERSION: those that the guest uses, with what they need, from FOLDER/all into
# FOLDER/modules. Most are built into one kernel or another.
keep_modules() {
    all=$1/all kept=$1/modules tree=usr/lib/modules/$2
    kmod_as depmod -b "$all" "$2"
    mkdir -p "$kept/$tree"
    ln -s usr/lib "$kept/lib"
    cp "$all/$tree"/modules.order "$all/$tree"/modules.builtin "$all/$tree"/modules.builtin.modinfo "$kept/$tree/"
    for module in $modules; do
        kmod_as modprobe -d "$all" -S "$2" --show-depends "$module" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
        below=${file#*/lib/modules/}
        mkdir -p "$(dirname "$kept/usr/lib/modules/$below")"
        cp "$file" "$kept/usr/lib/modules/$below"
    done
    kmod_as depmod -b "$kept" "$2"
}

# kmod_as NAME ARGUMENT...: the guest's own kmod, with its own libraries.
kmod_as() {
    tool=$cache/$1
    shift
    ln -sfn guest/usr/bin/kmod "$tool"
    "$cache/guest/lib64/ld-linux-x86-64.so.2" --library-path "$cache/guest/usr/lib/x86_64-linux-gnu" "$tool" "$@"
}

# A kernel that is here already serves on.
missing() {
    [ -f "$cache/kernel-$1/version" ] && return 0
    say "kernel $1 is left out: $2"
    mkdir -p "$cache/kernel-$1"
    printf '%s\n' "$2" >"$cache/kernel-$1/missing"
}

security_of() {
    case $1 in
        *-backports) ;;
        *) echo "$1-security" ;;
    esac
}

# know_suites NAME SUITE...
know_suites() {
    state=$cache/apt/$1
    shift
    [ -n "${mirror:-}" ] || find_mirrors "$release"
    use_suites "$state" deb "$@"
    # A suite that is gone must not keep the others back.
    apt_here update >"$state/update.log" 2>&1 || true
}

main
