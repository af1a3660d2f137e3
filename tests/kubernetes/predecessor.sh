#!/bin/bash
# A driver of the old kind, for the scenarios that replace one: it has the cloud's own program attach, mounts what
# lies at a letter, and remembers nothing. What it leaves to kubelet it does not support.
cloud=/opt/release/disk
export INCLOUD_DISK_CONFIG=/etc/predecessor.toml

# option NAME JSON
option() { sed -n "s|.*\"$1\":\"\([^\"]*\)\".*|\1|p" <<<"$2"; }

# done_with [MORE]
done_with() {
    printf '{"status":"Success"%s}\n' "${1-}"
    exit 0
}

failed() {
    printf '{"status":"Failure","message":"%s"}\n' "${1//\"/}"
    exit 1
}

case ${1-} in
    init) done_with ',"capabilities":{"attach":true}' ;;
    attach | isattached)
        "$cloud" "$@"
        exit
        ;;
    waitforattach)
        id=$(option volumeID "$3")
        device=$(readlink -e "/var/lib/incloud-disk/local/by-id/virtio-${id:0:20}") || failed 'no disk'
        done_with ",\"device\":\"$device\""
        ;;
    mountdevice)
        mkdir -p "$2"
        mountpoint -q "$2" && done_with
        blkid "$3" >/dev/null || mkfs.ext4 -q "$3" >/dev/null 2>&1 || failed 'mkfs'
        mount "$3" "$2" || failed 'mount'
        done_with
        ;;
    unmountdevice)
        umount "$2" || failed 'umount'
        done_with
        ;;
    detach)
        said=$("$cloud" detach --force "${2#pv-}" "${3-}" 2>&1) || said=$("$cloud" detach --force "vol-${2#pv-}" "${3-}" 2>&1) || failed "$said"
        done_with
        ;;
esac
printf '{"status":"Not supported"}\n'
exit 1
