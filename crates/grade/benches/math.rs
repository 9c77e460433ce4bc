//! How many responses a second one core grades.
//!
//! The mix is meant to look like a benchmark run: responses of 400 to 3,600 characters of reasoning with formulas on the
//! way, of which half end in an integer, and the rest in fractions, decimals, roots, π, tuples, intervals, lists,
//! matrices, polynomials, equations, percentages and words; four fifths of them right. `response` is the whole way, from
//! the gold answer's text and the response to the verdict; `answer` compares two answers that are parsed already, as
//! counting votes does.
//!
//! ```text
//! cargo bench -p eager-grade --bench math
//! ```

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use eager_grade::math::{self, Answer};

/// Gold answers, and what responses say.
const PAIRS: [(&str, &str); 30] = [
    ("204", "204"),
    ("73", "073"),
    ("113", "113"),
    ("809", "809"),
    ("315", "316"),
    ("18", "18"),
    ("70000", r"\$70,000"),
    ("540", "540"),
    ("2304", r"2{,}304"),
    ("-984", "984"),
    ("27648", "27648"),
    ("4", "4"),
    ("12", "13"),
    ("0", "0"),
    ("10080", r"10,\!080"),
    (r"\frac{14}{3}", r"\frac{14}{3}"),
    (r"\frac{3}{56}", r"\dfrac{3}{58}"),
    ("0.15", r"\frac{3}{20}"),
    (r"3\sqrt{13}", r"\sqrt{117}"),
    (r"\frac{9 \sqrt{23}}{23}", r"\frac{9}{\sqrt{23}}"),
    (r"1-\frac{2}{\pi}", r"\frac{\pi-2}{\pi}"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty,2)\cup(3,\infty)"),
    (r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\frac{-1 \pm \sqrt{17}}{2}"),
    (
        r"\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix}",
        r"\begin{pmatrix} \frac15 \\ -\frac{18}{5} \end{pmatrix}",
    ),
    ("6r^2-4r-24", "2(3r^2 - 2r - 12)"),
    ("5x - 7y + 11z + 4 = 0", "5x - 7y + 11z = 4"),
    (r"90^\circ", "90"),
    (r"\text{Evelyn}", r"\text{Carla}"),
    (r"x \in [-2,7]", "[-2,7]"),
];

const STEPS: [&str; 4] = [
    "First we note that $a_{n+1} = \\frac{1}{2}(a_n + \\frac{2}{a_n})$, so the sequence converges.\n",
    "Then $\\sqrt{x^2 + 1} \\le 3$ implies \\[ -2\\sqrt{2} \\le x \\le 2\\sqrt{2}. \\] Let me check this again.\n",
    "Wait, that is not right: for $n = 7$ we get 49 cases, and 12 of them are counted twice.\n",
    "So we sum over all $k$ from 1 to 10 and find $\\sum_{k=1}^{10} k = 55$.\n\n",
];

fn responses() -> Vec<(&'static str, String)> {
    PAIRS
        .iter()
        .enumerate()
        .map(|(at, (gold, answer))| {
            // Between 4 and 40 steps of about a hundred characters.
            let steps: String = STEPS.iter().cycle().skip(at).take(4 + (at * 17) % 37).copied().collect();
            (*gold, format!("{steps}Therefore the answer is\n\\[\n\\boxed{{{answer}}}\n\\]"))
        })
        .collect()
}

fn grading(criterion: &mut Criterion) {
    let responses = responses();
    let mut group = criterion.benchmark_group("math");
    group.throughput(Throughput::Elements(responses.len() as u64));
    group.bench_function("response", |bencher| {
        bencher.iter(|| {
            responses
                .iter()
                .filter(|(gold, response)| math::grade(black_box(gold), black_box(response)).correct)
                .count()
        });
    });
    let answers: Vec<(Answer, Answer)> =
        PAIRS.iter().map(|(gold, answer)| (Answer::gold(gold), Answer::parse(answer))).collect();
    group.bench_function("answer", |bencher| {
        bencher.iter(|| answers.iter().filter(|(a, b)| black_box(a).equals(black_box(b))).count());
    });
    group.finish();
}

criterion_group!(benches, grading);
criterion_main!(benches);
