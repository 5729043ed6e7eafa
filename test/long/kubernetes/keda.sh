#!/bin/bash
# Starts KEDA and Prometheus in the hub of cluster.sh, and applies the placeholder pods and the ScaledObject of docs/kubernetes.md.
# `cluster.sh down` ends them.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"
folder=$work/keda
mkdir -p "$folder/certs"

start_prometheus() {
  kube --namespace warren get secret warren-keys --output 'go-template={{index .data "secrets.json" | base64decode}}' |
    sed -n 's/.*"adminToken":"\([^"]*\)".*/\1/p' >"$folder/token"
  cat >"$folder/prometheus.yml" <<PROMETHEUS
global: {scrape_interval: 5s}
scrape_configs:
  - job_name: warren
    authorization: {credentials_file: $folder/token}
    static_configs: [{targets: [$(for n in $nodes; do echo "'$(address_of "$n"):3000',"; done)]}]
PROMETHEUS
  keep prometheus nsenter --net="/run/netns/$hub" "$build/prometheus/usr/bin/prometheus" --config.file="$folder/prometheus.yml" \
    --storage.tsdb.path="$folder/prometheus" --web.listen-address="$hub_address:9090"
}

# KEDA's two programs run outside of the cluster, as its administrator. The API server reaches the second one through a Service.
start_keda() {
  kube apply --server-side -f "$build/keda/config/crd/bases" >/dev/null
  kube create namespace keda
  kube apply -f "$build/keda/config/metrics-server/role.yaml" -f "$build/keda/config/metrics-server/role_binding.yaml" -f - <<SERVICE
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {ports: [{name: https, port: 443, targetPort: 6444}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: keda-metrics-apiserver, namespace: keda, labels: {kubernetes.io/service-name: keda-metrics-apiserver}}
addressType: IPv4
ports: [{name: https, port: 6444, protocol: TCP}]
endpoints: [{addresses: [$hub_address], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  service: {name: keda-metrics-apiserver, namespace: keda}
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
SERVICE
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=keda -addext 'subjectAltName=DNS:localhost' \
    -keyout "$folder/certs/tls.key" -out "$folder/certs/tls.crt" 2>/dev/null
  cp "$folder/certs/tls.crt" "$folder/certs/ca.crt"
  keep keda-operator env KUBECONFIG="$(kubeconfig admin)" WATCH_NAMESPACE= POD_NAMESPACE=keda KEDA_CLUSTER_OBJECT_NAMESPACE=keda \
    nsenter --net="/run/netns/$hub" "$bin/keda-operator" --cert-dir="$folder/certs" --metrics-bind-address=127.0.0.1:8090 \
    --health-probe-bind-address=127.0.0.1:8091 --metrics-service-bind-address=127.0.0.1:9666
  keep keda-adapter env KUBECONFIG="$(kubeconfig admin)" WATCH_NAMESPACE= POD_NAMESPACE=keda \
    nsenter --net="/run/netns/$hub" "$bin/keda-adapter" --lister-kubeconfig="$(kubeconfig admin)" \
    --authentication-kubeconfig="$(kubeconfig admin)" --authorization-kubeconfig="$(kubeconfig admin)" --secure-port=6444 --port=8092 \
    --cert-dir="$folder/certs" --tls-cert-file="$folder/certs/tls.crt" --tls-private-key-file="$folder/certs/tls.key" \
    --metrics-service-address=localhost:9666
  kube wait --for=condition=Available apiservice/v1beta1.external.metrics.k8s.io --timeout=120s
}

# The page's own YAML; only the image and the address of Prometheus are those of this cluster.
apply_page() {
  sed -n '/^## Add machines when creates wait/,/^## /p' "$repo/docs/kubernetes.md" |
    awk '/^```yaml/ {print "---"; inside = 1; next} /^```/ {inside = 0} inside' |
    sed "s,registry.k8s.io/pause:3.10,localhost/pause:1,; s,prometheus.monitoring.svc,$hub_address," |
    kube apply --validate=strict -f -
}

start_prometheus
start_keda
apply_page
kube --namespace warren wait --for=condition=Ready scaledobject/warren-machines --timeout=60s
