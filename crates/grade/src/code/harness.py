# Runs a tested program on inputs and reports what it returns. It judges nothing: the expected outputs never enter
# this process, so a program that takes over the harness can only report outputs of its own making.
#
# Job, on standard input (marshal): {"entry", "candidates": [(head, text, free)], "inputs": [[argument, ...], ...]}.
# Answers, on the descriptor named by the first argument: a letter, the payload's length (4 bytes, little-endian)
# and the payload. In this order: `C` the number of the candidate that is a program (or `N`, there is none), `L` it
# is loaded, then for each input `V` a value, `U` a value that is no plain data, or `X` an exception. An `X` in
# place of the `L` ends it.
import marshal
import sys
from posix import dup, dup2, write
from time import process_time_ns

PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
# The version of the format without references: equal data is equal bytes, and a short parser can read it.
FORMAT = 2
DEEPEST = 100


def channel(write=write, length=len):
    """A function that sends one answer; bound to what it needs before the program can change it."""
    descriptor = int(sys.argv[1])
    if descriptor == 1:
        # Where answers share standard output with the program, the program's own goes to standard error.
        descriptor = dup(1)
        dup2(2, 1)

    def send(letter, payload):
        message = letter + length(payload).to_bytes(4, "little") + payload
        sent = write(descriptor, message)
        while sent < length(message):
            message = message[sent:]
            sent = write(descriptor, message)

    return send


def compiled(source, entry):
    """The compiled module and None, if this is one and gives the entry point a value; or None and the line that is
    wrong, where Python tells."""
    try:
        code = compile(source, "<answer>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return None, error.lineno
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None, None
    return (code, None) if entry in code.co_names else (None, None)


OPENINGS = ("def ", "async def ", "class ", "import ", "from ", "@")


def longest_program(head, text, entry):
    """The longest run of whole lines that is a program: of prose with code in it, the code."""
    lines = text.split("\n")
    # After a head that ends inside a function the first line is code; otherwise code starts as code does, and no
    # later than the last definition of the function.
    inside = head.endswith("\n    ")
    last = max((i for i, line in enumerate(lines) if line.startswith("def " + entry)), default=0)
    starts = [i for i, line in enumerate(lines[: last + 1]) if line.startswith(OPENINGS)]
    for start in [0] if inside else starts:
        end = len(lines)
        while end > (start if inside else last):
            code, wrong = compiled(head + "\n".join(lines[start:end]), entry)
            if code is not None:
                return code
            # Whatever holds the wrong line is wrong, so the next to try ends before it.
            end -= 1
            if wrong is not None:
                end = min(end, start + wrong - 1 - head.count("\n"))
    return None


def choose(candidates, entry):
    for number, (head, text, free) in enumerate(candidates):
        code = longest_program(head, text, entry) if free else compiled(head + text, entry)[0]
        if code is not None:
            return number, code
    return None, None


def flat(value, depth=0):
    """The plain data that a value equals: a Counter is a dict, numpy's 3 is 3, Fraction(1, 2) is 0.5."""
    if type(value) in (type(None), bool, int, float, complex, str, bytes):
        return value
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    below = depth + 1
    if isinstance(value, list):
        return [flat(item, below) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return tuple([flat(item, below) for item in tuple.__iter__(value)])
    if isinstance(value, dict):
        return {flat(key, below): flat(item, below) for key, item in dict.items(value)}
    for kind in (set, frozenset):
        if isinstance(value, kind):
            return {flat(item, below) for item in kind.__iter__(value)}
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, str):
        return str.__str__(value)
    ratio = getattr(value, "as_integer_ratio", None)
    if ratio is not None:
        above, under = ratio()
        if under == 1:
            return flat(above, below)
        if (above / under).as_integer_ratio() == (above, under):
            return above / under
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return flat(value.item(), below)
    raise TypeError("not plain data")


def describe(error):
    try:
        name = type(error).__name__
        text = str(error)
    except BaseException:
        return b"an exception"
    text = name + ": " + text if text else name
    return text[:300].encode("utf-8", "replace")


def main():
    send = channel()
    job = marshal.loads(sys.stdin.buffer.read())
    entry, inputs = job["entry"], job["inputs"]
    number, code = choose(job["candidates"], entry)
    if code is None:
        return send(b"N", b"")
    send(b"C", number.to_bytes(4, "little"))
    module = type(sys)("answer")
    sys.modules["answer"] = module
    # Kept from the program's reach as far as that is easy, for the sake of programs that are only careless.
    dumps, clock, exact, flatten, tell, kind = marshal.dumps, process_time_ns, frozenset(PLAIN), flat, describe, type
    any_error, unfit = BaseException, (ValueError, TypeError, ArithmeticError, AttributeError, RecursionError)
    try:
        exec(code, module.__dict__)
        function = module.__dict__[entry]
    except any_error as error:
        return send(b"X", tell(error))
    send(b"L", b"")
    for arguments in inputs:
        start = clock()
        try:
            value = function(*arguments)
        except any_error as error:
            send(b"X", tell(error))
            continue
        time = (clock() - start).to_bytes(8, "little")
        try:
            plain = kind(value) in exact
            try:
                data = dumps(value, FORMAT)
            except unfit:
                data = dumps(flatten(value), FORMAT)
            send(b"V", time + (b"\1" if plain else b"\0") + data)
        except any_error:
            send(b"U", kind(value).__name__[:100].encode("utf-8", "replace"))


main()
