#!/usr/bin/env bash
# Writes the list of agents that Prometheus scrapes.
#
#   deploy/observability/targets.sh ports.json        the agents of `callboard dev --port_file=ports.json`
#   deploy/observability/targets.sh 127.0.0.1:8081 …  the agents with these HTTP ports
set -euo pipefail
[[ $# -gt 0 ]] || { sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0" >&2 && exit 2; }
python3 - "$(dirname "${BASH_SOURCE[0]}")/targets/agents.json" "$@" <<'END'
import json
import os
import sys

path, *names = sys.argv[1:]
if len(names) == 1 and os.path.exists(names[0]):
    with open(names[0], encoding="utf-8") as file:
        ports = json.load(file)
    names = [f"127.0.0.1:{ports[part]['http']}" for part in ports if part.startswith("agent-")]
# Rename the file, so that Prometheus never reads a partial one.
with open(path + ".new", "w", encoding="utf-8") as file:
    json.dump([{"targets": names}], file)
os.rename(path + ".new", path)
print(f"{path}: {', '.join(names)}")
END
