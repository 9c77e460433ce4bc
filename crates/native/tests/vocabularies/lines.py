"""Ten thousand lines that tokenizers disagree about: code, many scripts, emoji, white space, digits, special tokens.

The same lines every time: everything is drawn from one seed.
"""

import random

# Ranges of code points, by what they are good for.
SCRIPTS = {
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F)], "greek": [(0x391, 0x3C9)], "cyrillic": [(0x410, 0x44F)],
    "armenian": [(0x531, 0x556), (0x561, 0x586)], "hebrew": [(0x5D0, 0x5EA)], "arabic": [(0x620, 0x64A), (0x660, 0x669)],
    "devanagari": [(0x904, 0x939), (0x93E, 0x94D), (0x966, 0x96F)], "bengali": [(0x985, 0x9B9), (0x9BE, 0x9CD)],
    "tamil": [(0xB85, 0xBB9), (0xBBE, 0xBCD)], "thai": [(0xE01, 0xE3A), (0xE40, 0xE4E)], "tibetan": [(0xF40, 0xF6C), (0xF71, 0xF84)],
    "georgian": [(0x10D0, 0x10FA), (0x1C90, 0x1CBA)], "ethiopic": [(0x1200, 0x1248)], "khmer": [(0x1780, 0x17D3)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x1112), (0x1161, 0x1175)], "kana": [(0x3041, 0x3096), (0x30A1, 0x30FA)],
    "han": [(0x4E00, 0x9FFF), (0x20000, 0x20400)], "vietnamese": [(0x1EA0, 0x1EF9)], "gothic": [(0x10330, 0x1034A)],
    "math": [(0x1D400, 0x1D7FF), (0x2200, 0x22FF)], "titlecase": [(0x1C4, 0x1CC), (0x1F88, 0x1FAF)],
}
MARKS = [chr(c) for c in (*range(0x300, 0x370), 0x5B0, 0x64B, 0x93C, 0x9BC, 0xE31, 0x1AB0, 0x20D0, 0xFE0F, 0x200D)]
NUMBERS = "0123456789٠١٢٣४५六Ⅷ½²₃①𝟘"
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\u00a0", "\u3000", "\u2009", "\u200b", "\u2028", "\u0085", "\v", "\f"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["…", "—", "«", "“", "、", "。", "¿", "§", "€", "°", "→", "✓", "·", "’"]
EMOJI = ["😀", "🌳", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇫🇷", "❤️", "1️⃣", "🫠", "🧑🏿‍🚀", "☕", "\U0001fae8"]
CONTRACTIONS = ["it's", "IT'S", "we'Re", "I'm", "they'VE", "don't", "'tis", "she'd", "Y'ALL'LL", "l’été", "rock'n'roll", "''s", "x'S's"]
CODE = [
    "fn main() -> Result<(), Error> {", "    let x: Vec<u8> = (0..10).map(|i| i * 2).collect();", "for (int i=0;i<n;++i){",
    "if __name__ == '__main__':", "\t\treturn self.__dict__[key]  # noqa", "SELECT * FROM t WHERE a >= 3.14e-10;", "<div class=\"a-b\">&nbsp;</div>",
    "#include <stdio.h>\r\n", "x = \\frac{1}{2} \\boxed{42}", "git commit -m 'fix' && ls -la ./*.rs", "{\"key\": [1, 2.5, null]}", "λ x → x ∘ f",
    "ABC_defGhi::jklMNO", "0xDEADBEEF 1_000_000 1e9", "///// ===== ----- ~~~~", "https://example.org/a?b=c&d=%20#e", "\\n\\t\\u00e9", "a//b/*c*/",
]
WORDS = "the entropy of a token where it is unsure the sequence forks both branches go on Tree GPU iPhone naïve café".split()


def one_of(rng, ranges):
    first, last = rng.choice(ranges)
    return chr(rng.randint(first, last))


def script(rng, _):
    ranges = rng.choice(list(SCRIPTS.values()))
    letter = lambda: one_of(rng, ranges) + (rng.choice(MARKS) if rng.random() < 0.08 else "")
    return " ".join("".join(letter() for _ in range(rng.randint(1, 9))) for _ in range(rng.randint(1, 5)))


def anything(rng, _):
    point = lambda: rng.choice([rng.randint(0, 0x7F), rng.randint(0, 0x2FF), rng.randint(0, 0xD7FF), rng.randint(0xE000, 0x10FFFF)])
    return "".join(chr(point()) for _ in range(rng.randint(1, 12)))


def pieces(*kinds):
    def line(rng, special):
        return "".join(rng.choice(kinds)(rng, special) for _ in range(rng.randint(1, 10)))

    return line


def pick(items):
    return lambda rng, _: rng.choice(items)


def digits(rng, _):
    return "".join(rng.choice(NUMBERS if rng.random() < 0.1 else "0123456789") for _ in range(rng.randint(1, 12)))


def word(rng, _):
    return rng.choice(["", " "]) + rng.choice(WORDS)


def accents(rng, _):
    return "".join(rng.choice("aeionuscAEO") + rng.choice(MARKS[:40]) for _ in range(rng.randint(1, 6)))


def special(rng, special):
    return rng.choice(special) if special else rng.choice(["<|", "|>", "<s", "</"])


def repeated(rng, _):
    return rng.choice([*SPACES, *PUNCTUATION, "a", "ab", "0", "é", "日", "🌳"]) * rng.randint(2, 40)


KINDS = [
    script, script, anything, pick(CODE), pieces(pick(CODE), pick(SPACES)), pieces(word, pick(SPACES), pick(PUNCTUATION)),
    pieces(digits, pick(PUNCTUATION), pick([" ", ""])), pieces(pick(EMOJI), word), pieces(pick(CONTRACTIONS), pick([" ", ""])),
    pieces(pick(SPACES), word), pieces(accents, word), pieces(special, word, pick(SPACES), digits), repeated,
    pieces(repeated, word), pieces(script, pick(EMOJI), digits, pick(PUNCTUATION), pick(SPACES), word),
]


def lines(special, count=10_000, seed=8):
    """The lines, with these special tokens in some of them."""
    rng = random.Random(seed)
    return [KINDS[at % len(KINDS)](rng, special) for at in range(count)]
