# What these scripts agree on. The folders can be given as variables.
repo=$(readlink -f "$here/../../..")
build=${KUBERNETES_BUILD:-$repo/.cache/kubernetes}
work=${KUBERNETES_WORK:-/var/tmp/warren-kubernetes}
bin=$build/bin       # Kubernetes, Helm and an S3 server
debian=$build/debian # etcd, containerd, network plugins and busybox, unpacked from Debian's packages
postgres_bin=/usr/lib/postgresql/15/bin
machine_cache=/var/cache/warren
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
# Runs a program until `down`, with its output in a log.
keep() {
  local name=$1
  shift
  setsid "$@" >>"$work/logs/$name.log" 2>&1 </dev/null &
  echo "$!" >"$work/pids/$name"
}
