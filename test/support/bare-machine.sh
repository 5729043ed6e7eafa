#!/bin/sh
# Makes the namespaces of a machine out of a root filesystem, says "ready" and stays in them until it is killed: mounts,
# processes, cgroups and a network in which there is nothing but the loopback. Arguments: the root, the name of its cgroup.
set -eu
if [ "${3-}" != inside ]; then
  while IFS=: read -r _ kind path; do
    case $kind in
      '') top=/sys/fs/cgroup/unified; [ -d $top ] || top=/sys/fs/cgroup ;;
      name=*) top=/sys/fs/cgroup/${kind#name=} ;;
      *) top=/sys/fs/cgroup/$kind ;;
    esac
    # Some kernels list controllers that nothing is mounted for.
    [ -d "$top" ] || continue
    mkdir -p "$top/$2"
    if [ -e "$top/$2/cpuset.cpus" ]; then
      cat "$top/cpuset.cpus" >"$top/$2/cpuset.cpus"
      cat "$top/cpuset.mems" >"$top/$2/cpuset.mems"
      echo 1 >"$top/$2/cgroup.clone_children"
    fi
    echo $$ >"$top/$2/cgroup.procs"
  done </proc/self/cgroup
  exec setpriv --pdeathsig KILL unshare --mount --net --pid --ipc --uts --cgroup --fork --kill-child "$0" "$1" "$2" inside
fi
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mkdir -p dev proc sys run tmp mnt
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
if [ -d /sys/fs/cgroup/unified ]; then
  while IFS=: read -r _ kind _; do
    case $kind in
      '') mkdir sys/fs/cgroup/unified; mount -t cgroup2 cgroup2 sys/fs/cgroup/unified ;;
      name=*) mkdir "sys/fs/cgroup/${kind#name=}"; mount -t cgroup -o "none,$kind" cgroup "sys/fs/cgroup/${kind#name=}" ;;
      *) [ -d "/sys/fs/cgroup/$kind" ] || continue; mkdir "sys/fs/cgroup/$kind"; mount -t cgroup -o "$kind" cgroup "sys/fs/cgroup/$kind" ;;
    esac
  done </proc/self/cgroup
else
  mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
ip link set lo up
hostname bare
cp "$(command -v tini-static)" run/init
pivot_root . mnt
umount -l /mnt
echo ready
exec /run/init -- sleep infinity
