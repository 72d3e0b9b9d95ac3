#!/usr/bin/env bash
# Joins this host to its Ray cluster, and rejoins after a restart of the head (even at another address), a crash of Ray on this
# host, or a reboot (a startup script runs at every boot, on every host of a slice).
# Written by marin-tui. It does not contain the Ray token: the machine's own service account reads it into a file that only
# root and the container's user can read; it is never an argument or a variable. Commands, docker options and the startup
# script of the cluster file are included verbatim, quoted: anyone who can read this machine's metadata can read them.
set -uo pipefail
export HOME="${HOME:-/root}" LC_ALL=C.UTF-8

cluster={{ cluster | sh }}
label={{ label | sh }}
zone={{ zone | sh }}
image={{ image | sh }}
container={{ container | sh }}
port={{ port | sh }}
metadata_url=http://metadata.google.internal/computeMetadata/v1
instances_url={{ (compute ~ "/compute/v1/projects/" ~ project ~ "/aggregated/instances") | sh }}
{%- if secret %}
secret={{ secret | sh }}
secret_url={{ (secret_manager ~ "/v1/projects/" ~ secret_project ~ "/secrets/" ~ secret ~ "/versions/latest:access") | sh }}
{%- endif %}
look_seconds={{ look_seconds | sh }}
dir=/var/lib/marin-tui-worker
# Only root can access the files created here.
umask 077
mkdir -p "$dir/run"
# The container's user must be able to reach its two files.
chmod 755 "$dir/run"

say() { echo "marin-tui worker: $*" >&2; }

# A new copy of this script replaces a running one: `init-worker` starts it again on a host where it already runs.
exec 9>"$dir/lock"
if ! flock -n 9; then
  kill "$(cat "$dir/pid" 2>/dev/null)" 2>/dev/null
  flock -w 60 9 || { say "another copy of this script did not exit"; exit 1; }
fi
echo $$ >"$dir/pid"

{%- if own %}

# The startup script of the cluster file, which this script replaces in the metadata. As with Google's agent, it runs at
# each boot before anything else, and its exit code is ignored.
printf '%s' {{ own | sh }} >"$dir/own-startup-script"
chmod 700 "$dir/own-startup-script"
"$dir/own-startup-script" </dev/null >&2 9>&- || say "the startup script of the cluster file exited with $?"
{%- endif %}

# Prints a value of a JSON object.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

access_token() {
  curl -fsS --max-time 10 -H 'Metadata-Flavor: Google' "$metadata_url/instance/service-accounts/default/token" |
    field access_token
}

# Calls a Google API. The bearer token is passed on standard input, because arguments are visible to other users.
api() {
  local token
  token=$(access_token) || return 1
  printf 'Authorization: Bearer %s\n' "$token" | curl -fsS --max-time 30 -H @- "$@"
}

# Prints the address of the newest running head in the cluster's zone, found by the labels that Ray's launcher sets.
find_head() {
  local page next='' heads='' lines
  while :; do
    page=$(api -G "$instances_url" --data-urlencode 'returnPartialSuccess=true' \
      --data-urlencode "filter=(labels.ray-node-type = \"head\") AND (labels.ray-cluster-name = \"$label\")" \
      ${next:+--data-urlencode "pageToken=$next"}) || return 1
    lines=$(printf '%s' "$page" | python3 -c '
import ipaddress, json, sys
page = json.load(sys.stdin)
print(page.get("nextPageToken", ""))
for scope in page.get("items", {}).values():
    for machine in scope.get("instances", []):
        its_zone = machine.get("zone", "").rsplit("/", 1)[-1]
        if machine.get("status") == "RUNNING" and (not sys.argv[1] or (its_zone + "-").startswith(sys.argv[1] + "-")):
            address = ipaddress.ip_address(machine["networkInterfaces"][0]["networkIP"])
            print(machine.get("creationTimestamp", "").split()[0], address)
' "$zone") || return 1
    next=${lines%%$'\n'*}
    heads+=$(printf '%s\n' "$lines" | tail -n +2)$'\n'
    [ -n "$next" ] || break
  done
  printf '%s' "$heads" | grep -v '^$' | sort -r | head -n 1 | cut -d ' ' -f 2
}

accepts() { timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2"' accepts "$1" "$port" 2>/dev/null; }

runs() { [ "$(docker inspect -f {{ "{{.State.Running}}" | sh }} "$container" 2>/dev/null 9>&-)" = true ]; }

# Writes the Ray token to a file for the container's user.
write_token() {
{%- if secret %}
  local user
  user=$(docker run --rm --entrypoint id "$image" -u 9>&-) || return 1
  api "$secret_url" | python3 -c '
import base64, json, sys
sys.stdout.buffer.write(base64.b64decode(json.load(sys.stdin)["payload"]["data"]))
' >"$dir/run/auth_token.new" || return 1
  [ -s "$dir/run/auth_token.new" ] || return 1
  chown "$user" "$dir/run/auth_token.new" && chmod 400 "$dir/run/auth_token.new" &&
    mv -f "$dir/run/auth_token.new" "$dir/run/auth_token"
{%- else %}
  :
{%- endif %}
}

pull() {
{%- if registry %}
  # The login lasts an hour and is only needed for the pull.
  access_token | DOCKER_CONFIG="$dir/docker" docker login -u oauth2accesstoken --password-stdin \
    {{ ("https://" ~ registry) | sh }} >/dev/null 9>&- || return 1
{%- endif %}
  DOCKER_CONFIG="$dir/docker" docker pull "$image" >/dev/null 9>&-
}

# Runs in the container, and ends with Ray, which also ends the container.
printf '%s\n' {{ join | sh }} >"$dir/run/join.sh"
chmod 444 "$dir/run/join.sh"

{%- if init %}

# Runs the initialization commands of the cluster file on the machine itself, once per boot.
initialized=
initialize() {
  [ -n "$initialized" ] || USER="${USER:-root}" bash --login -c {{ init | sh }} >&2 </dev/null 9>&- || return 1
  initialized=1
}
{%- endif %}

join() {
  local head=$1
{%- if init %}
  initialize || { say "an initialization command of the cluster file failed"; return 1; }
{%- endif %}
  pull || docker image inspect "$image" >/dev/null 2>&1 9>&- || { say "cannot pull $image"; return 1; }
  write_token || { say "cannot read the Ray token of secret ${secret:-}: does this machine's service account have the role secretmanager.secretAccessor?"; return 1; }
  docker rm -f "$container" >/dev/null 2>&1 9>&-
  # Later options override earlier ones, so those required here follow the cluster's own.
  docker run -d --name "$container" {{ options }} --restart=no --net=host \
    -v "$dir/run:/run/marin-tui:ro" -e LC_ALL=C.UTF-8 -e LANG=C.UTF-8 -e "RAY_HEAD_IP=$head" \
    -e {{ ("RAY_OVERRIDE_RESOURCES=" ~ resources) | sh }} \
{%- if secret %}
    -e RAY_AUTH_MODE=token -e RAY_AUTH_TOKEN_PATH=/run/marin-tui/auth_token \
{%- endif %}
    "$image" bash --login /run/marin-tui/join.sh >/dev/null 9>&-
}

joined=
while :; do
  if head=$(find_head) && [ -n "$head" ]; then
    if [ "$head" != "$joined" ] || ! runs; then
      if accepts "$head"; then
        say "joining the head at $head"
        if join "$head"; then joined=$head; fi
      else
        say "the head at $head does not accept connections on $port yet"
      fi
    fi
  else
    say "no head of $cluster found"
  fi
  sleep "$look_seconds"
done
