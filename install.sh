#!/bin/sh
# Prepares this machine and runs one of the project's commands; without a word it explains itself.
#
# Each word is one function, `word_<word>`, and one line in `explain` and in `main`. What a word
# needs of the machine it asks for first, and nothing is asked of the person. The work on a node is
# done by a driver (`disk node`): this finds, unpacks or builds one that can. `tests/run` has the words
# of developers; it reads this file for what both need, with INSTALL_SH_FOLDER set.
set -eu

here=${INSTALL_SH_FOLDER:-$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)}
# Where mkfs and losetup live is not in every PATH.
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin

# What ends with this: a folder for scraps, and the process that tells how long something takes.
scratch=''
teller=''
trap 'clean_up' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

clean_up() {
    end_teller
    [ -z "$scratch" ] || rm -rf "$scratch"
    scratch=''
}

# By a signal that no shell loses: one that has only begun forgets any other with its parent's traps, and
# would tell for ever.
end_teller() {
    [ -z "$teller" ] || {
        kill -KILL "$teller"
        wait "$teller"
    } 2>/dev/null || true
    teller=''
}

explain() {
    cat <<'TEXT'
disk: a FlexVolume driver for cloud block disks

  sudo ./install.sh demo    one life of a volume, from its creation to its end, on this machine:
                            the real driver on loop devices, in a mount namespace of its own;
                            nothing is left behind
  sudo ./install.sh test    all tests; without root those that need it are skipped and counted
  ./install.sh test vm [WORD...]
                            the driver in virtual machines whose disks are plugged and pulled; with
                            words only the scenarios whose name or setting has them all; brief: the
                            incident and its kin, in a few minutes
  sudo ./install.sh test kubernetes [SCENARIO...]
                            the driver in a real Kubernetes 1.20 on one node, in namespaces of its
                            own; the first time it is built from Debian's source; a scenario
                            brings its control along, which must fail
  sudo ./install.sh test openstack [SCENARIO...]
                            the driver with Keystone, Nova and Cinder of Debian 12, and loop devices
                            as their disks; the first time they are downloaded and set up
  sudo ./install.sh test all
                            all three of them
  sudo ./install.sh test fleet [ansible|cloud-init]
                            the Ansible play and the cloud-init snippet of the examples, by the real
                            programs, on nine hosts of namespaces
  sudo ./install.sh test versions
                            the previous version, built from the git history, and this one in turn
                            on the same node: an upgrade and a rollback at any moment
  sudo ./install.sh test in-use
                            all tests on a machine on which the driver has volumes, made for this
  ./install.sh test release two builds of a release and an image, which must be the same bytes
  sudo ./install.sh test refusals
                            writes docs/refusals.md as the tests that it names are told now
  sudo ./install.sh test report
                            the page of disk report, of the incident too, in a real browser
  ./install.sh test fuzz [--minutes N | --seconds N] [PARSER...]
                            garbage for each parser, guided by the code that it reaches
  sudo ./install.sh test mutants [--ring unit|root] [--diff [REV]] [--minutes N] [--seconds-each N] [FILE...]
                            changes guard, heal, formatting and names in some two thousand places,
                            one at a time, and says which test catches it; only what differs from REV
  ./install.sh test size    lines of code, files, types and functions of each crate of the project
  ./install.sh test deny    the crates that are built in, by cargo-deny: licences, sources, bans, and
                            weaknesses that were told of, where their database can be had
  sudo ./install.sh test surroundings [TEST...]
                            full, hanging and missing folders; thousands of mounts, processes, disks
  ./install.sh test recovery [--nodes N] [--volumes N] [--seed N] [--minutes N] [kubelets|controller]
                            5,000 nodes after an outage of their cloud, on a virtual clock
  sudo ./install.sh bench [--long] [--brief] [--before FILE] [GROUP...]
                            what a call costs, beside what people would use instead: a table, and a
                            file with all values beside the build. --long: crowds of thousands;
                            --brief: fewer rounds;
                            --before: another build of the driver is measured in the same run
  ./install.sh release [--out DIR] [--sign KEY]
                            a tarball for nodes without a toolchain: the driver with libudev and the
                            static driver, this script, completions, manual pages, the examples,
                            checksums; beside it its checksum and the list of its parts; the same
                            source makes the same bytes
  ./install.sh image [--out DIR] [--sign KEY] [--name NAME:TAG] [--certificates FILE]
                            an image for the DaemonSet, without docker: the static driver alone
  ./install.sh help         this text

These first install the system packages that are missing (apt-get, dnf or yum) and build with the
Rust toolchain that is here. On a node:

  sudo ./install.sh install [--cloud local|openstack | --config FILE | --cloud-config FILE]
                            [--credentials FILE] [--replace-config]
                            [--plugin-dir DIR] [--kubelet-root DIR]
                            [--binary FILE] [--although-not-ready] [--dry-run]
                            puts the driver into kubelet's plugin folder, tested before and in one
                            step, and writes a configuration if there is none. Takes a driver of an
                            unpacked release, else builds one: the one with libudev where it starts,
                            otherwise the static one. With --binary it needs neither network nor
                            toolchain. Where systemd runs, a udev rule and a timer let the driver
                            heal volumes whose disk comes back
         --config FILE      this configuration, tried before and readable by root alone
         --cloud-config FILE  one that names this cloud.conf, as kubelet was told it
         --credentials FILE  a cloud.conf that is kept beside the configuration, which names it
         --replace-config   in place of another one that is there, which is kept beside it
         --although-not-ready  another maker's driver is replaced only if this one reaches the cloud
                            and knows each volume that is mounted. With this in any case: until
                            that is right no volume is attached, mounted or unmounted here
  sudo ./install.sh upgrade the same, with the same options, where it is installed already
  sudo ./install.sh rollback [--plugin-dir DIR] [--to predecessor|1|2|3] [--dry-run]
                            puts back the driver that was there before; again: the newer one.
                            --to: another maker's, or one of the last three of ours
  sudo ./install.sh verify [--plugin-dir DIR]
                            says what is not as it was installed; exit status 1 if anything is
  sudo ./install.sh uninstall [--plugin-dir DIR] [--dry-run] [--purge]
                            not while volumes are mounted; --purge: configuration and state too,
                            and another maker's driver that is kept

The plugin folder is the one that a running kubelet was told, else the usual one. With DESTDIR set,
all is below that folder, but for a --plugin-dir, which is taken as it is. Nothing asks a question.
TEXT
}

main() {
    word=${1:-help}
    [ $# -eq 0 ] || shift
    case $word in
        demo) word_demo "$@" ;;
        release)
            read_options '--out --sign' "$@"
            word_of_developers "$@"
            ;;
        image)
            read_options '--out --sign --name --certificates' "$@"
            word_of_developers "$@"
            ;;
        test | bench) word_of_developers "$@" ;;
        install | upgrade | rollback | verify | uninstall) word_of_node "$@" ;;
        help) explain ;;
        *) misused "unknown word: $word" ;;
    esac
}

# --- the words -------------------------------------------------------------------------------

word_demo() {
    [ $# -eq 0 ] || misused "demo takes no further word: $*"
    is_root || die "the demo makes loop devices and mounts, which needs root: sudo ./install.sh demo"
    prepare
    say "building the driver (quick to build, not as small as a release); the first time this takes a minute"
    building 'the driver' as_builder "$cargo" build --profile demo --locked
    "$here/examples/demo.sh" "$(target_folder)/demo/disk"
}

# Words that only the source has.
word_of_developers() {
    [ -f "$here/tests/run" ] || die "$word builds, and this folder has no source"
    exec "$here/tests/run" "$word" "$@"
}

# --- on a node -------------------------------------------------------------------------------
#
# `disk node` does the work: the new driver itself, or the one that is installed. A release of before
# cannot do it, nor can a file that is no driver; then another one does, and tests that file.

# Where kubelet looks for plugins if it is told nothing.
usual_folder=/usr/libexec/kubernetes/kubelet-plugins/volume/exec

word_of_node() {
    came_from=$(pwd)
    destdir=${DESTDIR:-}
    destdir=${destdir%/}
    worker='' tried=''
    case $word in
        install | upgrade)
            read_options '--cloud --config --cloud-config --credentials --replace-config --plugin-dir --kubelet-root --binary --although-not-ready --dry-run' "$@"
            ;;
        rollback) read_options '--plugin-dir --to --dry-run' "$@" ;;
        verify) read_options '--plugin-dir' "$@" ;;
        uninstall) read_options '--plugin-dir --dry-run --purge' "$@" ;;
    esac
    [ "$word" = verify ] || [ -n "$dry_run$destdir" ] || is_root ||
        die "$word changes this machine, which needs root: sudo ./install.sh $word"
    case $word in
        install | upgrade) put_driver "$@" ;;
        *)
            try_installed
            try_here
            if [ -z "$worker" ] && [ -f "$here/Cargo.toml" ]; then
                build_driver
                worker=$built
            fi
            if [ -z "$worker" ] && [ "$word" = uninstall ] && nothing_is_installed "$@"; then
                say "nothing is installed here"
                return 0
            fi
            work_by "$worker" "$@"
            ;;
    esac
}

put_driver() {
    if [ -n "$binary" ]; then
        put_given_driver "$@"
    elif [ ! -e "$here/Cargo.toml" ] && [ -f "$here/disk" ]; then
        # An unpacked release.
        must_be_as_packed disk
        driver=$here/disk
        if [ -f "$here/disk-libudev" ]; then
            must_be_as_packed disk-libudev
            ! starts_there "$here/disk-libudev" || driver=$here/disk-libudev
        fi
        put_by_itself "$driver" "$@"
    elif [ -n "$dry_run" ]; then
        say "would be next: building the driver (release)"
        say "what comes then is told with a driver: ./install.sh $word --dry-run --binary FILE"
    else
        build_driver_for_node
        put_by_itself "$built" "$@"
    fi
}

must_be_as_packed() {
    [ "$(sed -n "s/  $1\$//p" "$here/SHA256SUMS")" = "$(sha256sum "$here/$1" | cut -d ' ' -f 1)" ] ||
        die "$here/$1 is not what $here/SHA256SUMS says; unpack the release again"
}

# starts_there FILE: whether a driver with libudev starts here, and with the libraries of every root directory where it is
# going to be called: a kubelet and a controller-manager may run in containers, which share the plugin folder.
starts_there() {
    can_work "$1" || return 1
    [ -z "$destdir" ] || starts_in "$destdir" "$1" || return 1
    [ ! -e "$destdir/etc/kubernetes/manifests/kube-controller-manager.yaml" ] || return 1
    # Below DESTDIR is another machine, whose processes are not these.
    [ -z "$destdir" ] || [ -n "${INSTALL_PROC:-}" ] || return 0
    for comm in "${INSTALL_PROC:-/proc}"/[0-9]*/comm; do
        grep -qsx -e kubelet -e hyperkube -e kube-controller "$comm" || continue
        if is_roots "${comm%/comm}"; then
            starts_in "${comm%/comm}/root" "$1" || return 1
        elif ! grep -qsx kubelet "$comm"; then
            # Perhaps a controller-manager in a container: the static driver starts there whatever it has.
            return 1
        fi
    done
}

# is_roots PROCESS: whether it is one of root's on this machine, with CAP_SYS_ADMIN, and of no setuid program. Others
# choose the names of their processes and what is in their root directories, and nothing of that may be run here.
is_roots() {
    grep -qsx 'Uid:[[:space:]]*0[[:space:]]*0[[:space:]]*0[[:space:]]*0' "$1/status" &&
        grep -qsx 'NSpid:[[:space:]]*[0-9]*' "$1/status" &&
        grep -qsx 'CapEff:[[:space:]]*[0-9a-f]*[2367abef][0-9a-f]\{5\}' "$1/status" &&
        [ ! -u "$1/exe" ] && [ ! -g "$1/exe" ]
}

# starts_in ROOT FILE
starts_in() {
    find_libudev "$1" && can_work "$2" "$loader" --inhibit-cache --library-path "$libraries"
}

# find_libudev ROOT: sets `libraries` and `loader`, if libudev is among them. The loader would take a library that is
# missing there from this machine.
find_libudev() {
    libraries='' loader='' libudev=''
    for folder in "$1"/lib/*-linux-gnu* "$1"/usr/lib/*-linux-gnu* "$1"/lib "$1"/usr/lib "$1"/lib64 "$1"/usr/lib64; do
        [ -d "$folder" ] || continue
        libraries=${libraries:+$libraries:}$folder
        [ ! -f "$folder/libudev.so.1" ] || libudev=$folder
        for file in "$folder"/ld-linux*.so.*; do
            [ ! -f "$file" ] || loader=${loader:-$file}
        done
    done
    [ -n "$libudev" ] && [ -n "$loader" ]
}

# After an uninstall there is no driver that could say so.
nothing_is_installed() {
    case " $* " in *' --purge '*) return 1 ;; esac
    for trace in var/lib/incloud-disk/installed var/lib/incloud-disk/previous var/lib/incloud-disk/pages \
        etc/systemd/system/incloud-disk-heal.timer etc/systemd/system/incloud-disk-heal.service \
        etc/systemd/system/incloud-disk-heal@.service etc/systemd/system/incloud-disk-shutdown.service \
        etc/udev/rules.d/90-incloud-disk.rules; do
        [ ! -e "$destdir/$trace" ] || return 1
    done
    # A kubelet may have been told another folder.
    ! grep -qsx -e kubelet -e hyperkube "${INSTALL_PROC:-/proc}"/[0-9]*/comm &&
        [ ! -e "${plugin_folder:-$destdir$usual_folder}/incloud~disk" ]
}

put_given_driver() {
    [ -f "$binary" ] || die "there is no file $binary"
    try "$binary"
    if [ -z "$worker" ] && is_program "$binary"; then
        # Perhaps it only lies where nothing is executed.
        scratch=$(mktemp -d)
        cp "$binary" "$scratch/disk"
        chmod 0755 "$scratch/disk"
        if can_work "$scratch/disk"; then
            status=0
            "$scratch/disk" node --root / "$word" "$@" || status=$?
            exit "$status"
        fi
    fi
    try_here
    try_installed
    work_by "$worker" "$@"
}

# put_by_itself FILE ARGUMENT...: what is installed is the program that runs.
put_by_itself() {
    file=$1
    shift
    can_work "$file" || die "refused, nothing was changed: $file cannot be run here, or cannot install itself"
    work_by "$file" "$@"
}

# work_by FILE ARGUMENT...
work_by() {
    [ -n "$1" ] || die "no driver is here that could do it; tried:${tried:- none}
Bring one: unpack a release and run its install.sh, or run this in the source with a toolchain."
    file=$1
    shift
    clean_up
    cd "$came_from"
    exec "$file" node --root / "$word" "$@"
}

# try FILE: sets `worker`, unless it is set.
try() {
    [ -z "$worker" ] && [ -f "$1" ] || return 0
    case "$tried " in
        *" $1 "*) return 0 ;;
    esac
    tried="$tried $1"
    ! can_work "$1" || worker=$1
}

# try_in FOLDER: an uninstall that was killed leaves the driver under its other name alone.
try_in() {
    try "$1/incloud~disk/disk"
    try "$1/incloud~disk/.leaving"
}

try_installed() {
    [ -z "$plugin_folder" ] || try_in "$plugin_folder"
    noted=$(sed -n 's/^plugin_dir=//p' "$destdir/var/lib/incloud-disk/installed" 2>/dev/null || true)
    if [ -n "$noted" ]; then
        try_in "$destdir$noted"
        try_in "$noted"
    fi
    try_in "$destdir$usual_folder"
    for kept in disk disk.2 disk.3; do
        try "$destdir/var/lib/incloud-disk/previous/$kept"
    done
}

try_here() {
    try "$here/disk"
    made=${CARGO_TARGET_DIR:-$here/target}
    for file in "$made"/*/release/disk "$made/release/disk" "$made/demo/disk" "$made/debug/disk"; do
        try "$file"
    done
}

# can_work FILE [LOADER...]: whether it runs here and can install itself, which the first versions of the driver cannot.
can_work() {
    is_program "$1" || return 1
    asked=$1
    shift
    run_driver "$@" "$asked" node --help 2>/dev/null | grep -q '^  install  *\[--cloud'
}

# Of any other file a shell would make a script, and run it.
is_program() {
    [ "$(od -An -v -tx1 -N 4 "$1" 2>/dev/null | tr -d ' \n')" = 7f454c46 ]
}

# Without any configuration of this machine, and not for ever.
run_driver() {
    if have timeout; then
        INCLOUD_DISK_CONFIG=/dev/null timeout 20 "$@" </dev/null
    else
        INCLOUD_DISK_CONFIG=/dev/null "$@" </dev/null
    fi
}

# Sets `built`: the driver with libudev, if it starts where it is going to be, otherwise the static one.
build_driver_for_node() {
    if [ -z "$destdir" ] || find_libudev "$destdir"; then
        build_driver_with_libudev
        ! starts_there "$built" || return 0
        say "it does not start everywhere where it would be called, so the static driver is next"
    fi
    build_driver
}

# Sets `built`, like the next one.
build_driver_with_libudev() {
    prepare
    say "building the driver with libudev (release); the first time this takes one to three minutes"
    building 'the driver with libudev' build_with_libudev
    built=$(target_folder)/release/disk
}

# Sets `built`: the static driver, which starts anywhere.
build_driver() {
    prepare
    say "building the static driver (release); the first time this takes one to three minutes"
    building 'the static driver' build_static --release
    built=$(target_folder)/$(host_triple)/release/disk
}

# shellcheck disable=SC2034 # `out` is of a word of tests/run
# read_options ALLOWED ARGUMENT...: the driver reads them again, but before it may have to be built.
read_options() {
    allowed=" $1 "
    shift
    plugin_folder='' binary='' dry_run='' out='' sign='' image_name='' certificates=''
    while [ $# -gt 0 ]; do
        option=${1%%=*}
        case $allowed in
            *" $option "*) ;;
            *) misused "$word does not take $1" ;;
        esac
        case $1 in
            --dry-run | --purge | --replace-config | --although-not-ready) value=none ;;
            --dry-run=* | --purge=* | --replace-config=* | --although-not-ready=*)
                misused "$option takes no value"
                ;;
            --*=*) value=${1#*=} ;;
            *)
                value=${2:-}
                [ $# -lt 2 ] || shift
                ;;
        esac
        [ -n "$value" ] || misused "$option needs a value"
        case $option=$value in
            --dry-run=*) dry_run=yes ;;
            --plugin-dir=*) plugin_folder=$(absolute "${value%/}") ;;
            --binary=*) binary=$(absolute "$value") ;;
            --out=*) out=$(absolute "$value") ;;
            --sign=*) sign=$(absolute "$value") ;;
            --certificates=*) certificates=$(absolute "$value") ;;
            --name=*) image_name=$value ;;
            --cloud=local | --cloud=openstack) ;;
            --cloud=*) misused "--cloud is local or openstack, not $value" ;;
        esac
        shift
    done
}

absolute() {
    case $1 in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s/%s\n' "$(pwd)" "$1" ;;
    esac
}

# --- building ------------------------------------------------------------------------------

prepare() {
    [ -f "$here/Cargo.toml" ] || die "$word builds, and this folder has no source"
    cd "$here"
    scratch=${scratch:-$(mktemp -d)}
    # shellcheck source=tests/support/building.sh
    . "$here/tests/support/building.sh"
    # Rust first: it is the one thing that this script cannot bring, so nothing changes without it.
    find_rust
    install_packages
}

# --- small things ----------------------------------------------------------------------------

is_root() { [ "$(id -u)" -eq 0 ]; }

# have TOOL...: all of them are here.
have() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || return 1
    done
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

# Any word with --help, here and in tests/run, before anything is installed or built.
case " $* " in *' --help '* | *' -h '*) explain && exit ;; esac
[ -n "${INSTALL_SH_FOLDER:-}" ] || main "$@"
