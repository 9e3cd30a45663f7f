"""The real binaries as processes, on free ports, and what is at their /metrics."""

import os
import re
import subprocess
import threading
import urllib.request

BINARIES = {os.path.basename(path): path for path in os.environ.get("BINARIES", "").split()}


class Server:
    """One of our servers; listens once it is constructed."""

    def __init__(self, name, folder, *flags):
        self._process = subprocess.Popen(
            [BINARIES[name], f"--data_dir={folder}/{name}", "--grpc.listen=127.0.0.1:0",
             "--http.listen=127.0.0.1:0", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.wait_for("server=listening")
        self.grpc, self._http = (re.search(rf" {port}=(\S+)", line)[1] for port in ("grpc", "http"))

    def wait_for(self, event):
        """The next line of the log that has it."""
        for line in self._process.stderr:
            if event in line:
                return line
        raise AssertionError(f"it ended without {event}: {self._process.wait()}")

    def ignore_log(self):
        """Whatever else it logs has somewhere to go."""
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def metrics(self):
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def stop(self):
        self._process.terminate()
        self._process.wait()
        self._process.stderr.close()


class Cluster:
    """A director, an agent and a scheduler of which each did everything that it counts."""

    def __init__(self, folder):
        self.servers = {}
        try:
            self._start(folder)
            self._work()
        except BaseException:
            self.stop()
            raise

    def _start(self, folder):
        jobs = f"{folder}/jobs.yaml"
        with open(jobs, "w", encoding="utf-8") as file:
            file.write("jobs:\n- {name: once, schedule: '* * * * * *', seconds: true, max_runs: 1, "
                       "prompt: echo}\n")
        self.director = self._add("callboard-director", folder, "--queue.max_size=1")
        address = f"--director.address={self.director.grpc}"
        agent = self._add("callboard-agent", folder, address, "--runner.kind=shell",
                          "--runner.allow_shell=true", "--agent.drain_timeout=0s")
        self.scheduler = self._add("callboard-scheduler", folder, address, f"--jobs_file={jobs}")
        self.director.wait_for("agent=connected")
        for server in (self.director, agent):
            server.ignore_log()

    def _add(self, name, *arguments):
        self.servers[name] = Server(name, *arguments)
        return self.servers[name]

    def _work(self):
        fired = self.scheduler.wait_for("schedule=fired")
        self.scheduler.ignore_log()
        # A stream, which ends with the task.
        self.callboard("watch", re.search(r"queue_id=(\S+)", fired)[1])
        # While the queue is paused one task fills it, and the next one is rejected.
        self.callboard("pause")
        self.callboard("queue", "echo")
        self.callboard("queue", "echo", code=3)

    def callboard(self, *words, code=0):
        """What the command line prints, and has to end with."""
        done = subprocess.run(
            [BINARIES["callboard"], *words, f"--director.address={self.director.grpc}",
             f"--scheduler.address={self.scheduler.grpc}"],
            capture_output=True, text=True, check=False)
        if done.returncode != code:
            raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def stop(self):
        for server in reversed(self.servers.values()):
            server.stop()
