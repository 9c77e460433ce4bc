//! Many samples at once: a stream of them in, their verdicts out, in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::{CodeError, CodeGrader, Verdict};

/// How far the workers may run ahead of the caller, in samples for each of them. One slow program must not stop
/// the others; a caller that takes no verdicts must.
const AHEAD: usize = 8;

type Samples = Box<dyn Iterator<Item = (String, String)> + Send>;

/// The verdicts on a stream of samples, in their order. Dropped, it stops the workers and kills their children;
/// it waits for them, and so for the samples' iterator if that is in the middle of producing one.
#[derive(Debug)]
pub struct Verdicts {
    desk: Arc<Desk>,
    next: usize,
    workers: Vec<JoinHandle<()>>,
}

/// Where workers take samples and leave verdicts.
struct Desk {
    samples: Mutex<(usize, Samples)>,
    results: Mutex<Results>,
    /// A verdict was left, taken, or there will be no more.
    changed: Condvar,
    cancel: AtomicBool,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("results", &self.results).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Results {
    done: BTreeMap<usize, Result<Verdict, CodeError>>,
    taken: usize,
    /// Workers still at work.
    at_work: usize,
}

impl CodeGrader {
    /// Grades samples, each a problem's id and a response, and yields the verdicts in order as they come.
    pub fn grade_all<S>(self: &Arc<Self>, samples: S) -> Verdicts
    where
        S: IntoIterator<Item = (String, String)>,
        S::IntoIter: Send + 'static,
    {
        let results = Results { done: BTreeMap::new(), taken: 0, at_work: self.workers };
        let desk = Arc::new(Desk {
            samples: Mutex::new((0, Box::new(samples.into_iter()))),
            results: Mutex::new(results),
            changed: Condvar::new(),
            cancel: AtomicBool::new(false),
        });
        let worker = |_| {
            let (grader, desk) = (Arc::clone(self), Arc::clone(&desk));
            thread::spawn(move || {
                // Counted out even if it panics: the caller must not wait for it.
                let _leaving = Leaving(&desk);
                grader.work(&desk);
            })
        };
        let workers = (0..self.workers).map(worker).collect();
        Verdicts { desk, next: 0, workers }
    }

    fn work(&self, desk: &Desk) {
        while let Some((number, (id, response))) = desk.sample(AHEAD * self.workers) {
            let result = self.grade_unless(&id, &response, &desk.cancel);
            desk.results().done.insert(number, result);
            desk.changed.notify_all();
        }
    }
}

impl Desk {
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next sample and its number, once it is not too far ahead.
    fn sample(&self, ahead: usize) -> Option<(usize, (String, String))> {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = self.results();
        while samples.0 >= results.taken + ahead && !self.cancelled() {
            results = self.changed.wait(results).unwrap_or_else(PoisonError::into_inner);
        }
        drop(results);
        if self.cancelled() {
            return None;
        }
        let sample = samples.1.next()?;
        samples.0 += 1;
        Some((samples.0 - 1, sample))
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

struct Leaving<'a>(&'a Desk);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.results().at_work -= 1;
        self.0.changed.notify_all();
    }
}

impl Iterator for Verdicts {
    type Item = Result<Verdict, CodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut results = self.desk.results();
        loop {
            if let Some(result) = results.done.remove(&self.next) {
                self.next += 1;
                results.taken = self.next;
                self.desk.changed.notify_all();
                return Some(result);
            }
            if results.at_work == 0 {
                return None;
            }
            results = self.desk.changed.wait(results).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        {
            // Under the lock, so that no worker is between looking at the flag and going to sleep.
            let _results = self.desk.results();
            self.desk.cancel.store(true, Ordering::Relaxed);
        }
        self.desk.changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}
