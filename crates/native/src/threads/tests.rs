use super::*;

/// A few numbers that look random, the same in every run.
fn numbers(below: usize) -> impl Iterator<Item = usize> {
    let step = |x: &u64| Some(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    std::iter::successors(Some(1), step).map(move |x| (x >> 33) as usize % below)
}

/// Waits for something that another thread does.
fn until(what: &str, ready: impl Fn() -> bool) {
    assert!(
        spin(Duration::from_secs(10), || ready() || {
            thread::yield_now();
            false
        }),
        "{what}"
    );
}

#[test]
fn every_task_is_done_once_and_shares_are_done_in_order() {
    for count in [1, 2, 3, 5] {
        let threads = Threads::new(count).unwrap();
        assert_eq!(threads.count(), count);
        for tasks in numbers(70).take(3000) {
            let times: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            // Per worker: whether a thread is in it, and the task of its share that it had last.
            let workers: Vec<_> = (0..count).map(|_| (AtomicBool::new(false), AtomicUsize::new(0))).collect();
            threads.run(tasks, |worker, task| {
                let (taken, last) = &workers[worker];
                assert!(!taken.swap(true, Relaxed));
                if share(worker, count, tasks).contains(&task) {
                    assert!(last.swap(task + 1, Relaxed) <= task);
                }
                times[task].fetch_add(1, Relaxed);
                taken.store(false, Relaxed);
            });
            assert!(times.into_iter().all(|times| times.into_inner() == 1));
        }
    }
    assert_eq!(Threads::new(0).unwrap().count(), thread::available_parallelism().unwrap().get());
}

#[test]
fn neighbours_are_dealt_out_to_different_threads() {
    for count in [1, 2, 3, 5] {
        let threads = Threads::new(count).unwrap();
        for tasks in 0..20 {
            let order = Mutex::new(Vec::new());
            threads.deal(tasks, |worker, task| {
                // What another has begun late may be done by anybody.
                order.lock().unwrap().push(task);
                assert!(worker < count);
            });
            let mut order = order.into_inner().unwrap();
            order.sort();
            assert_eq!(order, (0..tasks).collect::<Vec<_>>());
        }
    }
    // A call within a call has one thread, which does one share after the other.
    let threads = Threads::new(2).unwrap();
    threads.busy.store(true, Relaxed);
    let order = Mutex::new(Vec::new());
    threads.deal(5, |_, task| order.lock().unwrap().push(task));
    assert_eq!(order.into_inner().unwrap(), [0, 2, 4, 1, 3]);
}

#[test]
fn late_threads_touch_nothing() {
    let threads = Threads::new(4).unwrap();
    for (round, tasks) in numbers(5).take(100_000).enumerate() {
        let (open, sum) = (AtomicBool::new(true), AtomicUsize::new(0));
        threads.run(tasks, |_, task| {
            assert!(open.load(Relaxed) && task < tasks);
            sum.fetch_add(round, Relaxed);
        });
        open.store(false, Relaxed);
        assert_eq!(sum.into_inner(), round * tasks);
    }
}

#[test]
fn all_threads_take_part_even_after_a_sleep() {
    let threads = Threads::new(3).unwrap();
    for _ in 0..20 {
        until("workers sleep", || threads.shared.asleep.0.load(Relaxed));
        thread::sleep(Duration::from_millis(1));
        let arrived = AtomicUsize::new(0);
        threads.run(3, |_, _| {
            arrived.fetch_add(1, Relaxed);
            until("a thread for every task", || arrived.load(Relaxed) == 3);
        });
    }
}

#[test]
fn the_caller_sleeps_when_others_take_long() {
    let threads = Threads::new(2).unwrap();
    for _ in 0..20 {
        let (met, pending) = (AtomicUsize::new(0), &threads.shared.pending.0);
        threads.run(2, |worker, _| {
            met.fetch_add(1, Relaxed);
            until("two threads", || met.load(Relaxed) == 2);
            if worker == 1 {
                until("the caller sleeps", || pending.load(Relaxed) & CALLER_SLEEPS != 0);
            }
        });
    }
}

#[test]
fn panics_reach_the_caller_and_the_pool_lives_on() {
    let threads = Threads::new(3).unwrap();
    for culprit in (0..3).cycle().take(300) {
        let (arrived, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let panic = catch_unwind(AssertUnwindSafe(|| {
            threads.run(3, |worker, _| {
                arrived.fetch_add(1, Relaxed);
                until("a thread for every task", || arrived.load(Relaxed) == 3);
                if worker == culprit {
                    // Unlike `panic!`, prints nothing.
                    resume_unwind(Box::new(worker));
                }
                thread::sleep(Duration::from_micros(100));
                left.fetch_add(1, Relaxed);
            });
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&culprit));
        assert_eq!(left.into_inner(), 2, "others had finished before");
    }
    let all = catch_unwind(AssertUnwindSafe(|| threads.run(99, |_, task| resume_unwind(Box::new(task)))));
    assert!(all.is_err());
    threads.run(9, |_, _| ());
}

#[test]
fn calls_within_calls_stay_on_their_thread() {
    let (threads, other) = (Threads::new(3).unwrap(), Threads::new(2).unwrap());
    let inner = AtomicUsize::new(0);
    for _ in 0..200 {
        threads.run(8, |outer, _| {
            let here = thread::current().id();
            threads.run(5, |worker, _| {
                assert_eq!((worker, thread::current().id()), (outer, here));
                inner.fetch_add(1, Relaxed);
            });
            other.run(3, |worker, _| assert!(worker < 2));
        });
    }
    assert_eq!(inner.into_inner(), 200 * 8 * 5);
}

#[test]
fn several_threads_may_call() {
    let threads = Threads::new(3).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for tasks in numbers(20).take(5000) {
                    let times = AtomicUsize::new(0);
                    threads.run(tasks, |_, _| _ = times.fetch_add(1, Relaxed));
                    assert_eq!(times.into_inner(), tasks);
                }
            });
        }
    });
}

#[test]
fn chunks_cover_the_data() {
    let threads = Threads::new(3).unwrap();
    for (size, len) in numbers(300).zip(numbers(40).skip(7)).take(2000) {
        let mut data = vec![String::new(); size];
        threads.chunks(&mut data, len + 1, |_, index, chunk| {
            assert!(chunk.len() == len + 1 || index == size / (len + 1));
            for (i, item) in chunk.iter_mut().enumerate() {
                *item += &(index * (len + 1) + i).to_string();
            }
        });
        assert!(data.iter().enumerate().all(|(i, item)| *item == i.to_string()));
    }
}

#[test]
fn dropping_joins_the_threads() {
    for round in 0..300 {
        let threads = Threads::new(4).unwrap();
        if round % 2 == 0 {
            threads.run(4, |_, _| ());
        }
        let shared = Arc::downgrade(&threads.shared);
        drop(threads);
        assert_eq!(shared.strong_count(), 0, "every worker had let go of it");
    }
}
