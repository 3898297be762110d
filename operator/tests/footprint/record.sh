#!/usr/bin/env bash
# Records what an API server holds of one MiniCluster that runs, of the kinds that the operator lists or watches,
# into recorded.jsonl beside this file. It needs jq, and the cluster that `cargo demo` leaves.
# A worker stands for all workers. Addresses of nodes are replaced, and uids are numbered.
set -euo pipefail
cd "$(dirname "$0")"
kubectl() { cargo e2e kubectl -- --namespace=work "$@"; }

kubectl create namespace work
kubectl apply --filename=- <<'YAML'
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: footprint-name
spec:
  size: 5
  containers:
    - image: ubuntu:24.04
      command: sleep infinity
      resources:
        limits: {cpu: "1", memory: 512Mi}
        requests: {cpu: 10m, memory: 16Mi}
YAML
kubectl wait --for=jsonpath='{.status.readyBrokers}'=5 --timeout=5m minicluster/footprint-name
kubectl get minicluster,job,service,configmap,pod --output=json --show-managed-fields | jq --raw-output '
  [.items[] | select(.metadata.name | test("^footprint-name($|-lead$|-agent$|-[01]-)"))]
  | walk(if type == "object" and has("hostIP") then .hostIP = "192.0.2.1" | .hostIPs = [{ip: .hostIP}] else . end)
  | map(.metadata.uid) as $uids
  | map(tojson)
  | reduce ($uids | to_entries[]) as $uid (.;
      map(gsub($uid.value; "00000000-0000-4000-8000-\("\($uid.key)" | "0" * (12 - length) + .)")))
  | map(gsub("\"run-[0-9a-f]{10}\""; "\"run-of-these-fields\""))
  | .[]' > recorded.jsonl
kubectl delete namespace work
