//! Keys and values in pages that branches share.
//!
//! A page holds [`PAGE`] tokens of every layer and counts who uses it. A fork shares all its parent's pages, the partly
//! filled last one too; whoever writes into a shared page first gets a copy of that one page. So memory is proportional to
//! distinct tokens, and a fork costs a few counters.

use std::marker::PhantomData;

use memmap2::{MmapMut, MmapRaw};

use crate::kernel::PAGE;

pub(crate) type PageId = u32;

/// Bytes that are asked of the system at a time. A slab is large so that it can lie in huge pages: attention jumps from
/// page to page, and with small ones most jumps would miss the TLB.
const SLAB_BYTES: usize = 32 << 20;

/// All pages there are.
#[derive(Debug)]
pub(crate) struct Pool {
    slabs: Vec<Slab>,
    /// How many sequences use each page.
    users: Vec<u32>,
    free: Vec<PageId>,
    /// Most pages.
    limit: usize,
    /// Bytes in a page.
    size: usize,
    /// A power of two: pages are looked up often, and this makes it two bit operations.
    pages_per_slab: usize,
    /// Most pages that were in use at a time.
    peak: usize,
}

/// There is no free page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfPages;

impl Pool {
    /// At most `limit` pages of `size` bytes. They are allocated when first needed, and kept.
    pub fn new(limit: usize, size: usize) -> Self {
        let limit = limit.min(PageId::MAX as usize);
        let pages_per_slab = (SLAB_BYTES / size).max(2).next_power_of_two() / 2;
        Pool { slabs: Vec::new(), users: Vec::new(), free: Vec::new(), limit, size, pages_per_slab, peak: 0 }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn available(&self) -> usize {
        self.free.len() + (self.limit - self.users.len())
    }

    pub fn in_use(&self) -> usize {
        self.users.len() - self.free.len()
    }

    pub fn peak(&self) -> usize {
        self.peak
    }

    fn place(&self, id: PageId) -> (usize, std::ops::Range<usize>) {
        let (slab, at) =
            (id as usize >> self.pages_per_slab.trailing_zeros(), id as usize & (self.pages_per_slab - 1));
        (slab, at * self.size..(at + 1) * self.size)
    }

    pub fn data(&self, id: PageId) -> &[u8] {
        let (slab, range) = self.place(id);
        &self.slabs[slab].bytes()[range]
    }

    /// For tasks that write to different pages at once.
    pub fn shared(&mut self) -> SharedPages<'_> {
        SharedPages { pool: self, _borrow: PhantomData }
    }

    #[cfg(test)]
    pub fn data_mut(&mut self, id: PageId) -> &mut [u8] {
        debug_assert_eq!(self.users[id as usize], 1, "a shared page must not be written");
        let (slab, range) = self.place(id);
        &mut self.slabs[slab].bytes_mut()[range]
    }

    fn take(&mut self) -> Result<PageId, OutOfPages> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.add()?,
        };
        self.users[id as usize] = 1;
        self.peak = self.peak.max(self.in_use());
        Ok(id)
    }

    /// A page that was never used.
    fn add(&mut self) -> Result<PageId, OutOfPages> {
        if self.users.len() >= self.limit {
            return Err(OutOfPages);
        }
        if self.users.len() == self.slabs.len() * self.pages_per_slab && self.add_slab().is_none() {
            // The system has less than we were allowed: make do with what there is.
            self.limit = self.users.len();
            return Err(OutOfPages);
        }
        self.users.push(0);
        Ok((self.users.len() - 1) as PageId)
    }

    /// Memory for more pages, if the system has any.
    fn add_slab(&mut self) -> Option<&Slab> {
        let there = self.slabs.len() * self.pages_per_slab;
        let pages = self.pages_per_slab.min(self.limit - there);
        self.slabs.push(Slab::new(pages * self.size)?);
        self.slabs.last()
    }

    /// Asks the system now for the memory of so many pages, or of as many as there may be: otherwise it clears memory when that is
    /// first written to.
    pub fn reserve(&mut self, pages: usize) {
        self.slabs.iter().for_each(Slab::populate);
        while self.slabs.len() * self.pages_per_slab < pages.min(self.limit) {
            let Some(slab) = self.add_slab() else { break };
            slab.populate();
        }
    }

    fn release(&mut self, id: PageId) {
        let users = &mut self.users[id as usize];
        *users -= 1;
        if *users == 0 {
            self.free.push(id);
        }
    }

    /// A page of one's own with the same content; gives up the share in the old one.
    fn own(&mut self, id: PageId) -> Result<PageId, OutOfPages> {
        if self.users[id as usize] == 1 {
            return Ok(id);
        }
        let copy = self.take()?;
        let ((from_slab, from), (to_slab, to)) = (self.place(id), self.place(copy));
        if from_slab == to_slab {
            self.slabs[to_slab].bytes_mut().copy_within(from, to.start);
        } else if let Ok([from_slab, to_slab]) = self.slabs.get_disjoint_mut([from_slab, to_slab]) {
            to_slab.bytes_mut()[to].copy_from_slice(&from_slab.bytes()[from]);
        }
        self.release(id);
        Ok(copy)
    }
}

/// Pages of which every task writes its own, and reads those that nobody writes meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedPages<'a> {
    pool: &'a Pool,
    _borrow: PhantomData<&'a mut Pool>,
}

impl<'a> SharedPages<'a> {
    /// Where a page begins, for whoever does not look what is there.
    pub fn address(self, id: PageId) -> *const u8 {
        self.bytes(id).cast_const().cast()
    }

    /// # Safety
    /// While what it gives is in use, nobody may write to the page.
    pub unsafe fn read(self, id: PageId) -> &'a [u8] {
        // SAFETY: the caller's promise. The pool is borrowed for writing, so that nobody writes but through this.
        unsafe { &*self.bytes(id) }
    }

    /// # Safety
    /// While what it gives is in use, nobody else may ask for the page.
    pub unsafe fn page(self, id: PageId) -> &'a mut [u8] {
        debug_assert_eq!(self.pool.users[id as usize], 1, "a shared page must not be written");
        // SAFETY: the caller's promise. The pool is borrowed for writing, so that nobody reads or writes but through this.
        unsafe { &mut *self.bytes(id) }
    }

    /// The bytes of a page, which are there.
    fn bytes(self, id: PageId) -> *mut [u8] {
        let (slab, range) = self.pool.place(id);
        let memory = &self.pool.slabs[slab].0;
        assert!(range.end <= memory.len());
        std::ptr::slice_from_raw_parts_mut(memory.as_mut_ptr().wrapping_add(range.start), range.len())
    }
}

/// Memory for many pages. It is kept as a bare mapping because tasks write to different parts of it at once.
#[derive(Debug)]
struct Slab(MmapRaw);

impl Slab {
    /// Zeros, from the system; `None` when it has no more.
    fn new(bytes: usize) -> Option<Self> {
        let memory = MmapMut::map_anon(bytes).ok()?;
        // Only a wish: without huge pages all is slower, nothing is wrong.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Some(Slab(memory.into()))
    }

    /// Asks the system for all of it now.
    fn populate(&self) {
        // Only a wish, too.
        #[cfg(target_os = "linux")]
        let _ = self.0.advise(memmap2::Advice::PopulateWrite);
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the whole of a mapping that lives as long as `self`. Whoever writes to it has borrowed the pool for writing.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr(), self.0.len()) }
    }
}

/// A sequence's pages, in order.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pages: Vec<PageId>,
    len: usize,
}

impl Table {
    /// Tokens stored.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// A table with the first `len` tokens of this one, sharing its pages.
    pub fn share(&self, pool: &mut Pool, len: usize) -> Table {
        let len = len.min(self.len);
        let pages = self.pages[..len.div_ceil(PAGE)].to_vec();
        for &id in &pages {
            pool.users[id as usize] += 1;
        }
        Table { pages, len }
    }

    /// Pages that [`Table::grow`] would take.
    pub fn pages_to_grow(&self, pool: &Pool, tokens: usize) -> usize {
        let more = (self.len + tokens).div_ceil(PAGE).saturating_sub(self.pages.len());
        more + usize::from(self.copies_last(pool))
    }

    fn copies_last(&self, pool: &Pool) -> bool {
        let partly = !self.len.is_multiple_of(PAGE);
        partly && self.pages.last().is_some_and(|&id| pool.users[id as usize] > 1)
    }

    /// Makes room for `tokens` more, which the caller then writes.
    pub fn grow(&mut self, pool: &mut Pool, tokens: usize) -> Result<(), OutOfPages> {
        if self.pages_to_grow(pool, tokens) > pool.available() {
            return Err(OutOfPages);
        }
        if self.copies_last(pool)
            && let Some(last) = self.pages.last_mut()
        {
            *last = pool.own(*last)?;
        }
        while self.pages.len() < (self.len + tokens).div_ceil(PAGE) {
            self.pages.push(pool.take()?);
        }
        self.len += tokens;
        Ok(())
    }

    /// Gives all pages back.
    pub fn clear(&mut self, pool: &mut Pool) {
        for id in self.pages.drain(..) {
            pool.release(id);
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a token in these tests.
    const TOKEN: usize = 4;

    fn place(at: usize) -> std::ops::Range<usize> {
        at % PAGE * TOKEN..(at % PAGE + 1) * TOKEN
    }

    /// What a table should hold: token `i` of the path that was written.
    fn written(pool: &Pool, table: &Table) -> Vec<u32> {
        let token = |i: usize| bytemuck::pod_read_unaligned(&pool.data(table.pages()[i / PAGE])[place(i)]);
        (0..table.len()).map(token).collect()
    }

    fn write(pool: &mut Pool, table: &mut Table, values: &[u32]) -> Result<(), OutOfPages> {
        let first = table.len();
        table.grow(pool, values.len())?;
        for (at, value) in (first..).zip(values) {
            pool.data_mut(table.pages()[at / PAGE])[place(at)].copy_from_slice(bytemuck::bytes_of(value));
        }
        Ok(())
    }

    #[derive(Debug, Clone)]
    enum Act {
        Write(usize, usize),
        Fork(usize, usize),
        End(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => (any::<usize>(), 1usize..40).prop_map(|(s, n)| Act::Write(s, n)),
            3 => (any::<usize>(), any::<usize>()).prop_map(|(s, n)| Act::Fork(s, n)),
            2 => any::<usize>().prop_map(Act::End),
        ];
        prop::collection::vec(act, 1..80)
    }

    proptest! {
        /// Forks at any position, writes and ends (an eviction is an end whose tokens are written again later): every
        /// table reads back what was written, pages are those of the distinct prefixes, and all are free at the end.
        #[test]
        fn branches_share_pages_and_never_see_each_other(acts in acts(), limit in 4usize..60) {
            let mut pool = Pool::new(limit, PAGE * TOKEN);
            let mut tables: Vec<(Table, Vec<u32>)> = vec![(Table::default(), Vec::new())];
            let mut stamp = 0;
            for act in acts {
                match act {
                    Act::Write(at, n) => {
                        let at = at % tables.len();
                        let (table, values) = &mut tables[at];
                        let fresh: Vec<u32> = (stamp..stamp + n as u32).collect();
                        stamp += n as u32;
                        let before = pool.available();
                        let needed = table.pages_to_grow(&pool, n);
                        match write(&mut pool, table, &fresh) {
                            Ok(()) => {
                                prop_assert_eq!(before - pool.available(), needed);
                                values.extend(fresh);
                            }
                            Err(OutOfPages) => {
                                prop_assert!(needed > before);
                                prop_assert_eq!(pool.available(), before);
                            }
                        }
                    }
                    Act::Fork(at, len) => {
                        let at = at % tables.len();
                        let len = len % (tables[at].0.len() + 1);
                        let twin = tables[at].0.share(&mut pool, len);
                        let values = tables[at].1[..len].to_vec();
                        tables.push((twin, values));
                    }
                    Act::End(at) => {
                        let at = at % tables.len();
                        tables[at].0.clear(&mut pool);
                        tables[at].1.clear();
                    }
                }
                let distinct: std::collections::HashSet<PageId> =
                    tables.iter().flat_map(|(t, _)| t.pages().iter().copied()).collect();
                prop_assert_eq!(distinct.len(), pool.in_use());
                for (table, values) in &tables {
                    prop_assert_eq!(&written(&pool, table), values);
                }
            }
            for (table, _) in &mut tables {
                table.clear(&mut pool);
            }
            prop_assert_eq!(pool.in_use(), 0);
        }
    }

    #[test]
    fn memory_follows_distinct_tokens() {
        let mut pool = Pool::new(1000, PAGE * TOKEN);
        let mut trunk = Table::default();
        write(&mut pool, &mut trunk, &[1; 100 * PAGE]).unwrap();
        let mut branches: Vec<Table> = (0..32).map(|_| trunk.share(&mut pool, 100 * PAGE)).collect();
        assert_eq!(pool.in_use(), 100);
        for branch in &mut branches {
            write(&mut pool, branch, &[2; 2 * PAGE]).unwrap();
        }
        assert_eq!(pool.in_use(), 100 + 32 * 2);
    }

    #[test]
    fn what_is_reserved_is_there_and_no_more() {
        // 11 pages of which four fill a slab.
        let mut pool = Pool::new(11, SLAB_BYTES / 8);
        let mut table = Table::default();
        write(&mut pool, &mut table, &[7; PAGE + 1]).unwrap();
        pool.reserve(usize::MAX);
        assert_eq!((pool.slabs.len(), pool.in_use(), pool.available()), (3, 2, 9));
        write(&mut pool, &mut table, &[8; 9 * PAGE]).unwrap();
        assert_eq!(pool.available(), 0);
        assert_eq!(write(&mut pool, &mut table, &[9; PAGE]), Err(OutOfPages));
        assert_eq!(written(&pool, &table), [[7; PAGE + 1].as_slice(), &[8; 9 * PAGE]].concat());
    }
}
