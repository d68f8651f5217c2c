# syntax=docker/dockerfile:1
# The image holds worker, enqueue and deadletter; the target "sandbox" holds the sandbox and
# the demo. Static binaries, no shell, not root.
#
#   docker build -t orderpost .
#   docker build -t orderpost-sandbox --target sandbox .
ARG GO_VERSION=1.26

FROM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
RUN mkdir -p /out/data && go build -ldflags '-s -w' -o /out/ ./cmd/worker ./cmd/enqueue ./cmd/deadletter ./cmd/sandbox ./cmd/demo

FROM scratch AS sandbox
USER 65532:65532
COPY --from=build /out/sandbox /out/demo /usr/local/bin/
COPY --from=build /src/examples /examples
WORKDIR /
EXPOSE 8089
ENTRYPOINT ["/usr/local/bin/sandbox"]
CMD ["--addr", "0.0.0.0:8089"]

FROM scratch AS orderpost
USER 65532:65532
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
LABEL org.opencontainers.image.title="orderpost" \
      org.opencontainers.image.description="submits orders in bulk to a key-authenticated HTTP API and accounts for every one of them"
COPY --from=build /out/worker /out/enqueue /out/deadletter /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/data /data
ENV ORDERPOST_DATA_DIR=/data ORDERPOST_OPS_ADDR=0.0.0.0:9464 ORDERPOST_LOG_FORMAT=json
VOLUME /data
EXPOSE 9464
# The worker asks itself: there is no shell. Other programs of the image run
# too briefly to be asked.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/usr/local/bin/worker", "health"]
ENTRYPOINT ["/usr/local/bin/worker"]
