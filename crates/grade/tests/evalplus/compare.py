"""Our verdicts beside evalplus's, on a mutant or two of every HumanEval+ problem.

    EAGER_DATA=folder python crates/grade/tests/evalplus/compare.py [--each 2] [--seed 0]

Installs evalplus (the release named below) in a virtual environment of its own in a temporary folder, makes the
mutants, has both judge them, and lists every disagreement; exit status 0 if at least 99 in 100 verdicts agree.

evalplus counts passing time, not processor time, so on a busy machine its verdicts of "timeout" come and go: a
disagreement is judged again with a limit of 20 s before it is counted. And in this release the branch for
`find_zero` forgets to count its progress, so HumanEval/32 always fails; the two lines that later versions have are
put in.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

RELEASE = "evalplus==0.3.1"
HERE = pathlib.Path(__file__).resolve().parent
BROKEN = "assert abs(_poly(*inp, out)) <= atol\n                            continue"
FIXED = """assert abs(_poly(*inp, out)) <= atol
                            details[i] = True
                            progress.value += 1
                            continue"""


def install(folder):
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", RELEASE], check=True, stdout=sys.stderr)
    locate = "import evalplus.eval as e; print(e.__file__)"
    file = pathlib.Path(subprocess.check_output([python, "-c", locate], text=True).strip())
    source = file.read_text()
    assert BROKEN in source, "this is not the release that the correction was written for"
    file.write_text(source.replace(BROKEN, FIXED))
    return python


def lines(command, samples, **options):
    text = "".join(json.dumps(sample) + "\n" for sample in samples)
    output = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, **options).stdout
    return [json.loads(line) for line in output.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evalplus-python", help="an interpreter that has evalplus already, corrected")
    parser.add_argument("--eager", type=pathlib.Path, help="the command, if it is built already")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the samples and verdicts")
    options = parser.parse_args()
    data = pathlib.Path(os.environ["EAGER_DATA"]) / "HumanEvalPlus-v0.1.10.jsonl.gz"
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        python = options.evalplus_python or install(temporary / "venv")
        unpacked = temporary / "HumanEvalPlus.jsonl"
        unpacked.write_bytes(gzip.decompress(data.read_bytes()))
        mutate = [sys.executable, HERE / "mutate.py", unpacked, f"--each={options.each}", f"--seed={options.seed}"]
        samples = [json.loads(line) for line in subprocess.check_output(mutate, text=True).splitlines()]

        start = time.time()
        build = ["cargo", "run", "--quiet", "--release", "-p", "eager", "--"]
        eager = [options.eager.resolve()] if options.eager else build
        grade = [*eager, "grade", "--grader=code", "--explain"]
        fenced = lambda sample: {"gold": sample["task_id"], "pred": f"```python\n{sample['solution']}\n```"}
        ours = lines([*grade, "--problems", data], map(fenced, samples), cwd=HERE)
        print(f"ours: {len(ours)} verdicts in {time.time() - start:.0f} s, the build included", file=sys.stderr)

        start = time.time()
        environment = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(unpacked)}
        judge = [python, HERE / "judge.py"]
        theirs = lines(judge, samples, env=environment)
        differ = [i for i in range(len(samples)) if ours[i]["correct"] != theirs[i]["correct"]]
        again = lines([*judge, "--min-time=20"], [samples[i] for i in differ], env=environment) if differ else []
        for i, verdict in zip(differ, again):
            theirs[i] = verdict
        print(f"evalplus: {len(theirs)} verdicts in {time.time() - start:.0f} s, {len(differ)} judged again", file=sys.stderr)

        if options.keep:
            options.keep.mkdir(exist_ok=True)
            for name, rows in (("samples", samples), ("ours", ours), ("theirs", theirs)):
                (options.keep / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    agree = 0
    for sample, our, their in zip(samples, ours, theirs):
        if our["correct"] == their["correct"]:
            agree += 1
        else:
            print(f"{sample['task_id']}: ours {our['detail']['base']} / {our['detail']['plus']}, "
                  f"evalplus {their['base']} / {their['plus']}\n{sample['solution']}\n")
    wrong = sum(not their["correct"] for their in theirs)
    print(f"{agree} of {len(samples)} verdicts agree ({agree / len(samples):.2%}); {wrong} mutants are wrong")
    sys.exit(0 if agree >= 0.99 * len(samples) else 1)


main()
