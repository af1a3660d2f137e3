#!/bin/bash
# The incident that this driver is for, in two acts: examples/demo.sh PATH-OF-DISK
#
# A real container (its own mount namespace, its own root, its own cgroup) writes to a volume without
# pause. In the first act kubelet believes that its pod is gone; in the second the disk is pulled and
# comes back under another letter. The driver is called as kubelet calls it, on the embedded local
# cloud: a volume is an image file, a disk is a loop device, its letter is the loop number.
# shellcheck disable=SC2016 # names such as $GLOBAL are shown, not expanded
# shellcheck source-path=SCRIPTDIR source=story.sh
here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
if ! mountpoint --quiet /; then
    printf '%s\n\n' 'The root of this environment is no mount, as in a plain chroot: there can be no container
with a root of its own here. So one life of a volume is played instead of the incident.'
    exec bash "$here/life.sh" "$@"
fi
. "$here/story.sh"

# --- a container --------------------------------------------------------------------------------

container='' container_cgroup=''

# A cgroup tree in which folders can be made: the new one first.
cgroup_tree() {
    awk '$4 == "/" && $6 !~ /^ro/ {
        for (i = 7; $i != "-"; i++) {}
        if ($(i + 1) == "cgroup2") { print 1, $5 }
        if ($(i + 1) == "cgroup" && $NF !~ /cpuset/ && $6 ~ /^rw/) { print 2, $5 }
    }' /proc/self/mountinfo | sort -n | while read -r _ tree; do
        if mkdir "$tree/incloud-disk-demo-$$" 2>/dev/null; then
            rmdir "$tree/incloud-disk-demo-$$"
            printf '%s\n' "$tree"
            break
        fi
    done
}

# What the container does: it opens its log, appends a line, has it written to the disk, and
# counts what failed.
readonly life_of_container='
    set +e
    root=$1 volume=$2 report=$3
    mount -t tmpfs tmpfs "$root" && mkdir "$root"/{old,data,proc,report} &&
        mount --bind "$volume" "$root/data" && mount --bind "$report" "$root/report" || exit 1
    for folder in bin lib lib64 usr; do
        [ -e "/$folder" ] || continue
        mkdir "$root/$folder" && mount --rbind "/$folder" "$root/$folder"
    done
    cd "$root" && pivot_root . old && mount -t proc proc /proc && umount -l /old || exit 1
    good=0 bad=0
    exec 8>/report/gate
    while :; do
        flock 8
        if echo "$good" >>/data/log && sync /data/log; then good=$((good + 1)); else bad=$((bad + 1)); fi
        flock -u 8
        echo "$good $bad" >/report/.tally && mv /report/.tally /report/tally
        sleep 0.01
    done'

# start_container POD-UID FOLDER: like a runtime, in a cgroup that bears the pod's uid.
start_container() {
    local tree
    tree=$(cgroup_tree)
    [[ -n $tree ]] || fail "no cgroup can be made here, and without one a container belongs to no pod"
    container_cgroup=$tree/incloud-disk-demo-$$/pod$1/$(tr -d - <<<"$1$1")
    mkdir -p "$container_cgroup" "$work/container" "$work/report"
    (
        printf '%s\n' "$BASHPID" >"$container_cgroup/cgroup.procs"
        exec unshare --mount --propagation private -- \
            bash -c "$life_of_container" container "$work/container" "$2" "$work/report" </dev/null >/dev/null 2>&1
    ) &
    container=$!
    until_true 'the container writes' writes_more_than 5
}

end_container() {
    [[ -n $container ]] || return 0
    kill -KILL "$container" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
    container=''
    local folder=$container_cgroup
    # What sleeps in it ends with it.
    while [[ -s $folder/cgroup.procs ]]; do
        xargs -r kill -KILL <"$folder/cgroup.procs" 2>/dev/null || true
        sleep 0.01
    done
    while [[ $folder == */incloud-disk-demo-* ]]; do
        # The kernel takes a moment to see that the last process is gone.
        for _ in {1..500}; do
            if rmdir "$folder" 2>/dev/null; then break; fi
            sleep 0.01
        done
        folder=${folder%/*}
    done
}

# tally: how many of the container's writes succeeded and failed, into $good_writes and $bad_writes.
tally() {
    read -r good_writes bad_writes 2>/dev/null <"$work/report/tally" ||
        { good_writes=0 bad_writes=0; }
}

writes_more_than() { tally && ((good_writes > $1)); }
fails_more_than() { tally && ((bad_writes > $1)); }

# until_true WHAT COMMAND...
until_true() {
    local what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        ((tries < 1000)) || fail "$what: not within ten seconds"
        sleep 0.01
    done
}

note_container() {
    tally
    note 'the container' "$good_writes writes, $bad_writes failed"
}

# note_inside: what the container has at /data, from its own mount table.
note_inside() {
    local row
    row=$(awk '$5 == "/data" { for (i = 7; $i != "-"; i++) {}; print $3, $(i + 2), $5, $(i + 1), $6 }' \
        "/proc/$container/mountinfo")
    [[ -n $row ]] || fail 'the container has nothing at /data'
    note 'in container' "$row"
}

# --- the story ----------------------------------------------------------------------------------

printf '%sThe incident, in two acts%s\n\n' "$bold" "$plain"
printf 'The cloud is embedded in the driver: a volume is an image file, a disk is a loop\n'
printf 'device, its letter is the loop number. Each call is made as kubelet makes it; under\n'
printf 'it stand its time and its whole reply, then what the system itself says.\n\n'
printf 'Long arguments are shown by these names:\n\n'
put '  $DEMO        ' "$work"
put '  $GLOBAL      ' "\$DEMO${global#"$work"}"
put '  $WRITER      ' "\$DEMO${writer_folder#"$work"}"
put '  $ORDERS      ' "$orders_options"
put '  $ORDERS+POD  ' "the same with the pod's name, namespace, uid and account"

chapter 'A volume, a pod, and a container that writes without pause'
cloud create "$orders" --size 1G --name "$orders_pv"
call attach "$orders_options" "$node"
call waitforattach "$(device_of_reply)" "$orders_options"
device=$(device_of_reply)
first_letter=$(letter "$device")
note_letter "$device"
make_folders "$global" "$writer_folder"
call mountdevice "$global" "$device" "$orders_options"
call mount "$writer_folder" "$writer_mount"
start_container "$writer" "$writer_folder"
note_mount "$global"
note_mount "$writer_folder"
note_inside
note_container

printf '\n%sFirst act: kubelet is wrong%s\n' "$bold" "$plain"

chapter 'The API stalls. kubelet restarts, and tears down what it believes to be unused'
# The folder it may have: the container has a mount of its own.
call unmount "$writer_folder"
rmdir "$writer_folder"
refused unmountdevice "$global"
refused detach "$orders_pv" "$node"
note_mount "$global"
note_inside

chapter 'The pod never notices'
tally
until_true 'the container writes on' writes_more_than $((good_writes + 20))
note_container
((bad_writes == 0)) || fail 'the container was disturbed'

chapter 'The API is back: kubelet goes on as if nothing had been'
make_folders "$global" "$writer_folder"
call attach "$orders_options" "$node"
call waitforattach "$(device_of_reply)" "$orders_options"
call mountdevice "$global" "$(device_of_reply)" "$orders_options"
call mount "$writer_folder" "$writer_mount"
note_mount "$writer_folder"

printf '\n%sSecond act: the disk is pulled%s\n' "$bold" "$plain"

chapter 'The cloud takes the disk away under the running container'
# Between two writes: of one that is under way when a file system is shut down the kernel may say that it is
# on the disk, and it is not. So it is without any driver: docs/local-cloud.md.
exec {gate}>"$work/report/gate"
flock "$gate"
cloud yank "$orders"
flock -u "$gate"
exec {gate}>&-
tally
until_true 'the writes of the container fail' fails_more_than $((bad_writes + 10))
note_container
note letter "/dev/$first_letter is gone; the mounts of it are still there, and dead:"
note_mount "$global"
note_mount "$writer_folder"
note_inside

chapter 'kubelet calls attach, and nothing else'
call attach "$orders_options" "$node"
device=$(device_of_reply)
second_letter=$(letter "$device")
[[ $second_letter != "$first_letter" ]] || fail "the disk came back as $first_letter: the dead one is not pinned"
note_letter "$device"
note_mount "$global"
note_mount "$writer_folder"
note_inside

chapter 'The container goes on, without a restart'
tally
failed=$bad_writes
until_true 'the container writes on' writes_more_than $((good_writes + 20))
note_container
((bad_writes == failed)) || fail 'writes failed after the heal'
lines=$(wc -l <"$writer_folder/log")
((lines >= good_writes)) || fail "$good_writes writes were confirmed, and its log has $lines lines"
note 'its log' "$lines lines: no write that was confirmed is lost"
while read -r line; do note 'our log' "$line"; done < <(
    sed -n 's/^\S* *\S* [^:]*: \(heal.*\)/\1/p' "$work"/log/* | sed "s/ volume=$orders//")

chapter 'The pod is deleted: now the volume is not in use'
end_container
rm -r "$work/report" "$work/container"
call unmount "$writer_folder"
rmdir "$writer_folder"
call unmountdevice "$global"
rmdir "$global"
call detach "$orders_pv" "$node"
cloud delete "$orders"

the_end
