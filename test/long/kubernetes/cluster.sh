#!/bin/bash
# A real Kubernetes cluster on this machine, in namespaces: `cluster.sh up`, `cluster.sh down`. See README.md.
# The hub is a network namespace with the control plane, PostgreSQL, an S3 server and the clients. Each node has its own network,
# process ids, mounts and cgroups, and in them a kubelet, a containerd, a kube-proxy and a data folder.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"

in_hub() { nsenter --net="/run/netns/$hub" "$@"; }
wait_for() {
  local what=$1
  shift
  for _ in $(seq 600); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.5
  done
  echo "$what is not there after five minutes; see $work/logs." >&2
  exit 1
}

up() {
  mkdir -p "$work"/{logs,pids,etcd,postgres,objects/warren,kubeconfigs} /var/lib/warren
  for user in admin controllers scheduler proxy $(for n in $nodes; do echo "node-$n"; done); do make_kubeconfig "$user"; done
  make_network
  start_database
  keep objects nsenter --net="/run/netns/$hub" "$bin/versitygw" \
    --access tester --secret secret-of-the-tests --port "$hub_address:7070" --quiet posix "$work/objects"
  start_control_plane
  for n in $nodes; do start_node "$n"; done
  for n in $nodes; do wait_for "Node $n" kube get node "node-$n"; done
  kube wait --for=condition=Ready node --all --timeout=300s
  # The hub's kube-proxy, through which clients reach Services, waits for a node with an address.
  kube create -f - <<'NODE'
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hub"}, "spec": {"unschedulable": true}}
NODE
  kube patch node hub --subresource=status --type=merge \
    --patch "{\"status\": {\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"$hub_address\"}]}}"
  keep hub-proxy nsenter --net="/run/netns/$hub" "$bin/kube-proxy" --kubeconfig="$(kubeconfig proxy)" \
    --hostname-override=hub --bind-address="$hub_address" --proxy-mode=nftables --cluster-cidr="$pod_range" \
    --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 \
    --metrics-bind-address=127.0.0.1:10249 --healthz-bind-address=127.0.0.1:10256
  kube get nodes -o wide
}

make_network() {
  ip netns add "$hub"
  in_hub ip link set lo up
  in_hub ip link add bridge0 type bridge
  in_hub ip addr add "$hub_address/24" dev bridge0
  in_hub ip link set bridge0 up
  in_hub ip route add default via "$hub_address"
  for n in $nodes; do
    ip netns add "$hub-$n"
    in_hub ip link add "node$n" type veth peer name eth0 netns "$hub-$n"
    in_hub ip link set "node$n" master bridge0 up
    nsenter --net="/run/netns/$hub-$n" sh -euc "
      ip link set lo up; ip addr add $(address_of "$n")/24 dev eth0; ip link set eth0 up; ip route add default via $hub_address
      sysctl -qw net.ipv4.ip_forward=1"
  done
}

start_database() {
  chown postgres "$work/postgres"
  if [ ! -e "$work/postgres/PG_VERSION" ]; then
    runuser -u postgres -- "$postgres_bin/initdb" -D "$work/postgres" --auth=trust >"$work/logs/initdb.log"
    echo "host all all ${hub_address%.*}.0/24 trust" >>"$work/postgres/pg_hba.conf"
  fi
  postgres_start
  in_hub runuser -u postgres -- psql -h "$work/postgres" -c 'create database warren' postgres >/dev/null
}
postgres_start() {
  in_hub runuser -u postgres -- "$postgres_bin/pg_ctl" -D "$work/postgres" -l "$work/postgres/log" -w \
    -o "-c listen_addresses=$hub_address -c unix_socket_directories=$work/postgres -c max_connections=200" start >/dev/null
}
postgres_stop() { in_hub runuser -u postgres -- "$postgres_bin/pg_ctl" -D "$work/postgres" -m immediate -w stop >/dev/null; }

# Backends of the database are children of its first process.
postgres_signal() {
  local first
  first=$(head -n 1 "$work/postgres/postmaster.pid")
  kill "-$1" "$first"
  pkill "-$1" --parent "$first"
}
postgres_freeze() { postgres_signal STOP; }
postgres_thaw() { postgres_signal CONT; }
query() { in_hub psql -h "$work/postgres" -U postgres -At -c "$1" warren; }

# Each user has a token; nobody but processes in these namespaces reaches the API server.
start_control_plane() {
  openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
  cat >"$work/tokens.csv" <<TOKENS
admin,admin,admin,"system:masters"
controllers,system:kube-controller-manager,controllers,""
scheduler,system:kube-scheduler,scheduler,""
proxy,system:kube-proxy,proxy,""
$(for n in $nodes; do echo "node-$n,system:node:node-$n,node-$n,\"system:nodes\""; done)
TOKENS
  keep etcd nsenter --net="/run/netns/$hub" "$debian/usr/bin/etcd" --data-dir "$work/etcd" --unsafe-no-fsync
  keep apiserver nsenter --net="/run/netns/$hub" "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
    --advertise-address="$hub_address" --secure-port=6443 --cert-dir="$work/apiserver" --token-auth-file="$work/tokens.csv" \
    --authorization-mode=Node,RBAC --allow-privileged=true --kubelet-preferred-address-types=InternalIP \
    --service-cluster-ip-range="$service_range" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$work/accounts.key" \
    --service-account-signing-key-file="$work/accounts.key"
  wait_for 'The API server' kube get --raw /readyz
  keep controllers nsenter --net="/run/netns/$hub" "$bin/kube-controller-manager" --kubeconfig="$(kubeconfig controllers)" \
    --service-account-private-key-file="$work/accounts.key" --use-service-account-credentials --leader-elect=false \
    --bind-address=127.0.0.1
  keep scheduler nsenter --net="/run/netns/$hub" "$bin/kube-scheduler" --kubeconfig="$(kubeconfig scheduler)" \
    --leader-elect=false --bind-address=127.0.0.1
}

start_node() {
  local n=$1 folder
  # Nodes reach no mirror. All get the gVisor of this machine, and the first one its base template, which the others then
  # fetch from the object store.
  mkdir -p "$work/node-$n/warren/cache"
  cp -r "$machine_cache"/runsc-* "$work/node-$n/warren/cache/"
  [ "$n" != 1 ] || cp "$machine_cache"/base-*.tar "$work/node-$n/warren/cache/"
  for folder in $cgroup_folders; do
    mkdir -p "$folder/$hub-$n"
    [ "${folder##*/}" != cpuset ] || for f in cpus mems; do cat "$folder/cpuset.$f" >"$folder/$hub-$n/cpuset.$f"; done
  done
  keep "node-$n" bash -euc '
    for folder in $1; do echo $$ >"$folder/$2/cgroup.procs"; done
    exec nsenter --net="/run/netns/$2" unshare --mount --propagation private --pid --ipc --uts --cgroup --fork --kill-child \
      "$3" "$4"' - "$cgroup_folders" "$hub-$n" "$here/node.sh" "$n"
}

# Loads a new image of Warren on all nodes; pods that start afterwards use it.
load_image() {
  local n first
  for n in $nodes; do
    first=$(pgrep --parent "$(cat "$work/pids/node-$n")")
    nsenter --target "$first" --mount --pid "$debian/usr/bin/ctr" --namespace k8s.io images import "$build/images/warren.tar"
  done
}

# Runs trial.ts as a client in the cluster.
trial() {
  local key address
  key=$(kube --namespace warren exec daemonset/warren -- /opt/warren/bin/warren env | sed -n 's/^export E2B_API_KEY=//p')
  address=http://$(kube --namespace warren get service warren --output 'jsonpath={.spec.clusterIP}')
  E2B_API_KEY=$key E2B_API_URL=$address E2B_SANDBOX_URL=$address TRIAL_FILE=$work/counting.json \
    in_hub "$repo/bin/node" "$here/trial.ts" "$@"
}

down() {
  local file pid
  if [ -e "$work/postgres/postmaster.pid" ]; then postgres_stop || true; fi
  for n in $nodes; do
    # The first process of a node takes the others of the node with it.
    end "$work/pids/node-$n" KILL
  done
  for file in "$work"/pids/*; do if [ -e "$file" ]; then end "$file" TERM; fi; done
  for n in $nodes; do
    for folder in $cgroup_folders; do
      if [ -d "$folder/$hub-$n" ]; then find "$folder/$hub-$n" -depth -type d -exec rmdir {} + || true; fi
    done
    ip netns delete "$hub-$n" 2>/dev/null || true
  done
  ip netns delete "$hub" 2>/dev/null || true
  rm -rf "$work"
  rmdir /var/lib/warren 2>/dev/null || true
}
end() {
  local pid
  [ -e "$1" ] || return 0
  pid=$(cat "$1")
  kill "-$2" "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
  rm "$1"
}

"$@"
