//! Any gold answer against any response: no panic, no overflow of the stack, and an equality that is one.
//!
//! The input is two texts with a zero byte between them. Slow inputs are found by libFuzzer's own `-timeout`.

#![no_main]

use eager_grade::{choice, math};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut halves = data.splitn(2, |byte| *byte == 0);
    let gold = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let response = String::from_utf8_lossy(halves.next().unwrap_or_default());
    math::grade(&gold, &response);
    choice::find(&response, 4, &[gold.to_string()]);

    let (a, b) = (math::Answer::parse(&gold), math::Answer::parse(&response));
    assert!(a.equals(&a.clone()), "{gold:?} is not itself");
    assert_eq!(a.equals(&b), b.equals(&a), "{gold:?} and {response:?}");
    if a.spelling() == b.spelling() {
        assert!(a.equals(&b), "{gold:?} and {response:?} are spelled alike");
    }
});
