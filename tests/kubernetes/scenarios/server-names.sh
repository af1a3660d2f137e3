# Node, host and server have three names, and the cloud speaks OpenStack: the project's own server, with loop devices
# as disks. This machine's server follows from its metadata alone.
# shellcheck shell=bash disable=SC2034,SC2154,SC2317 # what the other files set and use; functions that a control replaces

readonly cloud=/run/cloud
readonly cloud_disks=/var/lib/incloud-disk/cloud
readonly server_name=prod-worker-17

skip_server_name() { [[ -x /opt/release/openstack ]] || echo 'needs the test server'; }
skip_controller_server_name() { skip_server_name; }

play_server_name() {
    openstack_begins
    play_server_names
    openstack_ends
}

# What kubelet tears down is refused; a detach by hand is healed by the attach that follows.
play_server_names() {
    guarded_incident
    local attached
    attached=$(times attach Success)
    disk detach --force "$(volume_id)" >/dev/null || fail 'not detached'
    did 'detached by hand, by force'
    [[ $(cat /run/attacher) != kubelet ]] || {
        stop_part kubelet
        start_kubelet
        did 'kubelet restarted'
    }
    expect 'it is attached again' 120 called attach Success $((attached + 1))
    expect '... and healed by that call' 10 healed_by attach
    expect 'the same container, never restarted' 10 is_same
    expect '... writes to the disk that came back' 10 goes_on
    expect '... which has another name' 1 on_another_disk
    expect '... which is its volume' 1 on_its_volume
    put_away
}

# Nothing is healed: the container keeps the mount of the disk that went.
control_server_name() {
    openstack_begins
    openstack_begins() { configure enforce off; }
    decisive='... and healed by that call'
}

put_back_server_name() { in_openstack; }

put_away_server_name() {
    put_away
    openstack_ends
}

play_controller_server_name() { play_server_name; }
control_controller_server_name() { control_server_name; }
put_back_controller_server_name() { put_back_server_name; }
put_away_controller_server_name() { put_away_server_name; }

# healed_by CALL
healed_by() {
    saw=$(driver_log | tail -n +$((marked + 1)) | grep '"message":"healed"' | sed -n 's/.*"op":"\([a-z]*\)".*/\1/p' | sort -u | tr '\n' ' ')
    [[ " $saw" == *" $1 "* ]]
}

on_another_disk() {
    saw="disk $(disk_in_container), before: $first_disk"
    [[ $(disk_in_container) != "$first_disk" ]]
}

# --- the cloud ----------------------------------------------------------------------------------------

# What set.sh asks the local cloud for. The server has the volume from its beginning.
in_openstack() {
    fs_type=xfs
    volume_id() { cat "$cloud/volume"; }
    create_in_cloud() { :; }
    delete_in_cloud() { rm "$cloud_disks/$(volume_id).img"; }
    is_attached_to() {
        saw="attached as: $(cat "$cloud/attached" 2>/dev/null || echo -)"
        [[ $saw == *": $1" ]]
    }
}

openstack_begins() {
    local name volume server
    in_openstack
    host_is_called e9c959da-master-2
    volume=$(</proc/sys/kernel/random/uuid) server=$(</proc/sys/kernel/random/uuid)
    mkdir -p "$cloud"/{kernel,view} "$cloud_disks" /dev/disk/by-id
    echo "$volume" >"$cloud/volume"
    # In sysfs a loop device has no serial. So what is shown there are links, and a directory for each attached disk.
    mount --bind /sys/devices/virtual/block "$cloud/kernel"
    # Otherwise the next mount would be made there too.
    mount --make-private "$cloud/kernel"
    for name in "$cloud"/kernel/*; do ln -s "$name" "$cloud/view/"; done
    mount --bind "$cloud/view" /sys/devices/virtual/block
    write_hook
    cat >"$cloud/script" <<JSON
{"servers": [{"name": "$server_name", "id": "$server"}], "metadata_of": "$server_name", "hook": "$cloud/hook",
 "volumes": [{"name": "data", "id": "$volume", "size": 1}]}
JSON
    CLOUD_SCRIPT=$cloud/script CLOUD_URL=$cloud/url \
        start openstack /opt/release/openstack --exact serve::a_program_serves_what_its_script_says
    until_true 20 test -s "$cloud/url" || fail 'the cloud does not answer'
    mv "$driver_config" "$cloud/config.before"
    (umask 077 && cat >"$driver_config") <<TOML
[cloud]
kind = "openstack"
[openstack]
auth_url = "$(<"$cloud/url")/v3"
username = "demo"
password = "demopass"
project_name = "demo"
domain_name = "Default"
metadata_url = "$(<"$cloud/url")"
[disks]
transports = ["loop"]
[guard]
mode = "enforce"
[heal]
mode = "auto"
TOML
    did "the cloud has a server $server_name, the host is called $(</proc/sys/kernel/hostname), the node node-a"
}

# A disk goes as a hypervisor pulls it: the file system on it dies, and the kernel shows it no more.
write_hook() {
    cat >"$cloud/hook" <<'SH'
#!/bin/bash
set -eu
cloud=/run/cloud
image=/var/lib/incloud-disk/cloud/$2.img link=/dev/disk/by-id/virtio-${2:0:20}
case $1 in
    attach)
        [[ -e $image ]] || truncate --size "${SIZE}G" "$image"
        device=$(losetup --find --show "$image")
        name=${device##*/}
        rm -rf "$cloud/view/$name"
        mkdir "$cloud/view/.new"
        for file in "$cloud/kernel/$name"/*; do ln -s "$file" "$cloud/view/.new/"; done
        printf %s "${2:0:20}" >"$cloud/view/.new/serial"
        mv "$cloud/view/.new" "$cloud/view/$name"
        ln -s "$device" "$link"
        echo "$name" >"$cloud/attached"
        ;;
    detach)
        name=$(<"$cloud/attached")
        number=$(<"$cloud/kernel/$name/dev")
        awk -v number="$number" '$3 == number { print $5; exit }' /proc/self/mountinfo | while read -r folder; do
            xfs_io -x -c 'shutdown' "$folder"
        done
        rm -rf "$link" "$cloud/attached" "$cloud/view/$name"
        losetup --detach "/dev/$name"
        ;;
esac
SH
    chmod 755 "$cloud/hook"
}

openstack_ends() {
    ! runs openstack || stop_part openstack
    umount /sys/devices/virtual/block
    umount "$cloud/kernel"
    mv "$cloud/config.before" "$driver_config"
    rm -rf "$cloud"
    host_is_called node-a
}
