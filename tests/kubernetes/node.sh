#!/bin/bash
# Makes the node's root and goes in there: node.sh CACHE SCRATCH PROJECT RUN [SCENARIO...]
#
# It is called in namespaces of its own. The root is an overlay over the unpacked packages, so that
# a run leaves them as they were.
set -euo pipefail

cache=$1 scratch=$2 project=$3 run=$4
shift 4
root=$scratch/root

mount --make-rprivate /
mount -t overlay -o "lowerdir=$cache/built:$cache/root,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"

mkdir -p "$root"/{dev,proc,sys,run,tmp,opt/project,opt/release,opt/images,opt/kept,old} \
    "$root"/var/lib/{containerd,incloud-disk} "$root"/var/log "$root"/etc/cni/net.d

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir "$root/run/etcd"

# A node of its own for each device, for the machine's own folder shows what we make to every process.
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{pts,shm,mqueue}
for node in null zero full random urandom tty; do
    cp -a "/dev/$node" "$root/dev/$node"
done
# `/dev/kmsg` is what kubelet asks for out-of-memory kills.
[[ ! -e /dev/kmsg ]] || cp -a /dev/kmsg "$root/dev/kmsg"
mknod "$root/dev/loop-control" c 10 237
for ((number = 0; number < 512; number++)); do printf 'loop%d b 7 %d\n' "$number" "$number"; done |
    (cd "$root/dev" && xargs -n 4 mknod -m 660)
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"

# The trees of cgroups, at their places.
awk '$4 == "/" { for (i = 7; $i != "-"; i++) {}; if ($(i + 1) ~ /^cgroup2?$/) print $5 }' /proc/self/mountinfo |
    sort -u >"$scratch/trees"
if [[ $(head -n 1 "$scratch/trees") != /sys/fs/cgroup ]]; then
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
fi
while read -r tree; do
    mkdir -p "$root$tree"
    mount --bind "$tree" "$root$tree"
done <"$scratch/trees"

mount --bind "$scratch/containerd" "$root/var/lib/containerd"
mount --bind "$scratch/state" "$root/var/lib/incloud-disk"
mount --bind "$scratch/log" "$root/var/log"
mount --bind "$cache/logs" "$root/opt/kept"
mount --bind "$scratch/images" "$root/opt/images"
mount --bind "$scratch/release" "$root/opt/release"
mount --bind "$project" "$root/opt/project"
for folder in images release project; do
    mount -o remount,bind,ro "$root/opt/$folder"
done

# What the packages' own scripts would have made.
printf 'root:x:0:0:root:/root:/bin/bash\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
printf '127.0.0.1 localhost\n10.77.0.1 node-a\n10.77.0.2 node-b\n' >"$root/etc/hosts"
printf 'hosts: files\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
: >"$root/etc/resolv.conf"
ln -sf gawk "$root/usr/bin/awk"
for tool in iptables iptables-save iptables-restore; do
    ln -sf xtables-legacy-multi "$root/usr/sbin/$tool"
done

cd "$root"
pivot_root . old
umount --lazy /old
rmdir /old 2>/dev/null || true
# As on a node with systemd: what is mounted later reaches containers that ask for it.
mount --make-rshared /
echo node-a >/proc/sys/kernel/hostname
ip link set lo up
# kubelet wants an address that is not loopback's own.
ip address add 10.77.0.1/32 dev lo
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LC_ALL=C \
    RUN="$run" KEPT_AS="$cache/logs" \
    bash /opt/project/tests/kubernetes/play.sh "$@"
