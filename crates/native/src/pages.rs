//! Keys and values in pages that branches share.
//!
//! A page holds [`PAGE`] tokens of every layer and counts who uses it. A fork shares all its parent's pages, the partly
//! filled last one too; whoever writes into a shared page first gets a copy of that one page. So memory is proportional to
//! distinct tokens, and a fork costs a few counters.

use crate::kernel::PAGE;

pub(crate) type PageId = u32;

/// All pages there are.
#[derive(Debug)]
pub(crate) struct Pool {
    pages: Vec<Page>,
    free: Vec<PageId>,
    /// Most pages.
    limit: usize,
    floats: usize,
}

#[derive(Debug)]
struct Page {
    data: Box<[f32]>,
    users: u32,
}

/// There is no free page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfPages;

impl Pool {
    /// At most `limit` pages of so many floats. They are allocated when first needed, and kept.
    pub fn new(limit: usize, floats: usize) -> Self {
        Pool { pages: Vec::new(), free: Vec::new(), limit, floats }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn available(&self) -> usize {
        self.free.len() + (self.limit - self.pages.len())
    }

    pub fn in_use(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    pub fn data(&self, id: PageId) -> &[f32] {
        &self.pages[id as usize].data
    }

    pub fn data_mut(&mut self, id: PageId) -> &mut [f32] {
        debug_assert_eq!(self.pages[id as usize].users, 1, "a shared page must not be written");
        &mut self.pages[id as usize].data
    }

    fn take(&mut self) -> Result<PageId, OutOfPages> {
        if let Some(id) = self.free.pop() {
            self.pages[id as usize].users = 1;
            return Ok(id);
        }
        if self.pages.len() >= self.limit {
            return Err(OutOfPages);
        }
        self.pages.push(Page { data: vec![0.0; self.floats].into_boxed_slice(), users: 1 });
        Ok((self.pages.len() - 1) as PageId)
    }

    fn release(&mut self, id: PageId) {
        let page = &mut self.pages[id as usize];
        page.users -= 1;
        if page.users == 0 {
            self.free.push(id);
        }
    }

    /// A page of one's own with the same content; gives up the share in the old one.
    fn own(&mut self, id: PageId) -> Result<PageId, OutOfPages> {
        if self.pages[id as usize].users == 1 {
            return Ok(id);
        }
        let copy = self.take()?;
        let (from, to) = (id as usize, copy as usize);
        let [from, to] =
            self.pages.get_disjoint_mut([from, to]).expect("a page just taken is another than one in use");
        to.data.copy_from_slice(&from.data);
        self.release(id);
        Ok(copy)
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
            pool.pages[id as usize].users += 1;
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
        partly && self.pages.last().is_some_and(|&id| pool.pages[id as usize].users > 1)
    }

    /// Makes room for `tokens` more, which the caller then writes. Takes nothing when there are not enough pages.
    pub fn grow(&mut self, pool: &mut Pool, tokens: usize) -> Result<(), OutOfPages> {
        if self.pages_to_grow(pool, tokens) > pool.available() {
            return Err(OutOfPages);
        }
        if self.copies_last(pool)
            && let Some(last) = self.pages.last_mut()
        {
            *last = pool.own(*last)?;
        }
        self.len += tokens;
        while self.pages.len() < self.len.div_ceil(PAGE) {
            self.pages.push(pool.take()?);
        }
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

    /// What a table should hold: token `i` of the path that was written.
    fn written(pool: &Pool, table: &Table) -> Vec<f32> {
        (0..table.len()).map(|i| pool.data(table.pages()[i / PAGE])[i % PAGE]).collect()
    }

    fn write(pool: &mut Pool, table: &mut Table, values: &[f32]) -> Result<(), OutOfPages> {
        let first = table.len();
        table.grow(pool, values.len())?;
        for (i, &value) in values.iter().enumerate() {
            let at = first + i;
            pool.data_mut(table.pages()[at / PAGE])[at % PAGE] = value;
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
            let mut pool = Pool::new(limit, PAGE);
            let mut tables: Vec<(Table, Vec<f32>)> = vec![(Table::default(), Vec::new())];
            let mut stamp = 0.0;
            for act in acts {
                match act {
                    Act::Write(at, n) => {
                        let at = at % tables.len();
                        let (table, values) = &mut tables[at];
                        let fresh: Vec<f32> = (0..n).map(|i| stamp + i as f32).collect();
                        stamp += n as f32;
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
        let mut pool = Pool::new(1000, PAGE);
        let mut trunk = Table::default();
        write(&mut pool, &mut trunk, &vec![1.0; 100 * PAGE]).unwrap();
        let mut branches: Vec<Table> = (0..32).map(|_| trunk.share(&mut pool, 100 * PAGE)).collect();
        assert_eq!(pool.in_use(), 100);
        for branch in &mut branches {
            write(&mut pool, branch, &vec![2.0; 2 * PAGE]).unwrap();
        }
        assert_eq!(pool.in_use(), 100 + 32 * 2);
    }
}
