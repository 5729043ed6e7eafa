#!/bin/bash
# Runs KEDA and Prometheus beside the cluster of cluster.sh, and applies the placeholder pods and the ScaledObject of
# docs/kubernetes.md, with shorter times: `keda.sh build`, `keda.sh up`. `cluster.sh down` ends them. KEDA's operator consists of
# 3,338 packages, which take long to compile.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"
version=2.21.0
source=$build/keda
folder=$work/keda
page=$repo/docs/kubernetes.md

build() {
  local module program
  if [ ! -e "$source/go.mod" ]; then
    module=$(cd / && go mod download -json "github.com/kedacore/keda/v2@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$source.unpacked"
    cp -r "$module" "$source.unpacked"
    chmod -R u+w "$source.unpacked"
    mv "$source.unpacked" "$source"
  fi
  for program in operator adapter; do
    [ -e "$bin/keda-$program" ] ||
      (cd "$source" && CGO_ENABLED=0 go build -ldflags '-s -w' -o "$bin/keda-$program" "./cmd/$program")
  done
  if [ ! -e "$debian/usr/bin/prometheus" ]; then
    (cd "$build/packages" && apt-get download prometheus)
    dpkg -x "$build"/packages/prometheus_*.deb "$debian"
  fi
}

up() {
  mkdir -p "$folder/certificates"
  kube create namespace keda
  # Some definitions are too long for the annotation of a plain apply.
  kube apply --server-side --filename "$source/config/crd/bases" >/dev/null
  make_certificates
  start_prometheus
  export KUBECONFIG POD_NAMESPACE=keda KEDA_CLUSTER_OBJECT_NAMESPACE=keda WATCH_NAMESPACE=
  KUBECONFIG=$(kubeconfig admin)
  keep keda-operator nsenter --net="/run/netns/$hub" "$bin/keda-operator" --cert-dir="$folder/certificates" \
    --enable-webhook-patching=false --enable-apiservice-patching=false
  # The API server has no certificate with which it could speak for its users, so it comes as anonymous.
  keep keda-adapter nsenter --net="/run/netns/$hub" "$bin/keda-adapter" --secure-port=6444 --port=8090 \
    --cert-dir="$folder/certificates" --tls-cert-file="$folder/certificates/tls.crt" --tls-private-key-file="$folder/certificates/tls.key" \
    --metrics-service-address="$hub_address:9666" --authentication-skip-lookup=true \
    --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG"
  kube apply --filename - <<MANIFESTS
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {ports: [{port: 443, targetPort: 6444}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: keda-metrics-apiserver, namespace: keda}
subsets: [{addresses: [{ip: $hub_address}], ports: [{port: 6444}]}]
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
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: external-metrics-reader}
rules:
  - {apiGroups: [external.metrics.k8s.io], resources: ['*'], verbs: [get, list]}
  - {nonResourceURLs: [/apis, /apis/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: external-metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: external-metrics-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: 'system:anonymous'}]
MANIFESTS
  kube wait --for=condition=Available apiservice/v1beta1.external.metrics.k8s.io --timeout=120s
  scaled_object | kube apply --filename -
}

# The examples of the page: the placeholder pods with an image that the nodes have, half a minute instead of half an hour, and
# less memory that is free, so that an idle cluster has a machine too many.
scaled_object() {
  sed -n '/^```yaml kubernetes/,/^```$/p' "$page" | sed -e '/^```/d' -e 's,image: .*,image: localhost/pause:1,'
  echo ---
  sed -n '/^apiVersion: keda.sh/,/^```$/p' "$page" |
    sed -e '/^```/d' -e "s,serverAddress: .*,serverAddress: http://$hub_address:9090," -e 's/1800/30/g' -e 's/2e12/128e9/'
}

make_certificates() {
  cd "$folder/certificates"
  openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=keda 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -keyout tls.key -out request -subj /CN=keda 2>/dev/null
  openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out tls.crt \
    -extfile <(echo "subjectAltName=IP:$hub_address") 2>/dev/null
}

start_prometheus() {
  kube --namespace warren get secret warren-keys --output 'jsonpath={.data.secrets\.json}' | base64 --decode |
    sed -E 's/.*"adminToken":"([^"]*)".*/\1/' >"$folder/token"
  cat >"$folder/prometheus.yaml" <<CONFIG
scrape_configs:
  - job_name: warren
    scrape_interval: 2s
    authorization: {credentials_file: $folder/token}
    static_configs: [{targets: [$(for n in $nodes; do echo "'$(address_of "$n"):3000',"; done)]}]
CONFIG
  keep prometheus nsenter --net="/run/netns/$hub" "$debian/usr/bin/prometheus" --config.file="$folder/prometheus.yaml" \
    --storage.tsdb.path="$folder/prometheus" --web.listen-address="$hub_address:9090"
}

"$@"
