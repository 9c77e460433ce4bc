"""evalplus's own verdicts. Runs where evalplus is installed, with HUMANEVAL_OVERRIDE_PATH set.

    python judge.py [--min-time SECONDS] < samples.jsonl > verdicts.jsonl
"""
import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from evalplus.data import get_human_eval_plus
from evalplus.eval import PASS, untrusted_check
from evalplus.gen.util import trusted_exec


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--min-time", type=float, default=1.0)
    parser.add_argument("--parallel", type=int, default=2)
    options = parser.parse_args()
    problems = get_human_eval_plus()
    samples = [json.loads(line) for line in sys.stdin]
    references = {}
    for task in dict.fromkeys(sample["task_id"] for sample in samples):
        problem = problems[task]
        code = problem["prompt"] + problem["canonical_solution"]
        references[task] = [
            (problem[kind], *trusted_exec(code, problem[kind], problem["entry_point"], record_time=True))
            for kind in ("base_input", "plus_input")
        ]

    def judge(sample):
        problem = problems[sample["task_id"]]
        verdict = {}
        for kind, (inputs, expected, times) in zip(("base", "plus"), references[sample["task_id"]]):
            verdict[kind], _ = untrusted_check(
                "humaneval", sample["solution"], inputs, problem["entry_point"], expected, problem["atol"], times,
                fast_check=True, min_time_limit=options.min_time,
            )
        verdict["correct"] = verdict["base"] == PASS and verdict["plus"] == PASS
        return verdict

    with ThreadPoolExecutor(options.parallel) as pool:
        for verdict in pool.map(judge, samples):
            print(json.dumps(verdict), flush=True)


main()
