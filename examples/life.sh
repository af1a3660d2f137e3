#!/bin/bash
# One life of a volume on this machine, told as a story: examples/life.sh PATH-OF-DISK
#
# The real driver is called as kubelet calls it, on the embedded local cloud: a volume is an image
# file, a disk is a loop device, its letter is the loop number.
# shellcheck disable=SC2016 # names such as $GLOBAL are shown, not expanded
# shellcheck source-path=SCRIPTDIR source=story.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/story.sh"

readonly gib=$((1024 * 1024 * 1024))

printf '%sOne life of a volume%s\n\n' "$bold" "$plain"
printf 'The cloud is embedded in the driver: a volume is an image file, a disk is a loop\n'
printf 'device, its letter is the loop number. Each call is made as kubelet makes it; under\n'
printf 'it stand its time and its whole reply, then what the system itself says.\n\n'
printf 'Long arguments are shown by these names:\n\n'
put '  $DEMO       ' "$work"
put '  $GLOBAL     ' "\$DEMO${global#"$work"}"
put '  $WRITER     ' "\$DEMO${writer_folder#"$work"}"
put '  $READER     ' 'the same folder of a second pod'
put '  $ORDERS     ' "$orders_options"
put '  $ORDERS_RO  ' 'the same with "kubernetes.io/readwrite":"ro"'
put '  $...+POD    ' "the same with the pod's name, namespace, uid and account"
put '  $PHOTOS     ' 'the same for another volume'
[[ $fs_type == ext4 ]] || printf '\n%s\n%s\n' \
    'Root has no CAP_SYS_RESOURCE here and may not grow a mounted ext4, so the file' \
    'system is xfs.'

chapter 'A volume is created: 1 GiB that was never written to'
cloud create "$orders" --size 1G --name "$orders_pv"

chapter 'kubelet finds the driver'
call init

chapter 'A pod comes to this node: the disk is attached'
call attach "$orders_options" "$node"
device=$(device_of_reply)
call waitforattach "$device" "$orders_options"
device=$(device_of_reply)
first_letter=$(letter "$device")
note_letter "$device"

chapter 'The disk is blank: it is formatted, then mounted for the node and for the pod'
make_folders "$global" "$writer_folder"
call mountdevice "$global" "$device" "$orders_options"
note_mount "$global"
call mount "$writer_folder" "$writer_mount"
note_mount "$writer_folder"

chapter 'The pod writes'
head -c 32M /dev/urandom >"$writer_folder/orders.db"
remember_data "$writer_folder"

chapter 'The pod is deleted, and the disk detached'
call unmount "$writer_folder"
rmdir "$writer_folder"
call unmountdevice "$global"
rmdir "$global"
note_no_mount "$global"
call detach "$orders_pv" "$node"
[[ -z $(our_loops) ]] || fail "$first_letter is still attached"
note letter "/dev/$first_letter is free"

chapter 'Another volume comes, and takes the letter'
cloud create "$photos" --size 1G --name "$photos_pv"
call attach "$photos_options" "$node"
photos_device=$(device_of_reply)
photos_letter=$(letter "$photos_device")
note_letter "$photos_device"

chapter 'The pod comes back: the first volume is attached again'
call attach "$orders_options" "$node"
call waitforattach "$(device_of_reply)" "$orders_options"
device=$(device_of_reply)
second_letter=$(letter "$device")
note_letter "$device"
if [[ $second_letter == "$first_letter" ]]; then
    note '' "as before, for once: another disk on this machine had it in between"
else
    note '' "it was $first_letter before; $photos_letter is $photos_pv now"
fi
make_folders "$global" "$writer_folder"
call mountdevice "$global" "$device" "$orders_options"
note_mount "$global"
call mount "$writer_folder" "$writer_mount"
note_data "$writer_folder"

chapter 'The claim grows to 2 GiB while the pod runs'
note_space before
call expandfs "$orders_options" "$device" "$writer_folder" $((2 * gib)) "$gib"
note_space after
note_data "$writer_folder"

chapter 'A second pod may only read'
call waitforattach "$device" "$reader_options"
make_folders "$reader_folder"
call mount "$reader_folder" "$reader_mount"
note_mount "$reader_folder"
note_data "$reader_folder"
if refusal=$(touch "$reader_folder/note" 2>&1); then
    fail 'the second pod could write'
fi
[[ $refusal == *'Read-only file system' ]] || fail "the write failed in another way: $refusal"
note 'its write' "$refusal"

chapter 'Both pods are deleted, both disks detached, both volumes deleted'
call unmount "$reader_folder"
rmdir "$reader_folder"
call unmount "$writer_folder"
rmdir "$writer_folder"
call unmountdevice "$global"
rmdir "$global"
call detach "$orders_pv" "$node"
call detach "$photos_pv" "$node"
cloud delete "$orders"
cloud delete "$photos"

the_end
