"""A real llama-server with a model: prints its address and serves until its standard input is closed.

usage: serve.py MODEL SLOTS CONTEXT THREADS [FOLDER FOR SAVED SLOTS]
"""

import sys

import xllamacpp


def main() -> None:
    model, slots, context, threads = sys.argv[1], *map(int, sys.argv[2:5])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if sys.argv[5:]:
        params.slot_save_path = sys.argv[5].rstrip("/") + "/"
        params.kv_unified = False
    # Any free port.
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    # Whoever started this server may die without a word; then the pipe closes and so does the server.
    sys.stdin.read()


if __name__ == "__main__":
    main()
