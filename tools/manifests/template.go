package manifests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const overlay = "kubernetes/overlays/production/"

// sources are the manifests that become templates of the chart, by the key of values.yaml
// that they belong to.
var sources = []struct{ key, files string }{
	{"worker", "kubernetes/base/*.yaml"},
	{"worker", "kubernetes/overlays/single/persistentvolumeclaim.yaml"},
	{"gateway", "kubernetes/gateway/*.yaml"},
	{"gateway", "kubernetes/ingress/gateway.yaml"},
	{"notify", "kubernetes/notify/*.yaml"},
	{"operator", "kubernetes/operator/*.yaml"},
	{"console", "kubernetes/console/*.yaml"},
	{"console", "kubernetes/ingress/console.yaml"},
	{"monitoring", overlay + "servicemonitor.yaml"},
	{"monitoring", overlay + "prometheusrule.yaml"},
	{"autoscaling", overlay + "scaledobject.yaml"},
}

// A rule puts a value in the place of what a manifest says. KEY stands for the key of values.yaml.
type rule struct {
	file    string // a manifest's name, or empty for all
	text    *regexp.Regexp
	replace string
}

// rules apply in this order. The first one keeps what is no template from being read as one.
var rules = []rule{
	{"prometheusrule.yaml", re(`\{\{`), `{{ "{{" }}`},
	{"", re(`^(metadata:\n  name: .*\n)`), "${1}  namespace: {{ .Release.Namespace }}\n"},

	{"deployment.yaml", re(`^  replicas: 2$`), "  replicas: {{ .Values.KEY.replicas }}"},
	{"deployment.yaml", re(`image: orderpost$`), `image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"`},
	{"deployment.yaml", re(`image: orderpost-operator$`), `image: "{{ .Values.operator.image.repository }}:{{ .Values.operator.image.tag }}"`},
	{"deployment.yaml", re(`^          resources:\n(            .*\n)+`), "          {{- with .Values.KEY.resources }}\n          resources: {{- toYaml . | nindent 12 }}\n          {{- end }}\n"},
	{"deployment.yaml", re(`^      securityContext:\n(        .*\n)+`), ""}, // values.yaml has it
	{"deployment.yaml", re(`^      topologySpreadConstraints:.*\n(        .*\n)+`), "      {{- if not (hasKey .Values.pod \"topologySpreadConstraints\") }}\n${0}      {{- end }}\n"},
	{"deployment.yaml", re(`^        - name: gateway\n          secret: .*\n`), files("gateway", "clients", "clients.yaml")},
	{"deployment.yaml", re(`^        - name: console\n          secret: .*\n`), files("console", "users", "users")},
	{"deployment.yaml", re(`^(        - name: (.*)\n          secret: \{secretName: )[a-z-]+`), "${1}{{ .Values.KEY.secrets.${2} }}"},
	{"deployment.yaml", re(`^(      automountServiceAccountToken: false\n)`), "${1}" + list("pod", 6)},
	{"deployment.yaml", re(`"tls://nats\.nats\.svc:4222"`), "{{ .Values.nats.url | quote }}"},
	{"deployment.yaml", re(`(?:^            - \{name: ORDERPOST_(?:GATEWAY_TLS_|NOTIFY_URL|CONSOLE_(?:HOSTS|USERS|TLS_)).*\n)+`), `            {{- range $$name, $$value := .Values.KEY.settings }}{{ if ne $$value nil }}
            - {name: {{ $$name }}, value: {{ $$value | quote }}}
            {{- end }}{{ end }}
`},
	{"networkpolicy.yaml", re(`(kubernetes\.io/metadata\.name: )(nats|monitoring)`), "${1}{{ .Values.${2}.namespace | quote }}"},

	// The port's name and number say whether the pods speak TLS: some ingress controllers go by them.
	{"service.yaml", re(`\{name: https, port: 443,`), "{name: {{ include \"orderpost.scheme\" .Values.KEY }}, port: {{ eq (include \"orderpost.scheme\" .Values.KEY) \"https\" | ternary 443 80 }},"},
	{"ingress.yaml", re(`port: \{name: https\}`), "port: {name: {{ include \"orderpost.scheme\" .Values.KEY }}}"},
	{"ingress.yaml", re(`^spec:\n  tls:\n(    .*\n)+`), `{{- with .Values.KEY.ingress.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
spec:
  {{- with .Values.KEY.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .Values.KEY.ingress.tls }}
  tls:
    - {hosts: [{{ $$.Values.KEY.ingress.host }}], secretName: {{ . }}}
  {{- end }}
`},
	{"ingress.yaml", re(`host: .*`), "host: {{ .Values.KEY.ingress.host }}"},
	{"persistentvolumeclaim.yaml", re(`^(  name: .*\n(?:.*\n)*?)spec:\n`), `${1}  annotations: {helm.sh/resource-policy: keep} # helm uninstall leaves the orders
spec:
  {{- with .Values.worker.storage.className }}
  storageClassName: {{ . }}
  {{- end }}
`},
	{"persistentvolumeclaim.yaml", re(`storage: \w+`), "storage: {{ .Values.worker.storage.size }}"},

	{"scaledobject.yaml", re(`(minReplica|maxReplica)Count: \d+`), "${1}Count: {{ .Values.KEY.${1}s }}"},
	{"scaledobject.yaml", re(`serverAddress: .*`), "serverAddress: {{ .Values.KEY.prometheus }}"},
	{"scaledobject.yaml", re(`namespace="orderpost"`), `namespace="{{ .Release.Namespace }}"`},
	{"scaledobject.yaml", re(`threshold: .*`), "threshold: {{ .Values.KEY.ordersPerWorker | int | quote }}"},
}

// external keeps what a rule finds only where the broker is outside of the workers.
const external = "{{- if .Values.nats.url }}\n${0}{{- end }}\n"

// beside is for a service that leads to the worker's pod. No other pod could answer.
const beside = "{{- if not .Values.nats.url }}\n  publishNotReadyAddresses: true # a console without users does not shut the door\n{{- end }}\n"

// keyRules apply after the others, to the manifests of one key of values.yaml. Without nats.url
// there is one pod: the worker's, which is the door and sends webhooks, with the console beside it.
var keyRules = map[string][]rule{
	"worker": {
		{"deployment.yaml", re(`^(  replicas: .*\n)`), "  {{- if not .Values.autoscaling.enabled }}\n${1}  {{- end }}\n"},
		{"deployment.yaml", re(`^  strategy:\n    rollingUpdate: .*\n`), "  {{- if .Values.nats.url }}\n${0}  {{- else }}\n  strategy: {type: Recreate} # no two pods have the volume\n  {{- end }}\n"},
		{"deployment.yaml", re(`^    metadata:\n`), "${0}      annotations: # new settings, new pods\n        checksum/config: {{ include (print $$.Template.BasePath \"/worker/configmap.yaml\") . | sha256sum }}\n"},
		{"deployment.yaml", re(`terminationGracePeriodSeconds: \d+`), "terminationGracePeriodSeconds: {{ .Values.worker.terminationGracePeriodSeconds }}"},
		natsSettings, natsMount, natsVolume,
		{"deployment.yaml", re(`^          ports:\n(            .*\n)+`), "${0}" + inside("gateway", "            - {name: https, containerPort: 8443}\n")},
		{"deployment.yaml", re(`^      volumes:\n`), "            {{- include \"orderpost.worker.mounts\" . }}\n" + list("worker.volumeMounts", 12) +
			inside("console", "        {{- include \"orderpost.console\" . }}\n") + "${0}" + list("worker.volumes", 8)},
		{"deployment.yaml", re(`\z`), "        {{- include \"orderpost.worker.volumes\" . }}\n"},
		{"networkpolicy.yaml", re(`^  ingress:\n`), "${0}" + inside("gateway", "    - ports: [{protocol: TCP, port: 8443}]\n") + inside("console", "    - ports: [{protocol: TCP, port: 9465}]\n")},
		{"networkpolicy.yaml", re(`^    - to:\n.*\n.*port: 4222\}\]\n`), external},
	},
	"gateway": {
		{"service.yaml", re(`^(  selector: .*component: )gateway`), beside + "${1}{{ if .Values.nats.url }}gateway{{ else }}worker{{ end }}"},
		{"service.yaml", re(`^    - \{name: ops, .*\n`), external},
	},
	"console": {
		{"service.yaml", re(`^(  selector: .*component: )console`), beside + "${1}{{ if .Values.nats.url }}console{{ else }}worker{{ end }}"},
		{"ingress.yaml", re(`\A`), `{{- if not (has .Values.console.ingress.host (splitList "," (default "" .Values.console.settings.ORDERPOST_CONSOLE_HOSTS))) }}
{{- fail (printf "console.ingress.host: %s is none of console.settings.ORDERPOST_CONSOLE_HOSTS, so the console would refuse its requests" .Values.console.ingress.host) }}
{{- end }}
`},
		natsSettings, natsMount,
	},
}

var (
	natsSettings = rule{"deployment.yaml", re(`(?:^            - \{name: ORDERPOST_NATS_(?:CA|CERT|KEY|NKEY|INBOX).*\n)+`), external}
	natsMount    = rule{"deployment.yaml", re(`^            - \{name: nats, .*\n`), external}
	natsVolume   = rule{"deployment.yaml", re(`^        - name: nats\n.*\n`), external}
)

// inside gives what the worker's pod has for another part where the broker is inside it.
func inside(key, text string) string {
	return "{{- if and .Values." + key + ".enabled (not .Values.nats.url) }}\n" + text + "{{- end }}\n"
}

// files gives the volume of a part's files, one of which may be the text of a value.
func files(key, value, name string) string {
	return fmt.Sprintf("        {{- include \"orderpost.files\" (list %[1]q %[3]q .Values.%[1]s.secrets.%[1]s .Values.%[1]s.%[2]s) }}\n", key, value, name)
}

func re(text string) *regexp.Regexp { return regexp.MustCompile("(?m)" + text) }

// list gives what a value holds, if it holds something.
func list(key string, indent int) string {
	at := strings.Repeat(" ", indent)
	return fmt.Sprintf("%[1]s{{- with .Values.%[2]s }}\n%[1]s{{- toYaml . | nindent %[3]d }}\n%[1]s{{- end }}\n", at, key, indent)
}

// Templates makes the chart's templates of the manifests in a folder (deployments), by their
// path inside the chart. A rule that finds nothing in any manifest is an error: the manifest
// has changed, and the rule must follow.
func Templates(folder string) (map[string]string, error) {
	out, used := make(map[string]string), make(map[*regexp.Regexp]bool)
	for _, source := range sources {
		paths, err := filepath.Glob(filepath.Join(folder, source.files))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name := filepath.Base(path)
			if filepath.Base(filepath.Dir(path)) == "ingress" {
				name = "ingress.yaml"
			}
			if name == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			from, err := filepath.Rel(folder, path)
			if err != nil {
				return nil, err
			}
			made, define := template(source.key, name, string(text), used), ""
			if source.key == "console" && name == "deployment.yaml" {
				define, made = shared(made)
			}
			out["templates/"+source.key+"/"+name] = fmt.Sprintf("{{- /* Made of deployments/%s: make chart */ -}}\n", filepath.ToSlash(from)) + define + guard(source.key, name, made)
		}
	}
	for _, r := range slices.Concat(append(slices.Collect(maps.Values(keyRules)), rules)...) {
		if !used[r.text] {
			return nil, fmt.Errorf("rule %q: no manifest has this any more: change the rule", r.text)
		}
	}
	return out, nil
}

func template(key, name, text string, used map[*regexp.Regexp]bool) string {
	for _, r := range slices.Concat(rules, keyRules[key]) {
		if (r.file == "" || r.file == name) && r.text.MatchString(text) {
			used[r.text] = true
			text = r.text.ReplaceAllString(text, strings.ReplaceAll(r.replace, "KEY", key))
		}
	}
	if key == "monitoring" || key == "autoscaling" {
		return text
	}
	return labelled(text)
}

// labelled does what the kustomizations' labels do.
func labelled(text string) string {
	const label = "app.kubernetes.io/part-of: orderpost"
	if of := re(`^  labels: \{`); of.MatchString(text) {
		return of.ReplaceAllString(text, "${0}"+label+", ")
	}
	return re(`^(  namespace: .*\n)`).ReplaceAllString(text, "${1}  labels: {"+label+"}\n")
}

// shared makes the console's container one that the worker's pod can have, too.
func shared(text string) (define, rest string) {
	before, after, _ := strings.Cut(text, "      containers:\n")
	container, after, _ := strings.Cut(after, "      volumes:\n")
	return "{{- define \"orderpost.console\" }}\n" + container + "{{- end }}\n", before + "      containers:\n        {{- include \"orderpost.console\" . }}\n      volumes:\n" + after
}

// guard leaves out what the values switch off.
func guard(key, name, text string) string {
	var when []string
	if key != "worker" {
		when = append(when, ".Values."+key+".enabled")
	}
	switch name {
	case "networkpolicy.yaml":
		when = append(when, ".Values.networkPolicies")
	case "ingress.yaml":
		when = append(when, ".Values."+key+".ingress.enabled")
	case "persistentvolumeclaim.yaml":
		when = append(when, "(not .Values.nats.url)")
	}
	if alone := key == "notify" || (key == "gateway" || key == "console") && name != "service.yaml" && name != "ingress.yaml"; alone {
		when = append(when, ".Values.nats.url")
	}
	switch len(when) {
	case 0:
		return text
	case 1:
		return "{{- if " + when[0] + " }}\n" + text + "{{- end }}\n"
	}
	return "{{- if and " + strings.Join(when, " ") + " }}\n" + text + "{{- end }}\n"
}
