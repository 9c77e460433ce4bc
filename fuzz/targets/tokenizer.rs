//! Any bytes as a tokenizer.json: it opens and can be read, or there is an error of one line; no panic and no huge allocation.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = eager_native::load::fuzzing::tokenizer(data) {
        assert!(!error.to_string().is_empty());
    }
});
