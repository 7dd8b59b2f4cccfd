# One image for every service: `coven run --only <service>` says which one a container is. See docker-compose.yml.
FROM python:3.13-slim

WORKDIR /usr/src/coven
COPY pyproject.toml README.md ./
COPY journals journals
COPY policies policies
COPY branches branches
COPY covenants covenants
COPY leaves leaves
COPY coven coven
RUN pip install --no-cache-dir . && rm -rf /usr/src/coven

# A project of its own, in case none is mounted over it; nothing here runs as root.
RUN useradd --create-home --uid 1000 coven && mkdir /coven && coven init /coven && chown -R coven:coven /coven
USER coven
WORKDIR /coven
STOPSIGNAL SIGTERM

ENTRYPOINT ["coven"]
CMD ["run"]
