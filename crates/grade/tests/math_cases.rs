//! What is equal and what is not, kind by kind: the specification of the math grader as a table.

use eager_grade::math::{self, Answer};

/// Each line: spellings of one answer, each of which equals every other; then answers that equal none of them.
fn check(groups: &[(&[&str], &[&str])]) {
    let equal = |a: &str, b: &str| Answer::parse(a).equals(&Answer::parse(b));
    let mut faults = Vec::new();
    for (same, different) in groups {
        for a in *same {
            for b in same.iter().filter(|b| !equal(a, b)) {
                faults.push(format!("{a} should equal {b}"));
            }
            for b in different.iter().filter(|b| equal(a, b) || equal(b, a)) {
                faults.push(format!("{a} should not equal {b}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn numbers() {
    check(&[
        (
            &["7", "+7", "007", "7.0", "7.", " 7 ", "$7$", r"\(7\)", "{7}", "(7)", r"\text{7}", "14/2"],
            &["-7", "8", "7.1", "77"],
        ),
        (&["-3", "−3", "- 3", "–3", "-3.00", r"\frac{-6}{2}", r"-\frac{6}{2}"], &["3", "-4"]),
        (
            &["12345", "12,345", "12{,}345", r"12,\!345", r"12\,345", "12 345", r"12\ 345", "12345.0"],
            &["12,346", "1234", "12.345"],
        ),
        (
            &["1000000", "1,000,000", "10^6", r"1\times 10^6", r"1\cdot10^{6}", "1e6", "1.0e6"],
            &["100000", "1e7"],
        ),
        (
            &[
                "0.5",
                ".5",
                "1/2",
                r"\frac12",
                r"\frac{1}{2}",
                r"\dfrac{1}{2}",
                r"\tfrac 12",
                "½",
                r"\frac{2}{4}",
                "2^{-1}",
                "50\\%",
            ],
            &["0.51", "2", "-1/2"],
        ),
        (
            &["2.5", r"2\frac12", r"2\frac{1}{2}", "2 1/2", "2½", "5/2", r"\frac52", r"2 \frac{1}{2}"],
            &["1", r"\frac{2}{2}", "2.25"],
        ),
        (&["-2.5", r"-2\frac12", "-5/2"], &["-1.5", "2.5"]),
        (&["1/3", r"0.\overline{3}", r"0.\bar{3}", "0.(3)", r"\frac13", "3^{-1}"], &["0.3", "0.33", "0.34"]),
        (&["7/12", r"0.58\overline{3}"], &["0.58", r"0.\overline{583}"]),
        (&["3/20000", "0.00015", r"1.5\times10^{-4}", "1.5e-4"], &["0.00016", "0.0015"]),
        (
            &[
                "120",
                "5!",
                r"\binom{10}{3}",
                "C(10,3)",
                r"{10 \choose 3}",
                r"\dbinom{10}{3}",
                r"\binom{10}{7}",
            ],
            &["121", "4!", "6!"],
        ),
        (
            &[
                "15",
                "5!!",
                r"\binom62",
                r"\lfloor 15.9 \rfloor",
                r"\lceil 14.1 \rceil",
                "⌊15.5⌋",
                r"\gcd(30,45)",
                r"\max(3, 15)",
                "|-15|",
                r"\left|-15\right|",
            ],
            &["16"],
        ),
        (&["1024", "2^{10}", "2^10", "4^5", "2**10"], &["1023", "2^{11}"]),
        (&["55", r"\sum_{k=1}^{10} k", r"\sum_{k=1}^{10}k"], &["54"]),
        (
            &[
                "2",
                r"17 \bmod 5",
                "8^{1/3}",
                r"\sqrt[3]{8}",
                r"\sqrt4",
                r"\log_2 4",
                r"\log 100",
                r"\lg 100",
                r"\ln e^2",
            ],
            &["3", "-2"],
        ),
        (
            &["0", r"\sin \pi", r"\ln 1", "1-1", r"\sqrt2\cdot\sqrt2-2", "0\\%"],
            &["1", "10^{-30}", "2^{-200}"],
        ),
        (&["512", r"\text{512}", r"\mathbf{512}", r"\mathrm{512}"], &["51"]),
    ]);
}

#[test]
fn decimals_may_be_rounded() {
    check(&[
        (&["0.333333", "0.3333333"], &["0.3333", "0.333334", "0.34"]),
        (&[r"\frac13", "0.333333"], &["0.33333", "0.3333"]),
        (&[r"\pi", "3.141593", "3.1415926535"], &["3.14159", "3.14", "22/7", "3"]),
        (&[r"\sqrt2", "1.414214"], &["1.4142", "1.41"]),
        (&[r"\frac{1}{576}", "0.001736"], &["0.0017", "0.001737"]),
        (&["1"], &["0.9999999", "1.0000001"]),
        (&["0.0000672", ".0000672"], &["0.0000671", "0.00007", "0"]),
        (&[r"(3, \frac{\pi}{2})", "(3, 1.570796)"], &["(3, 1.5708)"]),
    ]);
}

#[test]
fn roots_and_constants() {
    check(&[
        (
            &[
                r"\sqrt{8}",
                r"2\sqrt{2}",
                r"2\sqrt2",
                "2sqrt(2)",
                "2√2",
                "√8",
                r"\frac{4}{\sqrt{2}}",
                "2^{3/2}",
                r"2^{\frac32}",
                r"\sqrt{2}\cdot 2",
            ],
            &[r"\sqrt2", r"4\sqrt2", "2.8"],
        ),
        (&[r"1+\sqrt2", r"\sqrt{3+2\sqrt2}", r"\frac{1}{\sqrt2-1}"], &[r"1-\sqrt2", r"\sqrt{3-2\sqrt2}"]),
        (
            &[
                r"\frac{\pi}{6}",
                r"\pi/6",
                "π/6",
                r"\frac{1}{6}\pi",
                r"\arcsin\frac12",
                r"\sin^{-1}\frac{1}{2}",
                r"\arctan\frac{1}{\sqrt3}",
            ],
            &[r"\frac{\pi}{3}", r"\frac{6}{\pi}", "30"],
        ),
        (&["e", r"\exp(1)", "e^1", "2.718282"], &["2.7", "e^2"]),
        (&[r"\ln 8", r"3\ln 2", r"\ln(8)", r"\ln 2 + \ln 4", r"2\ln 2+\ln 2"], &[r"\ln 7", r"\log 8"]),
        (
            &[r"\frac12", r"\cos 60^\circ", r"\sin \frac{\pi}{6}", r"\cos\frac{\pi}{3}", r"\sin 30^{\circ}"],
            &[r"\sin 30"],
        ),
        (&["-1", "i^2", r"e^{i\pi}", r"\cos \pi"], &["1", "i"]),
        (&["3+4i", "4i+3", r"3+4\cdot i", "(2+i)^2"], &["3-4i", "4+3i", "7"]),
        (&["2i", r"\sqrt{-4}", r"2\sqrt{-1}"], &["-2i", "2"]),
        (&[r"8(\sqrt2-1)", r"8\sqrt2-8"], &[r"8\sqrt2-1"]),
        (&[r"\sqrt[3]{-8}", "-2"], &["2"]),
    ]);
}

#[test]
fn symbols() {
    check(&[
        (
            &[
                "x^2+2x+1",
                "(x+1)^2",
                "1+2x+x^2",
                r"x^2 + 2 \cdot x + 1",
                r"\left(x+1\right)^{2}",
                "(x+1)(1+x)",
                "x²+2x+1",
            ],
            &["x^2+2x", "(x-1)^2", "y^2+2y+1"],
        ),
        (&["ab", "ba", r"a \cdot b", "a*b", "a b"], &["a+b", "a/b"]),
        (&[r"\frac{x}{2}", "x/2", "0.5x", r"\frac12 x", r"\frac{1}{2}x"], &["2x", r"\frac{2}{x}"]),
        (&[r"\sin^2 x", r"1-\cos^2 x", r"(\sin x)^2", r"\sin^2(x)"], &[r"\sin x^2", r"\cos^2 x"]),
        (&[r"\tan x", r"\frac{\sin x}{\cos x}", r"\frac{1}{\cot x}"], &[r"\cot x"]),
        (&[r"2 \sin b \cos a", r"\sin(a+b)-\sin(a-b)"], &[r"2\sin a\cos b"]),
        (&["|x|", r"\sqrt{x^2}", r"\lvert x\rvert"], &["x", "-x"]),
        (&["a_1", "a_{1}"], &["a_2", "a", "a1"]),
        (&["|x-10|", "|10-x|", r"\sqrt{(x-10)^2}"], &["10-x", "x-10", "|x+10|"]),
        (&[r"\max(x,100)", r"\frac{x+100+|x-100|}{2}"], &["100", "x"]),
        (&[r"\alpha", "{\\alpha}"], &["a", r"\beta"]),
        (&["3R^2", "3r^2"], &["3r^3"]),
        (&[r"\pi(R^2-r^2)", r"\pi R^2-\pi r^2"], &["0"]),
        (&["2^n", r"2 \cdot 2^{n-1}", r"\frac{2^{n+1}}{2}", r"4^{n/2}"], &["2n", "n^2"]),
        (&["x^{2/3}", r"\sqrt[3]{x^2}", r"\sqrt[3]{x}^2"], &["x^{3/2}"]),
        (&[r"\frac{11+9a}{20}", r"\frac{11}{20}+\frac{9a}{20}", "0.55+0.45a"], &[r"\frac{11+9a}{10}"]),
        (&["p-q", "-q+p", "p - q"], &["q-p"]),
        (&[r"\binom{n+1}{2}", r"\frac{n(n+1)}{2}"], &[r"\binom{n}{2}"]),
        (&[r"e^{-x^2}", r"\exp(-x^2)"], &["e^{x^2}"]),
        (&[r"\int_0^1 x^n dx", r"\int_{0}^{1} t^n \, dt"], &["1"]),
    ]);
}

#[test]
fn percent_units_money_bases() {
    check(&[
        (
            &[r"12\%", "12%", "12 %", "12 percent", "12 pct", "12 percentage", r"12\text{ percent}"],
            &["13", "1.2", r"13\%"],
        ),
        (&["12%", "0.12"], &["0.13"]),
        (
            &["90", r"90^\circ", r"90^{\circ}", "90°", "90 degrees", r"90\text{ degrees}", r"90\degree"],
            &["91°"],
        ),
        (
            &[
                "35 cm",
                r"35\text{ cm}",
                r"35\,\text{cm}",
                r"35 \mathrm{~cm}",
                "35 centimeters",
                "350 mm",
                "0.35 m",
            ],
            &["36 cm", "35 m", "35 kg", r"35\mbox{ cm}^2", "35 miles per hour"],
        ),
        // A unit on one side only is forgiven, and what is counted is no unit.
        (&["35", "35 cm"], &["36 cm", "36"]),
        (&["35", r"35\mbox{ cm}^2"], &[]),
        (&["35", r"35\text{ square units}", "35 apples", r"35\ \text{ways}"], &["36 apples"]),
        (&["35", "35 miles per hour"], &[]),
        (&[r"35\mbox{ cm}^2", "35 cm^2", "35 cm²", "35 square centimeters"], &["35 cm^3", "350 mm^2"]),
        (&["35 miles per hour", "35 mph", r"35\text{ mi}/\text{h}"], &["35 km/h", "35 miles"]),
        (&["10 km"], &["10 miles", "10 m", "10 kg"]),
        (&["100 cm", "1 m", "1 meter", r"1\text{ m}", "0.001 km"], &["1 cm", "100 m"]),
        (&["2 hours", "120 minutes", "120 min", "2 h"], &["2 minutes"]),
        (&["5 min", "300 s", "5 minutes"], &["5 s"]),
        (&["3 dollars", "300 cents"], &["3 cents", "3 euros"]),
        // Words that change a number are no units.
        (&["24", "2 dozen", r"2\text{ dozen}"], &["2", "2 tenths"]),
        (&["0.7", "7 tenths", r"7\text{ tenths}"], &["7", "70 tenths"]),
        (&["2000000000", "2 bn", "2 billion", "2000 million"], &["2", "2 million"]),
        (&["2000000 m", "2 million meters", "2000 km"], &["2 million km"]),
        (&["5", "5 fifth graders"], &["1"]),
        (&["2/3", r"2\text{ thirds}", "2 thirds"], &["2"]),
        (&["3/2", r"3\text{ halves}", "3 halves"], &["3"]),
        (&["1/2", r"1\text{ half}"], &["1", r"5\text{ and a half}"]),
        (&["0.25", "5 twentieths", "3 twelfths", "1 fourth"], &["5", "3"]),
        (&["18.90", r"\$18.90", "$18.90", r"\$18.9", "18.9 dollars", r"18.90\text{ dollars}"], &["18.95"]),
        (&["18.90", "€18.90", "18.90 €", "18.90 euros"], &["18.95"]),
        (&[r"\$18.90", "18.90 dollars"], &["€18.90", "18.90 cents"]),
        (&["-100 cm", "-1 m", r"-1\text{ m}"], &["-1 km", "1 m"]),
        (&[r"-10\text{ km}"], &[r"-10\text{ miles}"]),
        (&["10 km", r"x = 10\text{ km}"], &[r"x = 10\text{ miles}"]),
        (&[r"x \le 10\text{ km}", r"x \le 10000\text{ m}"], &[r"x \le 10\text{ miles}"]),
        (&["1,2 km", r"(1,2)\text{ km}", "1 km, 2 km", "1000 m, 2000 m"], &[]),
        (&["1, 2", "1, 2 km"], &["1, 3 km"]),
        (&["1,2 km"], &[r"(1,2)\text{ miles}", "1, 2 miles"]),
        (&["5 cents", r"5\text{ cents}"], &["$5", r"\$5"]),
        (&[r"\$5", "$5", "500 cents"], &["5 cents", "5 euros", "5 km", "€5", r"5\%"]),
        (&[r"\$5 million", "5 million dollars"], &["5 million euros"]),
        (&["2.5", r"\$2\frac12", "-5 + 7.5"], &[]),
        (&[r"90^\circ", "90 degrees"], &["90 m", "90 radians"]),
        (&[r"3\text{ degrees Celsius}", r"3^\circ\text{C}"], &[r"3\text{ degrees Fahrenheit}"]),
        (&["1 cup", r"1\text{ cup}"], &["1 pint", "1 pt", "1 qt"]),
        (&["10 yds", "30 ft"], &["10 ft"]),
        (&["10 kgs"], &["10 lbs"]),
        (&[r"1\text{ kg}"], &[r"1\text{ t}"]),
        (&["52_8", "52_{8}", r"52_{\text{eight}}", "42_{10}"], &["53_8", "52_9"]),
        (&["5", "5th", r"5^{\text{th}}"], &["6th"]),
    ]);
}

#[test]
fn tuples_intervals_sets() {
    check(&[
        (
            &["(1,2)", r"\left(1, 2\right)", "(1;2)", r"(\frac22, 2)", r"\langle 1,2\rangle"],
            &["(2,1)", "[1,2]", "(1,2,3)", "(1,2]", "1"],
        ),
        (&["(12,102)", "(12, 102)"], &["(12102)", "12102"]),
        (
            &[
                "[0,1)",
                r"\left[0,1\right)",
                "[0, 1[",
                r"0 \le x < 1",
                r"x \in [0,1)",
                r"\{x \mid 0 \le x < 1\}",
                r"1 > x \ge 0",
            ],
            &["(0,1)", "[0,1]", "[0,2)", r"0<x<1"],
        ),
        (
            &[r"(2,\infty)", r"(2,+\infty)", "x>2", "2<x", r"x \in (2, \infty)", r"-x<-2", "3x>6", "(2,∞)"],
            &["x<2", r"x\ge2", r"[2,\infty)", r"(-\infty,2)"],
        ),
        (
            &[
                r"(-\infty,-2]\cup[2,\infty)",
                r"[2,\infty) \cup (-\infty,-2]",
                r"x\le-2 \text{ or } x\ge2",
                r"|x| \ge 2",
                r"x^2\ge4",
            ],
            &[r"(-\infty,-2)\cup(2,\infty)", "[-2,2]", r"x \ge 2"],
        ),
        (&[r"(0,9)\cup(9,36)", r"(0,36)\setminus\{9\}"], &["(0,36)"]),
        (
            &[
                r"(-\infty,2]\cup[5,\infty)",
                r"\{x : x \le 2 \text{ or } x \ge 5\}",
                r"\{x \in \mathbb{R} \mid x \le 2 \text{ or } x \ge 5\}",
            ],
            &[r"\{x : x < 2 \text{ or } x \ge 5\}", r"\{x : x \le 2 \text{ and } x \ge 5\}"],
        ),
        (&["x>5", r"(5,\infty)", r"\{x\in\mathbb{R}: x>5\}"], &[r"x\ge5"]),
        (&[r"\mathbb{R} - \{0\}", r"\mathbb{R}\setminus\{0\}", r"x\ne0"], &[r"\mathbb{R}"]),
        (&[r"\mathbb{R}", r"(-\infty,\infty)", "ℝ", r"\mathbb R"], &[r"(0,\infty)"]),
        (
            &[r"x \ne 1", r"x\neq1", r"\mathbb{R}\setminus\{1\}", r"(-\infty,1)\cup(1,\infty)", "x != 1"],
            &[r"x\ne2", r"\mathbb{R}"],
        ),
        (
            &[
                r"\{1,2,3\}",
                "1,2,3",
                "3, 2, 1",
                "1, 2 and 3",
                r"1\text{ or }2\text{ or }3",
                r"\left\{3,1,2\right\}",
                "1; 2; 3",
                r"\{1,2,3,3\}",
            ],
            &["1,2", "1,2,3,4", "(1,3,2)"],
        ),
        (&[r"\emptyset", r"\{\}", r"\varnothing", "∅"], &["0", r"\{0\}"]),
        (
            &[
                r"1\pm\sqrt2",
                r"1+\sqrt2, 1-\sqrt2",
                r"\{1-\sqrt2,1+\sqrt2\}",
                r"1\mp\sqrt2",
                r"x=1\pm\sqrt2",
                "1±√2",
            ],
            &[r"1+\sqrt2", r"-1\pm\sqrt2", r"\pm1+\sqrt2"],
        ),
        (
            &["(1,2),(3,4)", "(3,4), (1,2)", r"(1,2)\text{ and }(3,4)", r"\{(1,2),(3,4)\}"],
            &["(2,1),(3,4)", "(1,2)"],
        ),
        (&["100,200,300", "100, 200, 300"], &["100, 200, 301"]),
        (&["2, 2, 3", "3, 2, 2", "2, 3"], &["2, 4"]),
        (&["2, 2, 3"], &["2, 3, 3"]),
        (&["(20,30)", "(x-20)(x-30)<0", "x^2-50x+600<0"], &["(x-40)(x-50)<0", "(x-20)(x-30)(x-40)(x-50)<0"]),
        (&["x^3<8", "x<2", r"(-\infty,2)"], &["x^5<8", "x^3<8.1", "x^2<4"]),
        (&["x^2-3x+2<0", "(1,2)", "1<x<2"], &[r"x^2-3x+2\le0", "x^2-3x+2>0"]),
        (&["x^2-2x-1<0"], &[r"x^2-2x-1\le0", r"[1-\sqrt2, 1+\sqrt2]"]),
        (&["x^2>x", r"x<0\text{ or }x>1"], &["x<0", "x>1"]),
        (&["1,22", "1.22"], &["1.23"]),
        (&["3:5", "3/5", r"\frac35", r"3\text{ to }5", r"3\text{ : }5"], &["5:3"]),
        (&["1:2:3", "2 : 4 : 6", r"1\text{ to }2\text{ to }3"], &["3:2:1", "1:2", "1:6", "1/6", "1,2,3"]),
        (&["7:30", r"7:30\text{ PM}"], &["7:31"]),
        (&[r"7:30\text{ PM}", "7:30 PM", r"\text{7:30 p.m.}"], &["7:30 AM", r"\text{7:30 AM}"]),
    ]);
}

#[test]
fn equations() {
    check(&[
        (&["x=5", "5", "x = 5", "x=2+3=5", r"x\approx5"], &["x=6", "y=6"]),
        (&["y=2x+3", "2x-y+3=0", "y-2x=3", "2y=4x+6", "3+2x=y"], &["y=2x-3", "y=3x+2"]),
        (&["y=2x+3", "2x+3"], &["2x-3", "x=2x+3"]),
        (&["f(x)=x+1", "x+1", "f(x) = 1+x"], &["f(x)=x-1"]),
        (&["x^2+y^2=4", r"\frac{x^2}{4}+\frac{y^2}{4}=1"], &["x^2-y^2=4", "x^2+y^2=2"]),
        (&["x=1,y=2", "y=2,x=1", r"x=1\text{ and }y=2"], &["x=2,y=1"]),
        (&["x=1,y=2", "1,2"], &["1,3"]),
        (
            &["x=1,y=2", r"\begin{cases}x=1\\y=2\end{cases}", r"\begin{cases} x = 1, \\ y = 2 \end{cases}"],
            &["1"],
        ),
        (&["(p,q)=(3,2)", "(3,2)"], &["(2,3)"]),
        (&["|AB|=7", "7"], &["8"]),
        (&[r"\frac{AB}{CD}=7", "7"], &["8"]),
        (&[r"\angle ABC = 7", "7"], &["8"]),
        (&[r"\frac{\sqrt{21}}{5}", r"\frac{\sqrt{21}}{5}\approx 0.917"], &["0.917"]),
        (&["2x+3y=6"], &["6", "2x+3y"]),
        (&["x<1", "-x>-1"], &["x>-1", "x>1"]),
    ]);
    assert!(!Answer::parse("x=5").equals(&Answer::parse("y=5")));
}

#[test]
fn names_labels_and_dress() {
    check(&[
        (
            &[
                "204",
                r"\text{Total: }204",
                r"\text{The answer is }204",
                r"\color{red}{204}",
                r"\textcolor{blue}{204}",
                r"\large 204",
                r"204\ \blacksquare",
                r"\therefore 204",
                "２０４",
            ],
            &["m+2n=204", r"\text{The answer is not }204", r"\phantom{204}", "20"],
        ),
        (&["204", "m+n=204"], &["m+n=203"]),
        (&["204", "p + q = 13 + 191 = 204"], &["203"]),
        (&["204", r"\max = 204"], &[r"\max = 203"]),
        (&["204", r"\text{gcd} = 204"], &["203"]),
        (&["-7", "－７"], &["7"]),
        (
            &[r"12", r"\textbf{(B)}\ 12", r"\text{(B) }12", r"(B)\ 12", r"\text{B. 12}"],
            &[r"\textbf{(B)}\ 13", "C", "(A)(B)"],
        ),
        (&["f(n)=n+1", "f(x)=x+1", "f(k) = 1 + k"], &["f(n)=n-1", "f(m)=n+1", "g(n)=n+1"]),
        (&["3-4i", r"3-4\mathrm{i}"], &["3+4i"]),
        (&[r"\theta", "θ"], &[r"\alpha"]),
        (&["10^{-3}", "10⁻³", "0.001", "1e-3"], &["10³"]),
        (&["x^{12}", "x¹²"], &["x^2", "2x"]),
        (&["300000000", "3e8", r"3\times10^8"], &["24e"]),
    ]);
}

#[test]
fn what_stands_after_a_value() {
    check(&[
        (
            &["50", r"50\text{ different ways}", r"50\text{ ways}"],
            &[
                r"50\text{ or 60}",
                r"50\text{ (or 60)}",
                r"50\text{ or more}",
                r"50\text{ is wrong}",
                r"50\text{ is not the answer}",
                r"50\text{ isn't it}",
                r"50\text{ and a half}",
                r"50\text{ squared}",
                r"50\text{ factorial}",
                r"50\ldots",
                r"50\\\\60",
                "50 wrong answer",
                "50 million",
                r"50\text{ thousand}",
            ],
        ),
        (&[r"50\text{ m s}^{-1}", r"50 \mathrm{~m} / \mathrm{s}"], &[r"50 \mathrm{~km} / \mathrm{h}"]),
        (
            &[r"50\ \mathrm{kg}\cdot\mathrm{m}/\mathrm{s}^2", r"50\text{ N}"],
            &[r"50\text{ kg}", r"50^\circ \mathrm{C}"],
        ),
        (&["50", r"50\ \mathrm{kg}\cdot\mathrm{m}/\mathrm{s}^2"], &[]),
        (&["50", r"50^\circ \mathrm{C}"], &[]),
        (&[r"50^\circ \mathrm{C}"], &[r"50^\circ\mathrm{F}"]),
        (&["5000000", r"\$5\text{ million}", "5 million", r"5\text{ million dollars}"], &["5", "500000"]),
        (&[r"3\pmod 7", r"x\equiv3\pmod{7}", "3"], &[r"4\pmod7"]),
        (&[r"3\pmod 7", r"3 \pmod{7}"], &[r"3\pmod 8"]),
    ]);
}

#[test]
fn functions_of_integers() {
    check(&[
        (&["n!", "n(n-1)!", r"\frac{(n+1)!}{n+1}"], &["(n-1)!", "n!!", "n^n", "n", "2n!"]),
        (
            &[r"\binom{n}{k}", r"\frac{n!}{k!(n-k)!}", r"\binom{n}{n-k}"],
            &[r"\binom{k}{n}", r"\binom{n}{k+1}"],
        ),
        (
            &[
                r"\frac{1}{n+1}\binom{2n}{n}",
                r"\frac{\binom{2n}{n}}{n+1}",
                r"\frac{(2n)!}{n!(n+1)!}",
                r"\binom{2n}{n}-\binom{2n}{n+1}",
            ],
            &[r"\binom{2n}{n}", r"\frac{1}{n}\binom{2n}{n}"],
        ),
        (
            &[r"\sum_{i=1}^{n} i^2", r"\sum_{k=1}^n k^2", r"\frac{n(n+1)(2n+1)}{6}"],
            &[r"\frac{n(n+1)}{2}", r"\sum_{k=1}^n k^3"],
        ),
        (&["2^n", r"\sum_{k=0}^n\binom{n}{k}"], &["2^n-1"]),
    ]);
}

#[test]
fn matrices() {
    check(&[
        (
            &[
                r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
                r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}",
                r"\begin{pmatrix} 1 & 2 \\[2pt] 3 & 4 \end{pmatrix}",
                r"\left[\begin{array}{cc}1&2\\3&4\end{array}\right]",
                r"\left(\begin{matrix}1&2\\3&4\\\end{matrix}\right)",
                r"\frac12\begin{pmatrix}2&4\\6&8\end{pmatrix}",
                r"-\begin{pmatrix}-1&-2\\-3&-4\end{pmatrix}",
                r"\begin{pmatrix}0&1\\2&3\end{pmatrix}+\begin{pmatrix}1&1\\1&1\end{pmatrix}",
            ],
            &[r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", "1"],
        ),
        (
            &[
                r"\begin{pmatrix}1/3\\2\end{pmatrix}",
                r"\begin{pmatrix}\frac13\\2\end{pmatrix}",
                r"\begin{bmatrix}0.333333\\2\end{bmatrix}",
            ],
            &[r"\begin{pmatrix}1/3&2\end{pmatrix}"],
        ),
    ]);
}

#[test]
fn words() {
    check(&[
        (
            &[
                r"\text{Evelyn}",
                "Evelyn",
                "evelyn",
                r"\textbf{Evelyn}",
                r"\mathrm{Evelyn}",
                r"\text{ Evelyn }",
            ],
            &[r"\text{Carla}", "1"],
        ),
        (&["Amy", r"\text{Amy}"], &["May", r"\text{May}"]),
        (&[r"\text{(C)}", "(C)", "C", r"\text{C}", r"\textbf{(C)}"], &["B", r"\text{(B)}"]),
        (&[r"\text{(C)}", r"\textbf{(C)}\ 5"], &[r"\textbf{(D)}\ 5"]),
        (&["(C)", "C. north"], &["D. north"]),
        (
            &[
                r"\text{no solution}",
                "No solution",
                r"\emptyset",
                r"\{\}",
                r"\text{There are no real solutions}",
                r"\text{No solution exists}",
            ],
            &[r"\text{one solution}", "0", r"\{0\}"],
        ),
        (&[r"\mathbb{R}", r"(-\infty,\infty)", r"\text{all real numbers}"], &[r"\text{all integers}"]),
        (&[r"\text{does not exist}", r"\text{DNE}"], &["0"]),
        (&["B", "(B)", r"\text{Option B}"], &["(B),(C)", r"\text{(B) or (C)}", r"\text{B. or C.}", "(A)(B)"]),
        (&[r"\text{Room 1.5}", r"\text{room 1.5}"], &[r"\text{Room 15}"]),
        (&[r"\text{I and II}", r"\text{II, I}"], &[r"\text{III}", r"\text{I}"]),
        (&[r"\text{1, 12}"], &[r"\text{11, 2}", "112"]),
        (&[r"\text{July 4}", r"\text{July4}", "july 4"], &[r"\text{July 14}", r"\text{June 4}"]),
        (&["x^2"], &[r"\text{x2}"]),
        (&["a+b"], &[r"\text{ab}"]),
        (&[r"\text{Alice, Bob}", r"\text{Bob and Alice}"], &[r"\text{Alice, Carol}"]),
        (&[r"\text{even}", "even", "Even"], &[r"\text{odd}", r"\text{even function}"]),
        (&[r"\infty", "infinity", "∞", r"+\infty"], &[r"-\infty", "0"]),
        // What is not mathematics is the same to the letter only.
        (&[r"\frac{1}{2", r"\frac{1}{ 2"], &[r"\frac{12}", r"\frac{1}{3"]),
    ]);
}

#[test]
fn answers_in_responses() {
    let table: &[(&str, &str, bool)] = &[
        ("42", r"\boxed{42}", true),
        ("42", r"\boxed{41} ... wait, actually \boxed{42}", true),
        ("41", r"\boxed{41} ... wait, actually \boxed{42}", false),
        ("42", r"\boxed{42} and then \boxed{43", true),
        ("42", r"\boxed 42", true),
        ("42", r"\boxed{42}. This answer is right, because 5 > 3.", true),
        ("42", "\\boxed{42}\n\nThe answer is verified.", true),
        ("43", r"\boxed{42} is not it. The final answer is $43$.", true),
        ("42", r"\fbox{42}", true),
        ("42", "The answer is 42.", true),
        ("42", "The final answer is $42$. I hope it is correct.", true),
        ("42", "**Answer:** 42", true),
        ("42", "Answer: **42**", true),
        ("42", "# Answer\n\n42", true),
        ("42", "So there are 42 of them.", true),
        ("42", "So there are 42 of them, not 43.", false),
        ("42", "It is $x = 42$.", true),
        ("42", r"\[ x = 6 \cdot 7 = 42 \]", true),
        ("42", r"\[ \begin{aligned} x &= \boxed{42} \end{aligned} \]", true),
        ("2/3", "P(A) = 2/3. Therefore, the probability is 2/3.", true),
        ("-5", "the temperature is -5 degrees", true),
        ("5", "the 3-5 rule", true),
        ("1234.5", "It costs $1,234.50.", true),
        ("20%", r"that is $\boxed{20}$ percent", true),
        ("28", r"a loss of $28$ %", true),
        ("1, 2", r"$\boxed{1}$ and $\boxed{2}$", true),
        ("2", r"$\boxed{1}$ and $\boxed{2}$", true),
        ("1, 2", r"\boxed{2, 1}", true),
        (r"\sqrt{2}", r"so the side is $\sqrt{2}$", true),
        (r"\frac{1}{2}", r"Answer: $\frac{1}{2}$, as promised in section 3.", true),
        ("1200", "#### 1,200", true),
        ("9", r"so it is $\boxed{9 \pmod{11}}$", true),
        ("12", r"<think>maybe \boxed{11}</think> The answer is \boxed{12}.", true),
        ("3, 5, 7", r"They are $\boxed{3}$, $\boxed{5}$, and $\boxed{7}$.", true),
        (r"2\sqrt{3}", "The answer is 2√3.", true),
        (r"2\sqrt{3}", "Answer: 2*sqrt(3)", true),
        (r"\frac{\pi}{4}", "**Final Answer:** $\\frac{\\pi}{4}$ radians", true),
        ("Yes", "Yes", true),
        (r"\text{east}", "The answer is east.", true),
        ("3", "Final Answer: Jane started 3 hours ago.", true),
        ("42", "answer: 42 apples and 3 pears", true),
        ("(3, 4)", r"Thus $(x, y) = \boxed{(3, 4)}$.", true),
        ("2.5", "It takes 2 1/2 hours.", true),
        (r"2\sqrt{3}", "the length is 2√3.", true),
        ("3", "the length is 2√3.", false),
        ("2", "the area is 2π", false),
        ("1024", "the value is 2^10", true),
        ("10", "the value is 2^10", false),
        ("30", "They meet at 10:30.", false),
        ("50", "The area is 50m².", true),
        ("50", "The area is 50 m^2.", true),
        ("50", "**50**.", true),
        ("1, 2, 6", "The divisors are 1, 2, and 6.", true),
        ("(1, 2)", r"I guessed \boxed{(2, 1)} but it is \boxed{(1, 2)}.", true),
        ("8", r"So, \[ 2^3 = 8 \]", true),
        ("5", "<think> the answer is 5 so", false),
        ("42", "答案：42", true),
        // Alternatives are not an answer.
        ("7", "Answer: either 6 or 7", false),
        ("7", "The answer could be 6 or 7", false),
        ("8", "The answer is between 6 and 8.", false),
        ("4", "The answers are 3 and 4.", false),
        ("3, 4", "The answers are 3 and 4.", true),
        ("(5, 6)", r"$(x, y) = (\boxed{5}, \boxed{6})$", true),
        ("x^2", "", false),
        ("5", "no idea", false),
        ("5", r"\boxed{}", false),
        ("", "", false),
    ];
    let faults: Vec<_> = table
        .iter()
        .filter(|(gold, response, expected)| math::grade(gold, *response).correct != *expected)
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn units_are_found_in_prose() {
    for (gold, response, correct) in [
        ("10 km", "The answer is 10 miles.", false),
        ("10 km", "So it is 10 kilometers.", true),
        ("10 km", "So it is 10.", true),
        ("10", "So it is 10 miles.", true),
        ("10 km", "In all there are 10 in a row.", true),
        ("1 m", "It is 100 cm long.", true),
        ("24", "He has 2 dozen.", true),
    ] {
        assert_eq!(math::grade(gold, response).correct, correct, "{gold} {response}");
    }
    assert_eq!(math::grade("", "She pays 18 dollars in all.").answer.as_deref(), Some("18 dollars"));
}

#[test]
fn votes_are_counted_by_meaning() {
    let answers = ["1/2", "0.5", r"\frac12", "2", r"\sqrt4", r"\text{two}", "x=2", r"50\%"];
    let responses = answers.map(|answer| format!(r"so \boxed{{{answer}}}"));
    let grades = math::grade_all("2", &responses);
    let votes: Vec<(&str, bool)> =
        grades.iter().map(|grade| (grade.answer.as_deref().unwrap(), grade.correct)).collect();
    let (half, two, word) = (("1/2", false), ("2", true), (r"\text{two}", false));
    assert_eq!(votes, [half, half, half, two, two, word, two, half]);
}

#[test]
fn units_around_the_answer() {
    for (gold, response, right) in [
        ("10 km", r"It is $\boxed{10}$ miles.", false),
        ("10 km", r"It is \(\boxed{10}\) km.", true),
        ("10 km", r"It is $\boxed{10000}\text{ m}$", true),
        ("10 km", r"It is $\boxed{10}$, as 5 miles are too few.", true),
        ("5 cents", "It costs $5.", false),
        ("5 cents", r"The answer is \$5.", false),
        ("5 cents", "The answer is $5$.", true),
        ("5 cents", "The answer is $0.05.", true),
        (r"\$5", r"It is $\boxed{5}$ dollars.", true),
    ] {
        assert_eq!(math::grade(gold, response).correct, right, "{gold} and {response}");
    }
}

/// What a unit on one side only forgives does not put right and wrong answers together.
#[test]
fn no_vote_is_right_and_wrong() {
    let answers = ["10", r"10\text{ miles}", r"10\text{ miles}", r"10\text{ km}", "10"];
    let grades = math::grade_all("10 km", &answers.map(|answer| format!(r"\boxed{{{answer}}}")));
    let votes: Vec<(&str, bool)> =
        grades.iter().map(|grade| (grade.answer.as_deref().unwrap(), grade.correct)).collect();
    let (right, wrong) = (("10", true), ("10 miles", false));
    assert_eq!(votes, [right, wrong, wrong, right, right]);
}

#[test]
fn errors_have_places() {
    let error = Answer::parse(r"\frac{1}{2").error().cloned().unwrap();
    assert_eq!(error.to_string(), "the answer ends where a closing brace should follow");
    let error = Answer::parse("1 + ) 2").error().cloned().unwrap();
    assert_eq!(error.to_string(), "unexpected Close(Round) at bytes 4..5: expected a value");
}
