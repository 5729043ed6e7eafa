# What cluster.sh and node.sh agree on. The folders can be given as variables.
build=${KUBERNETES_BUILD:-$(readlink -f "$here/../../..")/.cache/kubernetes}
work=${KUBERNETES_WORK:-/var/tmp/warren-kubernetes}
bin=$build/bin       # Kubernetes
debian=$build/debian # etcd, containerd, network plugins and busybox, unpacked from Debian's packages
versitygw=$(readlink -f "$here/../../..")/.cache/machine/programs/versitygw-v1.8.0
postgres_bin=/usr/lib/postgresql/15/bin
machine_cache=${WARREN_CACHE_DIR:-/var/cache/warren}
nodes='1 2 3'
hub=warren-kube
hub_address=10.97.0.1
address_of() { echo "10.97.0.1$1"; }
pod_range=10.98.0.0/16
pod_range_of() { echo "10.98.$1.0/24"; }
service_range=10.96.0.0/16
cgroup_folders=$(find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d)

# The credentials of a user, whose name is also the token.
kubeconfig() { echo "$work/kubeconfigs/$1"; }
make_kubeconfig() {
  cat >"$(kubeconfig "$1")" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://$hub_address:6443", insecure-skip-tls-verify: true}}]
users: [{name: me, user: {token: $1}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
current-context: here
CONFIG
}
kube() { nsenter --net="/run/netns/$hub" "$bin/kubectl" --kubeconfig="$(kubeconfig admin)" "$@"; }
