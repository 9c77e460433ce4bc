"""A real llama-server with a model: prints its address and serves until its standard input is closed."""

import argparse
import sys

import xllamacpp


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model")
    arguments.add_argument("slots", type=int)
    arguments.add_argument("context", type=int, help="tokens of one slot")
    arguments.add_argument("threads", type=int)
    arguments.add_argument("--slot-save-path", help="a folder to save slots in")
    arguments.add_argument("--port", type=int, default=0, help="any free one by default")
    args = arguments.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.n_parallel = args.slots
    params.n_ctx = args.slots * args.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.port = args.port
    if args.slot_save_path:
        params.slot_save_path = args.slot_save_path.rstrip("/") + "/"
        params.kv_unified = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    # Whoever started this server may die without a word; then the pipe closes and so does the server.
    sys.stdin.read()


if __name__ == "__main__":
    main()
