#!/bin/bash
# Installs the chart on the cluster of cluster.sh, or upgrades it; words are given to Helm, such as --set drainOnStop.enabled=true.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=names.sh
. "$here/names.sh"

if ! kube get namespace warren >/dev/null 2>&1; then
  kube create namespace warren
  kube label namespace warren pod-security.kubernetes.io/enforce=privileged
  kube --namespace warren create secret generic warren-database --from-literal=url="postgres://postgres@$hub_address:5432/warren"
  kube --namespace warren create secret generic warren-keys \
    --from-literal=secrets.json="{\"seed\":\"$(openssl rand -hex 32)\",\"adminToken\":\"$(openssl rand -hex 32)\"}" \
    --from-literal=secret-key.json="{\"key\":\"$(openssl rand -hex 32)\"}"
  kube --namespace warren create secret generic warren-objects \
    --from-literal=AWS_ACCESS_KEY_ID=tester --from-literal=AWS_SECRET_ACCESS_KEY=secret-of-the-tests
fi
nsenter --net="/run/netns/$hub" "$bin/helm" --kubeconfig "$(kubeconfig admin)" upgrade --install warren \
  "$repo/charts/warren" --namespace warren --set objectStore.bucket=s3://warren --set objectStore.endpoint="http://$hub_address:7070" \
  --set objectStore.existingSecret=warren-objects --set settings.WARREN_ISOLATION=gvisor "$@"
kube --namespace warren rollout status daemonset/warren --timeout=20m
