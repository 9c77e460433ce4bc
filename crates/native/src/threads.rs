//! Interim.
#[derive(Debug)]
pub(crate) struct Threads(rayon::ThreadPool);
impl Threads {
    pub fn new(count: usize) -> std::io::Result<Self> {
        rayon::ThreadPoolBuilder::new().num_threads(count).build().map(Threads).map_err(std::io::Error::other)
    }
    pub fn count(&self) -> usize {
        self.0.current_num_threads()
    }
    pub fn run(&self, tasks: usize, work: impl Fn(usize, usize) + Sync) {
        use rayon::prelude::*;
        if tasks == 1 {
            return work(0, 0);
        }
        self.0.install(|| {
            (0..tasks).into_par_iter().for_each(|t| work(rayon::current_thread_index().unwrap_or(0), t))
        })
    }
    pub fn chunks<T: Send>(&self, data: &mut [T], len: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
        use rayon::prelude::*;
        self.0.install(|| {
            data.par_chunks_mut(len)
                .enumerate()
                .for_each(|(i, c)| work(rayon::current_thread_index().unwrap_or(0), i, c))
        })
    }
}

/// A slice of which tasks that run at once each take their own part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<'a, T> {
    data: *mut T,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: a borrow of numbers that may be sent; `part` makes its callers promise to take different parts.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(data: &'a mut [T]) -> Self {
        Shared { data: data.as_mut_ptr(), len: data.len(), _borrow: std::marker::PhantomData }
    }

    /// # Safety
    /// While the part is in use, nobody else may take one that overlaps it.
    #[allow(clippy::mut_from_ref)] // what the safety rule is about
    pub unsafe fn part(&self, range: std::ops::Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the borrowed slice, by the assertion, and the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.end - range.start) }
    }
}
