//! A few threads that work through many short regions together.
//!
//! A decoding step, where all threads compute it together, is some three hundred parallel regions of 2 to 500 µs, so what counts is the time between
//! them, and that a processor taken away by another process costs no more than its share. Whoever waits
//! therefore spins only briefly and then really sleeps: the kernel can then run the thread that is waited for
//! on the processor that became free.
//!
//! # Who does what
//!
//! Every thread has a share of a region's tasks: neighbours, which it does from the first to the last. So it
//! reads on where it just was in memory, does the same part of every region of the same shape, where its cache
//! still has what it needs, and claims its tasks from a cache line that nobody else touches. Whoever is done
//! takes from the ends of the others' shares.
//!
//! # Why a late thread can do no harm
//!
//! The `ticket` of a share holds, in one word, how many tasks it has and how many were handed out; adding one to
//! it claims a task. A claim counts for the region whose number it was added to, however old the look that led to
//! it, and only *after* a successful claim is `work` read. A region ends when `pending`, its tasks not yet
//! reported as finished, is zero, and a claimed task is not reported before its thread is done with the
//! closure. So a successful claim keeps its region open and the closure alive, and a thread that comes late
//! claims either nothing or a task of the region that is open by then. There is no number of the region that
//! could come round again, and nobody waits for a thread that took no task.
//!
//! A claim says that there is a task, not which. The owner of a share takes them from its front and counts them
//! itself: it reports them all together, so they are of one region. The others take them from its back and count
//! them in `stolen`. There are no more claims than tasks, so front and back do not meet.
//!
//! # Memory ordering
//!
//! Publishing stores `ticket` with release and claiming adds with acquire; claims in between are
//! read-modify-writes and do not break the chain, so a claim sees `work`, `pending`, the rest of the share and all
//! that the caller wrote before. Reports subtract from `pending` with release and the caller reads the zero with
//! acquire, so it sees all that the tasks wrote, and the next region cannot begin before. `asleep` and `ticket` are
//! stored by one side and read by the other, in opposite order; being sequentially consistent, at least one side
//! notices the other: the worker the tasks, or the publisher the sleeper. The caller's sleep is a bit of `pending`
//! itself, so the last report cannot miss it.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a worker looks out for the next region before it sleeps: about the time it takes to be woken. On a
/// busy machine, a step took the longer the longer this and the next were (5 to 200 µs were tried).
const WORKER_SPIN: Duration = Duration::from_micros(50);
/// How long the caller looks out for the last tasks of others before it sleeps.
const CALLER_SPIN: Duration = Duration::from_micros(50);
/// Looks between two readings of the clock, well under a microsecond.
const LOOKS: usize = 16;
/// Leaves room in half a `ticket` for every thread to claim in vain, and in `pending` for a bit.
const MAX_TASKS: usize = i32::MAX as usize;
/// The bit of `pending` which says that the caller sleeps.
const CALLER_SLEEPS: usize = 1 << (usize::BITS - 1);

type Work = dyn Fn(usize, usize) + Sync;

/// Threads that do a step's work together.
#[derive(Debug)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Whether a region is open.
    busy: AtomicBool,
}

/// On cache lines of their own: what threads claim from, what they report to, and what rarely changes.
#[derive(Debug)]
struct Shared {
    /// Of every thread.
    shares: Box<[Line<Share>]>,
    /// Where the caller keeps the reference to its closure. Valid only for who holds a claim.
    work: Line<AtomicPtr<&'static Work>>,
    pending: Line<AtomicUsize>,
    /// Whether a worker may be waiting for `published`.
    asleep: Line<AtomicBool>,
    state: Mutex<State>,
    published: Condvar,
    finished: Condvar,
}

/// A thread's part of a region.
#[derive(Debug, Default)]
struct Share {
    /// The number of tasks in the upper half, how many were claimed in the lower.
    ticket: AtomicU64,
    first: AtomicUsize,
    /// How many were claimed by others.
    stolen: AtomicUsize,
}

impl Share {
    /// Whether there seem to be tasks.
    fn is_open(&self) -> bool {
        left(self.ticket.load(SeqCst)).is_some()
    }

    /// Claims one, and says how many there are in all.
    fn claim(&self) -> Option<usize> {
        left(self.ticket.fetch_add(1, Acquire))
    }

    /// Claims one of another thread's.
    fn steal(&self) -> Option<usize> {
        // Only a look, as long as there is nothing: the owner then need not get the line back.
        let tasks = self.is_open().then(|| self.claim())??;
        Some(self.first.load(Relaxed) + tasks - 1 - self.stolen.fetch_add(1, Relaxed))
    }
}

/// What is touched only by who is about to sleep, to wake or to fail.
#[derive(Debug, Default)]
struct State {
    stopping: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// Two lines of 64 bytes, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

thread_local! {
    /// The pool this thread was started by, and its number there.
    static HOME: Cell<(*const Shared, usize)> = const { Cell::new((ptr::null(), 0)) };
}

impl Threads {
    /// `count` threads, of which the caller is one; 0 means one per processor.
    pub fn new(count: usize) -> io::Result<Self> {
        let count = if count == 0 { thread::available_parallelism()?.get() } else { count };
        // Built first, so that the threads already started are stopped should one fail to start.
        let shared = Arc::new(Shared::new(count));
        let mut threads = Self { shared, workers: Vec::new(), busy: AtomicBool::new(false) };
        for worker in 1..count {
            let shared = Arc::clone(&threads.shared);
            let name = format!("worker-{worker}");
            threads.workers.push(thread::Builder::new().name(name).spawn(move || shared.serve(worker))?);
        }
        Ok(threads)
    }

    /// The caller alone, or several callers that know nothing of each other.
    pub fn alone() -> Self {
        Self { shared: Arc::new(Shared::new(1)), workers: Vec::new(), busy: AtomicBool::new(false) }
    }

    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work(worker, task)` once for every task in `0..tasks` and returns when all are done.
    ///
    /// Every thread does its [share](share), in order, and then what others have not begun. `worker` is less than
    /// [`count`](Self::count) and belongs to one thread for the whole of the call, so that it can choose
    /// scratch memory. A call from inside `work`, or while another thread's call is under way, does all its
    /// tasks on its own thread. If tasks panic, one of the panics is passed on; the other tasks may or may not
    /// have been done.
    pub fn run(&self, tasks: usize, work: impl Fn(usize, usize) + Sync) {
        assert!(tasks <= MAX_TASKS, "too many tasks: {tasks}");
        if tasks <= 1 || self.workers.is_empty() || self.busy.swap(true, Acquire) {
            let worker = self.worker();
            return (0..tasks).for_each(|task| work(worker, task));
        }
        let panic = self.shared.run(tasks, &work);
        self.busy.store(false, Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// The same, but that neighbouring tasks are dealt out to different threads: all threads are then at the same
    /// place, and the first tasks are done before the last.
    pub fn deal(&self, tasks: usize, work: impl Fn(usize, usize) + Sync) {
        let threads = self.count();
        self.run(tasks, |worker, at| {
            let (each, more) = (tasks / threads, tasks % threads);
            let (thread, turn) = match at.checked_sub(more * (each + 1)) {
                None => (at / (each + 1), at % (each + 1)),
                Some(at) => (more + at / each, at % each),
            };
            work(worker, turn * threads + thread);
        });
    }

    /// Calls `work(worker, index, chunk)` for every chunk of `len` of the data; the last may be shorter.
    pub fn chunks<T: Send>(&self, data: &mut [T], len: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
        assert_ne!(len, 0, "chunks of nothing");
        let total = data.len();
        // Atomic only because threads may share such a pointer.
        let data = AtomicPtr::new(data.as_mut_ptr());
        self.run(total.div_ceil(len), |worker, index| {
            let start = index * len;
            // SAFETY: `index` is less than the number of chunks, so the range lies within the data, which are
            // borrowed mutably until `run` returns. `run` hands out every index once, and the ranges of two
            // indices have nothing in common, so that this is the only reference; `T` may change threads.
            let chunk = unsafe {
                std::slice::from_raw_parts_mut(data.load(Relaxed).add(start), len.min(total - start))
            };
            work(worker, index, chunk);
        });
    }

    /// The number of the current thread: the caller's, unless it was started by this pool.
    fn worker(&self) -> usize {
        let (pool, worker) = HOME.get();
        if ptr::eq(pool, &*self.shared) { worker } else { 0 }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.published.notify_all();
        for worker in self.workers.drain(..) {
            // Workers catch the panics of their tasks, so there is none to pass on.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn new(threads: usize) -> Self {
        Shared {
            shares: (0..threads).map(|_| Line::default()).collect(),
            work: Line::default(),
            pending: Line::default(),
            asleep: Line::default(),
            state: Mutex::default(),
            published: Condvar::new(),
            finished: Condvar::new(),
        }
    }

    /// Opens a region, takes part and waits for its end. Must not unwind, for workers use `work` until then.
    fn run(&self, tasks: usize, work: &(impl Fn(usize, usize) + Sync)) -> Option<Box<dyn Any + Send>> {
        let erased: &(dyn Fn(usize, usize) + Sync) = work;
        self.work.0.store((&raw const erased).cast_mut().cast(), Relaxed);
        self.pending.0.store(tasks, Relaxed);
        // The caller's own last: the others can begin meanwhile.
        for (thread, Line(of)) in self.shares.iter().enumerate().rev() {
            let own = share(thread, self.shares.len(), tasks);
            of.first.store(own.start, Relaxed);
            of.stolen.store(0, Relaxed);
            of.ticket.store((own.len() as u64) << 32, SeqCst);
        }
        if self.asleep.0.load(SeqCst) {
            self.wake_workers();
        }
        let done = self.take_part(0, |task| work(0, task));
        if self.pending.0.fetch_sub(done, Acquire) != done {
            self.wait_for_others();
        }
        self.state().panic.take()
    }

    /// What a worker does until the pool is dropped.
    fn serve(&self, worker: usize) {
        HOME.set((self, worker));
        while self.wait_for_tasks(worker) {
            let done = self.take_part(worker, |task| {
                // SAFETY: the pointer was stored before the task just claimed was published, and the claim acquired
                // it. It points into the frame of `Shared::run`, which does not return before this task is reported
                // below; neither this reference nor the closure is used after that.
                let work = unsafe { *self.work.0.load(Relaxed) };
                work(worker, task);
            });
            if done != 0 && self.pending.0.fetch_sub(done, Release) == done | CALLER_SLEEPS {
                // The caller set the bit under the lock: once we had the lock, it hears us.
                drop(self.state());
                self.finished.notify_one();
            }
        }
    }

    /// Does one task after another, first of the own share and then of the others', and says how many. They are
    /// reported together: until then the region stays open, so that all of them belong to it.
    fn take_part(&self, worker: usize, work: impl Fn(usize)) -> usize {
        let Line(own) = &self.shares[worker];
        let others =
            || (1..self.shares.len()).map(|ahead| &self.shares[(worker + ahead) % self.shares.len()].0);
        let (mut done, mut of_own) = (0, 0);
        loop {
            let task = if own.claim().is_some() {
                of_own += 1;
                own.first.load(Relaxed) + of_own - 1
            } else if let Some(task) = others().find_map(Share::steal) {
                task
            } else {
                return done;
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(task))) {
                self.keep(panic);
            }
            done += 1;
        }
    }

    /// Waits until there seem to be tasks in the own share; false when the pool is being dropped.
    fn wait_for_tasks(&self, worker: usize) -> bool {
        let open = || self.shares[worker].0.is_open();
        if !spin(WORKER_SPIN, open) {
            let state = self.state();
            if state.stopping {
                return false;
            }
            self.asleep.0.store(true, SeqCst);
            if !open() {
                // If woken too late for this region, we look out for the next one, so there is no loop here.
                drop(self.published.wait(state));
            }
        }
        true
    }

    /// Outside the usual path, for it costs a call to the kernel.
    #[cold]
    fn wake_workers(&self) {
        // Whoever set this did so under the lock, so that it now waits. It sets it again when it sleeps again.
        let state = self.state();
        self.asleep.0.store(false, Relaxed);
        drop(state);
        self.published.notify_all();
    }

    fn wait_for_others(&self) {
        if spin(CALLER_SPIN, || self.pending.0.load(Acquire) == 0) {
            return;
        }
        let mut state = self.state();
        if self.pending.0.fetch_or(CALLER_SLEEPS, Acquire) == 0 {
            return;
        }
        while self.pending.0.load(Acquire) != CALLER_SLEEPS {
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[cold]
    fn keep(&self, panic: Box<dyn Any + Send>) {
        let mut state = self.state();
        match state.panic {
            None => state.panic = Some(panic),
            // Dropping it could panic in turn.
            Some(_) => std::mem::forget(panic),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks of a thread: as many as any other's, or one more.
fn share(thread: usize, threads: usize, tasks: usize) -> Range<usize> {
    let begin = |thread: usize| tasks / threads * thread + thread.min(tasks % threads);
    begin(thread)..begin(thread + 1)
}

/// How many tasks a ticket is for, if not all were claimed.
fn left(ticket: u64) -> Option<usize> {
    let (tasks, claimed) = (ticket >> 32, ticket & u64::from(u32::MAX));
    (claimed < tasks).then_some(tasks as usize)
}

/// Looks until `ready`, for as long as `patience` lasts, without giving up the processor.
fn spin(patience: Duration, ready: impl Fn() -> bool) -> bool {
    let mut end = None;
    loop {
        for _ in 0..LOOKS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        if now >= *end.get_or_insert(now + patience) {
            return false;
        }
    }
}

#[cfg(test)]
mod tests;
