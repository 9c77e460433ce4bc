//! Calls into code that panics where it should return an error, without a word on the user's terminal.
//!
//! `catch_unwind` stops a panic, but only after the panic hook has printed it. The hook belongs to the whole
//! process, so ours is put in front of the one that is there, once, and stays out of the way: it swallows what a
//! thread panics about while that thread is inside [`quietly`] and passes everything else on. A program that sets
//! its own hook afterwards replaces ours and loses nothing but the silence.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The result, or `None` if the call panicked. What it has changed by then must not matter to the caller.
pub(super) fn quietly<T>(call: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    // A thread that already unwinds may not touch the hook.
    if !std::thread::panicking() {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                if !QUIET.get() {
                    before(panic);
                }
            }));
        });
    }
    let outer = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    QUIET.set(outer);
    result.ok()
}
