"""A real vLLM with a model on the CPU: prints its address and serves until its standard input is closed.

usage: serve.py MODEL SEQUENCES CONTEXT THREADS [MORE ARGUMENTS OF VLLM]

What vLLM has to say goes to standard error. Forks find their prefix in the cache, which is on by default; that the answers
tell how much of it they found is not.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

# Of all tokens that two prompts have in common, whole blocks of so many are computed once. The CPU's kernels take no less.
BLOCK = 32


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port: int, model: str, sequences: str, context: str, threads: int, more: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--model", model, "--served-model-name", "model"]
    # In bf16 it does not start on every CPU.
    command += ["--dtype", "float32", "--block-size", str(BLOCK), "--enforce-eager"]
    command += ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    command += ["--max-num-seqs", sequences, "--max-model-len", context]
    # A request with a seed whose prompt is computed in several steps kills 0.32.0 on a CPU ("CPU Generator does not use
    # offset"). So prompts are computed whole.
    command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(4096, int(context)))]
    environment = {
        # It asks huggingface.co for what lies in the folder, and reports home.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # In GiB; enough for a hundred sequences of a small model.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Threads bound to cores suffer when something else runs there.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
    }
    # A group of its own, because it starts processes that must end with it.
    return subprocess.Popen(command + more, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)


def wait_until_ready(server: subprocess.Popen, url: str) -> None:
    while server.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    sys.exit(f"vLLM ended with status {server.returncode} before it served")


def main() -> None:
    model, sequences, context, threads, *more = sys.argv[1:]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = start(port, model, sequences, context, int(threads), more)
    try:
        wait_until_ready(server, url)
        print(url, flush=True)
        # Whoever started this server may die without a word; then the pipe closes and so does the server.
        sys.stdin.read()
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


if __name__ == "__main__":
    main()
