#!/bin/bash
# Runs a program in a root that has it and one folder: bare.sh ROOT FOLDER ro|rw PROGRAM WORD...
#
# It is called in namespaces of its own (mounts, processes).
set -euo pipefail

root=$1 folder=$2 mode=$3 program=$4
shift 4
mkdir -p "$root"
mount -t tmpfs tmpfs "$root"
mkdir -p "$root"/{proc,sys,dev,tmp,bin,etc/kubernetes,run/kubernetes,var/lib/incloud-disk/local} "$root$folder"
cp "$(command -v "$program")" "$root/bin/$program"
cp -r /etc/kubernetes/. "$root/etc/kubernetes/"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind /var/lib/incloud-disk/local "$root/var/lib/incloud-disk/local"
mount --bind "$folder" "$root$folder"
[[ $mode == rw ]] || mount -o remount,bind,ro "$root$folder"
exec chroot "$root" "/bin/$program" "$@"
