//! Work on a stream: items in, results out, in their order, by several threads.
//!
//! The stream may have no end and may make its reader wait, as a pipe does. Results come as soon as they and all before
//! them are there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How far the workers may run ahead of the caller, in items for each of them. One slow item must not stop the others; a
/// caller that takes no results must.
const AHEAD: usize = 8;

type Items<T> = Box<dyn Iterator<Item = T> + Send>;

/// The results of a stream of items, in their order. Dropped, it asks the workers to stop and waits for them, and so for
/// the items' iterator if that is in the middle of producing one.
#[derive(Debug)]
pub struct Ordered<T, R> {
    desk: Arc<Desk<T, R>>,
    next: usize,
    workers: Vec<JoinHandle<()>>,
}

/// Where workers take items and leave results.
struct Desk<T, R> {
    items: Mutex<(usize, Items<T>)>,
    results: Mutex<Results<R>>,
    /// A result was left, taken, or there will be no more.
    changed: Condvar,
    cancel: AtomicBool,
}

impl<T, R> std::fmt::Debug for Desk<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Results<R> {
    done: BTreeMap<usize, R>,
    taken: usize,
    /// Workers that have not left.
    workers: usize,
    /// Workers that have an item.
    busy: usize,
}

/// Does `work` on every item, on so many threads. It is told whether to stop early: what it gives then is not asked for.
pub fn ordered<T, R, W>(
    workers: usize,
    items: impl Iterator<Item = T> + Send + 'static,
    work: W,
) -> Ordered<T, R>
where
    T: Send + 'static,
    R: Send + 'static,
    W: Fn(T, &AtomicBool) -> R + Send + Sync + 'static,
{
    let desk = Arc::new(Desk {
        items: Mutex::new((0, Box::new(items) as Items<T>)),
        results: Mutex::new(Results { done: BTreeMap::new(), taken: 0, workers, busy: 0 }),
        changed: Condvar::new(),
        cancel: AtomicBool::new(false),
    });
    let work = Arc::new(work);
    let worker = |_| {
        let (desk, work) = (Arc::clone(&desk), Arc::clone(&work));
        thread::spawn(move || {
            // Counted out even if it panics: the caller must not wait for it.
            let _leaving = Leaving(&desk);
            while let Some((number, item)) = desk.item(AHEAD * workers) {
                desk.results().busy += 1;
                let result = work(item, &desk.cancel);
                let mut results = desk.results();
                results.busy -= 1;
                results.done.insert(number, result);
                desk.changed.notify_all();
            }
        })
    };
    let workers = (0..workers).map(worker).collect();
    Ordered { desk, next: 0, workers }
}

impl<T, R> Desk<T, R> {
    fn results(&self) -> MutexGuard<'_, Results<R>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item and its number, once it is not too far ahead.
    fn item(&self, ahead: usize) -> Option<(usize, T)> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = self.results();
        while items.0 >= results.taken + ahead && !self.cancelled() {
            results = self.changed.wait(results).unwrap_or_else(PoisonError::into_inner);
        }
        drop(results);
        if self.cancelled() {
            return None;
        }
        let item = items.1.next()?;
        items.0 += 1;
        Some((items.0 - 1, item))
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

struct Leaving<'a, T, R>(&'a Desk<T, R>);

impl<T, R> Drop for Leaving<'_, T, R> {
    fn drop(&mut self) {
        self.0.results().workers -= 1;
        self.0.changed.notify_all();
    }
}

impl<T, R> Ordered<T, R> {
    /// The next result, if it comes in time.
    pub fn next_within(&mut self, patience: Duration) -> Poll<Option<R>> {
        let deadline = Instant::now() + patience;
        let mut results = self.desk.results();
        loop {
            if let Some(result) = results.done.remove(&self.next) {
                self.next += 1;
                results.taken = self.next;
                self.desk.changed.notify_all();
                return Poll::Ready(Some(result));
            }
            if results.workers == 0 {
                return Poll::Ready(None);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Poll::Pending;
            }
            results = self.desk.changed.wait_timeout(results, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks the workers to stop and waits for those that have an item, but not for long and not for those that wait for
    /// one: a stream that gives nothing more would never let them go.
    pub fn abandon(mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut results = self.cancel();
        while results.busy > 0 && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            results = self.desk.changed.wait_timeout(results, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(results);
        // Threads without a handle end with the process.
        self.workers.clear();
    }

    fn cancel(&self) -> MutexGuard<'_, Results<R>> {
        // Under the lock, so that no worker is between looking at the flag and going to sleep.
        let results = self.desk.results();
        self.desk.cancel.store(true, Ordering::Relaxed);
        self.desk.changed.notify_all();
        results
    }
}

impl<T, R> Iterator for Ordered<T, R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        loop {
            if let Poll::Ready(result) = self.next_within(Duration::from_secs(3600)) {
                return result;
            }
        }
    }
}

impl<T, R> Drop for Ordered<T, R> {
    fn drop(&mut self) {
        drop(self.cancel());
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_items() {
        let slow_at_first = |item: u64, _: &AtomicBool| {
            thread::sleep(Duration::from_millis(if item.is_multiple_of(7) { 3 } else { 0 }));
            item * item
        };
        let results: Vec<u64> = ordered(4, 0..200, slow_at_first).collect();
        assert_eq!(results, (0..200).map(|item| item * item).collect::<Vec<u64>>());
    }

    #[test]
    fn a_result_does_not_wait_for_items_to_come() {
        let (send, receive) = std::sync::mpsc::channel();
        let mut results = ordered(2, receive.into_iter(), |item: u32, _: &AtomicBool| item + 1);
        for item in 0..5 {
            send.send(item).unwrap();
            assert_eq!(results.next(), Some(item + 1));
        }
        drop(send);
        assert_eq!(results.next(), None);
    }

    #[test]
    fn nobody_waits_for_a_stream_that_gives_nothing_more() {
        let (send, receive) = std::sync::mpsc::channel();
        let mut results = ordered(2, receive.into_iter(), |_: u32, cancel: &AtomicBool| {
            while !cancel.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        send.send(1).unwrap();
        assert_eq!(results.next_within(Duration::from_millis(20)), Poll::Pending);
        results.abandon(Duration::from_secs(60));
        // It is still there: the stream has not ended.
        send.send(2).unwrap();
    }

    #[test]
    fn a_caller_that_takes_nothing_stops_the_workers() {
        let seen = Arc::new(Mutex::new(0));
        let count = Arc::clone(&seen);
        let results = ordered(2, 0.., move |_: u32, _: &AtomicBool| *count.lock().unwrap() += 1);
        thread::sleep(Duration::from_millis(50));
        assert!(*seen.lock().unwrap() <= 2 * AHEAD);
        drop(results);
    }
}
