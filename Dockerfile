# syntax=docker/dockerfile:1
# The image holds orderpost, and links to it by the names worker, enqueue and deadletter; the
# target "sandbox" holds the sandbox and the demo, which the image never has. Static binaries,
# no shell, not root. The target "operator" is for people: the same with a shell, and a
# process that waits for them.
#
#   docker build -t orderpost --build-arg VERSION=v1.2.3 .
#   … --build-arg REVISION=$(git rev-parse HEAD) --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ) --build-arg SOURCE=https://… # labels
#   docker build -t orderpost-sandbox --target sandbox .
#   docker build -t orderpost-operator --target operator .
#
# .ci/containers builds it, and runs the images as deployments/compose.yaml says.
ARG GO_VERSION=1.26
ARG VERSION=

FROM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The same source and version give the same bytes: no path, no time, no commit
# of the machine that built it.
ENV CGO_ENABLED=0 GOWORK=off GOFLAGS="-trimpath -buildvcs=false"
ARG VERSION
RUN mkdir -p /out/data /out/bin /out/try && go build -ldflags "-s -w -buildid= -X orderpost/internal/cli.release=${VERSION}" -o /out/bin/ ./cmd/orderpost ./cmd/sandbox ./cmd/demo && mv /out/bin/sandbox /out/bin/demo /out/try/ && for name in worker enqueue deadletter; do ln -s orderpost /out/bin/$name; done

# What the images have in common. SOURCE is where the repository is hosted, as far as you know
# it; `make licence` writes the label of the licence.
FROM scratch AS labelled
ARG VERSION REVISION CREATED SOURCE
LABEL org.opencontainers.image.vendor="orderpost maintainers" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"

FROM labelled AS sandbox
LABEL org.opencontainers.image.title="orderpost-sandbox" \
      org.opencontainers.image.description="orderpost's sandbox API and its demo; not for production"
USER 65532:65532
COPY --from=build /out/try/ /usr/local/bin/
COPY --from=build /src/examples /examples
WORKDIR /
EXPOSE 8089
ENTRYPOINT ["/usr/local/bin/sandbox"]
CMD ["--addr", "0.0.0.0:8089"]

FROM busybox:1.37 AS operator
ARG VERSION REVISION CREATED SOURCE
LABEL org.opencontainers.image.title="orderpost-operator" \
      org.opencontainers.image.description="orderpost with a shell, for people who control a fleet" \
      org.opencontainers.image.base.name="docker.io/library/busybox:1.37" \
      org.opencontainers.image.vendor="orderpost maintainers" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
USER 65532:65532
COPY --from=build /out/bin/ /usr/local/bin/
ENV ORDERPOST_DATA_DIR=/tmp HOME=/tmp
WORKDIR /tmp
CMD ["sleep", "infinity"]

FROM labelled AS orderpost
USER 65532:65532
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
LABEL org.opencontainers.image.title="orderpost" \
      org.opencontainers.image.description="submits orders in bulk to a key-authenticated HTTP API and accounts for every one of them"
COPY --from=build /out/bin/ /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/data /data
ENV ORDERPOST_DATA_DIR=/data ORDERPOST_OPS_ADDR=0.0.0.0:9464 ORDERPOST_LOG_FORMAT=json
VOLUME /data
EXPOSE 9464
# The worker asks itself, and so does the door: there is no shell. Other programs run too
# briefly to be asked.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/usr/local/bin/worker", "health"]
ENTRYPOINT ["/usr/local/bin/worker"]
