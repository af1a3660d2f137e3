#!/bin/bash
# One host: host.sh FOLDER LAYERS, called in namespaces of its own. FOLDER is in memory; LAYERS are what is below,
# from the uppermost on.
set -euo pipefail

folder=$1 layers=$2 root=$1/root

mkdir -p "$folder"/{upper,scraps,root}
mount -t overlay -o "lowerdir=$layers,upperdir=$folder/upper,workdir=$folder/scraps" overlay "$root"
# What the layer above this machine's root hides is made anew.
mkdir -p "$root"/{run,root,dev,proc,sys} "$root"/var/lib/kubelet
chmod 700 "$root/root"
mkdir -p "$root/tmp" "$root/var/tmp"
chmod 1777 "$root/tmp" "$root/var/tmp"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
# No disks: nothing of this machine's can be reached.
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
hostname "$(basename "$folder")"
printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
ip link set lo up

mkfifo "$folder/silence"
exec {silence}<>"$folder/silence"
cd "$root"
pivot_root . .
# Both are at one place; what is uppermost is the machine's.
umount --lazy .
cd /
echo "$$" >&"$3"
eval "exec $3>&-"
# It holds the namespaces, until it is ended.
read -r <&"$silence"
