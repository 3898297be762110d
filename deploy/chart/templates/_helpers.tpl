{{- define "flux-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{- /*
Name of the objects in namespaces: as with other charts, the release's, with the chart's name behind it unless it has it.
The Service of the metrics needs eight more letters.
*/ -}}
{{- define "flux-operator.fullname" -}}
{{- $name := include "flux-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | replace "." "-" | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /*
What the names of objects in no namespace begin with. They do not depend on the release: a second operator for all
namespaces is refused. `flux-operator` and `flux-operator-edit` are names of the Flux Operator of Flux CD.
*/ -}}
{{- define "flux-operator.clusterPrefix" -}}
{{- .Values.fullnameOverride | default "flux" }}-minicluster
{{- end -}}

{{- /* The selector of a Deployment cannot change: one with the default name has no label of its instance. */ -}}
{{- define "flux-operator.selectorLabels" -}}
{{- $fullname := include "flux-operator.fullname" . -}}
app.kubernetes.io/name: {{ include "flux-operator.name" . }}
{{- if ne $fullname .Chart.Name }}
app.kubernetes.io/instance: {{ $fullname }}
{{- end }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "flux-operator.labels" -}}
{{ include "flux-operator.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Metadata of an object: root, name; and, if it has any, namespace, labels and annotations of its own. */ -}}
{{- define "flux-operator.metadata" -}}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "flux-operator.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "flux-operator.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "flux-operator.serviceAccount" -}}
{{- $own := ternary (include "flux-operator.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $own -}}
{{- end -}}

{{- /* The namespaces that the operator serves, as JSON; empty: all. */ -}}
{{- define "flux-operator.watched" -}}
{{- if and .Values.watchNamespace .Values.watchNamespaces -}}
{{- fail "watchNamespace and watchNamespaces are both set: put all namespaces into watchNamespaces" -}}
{{- end -}}
{{- .Values.watchNamespaces | default (compact (list .Values.watchNamespace)) | toJson -}}
{{- end -}}

{{- /* The whole name of an image, with another host in it if one is set: root, name. */ -}}
{{- define "flux-operator.mirrored" -}}
{{- $name := index . 1 -}}
{{- with (index . 0).Values.global.imageRegistry -}}
{{- printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $name "") -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- /* The name of an image of this project: root, value. */ -}}
{{- define "flux-operator.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $name := printf "%s/%s" ($image.registry | default $root.Values.registry) $image.repository -}}
{{- $version := printf ":%s" ($image.tag | default $root.Chart.AppVersion) -}}
{{- with $image.digest -}}
{{- $version = printf "@%s" . -}}
{{- end -}}
{{- include "flux-operator.mirrored" (list $root (print $name $version)) -}}
{{- end -}}

{{- /*
What the operator may do, in all namespaces or in its only one. Everything listed is used; docs/security.md says for
what, and tests compare both this list and that page with what the operator asks for.
*/ -}}
{{- define "flux-operator.rules" -}}
- apiGroups: [flux-framework.org]
  resources: [miniclusters]
  verbs: [get, list, watch, delete]
- apiGroups: [flux-framework.org]
  resources: [miniclusters/status]
  verbs: [patch]
# For owner references that block deletion.
- apiGroups: [flux-framework.org]
  resources: [miniclusters/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch]
# Services that have an address are deleted when a run has ended.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch]
# Secrets are made and never read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# The pods of `spec.services` are created and deleted.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# They say why a Job gets no pods, or a pod no node.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
# The namespace of a Job that gets no pods.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [get, create, patch]
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, create, patch]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [get, create, patch]
{{- end -}}
