# Telling a story of calls to the driver: sourced by the scripts beside it, with the driver as $1.
# All files are in one temporary folder and all mounts in a mount namespace of the story's own; both
# are gone at the end, also when the story is interrupted.
# shellcheck shell=bash
# shellcheck disable=SC2016 # names such as $GLOBAL are shown, not expanded
set -euo pipefail
export LC_ALL=C

readonly node=demo-node
readonly columns=80

stop() {
    printf '%s\n' "${0##*/}: $*" >&2
    exit 1
}

[[ $# -eq 1 ]] || stop "usage: $0 PATH-OF-DISK (sudo ./install.sh demo builds it and runs this)"
disk=$(realpath -- "$1")
[[ -x $disk ]] || stop "$disk is not a program"
[[ $EUID -eq 0 ]] || stop "loop devices and mounts need root: sudo ./install.sh demo"
[[ -e /dev/loop-control ]] || modprobe loop 2>/dev/null || true
[[ -e /dev/loop-control ]] || stop "this kernel offers no loop devices: /dev/loop-control is missing"
if [[ -z ${DEMO_NAMESPACE-} ]]; then
    DEMO_NAMESPACE=1 exec unshare --mount --propagation unchanged -- bash "$0" "$disk"
fi

# Two volumes, as a cluster names them: the cloud's id, and the PersistentVolume's name.
orders=$(</proc/sys/kernel/random/uuid) orders_pv=pv-orders
photos=$(</proc/sys/kernel/random/uuid) photos_pv=pv-photos
work=$(mktemp -d /tmp/incloud-disk-demo.XXXXXX)

# --- leaving nothing behind, also when the story is interrupted --------------------------------

our_loops() {
    local file
    for file in /sys/block/loop*/loop/backing_file; do
        [[ ! -e $file ]] || [[ $(<"$file") != "$work"/* ]] || cut -d / -f 4 <<<"$file"
    done
}

# What a story has besides loops and mounts is ended by its own function of this name.
end_container() { :; }

our_mounts() {
    awk -v below="$work/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo
}

our_nodes() {
    compgen -G "/dev/incloud-disk/$orders*" || true
    compgen -G "/dev/incloud-disk/$photos*" || true
}

tidy() {
    local name
    trap '' INT TERM HUP PIPE
    cd /
    end_container
    # The last mounts first: a bind lies on what it was made from.
    our_mounts | tac | while read -r name; do umount "$name" || umount --lazy "$name" || true; done
    for name in $(our_loops); do losetup --detach "/dev/$name" || true; done
    for name in $(our_nodes); do rm -f "$name"; done
    ! mountpoint --quiet "$work" || umount "$work"
    rm -rf --one-file-system "$work"
}
trap tidy EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM

# Nothing that is mounted from here on shows elsewhere. In a chroot the root may be no mount point;
# then the folder is made one, and private.
mount --make-rprivate / 2>/dev/null ||
    { mount --bind "$work" "$work" && mount --make-private "$work"; }

# --- the scene ----------------------------------------------------------------------------------

writer=$(</proc/sys/kernel/random/uuid) reader=$(</proc/sys/kernel/random/uuid)
kubelet=$work/kubelet
global=$kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/$orders_pv
writer_folder=$kubelet/pods/$writer/volumes/incloud~disk/$orders_pv
reader_folder=$kubelet/pods/$reader/volumes/incloud~disk/$orders_pv

# The kernel lets a root without CAP_SYS_RESOURCE (bit 24; some containers) grow a mounted xfs, but
# no mounted ext4.
fs_type=ext4
capabilities=$(awk '/^CapEff:/ { print $2 }' /proc/self/status)
((0x$capabilities >> 24 & 1)) || fs_type=xfs

# options PV VOLUME rw|ro [POD UID]: the JSON argument, its keys in kubelet's order. Only `mount`
# is told about the pod.
options() {
    local pod='' account=''
    if [[ $# -gt 3 ]]; then
        pod="\"kubernetes.io/pod.name\":\"$4\",\"kubernetes.io/pod.namespace\":\"shop\","
        pod+="\"kubernetes.io/pod.uid\":\"$5\","
        account='"kubernetes.io/serviceAccount.name":"default",'
    fi
    printf '{"kubernetes.io/fsType":"%s",%s' "$fs_type" "$pod"
    printf '"kubernetes.io/pvOrVolumeName":"%s","kubernetes.io/readwrite":"%s",%s' "$1" "$3" "$account"
    printf '"volumeID":"%s"}' "$2"
}
orders_options=$(options "$orders_pv" "$orders" rw)
photos_options=$(options "$photos_pv" "$photos" rw)
reader_options=$(options "$orders_pv" "$orders" ro)
writer_mount=$(options "$orders_pv" "$orders" rw orders-0 "$writer")
reader_mount=$(options "$orders_pv" "$orders" ro report-0 "$reader")

# The long arguments, by the names that the story shows for them; a longer text before its parts.
readonly legend=(
    '$WRITER' "$writer_folder"
    '$READER' "$reader_folder"
    '$GLOBAL' "$global"
    '$DEMO' "$work"
    '$ORDERS' "$orders_options"
    '$PHOTOS' "$photos_options"
    '$ORDERS_RO' "$reader_options"
    '$ORDERS+POD' "$writer_mount"
    '$ORDERS_RO+POD' "$reader_mount"
)

mkdir "$work/log" "$kubelet"
export INCLOUD_DISK_CONFIG=$work/config.toml
cat >"$INCLOUD_DISK_CONFIG" <<TOML
[cloud]
kind = "local"

[local]
dir = "$work/local"

[node]
name = "$node"

[paths]
kubelet_root = "$kubelet"
state_dir = "$work/state"
run_dir = "$work/run"
log_dir = "$work/log"
TOML

# --- telling -----------------------------------------------------------------------------------

bold='' dim='' good='' bad='' plain=''
if [[ -t 1 ]]; then
    bold=$'\e[1m' dim=$'\e[2m' good=$'\e[32m' bad=$'\e[31m' plain=$'\e[0m'
fi
chapters=0 calls=0 total=0

chapter() {
    chapters=$((chapters + 1))
    printf '\n%s%2d. %s%s\n' "$bold" "$chapters" "$1" "$plain"
}

# shorten TEXT: with the legend's names in it.
shorten() {
    local text=$1 i
    for ((i = 0; i < ${#legend[@]}; i += 2)); do
        text=${text//"${legend[i + 1]}"/${legend[i]}}
    done
    printf '%s' "$text"
}

# put FIRST-INDENT TEXT [COLOUR [LINE-END]]: TEXT in lines that fit.
put() {
    local indent=$1 rest=$2 colour=${3-} end=${4-} piece room
    while :; do
        room=$((columns - ${#indent} - ${#end} - 1))
        ((${#rest} > columns - ${#indent})) || break
        piece=${rest:0:room}
        case $piece in
            *[\ ,]*) piece=${piece%"${piece##*[ ,]}"} ;;
            */*) piece=${piece%"${piece##*/}"} ;;
        esac
        printf '%s%s%s%s%s\n' "$indent" "$colour" "${piece% }" "${end:+ $end}" "$plain"
        rest=${rest:${#piece}}
        indent=$(printf '%*s' "${#indent}" '')
    done
    printf '%s%s%s%s\n' "$indent" "$colour" "$rest" "$plain"
}

# note LABEL TEXT: a fact, read from the system and not from the driver.
note() {
    put "$(printf '%14s  ' "$1")" "$(shorten "$2")" "$dim"
}

# --- calling -----------------------------------------------------------------------------------

# call WORD ARGUMENT...: one call as kubelet makes it; both streams together are the reply. The
# story ends at the first reply that is not a Success.
call() {
    local begin end took status=0
    put "      $ " "$(shorten "disk $*")" "$bold" "\\"
    begin=${EPOCHREALTIME/./}
    reply=$("$disk" "$@" 2>&1) || status=$?
    end=${EPOCHREALTIME/./}
    took=$((end - begin)) calls=$((calls + 1)) total=$((total + took))
    begin=$(printf '%9d.%d ms  ' $((took / 1000)) $((took / 100 % 10)))
    if [[ $status -ne 0 || $reply != '{"status":"Success"'* ]]; then
        put "$begin" "$(shorten "$reply")" "$bad"
        fail "\"disk $1\" did not succeed (exit status $status)"
    fi
    put "$begin" "$(shorten "$reply")" "$good"
}

# refused WORD ARGUMENT...: a call that the driver must refuse.
refused() {
    local begin end took status=0
    put "      $ " "$(shorten "disk $*")" "$bold" "\\"
    begin=${EPOCHREALTIME/./}
    reply=$("$disk" "$@" 2>&1) || status=$?
    end=${EPOCHREALTIME/./}
    took=$((end - begin)) calls=$((calls + 1)) total=$((total + took))
    begin=$(printf '%9d.%d ms  ' $((took / 1000)) $((took / 100 % 10)))
    put "$begin" "$(shorten "$reply")" "$bad"
    [[ $status -eq 0 && $reply == '{"status":"Failure"'* ]] ||
        fail "\"disk $1\" was not refused (exit status $status)"
}

# cloud WORD ARGUMENT...: what the cloud's customer does; the driver answers in words for people.
cloud() {
    local answer status=0
    put "      $ " "$(shorten "disk local $*")" "$bold" "\\"
    answer=$("$disk" local "$@" 2>&1) || status=$?
    put "                " "$(shorten "$answer")"
    [[ $status -eq 0 ]] || fail "the cloud refused (exit status $status)"
}

fail() {
    printf '\n%sThe story stops here: %s.%s\n' "$bad" "$1" "$plain" >&2
    if compgen -G "$work/log/*" >/dev/null; then
        printf 'The end of the log:\n' >&2
        tail -q -n 5 "$work"/log/* >&2
    fi
    exit 1
}

# make_folders FOLDER...: as kubelet does before `mountdevice` and `mount`; it removes them after
# `unmountdevice` and `unmount`.
make_folders() {
    (umask 027 && mkdir -p "$@")
}

# The device of the last reply.
device_of_reply() {
    sed -n 's/.*"device":"\([^"]*\)".*/\1/p' <<<"$reply"
}

# --- looking -----------------------------------------------------------------------------------

# letter DEVICE: the name that the kernel gave the disk, for example loop0.
letter() {
    basename "$(readlink -e "$1")"
}

note_letter() {
    local name
    name=$(letter "$1")
    note letter "/dev/$name, device number $(<"/sys/block/$name/dev")"
}

# note_mount FOLDER: its row of the mount table.
note_mount() {
    local row
    row=$(findmnt --noheadings --raw --output MAJ:MIN,SOURCE,TARGET,FSTYPE,OPTIONS --mountpoint "$1") ||
        fail "$1 is not in the mount table"
    note 'mount table' "$row"
}

# note_no_mount FOLDER
note_no_mount() {
    ! findmnt --mountpoint "$1" >/dev/null || fail "$1 is still in the mount table"
    note 'mount table' "no row for $1"
}

note_space() {
    local size free
    read -r size free < <(df --block-size=M --output=size,avail "$writer_folder" | tail -n 1)
    note "$1" "size $size, free $free"
}

# remember_data FOLDER: what was written there, for note_data.
remember_data() {
    written=$(sha256sum <"$1/orders.db")
    written=${written%% *}
    note data "$1/orders.db, 32 MiB, sha256 ${written:0:16}..."
}

# note_data FOLDER: compares the data with what was written.
note_data() {
    local now
    now=$(sha256sum <"$1/orders.db")
    [[ ${now%% *} == "$written" ]] || fail "the data of $1/orders.db is not what was written"
    note data "$1/orders.db is as written, sha256 ${now:0:16}..."
}

# --- the end ------------------------------------------------------------------------------------

# nothing WHAT LIST: says that there is none, or remembers that there is.
nothing() {
    local list=${2//$'\n'/ }
    note "$1" "${list:-none}"
    [[ -z $list ]] || left+="${left:+, }$1"
}

the_end() {
    chapter 'What is left'
    left=''
    nothing 'loop devices' "$(our_loops)"
    nothing mounts "$(our_mounts)"
    nothing 'device nodes' "$(our_nodes)"
    nothing locks "$(find "$work/run" -type f 2>/dev/null)"
    nothing 'volume files' "$(find "$work" -name "*$orders*" -o -name "*$photos*")"
    # What stays is the scene itself, the log, and the lock file of the cloud.
    nothing 'other files' "$(find "$work" -type f -not -path "$INCLOUD_DISK_CONFIG" \
        -not -path "$work/log/*" -not -path "$work/local/lock")"
    [[ -z $left ]] || fail "left behind: $left"
    tidy
    trap - EXIT
    [[ ! -e $work ]] || stop "$work could not be removed"
    printf '\n%sNothing is left behind. %d calls took %d ms.%s\n' \
        "$good" "$calls" $((total / 1000)) "$plain"
}
