#!/bin/bash
# The first process of a node: makes its mounts, and runs its programs until it is killed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"
n=$1
folder=$work/node-$n

if [ "${2:-}" != programs ]; then
  hostname "node-$n"
  names=$(for path in $cgroup_folders; do echo "${path##*/}"; done)
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for name in $names; do
    mkdir "/sys/fs/cgroup/$name"
    case $name in
      unified) mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified ;;
      systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd ;;
      *) mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" ;;
    esac
  done
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p "$folder"/{warren,log,tmp,kubelet,containerd,cni}
  chmod 1777 "$folder/tmp"
  mount --bind "$folder/warren" /var/lib/warren
  mount --bind "$folder/log" /var/log
  mount --bind "$folder/tmp" /tmp
  mount --make-rshared /
  exec tini-static -- "$0" "$n" programs
fi

cat >"$folder/cni/10-bridge.conf" <<CNI
{"cniVersion": "0.4.0", "name": "pods", "type": "bridge", "bridge": "pods", "isGateway": true,
 "ipam": {"type": "host-local", "subnet": "$(pod_range_of "$n")", "dataDir": "$folder/cni/addresses"}}
CNI
cat >"$folder/containerd.toml" <<CONTAINERD
version = 2
root = "$folder/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Here root may not lower oom_score_adj.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$debian/usr/lib/cni"
  conf_dir = "$folder/cni"
CONTAINERD
cat >"$folder/kubelet.yaml" <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: $folder/resolv.conf
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
oomScoreAdj: 0
KUBELET
echo 'nameserver 127.0.0.1' >"$folder/resolv.conf"

export PATH="$debian/usr/bin:$debian/usr/sbin:$PATH"
mkdir -p /run/lock
containerd --config "$folder/containerd.toml" >>"$work/logs/containerd-$n.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for image in "$build"/images/*.tar; do
  ctr --namespace k8s.io images import "$image" >>"$work/logs/import-$n.log" 2>&1
done
"$bin/kube-proxy" --kubeconfig="$(kubeconfig proxy)" --hostname-override="node-$n" --proxy-mode=nftables \
  --cluster-cidr="$pod_range" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
  --conntrack-tcp-timeout-close-wait=0 >>"$work/logs/proxy-$n.log" 2>&1 &
exec "$bin/kubelet" --kubeconfig="$(kubeconfig "node-$n")" --config="$folder/kubelet.yaml" --hostname-override="node-$n" \
  --node-ip="$(address_of "$n")" --root-dir="$folder/kubelet" --node-labels=warren=true --v=1
