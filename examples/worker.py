"""A worker to copy: claims EXTERNAL jobs and runs the command of each. It needs nothing but Python.

semantica add --external -- make test
python3 worker.py [NAME [TYPE ...]]
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

HOME = os.environ.get("SEMANTICA_HOME") or os.environ.get("XDG_RUNTIME_DIR", "/tmp") + "/semantica"
SOCKET = os.environ.get("SEMANTICA_SOCKET") or f"{HOME}/daemon.sock"
NAME, TYPES, LEASE_MS = (sys.argv[1:] or ["worker"])[0], sys.argv[2:] or None, int(os.environ.get("LEASE_MS", "30000"))
running, stops = {}, []  # the process of each run; signals


def connection():
    """Returns a function that calls the daemon. A call that the end of the daemon cuts short is sent again."""
    files = []

    def send(method, **params):
        while True:
            try:
                if not files:
                    opened = socket.socket(socket.AF_UNIX)
                    opened.connect(SOCKET)
                    files.append(opened.makefile("rw", 1))
                files[0].write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
                reply = json.loads(files[0].readline() or '{"error": {"code": 5002}}')
            except OSError:
                reply = {"error": {"code": 5002}}
            if "result" in reply:
                return reply["result"]
            if reply["error"]["code"] < 5000:
                raise ValueError(f"{method}: {reply['error']['message']}")
            files.clear()
            time.sleep(0.5)

    return send


def heartbeat(send):
    while True:
        time.sleep(LEASE_MS / 3000)
        answer = send("worker.heartbeat", worker_id=worker_id, run_ids=list(running))
        for process in [running[run_id] for run_id in answer["cancel"] + answer["lost"] if run_id in running]:
            process.terminate()


def work(run_id, payload, variables):
    end = {"worker_id": worker_id, "run_id": run_id}
    try:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": os.environ | variables}
        running[run_id] = process = subprocess.Popen(payload["argv"], cwd=payload.get("cwd"), **streams)
        output = process.communicate()[0][-4000:]
        if process.returncode == 0:
            call("worker.complete", **end, result={"output": output})
        else:
            call("worker.fail", **end, message=output, exit_code=max(process.returncode, 0) or None)
    except (OSError, KeyError) as error:
        call("worker.fail", **end, message=f"it cannot be started: {error!r}", **{"class": "permanent"})
    except ValueError as refused:
        sys.stderr.write(f"{refused}\n")  # the lease was lost: another run may do the work
    running.pop(run_id, None)


call = connection()
worker_id = call("worker.register", name=NAME, pid=os.getpid())["worker_id"]
threading.Thread(target=heartbeat, args=(connection(),), daemon=True).start()
signal.signal(signal.SIGTERM, lambda *caught: stops.append(caught))  # it ends after the job that it works on
while not stops:
    for one in call("worker.claim", worker_id=worker_id, job_types=TYPES, lease_ms=LEASE_MS, wait_ms=2000)["jobs"]:
        work(one["run_id"], one["job"]["payload"], one["env_vars"])
call("worker.leave", worker_id=worker_id)
