//! The most that this machine can do with all its threads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use serde::Serialize;

use super::loops::{Loop, Loops, tiles};

/// Rounds between two looks at the clock: a fraction of a millisecond.
const ROUNDS: usize = 50_000;

/// Bytes that a thread reads, far more than a core's caches hold.
const READ: usize = 256 << 20;

/// Bytes that all threads read together at most. No cache is so large, and many threads must not ask for a machine's
/// whole memory.
const READ_IN_ALL: usize = 2 << 30;

/// What all threads reach together. A multiplication with its addition counts as two operations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peaks {
    pub threads: usize,
    /// The instructions that were timed: the widest there are.
    pub instructions: &'static str,
    /// Fused multiply-adds of 32-bit floats, in 10^9 operations a second.
    pub float_gops: f64,
    /// Dot products of 16-bit integers, in 10^9 operations a second.
    pub int16_gops: f64,
    /// Dot products of 8-bit integers, in 10^9 operations a second.
    pub int8_gops: f64,
    /// Products of 16-bit integers on a matrix unit, where there is one, in 10^9 operations a second.
    pub tiles_gops: Option<f64>,
    /// Reading memory, in 10^9 bytes a second.
    pub memory_gbs: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeaksError {
    #[error("cannot start {threads} threads: {reason}")]
    Threads { threads: usize, reason: String },
    #[error("there is no memory for a test that reads {bytes} bytes in each of {threads} threads")]
    Memory { threads: usize, bytes: usize },
}

/// Measures with so many threads (0: one for each processor), for about this long per test; memory takes two.
pub fn peaks(threads: usize, each: Duration) -> Result<Peaks, PeaksError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| PeaksError::Threads { threads, reason: e.to_string() })?;
    let loops = Loops::detect();
    let compute = |test: Loop| together(&pool, each, |_| test.run(ROUNDS));
    Ok(Peaks {
        threads: pool.current_num_threads(),
        instructions: loops.instructions,
        float_gops: compute(loops.float),
        int16_gops: compute(loops.int16),
        int8_gops: compute(loops.int8),
        tiles_gops: tiles().map(compute),
        memory_gbs: memory(&pool, each)?,
    })
}

/// Lets every thread work until the time is up; `work` gets the thread's number and returns how much it did. The sum of the
/// threads' speeds, in 10^9 a second.
fn together(pool: &ThreadPool, each: Duration, work: impl Fn(usize) -> usize + Sync) -> f64 {
    let speeds = pool.broadcast(|thread| {
        let begun = Instant::now();
        let mut done = 0.0;
        loop {
            done += work(thread.index()) as f64;
            let passed = begun.elapsed();
            if passed >= each {
                return done / passed.as_secs_f64();
            }
        }
    });
    speeds.iter().sum::<f64>() / 1e9
}

fn memory(pool: &ThreadPool, each: Duration) -> Result<f64, PeaksError> {
    let threads = pool.current_num_threads();
    let bytes = READ.min(READ_IN_ALL / threads);
    // Each thread writes its own part first: that is what decides which memory it lies in.
    let parts: Option<Vec<Vec<u64>>> =
        pool.broadcast(|_| filled(bytes / size_of::<u64>())).into_iter().collect();
    let parts = parts.ok_or(PeaksError::Memory { threads, bytes })?;
    let read = |places: usize| {
        together(pool, each, |thread| {
            black_box(sum(&parts[thread], places));
            size_of_val(&*parts[thread])
        })
    };
    // Which is faster depends on the processor.
    Ok(read(1).max(read(4)))
}

fn filled(numbers: usize) -> Option<Vec<u64>> {
    let mut part = Vec::new();
    part.try_reserve_exact(numbers).ok()?;
    part.resize(numbers, 1);
    Some(part)
}

/// Reads everything, in so many places at once: some processors see where each goes on, and ask for more ahead of time. There are
/// as many sums as registers hold, so that they keep nothing waiting.
fn sum(numbers: &[u64], places: usize) -> u64 {
    let (blocks, rest) = numbers.as_chunks::<8>();
    let (parts, last) = blocks.split_at(blocks.len() / places * places);
    let length = parts.len() / places;
    let mut sums = [0u64; 8];
    for at in 0..length {
        for place in 0..places {
            // A plain loop: not every build inlines iterators, and then it is those that are measured.
            let numbers = &parts[place * length + at];
            for i in 0..sums.len() {
                sums[i] = sums[i].wrapping_add(numbers[i]);
            }
        }
    }
    sums.iter().chain(last.as_flattened()).chain(rest).fold(0, |sum, &number| sum.wrapping_add(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read() {
        for places in [1, 4] {
            assert_eq!(sum(&[1; 1000], places), 1000);
            assert_eq!(sum(&[], places), 0);
        }
    }

    #[test]
    fn peaks_are_positive_numbers() {
        let Peaks { threads, float_gops, int16_gops, int8_gops, memory_gbs, .. } =
            peaks(2, Duration::from_millis(1)).unwrap();
        assert_eq!(threads, 2);
        for figure in [float_gops, int16_gops, int8_gops, memory_gbs] {
            assert!(figure.is_finite() && figure > 0.0, "{figure}");
        }
    }
}
