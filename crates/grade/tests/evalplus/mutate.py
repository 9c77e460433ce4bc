"""Mutants of the reference solutions: programs that are a little wrong, most of them.

    python mutate.py DATA.jsonl[.gz] [--each N] [--seed S] > samples.jsonl

A mutant differs from the reference in one place: an integer one higher or lower, a comparison with or without its
equal sign or turned around, plus for minus, `and` for `or`, `any` for `all`, True for False. Some still compute the
same; what matters is that two graders think the same of them.
"""
import argparse
import ast
import gzip
import json
import random
import sys

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.In: [ast.NotIn], ast.NotIn: [ast.In],
}
OPERATORS = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Add], ast.Div: [ast.FloorDiv], ast.FloorDiv: [ast.Div],
    ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult],
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def changes(tree):
    """Every single change, as a function that makes it and one that takes it back."""

    def swap(node, field, new, index=None):
        def put(value):
            if index is None:
                setattr(node, field, value)
            else:
                getattr(node, field)[index] = value

        old = getattr(node, field) if index is None else getattr(node, field)[index]
        return (lambda: put(new)), (lambda: put(old))

    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield swap(node, "value", node.value + 1)
            yield swap(node, "value", node.value - 1)
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield swap(node, "value", not node.value)
        elif isinstance(node, ast.Compare):
            for index, operator in enumerate(node.ops):
                for other in COMPARISONS.get(type(operator), []):
                    yield swap(node, "ops", other(), index)
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            for other in OPERATORS.get(type(node.op), []):
                yield swap(node, "op", other())
        elif isinstance(node, ast.BoolOp):
            yield swap(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield swap(node, "id", NAMES[node.id])


def mutants(source, count, rng):
    tree = ast.parse(source)
    every = list(changes(tree))
    found = []
    for make, undo in rng.sample(every, len(every)):
        make()
        mutant = ast.unparse(tree)
        undo()
        if mutant not in found:
            found.append(mutant)
        if len(found) == count:
            break
    if not found:
        # Nothing to change in a solution such as `return x.title()`: one that returns nothing.
        found.append(source.rstrip() + "\n\n\ndef {entry}(*_):\n    return None\n")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    read = gzip.open if options.data.endswith(".gz") else open
    with read(options.data, "rt") as file:
        for line in file:
            row = json.loads(line)
            for mutant in mutants(row["prompt"] + row["canonical_solution"], options.each, rng):
                mutant = mutant.replace("{entry}", row["entry_point"]) if "def {entry}" in mutant else mutant
                json.dump({"task_id": row["task_id"], "solution": mutant}, sys.stdout)
                print()


main()
