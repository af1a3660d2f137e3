#!/bin/sh
# Prepares this machine and runs one of the project's commands; without a word it explains itself.
#
# Each word is one function, `word_<word>`, and one line in `explain` and in `main`. What a word
# needs of the machine it asks for first, and nothing is asked of the person.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# Where mkfs and losetup live is not in everybody's PATH.
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin

# What is removed when this ends: a folder for scraps, and a driver that did not get to its place.
scratch=''
staged=''
trap 'clean_up' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

clean_up() {
    [ -z "$scratch" ] || rm -rf "$scratch"
    [ -z "$staged" ] || rm -rf "$staged" "$new_driver"
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
  sudo ./install.sh test all
                            all three of them
  ./install.sh release [--out DIR]
                            a tarball for nodes without a toolchain: a static driver, this script,
                            completions, manual pages, the examples, checksums
  ./install.sh help         this text

These first install the system packages that are missing (apt-get, dnf or yum) and build with the
Rust toolchain that is here. On a node:

  sudo ./install.sh install [--cloud local|openstack] [--plugin-dir DIR] [--kubelet-root DIR]
                            [--binary FILE] [--dry-run]
                            puts the driver into kubelet's plugin folder, tested before and in one
                            step, and writes a configuration if there is none. Takes the driver of
                            an unpacked release, else builds one; with --binary it needs neither
                            network nor toolchain. Where systemd runs, a udev rule and a timer let
                            the driver heal volumes whose disk comes back
  sudo ./install.sh upgrade the same, with the same options, where it is installed already
  sudo ./install.sh rollback [--plugin-dir DIR] [--dry-run]
                            puts back the driver that was there before; again: the newer one
  sudo ./install.sh verify [--plugin-dir DIR]
                            says what is not as it was installed; exit status 1 if anything is
  sudo ./install.sh uninstall [--plugin-dir DIR] [--dry-run] [--purge]
                            not while volumes are mounted; --purge: configuration and state too

The plugin folder is the one that a running kubelet was told, else the usual one. With DESTDIR set,
all is below that folder, but for a --plugin-dir, which is taken as it is. Nothing asks a question.
TEXT
}

main() {
    word=${1:-help}
    [ $# -eq 0 ] || shift
    case $word in
        demo) word_demo "$@" ;;
        test) word_test "$@" ;;
        install) word_install "$@" ;;
        upgrade) word_upgrade "$@" ;;
        rollback) word_rollback "$@" ;;
        verify) word_verify "$@" ;;
        uninstall) word_uninstall "$@" ;;
        release) word_release "$@" ;;
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
    case "${1:-}" in
        vm)
            shift
            test_in_machine "$@"
            return
            ;;
        kubernetes)
            shift
            test_in_cluster "$@"
            return
            ;;
        all)
            [ $# -eq 1 ] || misused "test all takes no further word"
            outcome=0
            "$0" test || outcome=1
            "$0" test vm || outcome=1
            "$0" test kubernetes || outcome=1
            return "$outcome"
            ;;
    esac
    [ $# -eq 0 ] || misused "test takes no further word but vm, kubernetes and all: $*"
    prepare
    install_test_tools
    bring_promtool
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

word_install() {
    read_options "$word_options_of_install" "$@"
    find_plugin_folder_to_install
    put_new_driver
}

word_upgrade() {
    read_options "$word_options_of_install" "$@"
    find_plugin_folder_in_use
    is_installed || die "nothing to upgrade: there is no $driver/disk
Install it first: ./install.sh install"
    put_new_driver
}

word_rollback() {
    read_options '--plugin-dir --dry-run' "$@"
    find_plugin_folder_in_use
    ask_for_root
    begin_change
    if [ "$settled" = rollback ]; then
        say "a rollback that was interrupted is finished"
    else
        [ -f "$previous" ] || die "nothing to go back to: there is no $previous"
        stage_if_other "$previous" 'the driver that was here before'
        put_staged_in_place
    fi
    change_trigger
    change "noting what is installed in $manifest" note_what_is_installed
    change "the command, its completions and manual pages below $destdir/usr/local" put_pages
}

word_uninstall() {
    read_options '--plugin-dir --dry-run --purge' "$@"
    find_plugin_folder_in_use
    ask_for_root
    begin_change
    if is_installed || [ -d "$driver" ]; then
        refuse_while_in_use
        remove_trigger
        change "removing $driver" remove_driver
    else
        say "there is no $driver"
        remove_trigger
    fi
    change "removing the command, its completions and manual pages" remove_pages
    change "forgetting what was installed" rm -rf "$manifest" "$previous_folder"
    if [ -n "$purge" ]; then
        purge_traces
    else
        say "kept: $config_folder, $state_folder and $log_folder (--purge removes the first two)"
    fi
}

word_verify() {
    read_options '--plugin-dir' "$@"
    find_plugin_folder_in_use
    find_drift
    [ -z "$drift" ] || die "not as it was installed:$drift"
    say "as installed: $(noted version) in $driver"
}

word_release() {
    read_options '--out' "$@"
    prepare
    say "building the static driver (release); the first time this takes one to three minutes"
    quietly build_static --release
    pack_release "$(target_folder)/$(host_triple)/release/disk" "${out:-$(target_folder)/release-tarball}"
}

# build_static OPTION...: without udev nothing of the binary is a library that must be loaded. With
# a target named, the flags do not reach the programs that the build itself runs.
build_static() {
    as_builder env RUSTFLAGS='-C target-feature=+crt-static' \
        "$cargo" build --locked --no-default-features --target "$(host_triple)" "$@"
}

host_triple() { as_builder "$(dirname "$cargo")/rustc" -vV | sed -n 's/^host: //p'; }

# --- installing ------------------------------------------------------------------------------
#
# kubelet watches its plugin folder and calls whatever appears there, so nothing appears before it
# is complete: all is written under hidden names, flushed, and renamed at the end. What kubelet
# still runs of the old file it keeps. Killed at any step, the next word goes on from there.

word_options_of_install='--cloud --plugin-dir --kubelet-root --binary --dry-run'

# Test seam: INSTALL_SEAM names a step at which this script kills itself, as a machine that loses
# its power would. The steps: begun, staged, tested, configured, kept, switched, settled, triggered,
# noted; of uninstall: untriggered, removed.
step() {
    [ "${INSTALL_SEAM:-}" != "$1" ] || kill -KILL $$
}

# Test seam: INSTALL_PROC is a folder in place of /proc, with the processes and mounts of a test.
proc=${INSTALL_PROC:-/proc}

# DESTDIR is the root of the machine that is installed, for packages, images and containers.
destdir=${DESTDIR:-}
destdir=${destdir%/}
config_folder=$destdir/etc/incloud-disk
config=$config_folder/config.toml
state_folder=$destdir/var/lib/incloud-disk
log_folder=$destdir/var/log/incloud-volume
manifest=$state_folder/installed
# Not beside the driver: every folder that kubelet sees is a driver to it.
previous_folder=$state_folder/previous
previous=$previous_folder/disk
# What people type with, outside of the driver's own folder; and the list of what was put there.
command_folder=$destdir/usr/local/sbin
share_folder=$destdir/usr/local/share
pages=$state_folder/pages
# A controller-manager's configuration, while there is no driver that it could stand beside.
kept_hidden_config=$state_folder/kept.config.toml

# A constant of the driver. Whoever changes it there is told by the tests.
answer_to_init='{"status":"Success","capabilities":{"attach":true,"selinuxRelabel":true,"supportsMetrics":true,"fsGroup":true,"requiresFSResize":true}}'

# read_options ALLOWED ARGUMENT...
read_options() {
    allowed=" $1 "
    shift
    cloud='' plugin_folder='' kubelet_root='' binary='' dry_run='' purge='' out=''
    while [ $# -gt 0 ]; do
        case $allowed in
            *" ${1%%=*} "*) ;;
            *) misused "$word does not take $1" ;;
        esac
        case $1 in
            --dry-run) dry_run=yes ;;
            --purge) purge=yes ;;
            --*=*) set_option "${1%%=*}" "${1#*=}" ;;
            *)
                [ $# -ge 2 ] || misused "$1 needs a value"
                set_option "$1" "$2"
                shift
                ;;
        esac
        shift
    done
    umask 022
}

set_option() {
    [ -n "$2" ] || misused "$1 needs a value"
    case $1 in
        --cloud)
            case $2 in
                local | openstack) cloud=$2 ;;
                *) misused "--cloud is local or openstack, not $2" ;;
            esac
            ;;
        --plugin-dir) plugin_folder=$(absolute "${2%/}") ;;
        --kubelet-root) kubelet_root=$(absolute "${2%/}") ;;
        --binary) binary=$(absolute "$2") ;;
        --out) out=$(absolute "$2") ;;
        *) misused "$1 takes no value" ;;
    esac
}

absolute() {
    case $1 in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s/%s\n' "$(pwd)" "$1" ;;
    esac
}

# change SENTENCE COMMAND...: says what is done, and does it unless this is a dry run.
change() {
    sentence=$1
    shift
    if [ -n "$dry_run" ]; then
        say "would be next: $sentence"
    else
        say "$sentence"
        "$@"
    fi
}

ask_for_root() {
    [ -n "$dry_run$destdir" ] || is_root || die "$word changes this machine, which needs root: sudo ./install.sh $word"
}

put_new_driver() {
    ask_for_root
    [ -e "$config" ] || [ -f "$here/examples/config.toml" ] ||
        die "$here/examples/config.toml is missing, of which the configuration is made"
    [ -d "$here/examples/systemd" ] || die "$here/examples/systemd is missing, with what systemd and udev are told"
    find_new_binary
    begin_change
    [ -z "$leftover_elsewhere" ] || warn "$leftover_elsewhere"
    stage_if_other "$binary" 'the new driver'
    # Before the switch: from there on kubelet calls.
    write_config
    [ -d "$log_folder" ] || change "making $log_folder" make_folder 0750 "$log_folder"
    step configured
    put_staged_in_place
    change_trigger
    change "noting what is installed in $manifest" note_what_is_installed
    change "the command, its completions and manual pages below $destdir/usr/local" put_pages
}

# Sets `binary`, by building it if nobody brought one.
find_new_binary() {
    if [ -n "$binary" ]; then
        [ -f "$binary" ] || die "there is no file $binary"
    elif [ ! -e "$here/Cargo.toml" ] && [ -f "$here/disk" ]; then
        # An unpacked release.
        binary=$here/disk
        [ "$(sed -n 's/  disk$//p' "$here/SHA256SUMS")" = "$(checksum "$binary")" ] ||
            die "$binary is not what $here/SHA256SUMS says; unpack the release again"
    elif [ -n "$dry_run" ]; then
        say "would be next: building the driver (release)"
        binary='the driver that is built'
    else
        prepare
        say "building the driver (release); the first time this takes one to three minutes"
        quietly as_builder "$cargo" build --release --locked
        binary=$(target_folder)/release/disk
    fi
}

# One change at a time, and what an earlier one left is settled first.
begin_change() {
    settled=''
    [ -z "$dry_run" ] || return 0
    make_folder 0700 "$state_folder"
    if have flock; then
        exec 9>"$state_folder/.install.lock"
        flock -w 10 9 || die "another install.sh is at work here"
    fi
    rm -rf "$new_driver" "$driver/.disk" "$driver/.leaving" "$previous_folder/.copy"
    settle install
    settle rollback
    step begun
}

# --- the switch ------------------------------------------------------------------------------

# stage_if_other FILE WHAT: sets `is_same` if there is nothing to put in place.
stage_if_other() {
    is_same=''
    if [ -f "$driver/disk" ] && [ -f "$1" ] && cmp -s "$1" "$driver/disk" && is_runnable "$driver/disk"; then
        say "$2 is what is here already: $driver/disk"
        is_same=yes
        return 0
    fi
    [ -z "$dry_run" ] || [ ! -x "$1" ] || test_or_die "$1"
    change "copying $2 under a hidden name into $plugin_folder, and testing it there" stage "$1"
}

put_staged_in_place() {
    [ -z "$is_same" ] || return 0
    [ ! -f "$driver/disk" ] || change "keeping a copy of the old driver as $previous" keep_driver
    step kept
    change "renaming it to $driver/disk" switch
    step switched
    settle "$word"
    step settled
}

# The copy is made in the folder where it will be: a rename is only atomic within a file system,
# and what it must be able to run there (noexec, SELinux's label) is tested with it.
stage() {
    [ ! -d "$driver/disk" ] || die "$driver/disk is a folder"
    if [ -d "$driver" ]; then
        staged=$driver/.disk
    else
        make_folder 0755 "$plugin_folder"
        make_folder 0755 "$new_driver"
        staged=$new_driver/disk
        [ ! -f "$kept_hidden_config" ] || cp -p "$kept_hidden_config" "$new_driver/.config.toml"
    fi
    cp "$1" "$staged"
    chmod 0755 "$staged"
    flush "$staged" "$(dirname "$staged")"
    step staged
    test_or_die "$staged"
    step tested
}

switch() {
    if [ -d "$driver" ]; then
        mv -f "$staged" "$driver/disk"
        flush "$driver"
        # The folder was not seen when the copy was made.
        rm -rf "$new_driver"
    else
        mv "$new_driver" "$driver"
        flush "$plugin_folder"
        rm -f "$kept_hidden_config"
    fi
    staged=''
}

# The old driver, until the switch is made; only then it takes the place of the one before it.
keep_driver() {
    make_folder 0700 "$previous_folder"
    cp -p "$driver/disk" "$previous_folder/.copy"
    flush "$previous_folder/.copy"
    mv -f "$previous_folder/.copy" "$previous_folder/.leaving-by-$(kind_of_change)"
    flush "$previous_folder"
}

# An upgrade is an install; a rollback that was interrupted must not be made a second time, which
# would undo it.
kind_of_change() {
    case $word in
        rollback) echo rollback ;;
        *) echo install ;;
    esac
}

# settle KIND: if the driver that was leaving has left, it is the previous one now.
settle() {
    [ -z "$dry_run" ] || return 0
    case $1 in
        upgrade) kind=install ;;
        *) kind=$1 ;;
    esac
    leaving=$previous_folder/.leaving-by-$kind
    [ -f "$leaving" ] || return 0
    if cmp -s "$leaving" "$driver/disk"; then
        rm -f "$leaving"
    else
        mv -f "$leaving" "$previous"
        flush "$previous_folder"
        settled=$kind
    fi
}

# --- testing a driver before it is one -------------------------------------------------------

# test_or_die FILE
test_or_die() {
    refusal=''
    test_driver "$1"
    [ -z "$refusal" ] || die "refused, nothing was changed: this driver $refusal"
}

# test_driver FILE: sets `refusal` if it is not one.
test_driver() {
    head=$(first_bytes "$1" 0 4)
    if [ "$word" = rollback ] && [ "${head#2321}" != "$head" ]; then
        # The predecessor of this driver may be a script.
        ask_driver "$1" init '*"status"*"Success"*'
        return 0
    fi
    [ "$head" = 7f454c46 ] || { refusal="is no program (its first bytes are ${head:-not there})" && return 0; }
    # A shell runs as a script what the kernel does not take, so this is looked at before.
    [ "$(kind_of_machine "$1")" = "$(kind_of_machine /proc/self/exe)" ] ||
        { refusal="is for another kind of processor" && return 0; }
    if [ "$word" = rollback ]; then
        ask_driver "$1" init '*"status"*"Success"*'
    else
        ask_driver "$1" init "$answer_to_init"
        [ -n "$refusal" ] || ask_driver "$1" --version 'disk [0-9]*.[0-9]*'
    fi
}

# ask_driver FILE WORD PATTERN: both streams are one, as they are for kubelet.
ask_driver() {
    if ! answer=$(run_driver "$1" "$2" 2>&1); then
        refusal="failed at $2: $(printable "$answer")"
        return 0
    fi
    # shellcheck disable=SC2254 # a pattern
    case $answer in
        *"$newline"*) refusal="answered $2 with several lines: $(printable "$answer")" ;;
        $3) ;;
        *) refusal="answered $2 with: $(printable "$answer")" ;;
    esac
}

newline='
'

printable() { printf '%s\n' "$1" | head -c 300 | tr -cd '[:print:]'; }

# Without any configuration of this machine, and not for ever.
run_driver() {
    if have timeout; then
        INCLOUD_DISK_CONFIG=/dev/null timeout 20 "$@" </dev/null 9>&-
    else
        INCLOUD_DISK_CONFIG=/dev/null "$@" </dev/null 9>&-
    fi
}

# first_bytes FILE OFFSET COUNT: as hexadecimal digits.
first_bytes() {
    od -An -v -tx1 -j "$2" -N "$3" "$1" 2>/dev/null | tr -d ' \n'
}

# Word size and byte order, and the processor.
kind_of_machine() {
    printf '%s %s\n' "$(first_bytes "$1" 4 2)" "$(first_bytes "$1" 18 2)"
}

# --- the plugin folder -----------------------------------------------------------------------

usual_plugin_folder=/usr/libexec/kubernetes/kubelet-plugins/volume/exec

find_plugin_folder_to_install() {
    leftover_elsewhere=''
    if [ -z "$plugin_folder" ]; then
        ask_kubelet
        if [ -n "$kubelets_folder" ]; then
            plugin_folder=$destdir$kubelets_folder
            say "kubelet runs with the plugin folder $kubelets_folder"
        elif [ -n "$(noted_folder)" ]; then
            plugin_folder=$(noted_folder)
        else
            take_usual_plugin_folder
        fi
    fi
    was=$(noted_folder)
    if [ -n "$was" ] && [ "$was" != "$plugin_folder" ] && [ -e "$was/incloud~disk" ]; then
        leftover_elsewhere="an earlier driver stays in $was; to remove it: ./install.sh uninstall --plugin-dir $was"
    fi
    name_folders
}

find_plugin_folder_in_use() {
    leftover_elsewhere=''
    [ -n "$plugin_folder" ] || plugin_folder=$(noted_folder)
    if [ -n "$plugin_folder" ]; then
        name_folders
    else
        find_plugin_folder_to_install
    fi
}

name_folders() {
    driver=$plugin_folder/incloud~disk
    new_driver=$plugin_folder/.incloud~disk.new
}

is_installed() { [ -f "$driver/disk" ]; }

take_usual_plugin_folder() {
    plugin_folder=$destdir$usual_plugin_folder
    is_read_only "$plugin_folder" || return 0
    plugin_folder=$destdir${kubelet_root:-/var/lib/kubelet}/volume-plugins
    warn "$usual_plugin_folder is on a read-only file system, so this takes $plugin_folder;
kubelet looks there only if it is started with --volume-plugin-dir=${plugin_folder#"$destdir"}"
}

# Sets `kubelets_folder` to what a running kubelet was told, by its flag or else by its file.
ask_kubelet() {
    kubelets_folder=''
    for process in "$proc"/[0-9]*; do
        is_kubelet "$process" || continue
        told=$(flag_of "$process" volume-plugin-dir)
        [ -n "$told" ] || told=$(folder_in_configuration_of "$process")
        told=${told%/}
        [ -n "$told" ] || continue
        if [ -n "$kubelets_folder" ] && [ "$told" != "$kubelets_folder" ]; then
            die "several kubelets run here, with the plugin folders $kubelets_folder and $told
Say which is meant: --plugin-dir DIR"
        fi
        kubelets_folder=$told
    done
}

is_kubelet() {
    { read -r name <"$1/comm"; } 2>/dev/null || return 1
    case $name in
        kubelet) ;;
        hyperkube) arguments_of "$1" | grep -qx kubelet ;;
        *) return 1 ;;
    esac
}

arguments_of() { tr '\0' '\n' 2>/dev/null <"$1/cmdline"; }

# flag_of PROCESS FLAG: the last one counts, as it does for kubelet.
flag_of() {
    arguments_of "$1" | awk -v flag="--$2" '
        is_next { value = $0; is_next = 0; next }
        $0 == flag { is_next = 1; next }
        index($0, flag "=") == 1 { value = substr($0, length(flag) + 2) }
        END { print value }'
}

# A file is where kubelet sees it, which in a container is not where it is for us.
folder_in_configuration_of() {
    file=$(flag_of "$1" config)
    [ -n "$file" ] || return 0
    case $file in
        /*) ;;
        *) file=$(readlink "$1/cwd" || true)/$file ;;
    esac
    [ -r "$1/root$file" ] || die "kubelet's configuration cannot be read: $file
Say where its plugin folder is: --plugin-dir DIR"
    # YAML and JSON alike; neither a comment nor a quote is part of the folder's name.
    tr '{},' '[\n*]' <"$1/root$file" | sed -n \
        -e "s/^[[:space:]]*[\"']\{0,1\}volumePluginDir[\"']\{0,1\}[[:space:]]*:[[:space:]]*//" \
        -e 't found' -e d -e ':found' \
        -e "s/[[:space:]]#.*//; s/[[:space:]]*\$//; s/^[\"']//; s/[\"']\$//; p" | tail -n 1
}

# Asked of the mount table: to root a read-only folder looks like a writable one, and to try would
# leave something that kubelet sees.
is_read_only() {
    awk -v path="$1" '
        $5 == "/" || path == $5 || index(path, $5 "/") == 1 {
            if (length($5) >= longest) {
                longest = length($5)
                options = $6
                for (i = 7; i <= NF && $i != "-"; i++);
                is_read_only = ("," options "," $(i + 3) ",") ~ /,ro,/
            }
        }
        END { exit !is_read_only }' "$proc/self/mountinfo"
}

# --- configuration and records ---------------------------------------------------------------

write_config() {
    if [ -e "$config" ]; then
        say "the configuration stays as it is: $config"
        return 0
    fi
    change "writing a configuration: $config" write_new_config
    [ -n "$cloud" ] || warn "no cloud is chosen yet: set cloud.kind in $config"
}

# It may come to hold credentials, so nobody else reads it.
write_new_config() {
    make_folder 0755 "$config_folder"
    (
        umask 077
        config_text >"$config_folder/.config.toml.new"
    )
    flush "$config_folder/.config.toml.new"
    mv "$config_folder/.config.toml.new" "$config"
    flush "$config_folder"
}

config_text() {
    if [ -n "$cloud" ]; then kind="kind = \"$cloud\""; else kind='# kind = "openstack"'; fi
    root='&'
    [ -z "$kubelet_root" ] || root=$(printf 'kubelet_root = "%s"' "$kubelet_root" | sed 's/[\\&|]/\\&/g')
    sed -e "s|^kind = .*|$kind|" -e "s|^# kubelet_root = .*|$root|" "$here/examples/config.toml"
}

# Asked before it is written: what fails in the words of a printf ends nothing.
note_what_is_installed() {
    sum=$(checksum "$driver/disk")
    {
        printf 'sha256=%s\n' "$sum"
        printf 'version=%s\n' "$(run_driver "$driver/disk" --version 2>/dev/null | head -n 1 || true)"
        printf 'time=%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
        # As the machine will see it that DESTDIR becomes.
        printf 'plugin_dir=%s\n' "${plugin_folder#"$destdir"}"
        for file in $trigger_files; do
            path=$(place_of "$file")
            if [ -f "$path" ]; then
                sum=$(checksum "$path")
                printf 'trigger=%s  %s\n' "$sum" "$file"
            fi
        done
    } >"$manifest.new"
    flush "$manifest.new"
    mv -f "$manifest.new" "$manifest"
    flush "$state_folder"
    step noted
}

# The driver writes them itself, so that they are its own; one that cannot (the predecessor, after
# a rollback) has none. Whatever fails here, the driver is installed.
put_pages() {
    version=$(run_driver "$driver/disk" --version 2>/dev/null | head -n 1 || true)
    # Of the same version they are the same.
    if [ -f "$pages" ] && [ "$(head -n 1 "$pages")" = "# $version" ] && [ -e "$share_folder/man/man8/disk.8" ]; then
        return 0
    fi
    remove_pages
    case $version in
        'disk '[0-9]*) printf '# %s\n' "$version" >"$pages.new" ;;
        *) return 0 ;;
    esac
    put_command || warn "there is no command disk: $command_folder/disk is somebody else's"
    put_page "$share_folder/bash-completion/completions/disk" completions bash
    put_page "$share_folder/zsh/site-functions/_disk" completions zsh
    put_page "$share_folder/fish/vendor_completions.d/disk.fish" completions fish
    put_manual
    mv -f "$pages.new" "$pages"
}

put_command() {
    target=${driver#"$destdir"}/disk
    if [ "$(readlink "$command_folder/disk" 2>/dev/null || true)" != "$target" ]; then
        if [ -e "$command_folder/disk" ] || [ -L "$command_folder/disk" ]; then return 1; fi
        make_folder 0755 "$command_folder"
        ln -s "$target" "$command_folder/disk"
    fi
    note_page "$command_folder/disk"
}

# put_page FILE WORD...: what the driver says to these words.
put_page() {
    page=$1
    shift
    [ ! -e "$page" ] || { warn "left as it is: $page" && return 0; }
    make_folder 0755 "$(dirname "$page")"
    if run_driver "$driver/disk" "$@" >"$page.new" 2>/dev/null &&
        [ "$(first_bytes "$page.new" 0 1)" != 7b ]; then
        mv -f "$page.new" "$page"
        note_page "$page"
    else
        # One that does not know the word answers it as a call, in JSON.
        rm -f "$page.new"
    fi
}

put_manual() {
    manual=$share_folder/man/man8
    make_folder 0755 "$manual"
    names=$(run_driver "$driver/disk" man --out "$manual" 2>/dev/null) || return 0
    for name in $names; do
        [ ! -f "$manual/$name" ] || note_page "$manual/$name"
    done
}

# note_page FILE: as the machine will see it that DESTDIR becomes.
note_page() { printf '%s\n' "${1#"$destdir"}" >>"$pages.new"; }

remove_pages() {
    for list in "$pages" "$pages.new"; do
        [ -f "$list" ] || continue
        sed 1d "$list" | while read -r page; do rm -f "$destdir${page#"$destdir"}"; done
        rm -f "$list"
    done
}

# noted KEY
noted() {
    [ ! -r "$manifest" ] || sed -n "s/^$1=//p" "$manifest"
}

noted_folder() {
    folder=$(noted plugin_dir)
    if [ -n "$folder" ] && [ -d "$destdir$folder/incloud~disk" ]; then folder=$destdir$folder; fi
    printf '%s\n' "$folder"
}

# Sets `drift`: one line for each thing that is not as it was installed.
find_drift() {
    drift=''
    if [ ! -r "$manifest" ]; then
        differs "nothing is noted as installed: there is no $manifest"
        return 0
    fi
    if ! is_installed; then
        differs "the driver is gone: $driver/disk"
    else
        [ "$(checksum "$driver/disk")" = "$(noted sha256)" ] ||
            differs "$driver/disk is another one than was installed at $(noted time) ($(noted version))"
        is_runnable "$driver/disk" || differs "$driver/disk has other permissions than 0755"
    fi
    for path in "$driver"/* "$plugin_folder"/incloud~disk?* "$plugin_folder"/.incloud~disk*; do
        [ -e "$path" ] || continue
        [ "$path" = "$driver/disk" ] || differs "kubelet may take this for a driver or a change of one: $path"
    done
    if [ ! -f "$config" ]; then
        differs "the configuration is gone: $config"
    elif [ "$(permissions "$config" | cut -c5-10)" != ------ ]; then
        differs "others may read the configuration, which may hold credentials: $config"
    fi
    [ -d "$log_folder" ] || differs "the log folder is gone: $log_folder"
    for file in $trigger_files; do
        path=$(place_of "$file")
        wanted=$(noted trigger | sed -n "s/  $file\$//p")
        [ -n "$wanted" ] || continue
        if [ ! -f "$path" ]; then
            differs "disks that come back are not noticed: $path is gone"
        elif [ "$(checksum "$path")" != "$wanted" ]; then
            differs "$path is another one than was installed (what is to be changed belongs into a drop-in)"
        fi
    done
    [ -z "$(noted trigger)" ] || [ -L "$timer_link" ] ||
        differs "the timer is not enabled: $timer_link is gone"
}

differs() {
    drift="$drift
  $*"
}

# A pipe would pass over that the file could not be read.
checksum() {
    sum_and_name=$(sha256sum "$1") || return 1
    printf '%s\n' "${sum_and_name%% *}"
}

permissions() {
    # shellcheck disable=SC2012 # one file, whose name is not looked at
    ls -ldL "$1" | cut -c 1-10
}

is_runnable() { [ "$(permissions "$1")" = -rwxr-xr-x ]; }

# make_folder MODE FOLDER: with its parents; one that is there keeps its mode.
make_folder() {
    [ -d "$2" ] && return 0
    mkdir -p "$(dirname "$2")"
    mkdir -m "$1" "$2"
}

# flush PATH...: to the disk. An old `sync` takes no path and flushes all.
flush() {
    sync "$@" 2>/dev/null || sync
}

# --- the trigger -----------------------------------------------------------------------------
#
# A disk that comes back is healed without a call: udev tells systemd, which starts the driver for
# that disk; beneath it a timer. Nothing stays in memory. The timer is enabled by its link, as
# `systemctl enable` does, so that images get it too.

trigger_files='incloud-disk-heal.service incloud-disk-heal@.service incloud-disk-heal.timer 90-incloud-disk.rules'
units_folder=$destdir/etc/systemd/system
rules_folder=$destdir/etc/udev/rules.d
timer_link=$units_folder/timers.target.wants/incloud-disk-heal.timer

# Test seam: INSTALL_SYSTEMD is a folder in place of the one that a running systemd has.
systemd_folder=${INSTALL_SYSTEMD:-/run/systemd/system}

systemd_runs() {
    [ -z "$destdir" ] || [ -n "${INSTALL_SYSTEMD:-}" ] || return 1
    [ -d "$systemd_folder" ] && have systemctl
}

# place_of FILE
place_of() {
    case $1 in
        *.rules) printf '%s\n' "$rules_folder/$1" ;;
        *) printf '%s\n' "$units_folder/$1" ;;
    esac
}

# The trigger for the driver that is in place now.
change_trigger() {
    if [ -z "$destdir" ] && ! systemd_runs; then
        say "no systemd runs here: let a supervisor run $driver/disk heal --watch, so that a disk that
comes back is healed without a call"
        return 0
    fi
    if [ -z "$dry_run" ] && ! has_heal "$driver/disk"; then
        say "this driver cannot be asked to heal all volumes, so nothing asks it"
        remove_trigger
        return 0
    fi
    case $driver in
        *[\"\'\\]*)
            warn "systemd cannot run a program of this path, so nothing calls it when a disk comes back: $driver/disk"
            remove_trigger
            return 0
            ;;
    esac
    changed=''
    [ -n "$dry_run" ] || rm -f "$units_folder"/.incloud-disk-heal*.new "$rules_folder"/.90-incloud-disk.rules.new
    for file in $trigger_files; do
        [ -f "$here/examples/systemd/$file" ] || continue
        if ! trigger_text "$file" | cmp -s - "$(place_of "$file")"; then
            change "writing $(place_of "$file")" write_trigger "$file"
            changed=yes
        fi
    done
    if [ ! -L "$timer_link" ] && [ -f "$here/examples/systemd/incloud-disk-heal.timer" ]; then
        change "enabling the timer: $timer_link" link_timer
        changed=yes
    fi
    step triggered
    [ -z "$changed" ] || tell_systemd
    ! systemd_runs || change "starting the timer" systemctl start incloud-disk-heal.timer
}

# has_heal FILE: not what was there before this driver.
has_heal() {
    [ "$(first_bytes "$1" 0 4)" = 7f454c46 ] && ask_for_heal "$1"
}

ask_for_heal() {
    case $(run_driver "$1" heal --help 2>&1) in
        *--device*) ;;
        *) return 1 ;;
    esac
}

# In a unit's command a percent sign is doubled.
trigger_text() {
    path=$(printf '%s' "${driver#"$destdir"}/disk" | sed -e 's/%/%%/g' -e 's/[\&|]/\\&/g')
    sed "s|^ExecStart=\"[^\"]*\"|ExecStart=\"$path\"|" "$here/examples/systemd/$1"
}

write_trigger() {
    path=$(place_of "$1")
    make_folder 0755 "$(dirname "$path")"
    trigger_text "$1" >"$(dirname "$path")/.$1.new"
    path=$(place_of "$1")
    mv -f "$(dirname "$path")/.$1.new" "$path"
}

link_timer() {
    make_folder 0755 "$(dirname "$timer_link")"
    ln -s ../incloud-disk-heal.timer "$timer_link"
}

# systemd that does not listen is no reason to stop: it reads all at the next start.
tell_systemd() {
    systemd_runs || return 0
    change "telling systemd" systemctl daemon-reload || warn "systemd did not read its units again"
    if have udevadm; then
        change "telling udev" udevadm control --reload || warn "udev did not read its rules again"
    fi
}

remove_trigger() {
    there=''
    for file in $trigger_files; do
        [ ! -e "$(place_of "$file")" ] || there=yes
    done
    [ -n "$there" ] || [ -L "$timer_link" ] || return 0
    ! systemd_runs || change "stopping the timer" systemctl stop incloud-disk-heal.timer || true
    change "removing what tells the driver of disks" rm -f "$timer_link"
    for file in $trigger_files; do
        [ -n "$dry_run" ] || rm -f "$(place_of "$file")"
    done
    tell_systemd
    step untriggered
}

# --- uninstalling ----------------------------------------------------------------------------

refuse_while_in_use() {
    find_users
    [ -z "$users" ] || die "refused, nothing was removed: without the driver kubelet cannot unmount these:$users
Move the pods that use them to another node first (kubectl drain)."
}

# Sets `users`: volumes mounted in our own mount namespace or in kubelet's, whose mounts they are,
# and calls under way. A table that cannot be read is no empty table.
find_users() {
    users='' mounted=''
    for process in "$proc/self" "$proc"/[0-9]*; do
        [ "$process" = "$proc/self" ] || is_kubelet "$process" || continue
        table=$(cat "$process/mountinfo" 2>/dev/null) || has_ended "$process" || table=$(cat "$process/mountinfo") ||
            die "the mounts cannot be read: $process/mountinfo"
        mounted=$mounted$newline$table
    done
    mounted=$(printf '%s\n' "$mounted" | cut -d ' ' -f 5 | sed -n \
        -e '\|/plugins/kubernetes\.io/flexvolume/incloud/disk/mounts/.|p' \
        -e '\|/pods/[^/]*/volumes/incloud~disk/.|p' | sort -u)
    [ -z "$mounted" ] || users=$newline$mounted
    calls=$(calls_under_way)
    [ -z "$calls" ] || users=$users$newline$calls
}

# has_ended PROCESS: also one that nobody has reaped yet has no mounts any more; of those the kernel
# says that the question is invalid. One that is ending now is given a moment.
has_ended() {
    sleep 1
    [ ! -d "$1" ] || grep -q '^State:[[:space:]]*[XZ]' "$1/status" 2>/dev/null
}

# Also those of a driver that was replaced meanwhile, which the kernel calls deleted.
calls_under_way() {
    where=$(cd "$driver" && pwd -P)
    for program in "$proc"/[0-9]*/exe; do
        case $(readlink "$program" 2>/dev/null || true) in
            "$where/disk" | "$where/disk (deleted)") ;;
            *) continue ;;
        esac
        process=${program%/exe}
        printf 'a call under way: process %s: %s\n' "${process##*/}" "$(arguments_of "$process" | head -n 2 | tail -n 1)"
    done
}

# The executable goes first: that is what kubelet takes for the end of a driver. What came in
# between the look and this is seen by a second look, and then the driver comes back.
remove_driver() {
    if is_installed; then
        cp -p "$driver/disk" "$driver/.leaving"
        rm -f "$driver/disk"
        step removed
        find_users
        if [ -n "$users" ]; then
            mv "$driver/.leaving" "$driver/disk"
            die "refused, the driver is back: these came in between:$users"
        fi
    fi
    # A folder without a driver is a broken driver to kubelet, so the hidden file goes with it.
    [ ! -f "$driver/.config.toml" ] || mv -f "$driver/.config.toml" "$kept_hidden_config"
    rm -f "$driver/.leaving"
    rmdir "$driver" || die "$driver is not empty; what is in there is not ours, and kubelet takes it for a driver"
    flush "$plugin_folder"
}

purge_traces() {
    change "removing $config_folder" rm -rf "$config_folder"
    for path in "$state_folder"/* "$state_folder"/.[!.]*; do
        [ -e "$path" ] || continue
        # The local cloud's volumes are somebody's data, not our state.
        if [ "$path" = "$state_folder/local" ]; then
            say "kept: $path, the volumes of the local cloud"
        else
            change "removing $path" rm -rf "$path"
        fi
    done
    [ ! -d "$state_folder" ] || [ -n "$dry_run" ] || rmdir "$state_folder" 2>/dev/null || true
    say "kept: $log_folder"
}

# --- a release -------------------------------------------------------------------------------

# pack_release BINARY FOLDER
pack_release() {
    refusal='' word=install
    test_driver "$1"
    [ -z "$refusal" ] || die "what was built $refusal"
    LC_ALL=C ldd "$1" 2>&1 | grep -Eq 'statically linked|not a dynamic' || die "what was built is not static: $1"
    name=incloud-disk-$(sed -n 's/^version *= *"\(.*\)".*/\1/p' Cargo.toml | head -n 1)-$(host_triple)
    mkdir "$scratch/$name"
    cp -R "$1" install.sh examples README.md CHANGELOG.md LICENSE "$scratch/$name/"
    mkdir "$scratch/$name/completions" "$scratch/$name/man"
    run_driver "$1" completions bash >"$scratch/$name/completions/disk.bash"
    run_driver "$1" completions zsh >"$scratch/$name/completions/_disk"
    run_driver "$1" completions fish >"$scratch/$name/completions/disk.fish"
    run_driver "$1" man --out "$scratch/$name/man" >/dev/null
    (
        cd "$scratch/$name"
        find . -type f | sed 's|^\./||' | LC_ALL=C sort | while read -r file; do sha256sum "$file"; done >"$scratch/sums"
        mv "$scratch/sums" SHA256SUMS
    )
    tar -C "$scratch" --owner=0 --group=0 -czf "$scratch/$name.tar.gz" "$name"
    # By the one who builds, so that the tarball is theirs.
    as_builder mkdir -p "$2"
    # shellcheck disable=SC2016 # for the inner shell
    as_builder sh -c 'cat >"$1"' - "$2/$name.tar.gz" <"$scratch/$name.tar.gz"
    say "packed: $2/$name.tar.gz"
}

# --- running the tests -----------------------------------------------------------------------

run_tests() {
    if [ -z "$builder" ]; then
        "$cargo" test --locked --no-fail-fast
    else
        run_tests_built_by_another
    fi
}

# test_in_cluster SCENARIO...: a packed release is what is installed there. What the cluster is made of the
# test gets by itself; none of it is installed here.
test_in_cluster() {
    is_root || die "a cluster makes namespaces, cgroups and loop devices, which needs root: sudo ./install.sh test kubernetes"
    have apt-get dpkg-deb || die "the cluster is made of Debian's packages, and here is no apt-get"
    have bash || die "the test is written for bash"
    prepare
    say "building the static driver (release); the first time this takes one to three minutes"
    quietly build_static --release
    packed=$(target_folder)/release-tarball
    pack_release "$(target_folder)/$(host_triple)/release/disk" "$packed"
    bash "$here/tests/kubernetes/run.sh" "$packed/$name.tar.gz" "$@" </dev/null
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

# test_in_machine WORD...: the release is what runs in the guest. What the guest is made of the test
# gets by itself; none of it is installed here, and nothing of it needs root.
test_in_machine() {
    prepare
    have apt-get dpkg-deb || die "the virtual machine is made of Debian's packages, and here is no apt-get"
    say "building the driver (release) and the test; the first time this takes one to three minutes"
    quietly as_builder "$cargo" build --release --locked
    quietly as_builder "$cargo" test --locked --test vm --no-run
    program=$(sed -n 's/^ *Executable .* (\(.*\))$/\1/p' "$scratch/output")
    say "playing the scenarios in virtual machines; on a machine without KVM this takes a while"
    as_builder env INCLOUD_DISK_VM_DRIVER="$(target_folder)/release/disk" "$program" "$@" </dev/null
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
    [ -f "$here/Cargo.toml" ] || die "$word builds, and this folder has no source"
    cd "$here"
    scratch=$(mktemp -d)
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

# What the tests call: the makers of other systems' disks, and what looks over the driver's shoulder. Not
# every distribution has all of them: a test without its tool is skipped and counted.
install_test_tools() {
    is_root || return 0
    list_missing_test_tools
    [ -n "$tools_apt" ] || return 0
    if have apt-get; then
        wanted_tools=$tools_apt
        DEBIAN_FRONTEND=noninteractive apt-get update >/dev/null 2>&1 </dev/null || true
    else
        wanted_tools=$tools_rpm
    fi
    say "installing what the tests call:$wanted_tools"
    not_to_be_had=''
    for package in $wanted_tools; do
        install_one "$package" >/dev/null 2>&1 </dev/null || not_to_be_had="$not_to_be_had $package"
    done
    [ -z "$not_to_be_had" ] || say "not to be had here:$not_to_be_had"
}

# Prometheus' checker of metrics and alerts. Its package would start a server, so that is not installed:
# the one program is unpacked beside the build, where the tests find it. Without it they are skipped
# and counted.
bring_promtool() {
    beside=$(target_folder)/tools/promtool
    if have promtool || [ -x "$beside" ] || ! have apt-get dpkg-deb; then
        return 0
    fi
    say "fetching promtool, which checks metrics and alerts"
    mkdir "$scratch/promtool"
    (
        cd "$scratch/promtool"
        apt-get download prometheus || { is_root && apt-get update && apt-get download prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xf - ./usr/bin/promtool
    ) >/dev/null 2>&1 </dev/null || true
    program=$scratch/promtool/usr/bin/promtool
    if [ ! -x "$program" ]; then
        say "not to be had here: promtool"
        return 0
    fi
    as_builder mkdir -p "$(dirname -- "$beside")"
    # By the one who builds, and whole or not at all.
    # shellcheck disable=SC2016 # for the inner shell
    as_builder sh -c 'cat >"$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"' - "$beside" <"$program"
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

list_missing_test_tools() {
    tools_apt='' tools_rpm=''
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
    want iproute2 iproute ip
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
    want strace strace strace
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
    tools_apt="$tools_apt $apt"
    tools_rpm="$tools_rpm $rpm"
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
