{{- /* What a part's port speaks: https with a certificate, http behind a proxy that ends TLS. Takes the part's values. */ -}}
{{- define "orderpost.scheme" -}}
{{- if or .settings.ORDERPOST_GATEWAY_TLS_CERT_FILE .settings.ORDERPOST_CONSOLE_TLS_CERT_FILE }}https{{ else }}http{{ end }}
{{- end }}

{{- /* The volume of a part's files: those of a secret that you made, and instead of one of them the text of a value. Takes the
volume's name, the file's, the secret's, and the text. A change reaches the pod within about a minute. */ -}}
{{- define "orderpost.files" }}
        - name: {{ index . 0 }}
{{- if index . 3 }}
          projected:
            defaultMode: 0440
            sources: # the last one that has a file counts
              - secret: {name: {{ index . 2 }}, optional: true} # not needed where the text is all
              - secret: {name: orderpost-{{ index . 0 }}-values, items: [{key: {{ index . 1 }}, path: {{ index . 1 }}}]}
{{- else }}
          secret: {secretName: {{ index . 2 }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* Where the broker is inside the worker, its volume, and the files of the door and of webhooks, which are the worker's. */ -}}
{{- define "orderpost.worker.mounts" }}
{{- if or .Values.worker.rules .Values.worker.secrets.rules }}
            - {name: rules, mountPath: /etc/orderpost/rules, readOnly: true}
{{- end }}
{{- if not .Values.nats.url }}
            - {name: data, mountPath: /data}
{{- if .Values.gateway.enabled }}
            - {name: gateway, mountPath: /etc/orderpost/gateway, readOnly: true}
{{- end }}
{{- if .Values.notify.enabled }}
            - {name: notify, mountPath: /etc/orderpost/notify, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "orderpost.worker.volumes" }}
{{- if .Values.worker.rules }}
        - name: rules
          configMap: {name: orderpost-rules}
{{- else if .Values.worker.secrets.rules }}
        - name: rules
          secret: {secretName: {{ .Values.worker.secrets.rules }}, defaultMode: 0440}
{{- end }}
{{- if not .Values.nats.url }}
        - name: data
          persistentVolumeClaim: {claimName: orderpost-worker}
{{- with .Values.gateway }}{{ if .enabled }}
{{- include "orderpost.files" (list "gateway" "clients.yaml" .secrets.gateway .clients) }}
{{- end }}{{ end }}
{{- with .Values.notify }}{{ if .enabled }}
        - name: notify
          secret: {secretName: {{ .secrets.notify }}, defaultMode: 0440}
{{- end }}{{ end }}
{{- with .Values.console }}{{ if .enabled }}
{{- include "orderpost.files" (list "console" "users" .secrets.console .users) }}
{{- end }}{{ end }}
{{- end }}
{{- end }}
