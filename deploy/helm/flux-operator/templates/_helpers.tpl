{{- /* An image, from the registry of the values if it is one of this project: registry, image. */ -}}
{{- define "flux-operator.image" -}}
{{- regexReplaceAll "^ghcr.io/flux-framework/flux-operator-rs" (index . 1) (printf "%s/flux-operator-rs" (index . 0)) -}}
{{- end -}}
