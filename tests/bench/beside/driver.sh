#!/bin/bash
# A FlexVolume driver of the usual kind, a shell script with jq, for the calls that are measured. BY_ID is the
# folder with the disks' links. It does what such scripts do, and checks as little.
say() {
    printf '%s\n' "$1"
    exit 0
}

fail() {
    say "$(jq -cn --arg message "$1" '{status: "Failure", message: $message}')"
}

# option NAME JSON
option() {
    jq -r --arg name "$1" '.[$name] // empty' <<<"$2"
}

find_device() {
    id=$(option volumeID "$1")
    link=$BY_ID/virtio-${id:0:20}
    device=$(readlink -f "$link")
    [[ -b $device ]] || fail "no disk $link"
    lsblk --noheadings --nodeps --output NAME "$device" >/dev/null || fail "no disk $device"
}

case ${1:-} in
    init)
        say '{"status":"Success","capabilities":{"attach":true,"selinuxRelabel":true,"fsGroup":true}}'
        ;;
    isattached)
        find_device "$2"
        say '{"status":"Success","attached":true}'
        ;;
    waitforattach)
        for _ in {1..10}; do
            find_device "$3"
            [[ -z $device ]] || break
            sleep 1
        done
        say "$(jq -cn --arg device "$device" '{status: "Success", device: $device}')"
        ;;
    mountdevice)
        find_device "$4"
        fs_type=$(option kubernetes.io/fsType "$4")
        if [[ $(findmnt --noheadings --output SOURCE --mountpoint "$2") ]]; then
            say '{"status":"Success"}'
        fi
        [[ $(blkid -o value -s TYPE "$device") ]] || fail "no file system on $device"
        fsck -a "$device" >/dev/null 2>&1
        [[ $? -le 1 ]] || fail "fsck of $device failed"
        mkdir -p "$2"
        mount -t "$fs_type" "$device" "$2" >/dev/null 2>&1 || fail "mount of $device failed"
        say '{"status":"Success"}'
        ;;
    *) say '{"status":"Not supported"}' ;;
esac
